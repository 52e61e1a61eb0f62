#!/usr/bin/env bash
# Runs each libFuzzer target of tests/fuzz for SECONDS_EACH (20) from its corpus; without clang it says so and ends well.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${SECONDS_EACH:-20}
# The same inputs each time, so that a change is judged by itself; SEED=0 RUNS=-1 SECONDS_EACH=600 goes hunting.
seed=${SEED:-1} runs=${RUNS:-20000}

scripts/setup.sh --no-plots --fuzzers || { echo "fuzz: left out, clang with libFuzzer is not to be had here"; exit 0; }
probe=$(mktemp -d)
trap 'rm -rf "$probe"' EXIT
echo 'extern "C" int LLVMFuzzerTestOneInput(unsigned char const*, unsigned long) { return 0; }' >"$probe/probe.cpp"
if ! clang++ -fsanitize=fuzzer,address "$probe/probe.cpp" -o "$probe/probe" 2>/dev/null; then
  echo "fuzz: left out, this clang has no libFuzzer"
  exit 0
fi

mapfile -t fuzzers < <(basename -s .cpp tests/fuzz/fuzz_*.cpp)
export BUILD_DIR=build-fuzz
scripts/build.sh -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DSHARDBENCH_FUZZERS=ON -DSHARDBENCH_CUDA=OFF \
  -DSHARDBENCH_SANITIZE=fuzzer-no-link,address,undefined -DCMAKE_CXX_FLAGS_RELEASE=-O1 -- "${fuzzers[@]}"
for name in "${fuzzers[@]}"; do
  corpus=tests/fuzz/corpus/${name#fuzz_}
  folders=("$probe/$name") # new inputs go to the first folder; the committed corpus is only read
  mkdir -p "$probe/$name"
  for folder in "$corpus" "tests/data/${name#fuzz_}s"; do [ ! -d "$folder" ] || folders+=("$folder"); done
  "$BUILD_DIR/bin/$name" -seed="$seed" -runs="$runs" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -max_len=4096 -artifact_prefix="$BUILD_DIR/" \
    "${folders[@]}" >"$probe/log" 2>&1 || { tail -60 "$probe/log" >&2; echo "fuzz: $name failed" >&2; exit 1; }
  echo "fuzz: $name: $(tail -1 "$probe/log")"
done
echo "fuzz: clean"
