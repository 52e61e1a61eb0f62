#!/usr/bin/env bash
# Gathers what a machine without a network needs: scripts/offline_bundle.sh DIR [--cuda] [--no-plots]
# Run it on a machine of the same distribution and CPU; copy DIR and the project over; there: scripts/setup.sh --bundle DIR
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
usage() { sed -n '2,3s/^# //p' "${BASH_SOURCE[0]}"; }
out='' cuda='' plots=1
for argument in "$@"; do
  case $argument in
    --cuda) cuda=1 ;;
    --no-plots) plots='' ;;
    --help | -h) usage; exit 0 ;;
    -*) echo "offline_bundle.sh: unknown flag '$argument'; allowed: --cuda --no-plots --help" >&2; exit 2 ;;
    *) [ -z "$out" ] || { echo "offline_bundle.sh: one folder is needed, not also '$argument'" >&2; exit 2; }; out=$argument ;;
  esac
done
[ -n "$out" ] || { usage >&2; exit 2; }
command -v apt-get >/dev/null || { echo "offline_bundle.sh: needs apt-get" >&2; exit 1; }
[ "$(id -u)" = 0 ] && root=() || root=(sudo)

mkdir -p "$out/debs/partial" "$out/wheels"
out=$(realpath "$out")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# apt is told of a machine that holds nothing, so that every dependency is fetched; setup.sh skips what is there already.
: >"$work/status"
mapfile -t packages <scripts/packages.txt
echo "bundle: fetching system packages into $out/debs"
"${root[@]}" apt-get update -qq
"${root[@]}" apt-get install -y -qq --download-only --no-install-recommends -o APT::Sandbox::User=root \
  -o Dir::State::status="$work/status" -o Dir::Cache::archives="$out/debs" "${packages[@]}" >/dev/null
rm -rf "$out/debs/partial" "$out/debs/lock"

python3 -m venv "$work/venv"
fetch=("$work/venv/bin/python" -m pip --disable-pip-version-check -q download --only-binary :all: -d "$out/wheels")
if [ -n "$plots" ]; then
  echo "bundle: fetching the plot packages into $out/wheels"
  "${fetch[@]}" -r scripts/requirements.txt
fi
if [ -n "$cuda" ]; then
  echo "bundle: fetching the CUDA toolkit, cuBLAS, cuDNN and NCCL into $out/wheels"
  "${fetch[@]}" --no-deps -r scripts/requirements-cuda.txt
fi
echo "bundle: $(find "$out/debs" -name '*.deb' | wc -l) packages and $(find "$out/wheels" -name '*.whl' | wc -l) wheels, $(du -sh "$out" | cut -f1)"
echo "bundle: copy it and the project over; there: scripts/setup.sh --bundle DIR${cuda:+ --cuda}$([ -n "$plots" ] || echo ' --no-plots')"
