#!/usr/bin/env bash
# Builds the tests of what reads outside input, and of the program, with sanitizers, and runs them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ $# -gt 0 ]; then
  if [ "$1" = --help ] || [ "$1" = -h ]; then sed -n '2,2s/^# //p' "${BASH_SOURCE[0]}"; exit 0; fi
  echo "sanitize.sh: unknown argument '$1'; it takes none" >&2
  exit 2
fi
wanted=(test_config test_sharding test_program test_record test_report)

scripts/setup.sh --no-plots --fuzzers || echo "sanitize: with g++, clang is not to be had here"
export BUILD_DIR=build-sanitize UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
scripts/instrumented_build.sh "${wanted[@]}"
for test in "${wanted[@]}"; do
  echo "sanitize: $test"
  "$BUILD_DIR/bin/$test" --gtest_brief=1
done
echo "sanitize: ${#wanted[@]} programs clean under address and undefined"
