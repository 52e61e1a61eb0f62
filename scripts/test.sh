#!/usr/bin/env bash
# Sets up, builds with the tests and runs them all; ends with ctest's own summary and exit code.
# Arguments go to ctest: scripts/test.sh -R Placement
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
words=("$@")
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) sed -n '2,3s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
    -R | -E | -L | -LE | -I | -j | --parallel | --timeout | --repeat)
      [ $# -gt 1 ] || { echo "test.sh: $1: a value is missing" >&2; exit 2; }
      shift ;;
    -j[0-9]* | -V | -VV | -N | -Q | --verbose | --extra-verbose | --show-only | --quiet | --progress | --rerun-failed | --stop-on-failure) ;;
    *) echo "test.sh: unknown argument '$1'; allowed of ctest: -R -E -L -LE -I -j -V -VV -N -Q --timeout --repeat --rerun-failed --stop-on-failure; --help" >&2; exit 2 ;;
  esac
  shift
done
scripts/setup.sh
BUILD_DIR=build-test scripts/build.sh -DSHARDBENCH_TESTS=ON
exec ctest --test-dir build-test --output-on-failure -j2 "${words[@]}"
