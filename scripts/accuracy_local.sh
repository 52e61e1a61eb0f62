#!/usr/bin/env bash
# How far predictions are off on this machine: calibrates it, then simulates and measures the same configurations of dp, tp, pp, zero
# and sequence parallelism, within the machine and, as root, between two nodes joined by a slow link.
#   scripts/accuracy_local.sh [--quick] [--rate 1gbit] [--delay 200us] [--keep DIR] [--out results/accuracy/local.csv]
# Needs a quiet machine: other load makes both sides of the comparison wrong.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=${SHARDBENCH_BIN:-build/bin}
quick=no rounds=4 link_rounds=2 rate=1gbit delay=200us keep='' out=results/accuracy/local.csv
fail() { echo "accuracy_local: $*" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=yes rounds=1 link_rounds=1; shift ;;
    --rate | --delay | --keep | --out) [ $# -gt 1 ] || fail "$1: a value is missing"; declare "${1#--}=$2"; shift 2 ;;
    -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) fail "unknown flag '$1'; allowed: --quick --rate --delay --keep --out" ;;
  esac
done
[ -x "$bin/shardbench" ] || fail "no $bin/shardbench; scripts/build.sh makes it"
work=${keep:-$(mktemp -d)}
mkdir -p "$work" && rm -f "$work"/{host,link}*
cluster="accu$$"
trap 'scripts/netns_cluster.sh down --name "$cluster" >/dev/null 2>&1 || true; [ -n "$keep" ] || rm -rf "$work"' EXIT

# Cuts in one axis, with their knobs, of shapes that calibrate does not measure; between nodes only what a slow link carries in time.
configurations() { # PLACE
  local narrow="--model gpt2 --layers 2 --seq 64 --global-batch 4 --scope layer" wide="--model gpt2-medium --layers 2 --seq 32 --global-batch 4 --scope layer"
  local whole="--model gpt2 --layers 2 --seq 96 --global-batch 2" grouped="--model qwen3-0.6b --layers 1 --seq 64 --global-batch 4 --scope layer"
  local all=("--dp 2" "--dp 2 --zero 1" "--dp 2 --zero 2" "--dp 2 --zero 3" "--tp 2" "--tp 2 --sequence-parallel" "--pp 2" "--pp 2 --schedule gpipe")
  local some=("--dp 2 --zero 1" "--tp 2 --sequence-parallel" "--pp 2") few=("--dp 2" "--dp 2 --zero 3" "--tp 2")
  combine "$narrow" "${all[@]}"
  [ $quick = no ] || return 0
  if [ "$1" = host ]; then
    combine "$wide" "${all[@]}"
    combine "$whole" "${some[@]}"
    combine "$grouped" "${few[@]}"
  fi
}
combine() { # SIZE CUT...
  local size=$1 cut
  shift
  for cut in "$@"; do echo "$size $cut"; done
}

# predict PLACE RUNNER...: calibrates and simulates each configuration by what came out.
predict() {
  local place=$1 flags
  shift
  "$@" "$bin/shardbench" calibrate --out "$work/$place.yaml" --device cpu >"$work/$place.log" 2>&1 || { tail -3 "$work/$place.log" >&2; exit 1; }
  tail -3 "$work/$place.log"
  while read -r flags; do
    # shellcheck disable=SC2086
    "$bin/shardbench" simulate $flags --system "$work/$place.yaml" --out "$work/$place-predicted.csv" >"$work/one.log" 2>&1 ||
      echo "simulate $flags: $(tail -1 "$work/one.log")" >&2
  done < <(configurations "$place")
}

# measure PLACE ROUNDS RUNNER...: each configuration in rounds over all of them, between two calibrations where there are several
# rounds: a machine changes its pace over seconds and minutes, which both sides of the comparison should meet alike.
measure() {
  local place=$1 rounds=$2 flags round
  shift 2
  predict "$place" "$@"
  for ((round = 1; round <= rounds; round++)); do
    while read -r flags; do
      # shellcheck disable=SC2086
      "$@" "$bin/shardbench" run $flags --device cpu --warmup 2 --max-iterations 25 --max-seconds 1.5 --out "$work/$place-measured.csv" \
        </dev/null >"$work/one.log" 2>&1 || echo "run $flags: $(tail -1 "$work/one.log")" >&2
    done < <(configurations "$place")
    echo "$place: round $round of $rounds measured"
  done
  [ "$rounds" = 1 ] || predict "$place" "$@"
}

measure host "$rounds" scripts/mpirun.sh 2
why=$(scripts/netns_cluster.sh check) && shaped=yes || shaped=no
if [ "$shaped" = yes ]; then
  scripts/netns_cluster.sh up --nodes 2 --rate "$rate" --delay "$delay" --name "$cluster"
  measure link "$link_rounds" scripts/netns_cluster.sh run --ranks 2 --name "$cluster" --
else
  echo "between nodes: left out, $why"
fi
python3 scripts/accuracy_join.py "$out" host="$work/host" link="$work/link"
