#!/usr/bin/env bash
# Builds the tests of what reads outside input, and of the program, with sanitizers, and runs them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
wanted=(test_config test_sharding test_program test_record test_report)

export BUILD_DIR=build-sanitize UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
scripts/build.sh -DSHARDBENCH_SANITIZE=address,undefined -DSHARDBENCH_CUDA=OFF -DCMAKE_CXX_FLAGS_RELEASE=-O1 \
  -- "${wanted[@]}"
for test in "${wanted[@]}"; do
  echo "sanitize: $test"
  "$BUILD_DIR/bin/$test" --gtest_brief=1
done
echo "sanitize: ${#wanted[@]} programs clean under address and undefined"
