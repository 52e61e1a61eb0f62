#!/usr/bin/env bash
# Builds TARGET... under address and undefined sanitizers; prints nothing but the build's own lines. One folder serves
# tests and fuzzers, so that each file is compiled once: with clang and libFuzzer, or with g++ (tests only) where that is
# not to be had. usage: BUILD_DIR=DIR scripts/instrumented_build.sh TARGET...; --fuzzers-possible only answers by exit code
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

has_fuzzer() {
  local probe
  probe=$(mktemp -d)
  trap 'rm -rf "$probe"' RETURN
  echo 'extern "C" int LLVMFuzzerTestOneInput(unsigned char const*, unsigned long) { return 0; }' >"$probe/probe.cpp"
  clang++ -fsanitize=fuzzer,address "$probe/probe.cpp" -o "$probe/probe" 2>/dev/null
}

for word in "$@"; do
  case $word in
    --fuzzers-possible) [ $# = 1 ] || { echo "instrumented_build.sh: --fuzzers-possible goes alone" >&2; exit 2; } ;;
    --help | -h) sed -n '2,4s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
    -*) echo "instrumented_build.sh: unknown flag '$word'; allowed: --fuzzers-possible --help" >&2; exit 2 ;;
  esac
done
if [ "${1:-}" = --fuzzers-possible ]; then
  has_fuzzer
  exit
fi
if has_fuzzer; then
  options=(-DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DSHARDBENCH_FUZZERS=ON
    -DSHARDBENCH_SANITIZE=fuzzer-no-link,address,undefined)
else
  options=(-DSHARDBENCH_SANITIZE=address,undefined)
fi
exec scripts/build.sh "${options[@]}" -DSHARDBENCH_CUDA=OFF -DCMAKE_CXX_FLAGS_RELEASE=-O1 -- "$@"
