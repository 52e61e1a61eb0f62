#!/usr/bin/env bash
# Sets up, builds with the tests and runs them all; ends with ctest's own summary and exit code.
# Arguments go to ctest: scripts/test.sh -R Placement
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ "${1:-}" = --help ]; then
  sed -n '2,3s/^# //p' "${BASH_SOURCE[0]}"
  exit 0
fi
scripts/setup.sh
BUILD_DIR=build-test scripts/build.sh -DSHARDBENCH_TESTS=ON
exec ctest --test-dir build-test --output-on-failure -j2 "$@"
