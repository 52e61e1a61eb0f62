#!/usr/bin/env bash
# Builds the tests of what reads outside input, and of the program, with sanitizers, and runs them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
wanted=(test_config test_sharding test_program test_record test_report)

scripts/setup.sh --no-plots --fuzzers || echo "sanitize: with g++, clang is not to be had here"
export BUILD_DIR=build-sanitize UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
scripts/instrumented_build.sh "${wanted[@]}"
for test in "${wanted[@]}"; do
  echo "sanitize: $test"
  "$BUILD_DIR/bin/$test" --gtest_brief=1
done
echo "sanitize: ${#wanted[@]} programs clean under address and undefined"
