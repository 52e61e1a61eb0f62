#!/usr/bin/env bash
# Runs each libFuzzer target of tests/fuzz for SECONDS_EACH (20) from its corpus; without clang it says so and ends well.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ $# -gt 0 ]; then
  if [ "$1" = --help ] || [ "$1" = -h ]; then sed -n '2,2s/^# //p' "${BASH_SOURCE[0]}"; exit 0; fi
  echo "fuzz.sh: unknown argument '$1'; it takes none" >&2
  exit 2
fi
seconds=${SECONDS_EACH:-20}
# The same inputs each time, so that a change is judged by itself; SEED=0 RUNS=-1 SECONDS_EACH=600 goes hunting.
seed=${SEED:-1} runs=${RUNS:-20000}

scripts/setup.sh --no-plots --fuzzers || { echo "fuzz: left out, clang with libFuzzer is not to be had here"; exit 0; }
if ! scripts/instrumented_build.sh --fuzzers-possible; then
  echo "fuzz: left out, this clang has no libFuzzer"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mapfile -t fuzzers < <(basename -s .cpp tests/fuzz/fuzz_*.cpp)
export BUILD_DIR=build-sanitize
scripts/instrumented_build.sh "${fuzzers[@]}"
for name in "${fuzzers[@]}"; do
  corpus=tests/fuzz/corpus/${name#fuzz_}
  folders=("$work/$name") # new inputs go to the first folder; the committed corpus is only read
  mkdir -p "$work/$name"
  for folder in "$corpus" "tests/data/${name#fuzz_}s"; do [ ! -d "$folder" ] || folders+=("$folder"); done
  "$BUILD_DIR/bin/$name" -seed="$seed" -runs="$runs" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -max_len=4096 -artifact_prefix="$BUILD_DIR/" \
    "${folders[@]}" >"$work/log" 2>&1 || { tail -60 "$work/log" >&2; echo "fuzz: $name failed" >&2; exit 1; }
  echo "fuzz: $name: $(tail -1 "$work/log")"
done
echo "fuzz: clean"
