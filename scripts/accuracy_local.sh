#!/usr/bin/env bash
# How far predictions are off on this machine: calibrates it, then simulates and measures the same configurations of dp, tp, pp, zero
# and sequence parallelism, within the machine and, as root, between two nodes joined by a slow link.
#   scripts/accuracy_local.sh [--quick] [--ranks 2] [--rate 1gbit] [--delay 200us] [--out results/accuracy/local.csv]
# Needs a quiet machine: other load makes both sides of the comparison wrong.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=${SHARDBENCH_BIN:-build/bin}
quick=no ranks=2 rate=1gbit delay=200us out=results/accuracy/local.csv
fail() { echo "accuracy_local: $*" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=yes; shift ;;
    --ranks | --rate | --delay | --out) [ $# -gt 1 ] || fail "$1: a value is missing"; declare "${1#--}=$2"; shift 2 ;;
    -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) fail "unknown flag '$1'; allowed: --quick --ranks --rate --delay --out" ;;
  esac
done
[[ $ranks =~ ^(2|4)$ ]] || fail "--ranks: '$ranks' is not 2 or 4"
[ -x "$bin/shardbench" ] || fail "no $bin/shardbench; scripts/build.sh makes it"
work=$(mktemp -d)
cluster="accu$$"
trap 'scripts/netns_cluster.sh down --name "$cluster" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

# Every cut of the ranks in one axis, with its knobs, at several sizes.
configurations() {
  local size cut sizes cuts
  sizes=("--model gpt2 --layers 2 --seq 128 --global-batch 4" "--model gpt2 --layers 4 --seq 64 --global-batch 8"
         "--model smollm-360m --layers 3 --seq 128 --global-batch 4")
  cuts=("--dp $ranks" "--dp $ranks --zero 1" "--dp $ranks --zero 2" "--dp $ranks --zero 3" "--tp $ranks" "--tp $ranks --sequence-parallel"
        "--pp $ranks" "--pp $ranks --schedule gpipe")
  [ "$ranks" = 2 ] || cuts+=("--dp 2 --tp 2" "--dp 2 --pp 2" "--tp 2 --pp 2")
  [ "$quick" = no ] || sizes=("${sizes[0]}")
  for size in "${sizes[@]}"; do
    for cut in "${cuts[@]}"; do
      # smollm-360m has 15 heads: its tensors cannot be cut in two or four; 3 layers do not fill four stages.
      [[ $size != *smollm* || $cut != *--tp* ]] || continue
      [[ $size != *smollm* || $cut != "--pp 4"* ]] || continue
      [[ $size != *"layers 2"* || $cut != "--pp 4"* ]] || continue
      echo "$size $cut"
    done
  done
}

# measure PLACE RUNNER...: calibrates, then each configuration simulated and measured, one after the other.
measure() {
  local place=$1 flags n=0
  shift
  "$@" "$bin/shardbench" calibrate --out "$work/$place.yaml" --device cpu >"$work/$place.log" 2>&1 || { tail -3 "$work/$place.log" >&2; exit 1; }
  tail -3 "$work/$place.log"
  while read -r flags; do
    # shellcheck disable=SC2086
    "$bin/shardbench" simulate $flags --system "$work/$place.yaml" --out "$work/$place-predicted.csv" >"$work/one.log" 2>&1 ||
      { echo "simulate $flags: $(tail -1 "$work/one.log")" >&2; continue; }
    # shellcheck disable=SC2086
    "$@" "$bin/shardbench" run $flags --device cpu --warmup 2 --max-iterations 15 --max-seconds 20 --out "$work/$place-measured.csv" \
      >"$work/one.log" 2>&1 || { echo "run $flags: $(tail -1 "$work/one.log")" >&2; continue; }
    n=$((n + 1))
    echo "$place $n: $flags"
  done < <(configurations)
}

measure host scripts/mpirun.sh "$ranks"
why=$(scripts/netns_cluster.sh check) && shaped=yes || shaped=no
if [ $shaped = yes ]; then
  scripts/netns_cluster.sh up --nodes 2 --rate "$rate" --delay "$delay" --name "$cluster"
  measure link scripts/netns_cluster.sh run --ranks "$ranks" --name "$cluster" --
else
  echo "between nodes: left out, $why"
fi
python3 scripts/accuracy_join.py "$out" host="$work/host" link="$work/link"
