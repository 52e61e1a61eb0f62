#!/usr/bin/env bash
# Configures (Ninja, Release) and builds: scripts/build.sh [CMAKE_OPTION...] [-- TARGET...]
# BUILD_DIR names the folder (build/ by default). As many jobs as cores, or fewer where memory is short: 2 GiB each.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
refuse() { echo "build.sh: unknown $1 '$2'; allowed: $3" >&2; exit 2; }

options=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  case $1 in
    --help | -h) sed -n '2,3s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
    -[DU]?* | -W?* | --fresh) options+=("$1") ;;
    *) refuse argument "$1" "-DNAME=VALUE and -UNAME, --fresh, -- TARGET..., --help" ;;
  esac
  shift
done
[ $# = 0 ] || shift
for target in "$@"; do [[ $target != -* ]] || refuse target "$target" "names"; done

build=${BUILD_DIR:-build}
gib=$(awk '/MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)
jobs=$(nproc)
[ "$jobs" -le $((gib / 2)) ] || jobs=$((gib / 2))
[ "$jobs" -ge 1 ] || jobs=1
if command -v ccache >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
if [ -z "${CUDA_HOME:-}" ] && [ -x .cuda/bin/nvcc ]; then
  export CUDA_HOME=$PWD/.cuda PATH=$PWD/.cuda/bin:$PATH
fi

mkdir -p "$build"
echo "build: configuring $build/ ${options[*]}"
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release "${options[@]}" >"$build/configure.log" 2>&1 || {
  cat "$build/configure.log" >&2
  exit 1
}
echo "build: compiling with $jobs job(s)"
targets=()
[ $# = 0 ] || targets=(--target "$@")
cmake --build "$build" -j "$jobs" "${targets[@]}"
