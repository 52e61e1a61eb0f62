#!/usr/bin/env bash
# Puts small faults into the sources, one at a time, and says which the tests let pass: scripts/mutate.sh --seed 7 --count 200
# Builds first; goes on where an interrupted run was; --help says more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=build-test
words=("$@")
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h | --list) exec python3 scripts/mutate.py "${words[@]}" ;;
    --build) build=${2:?mutate.sh: --build: a value is missing} ;;
    --build=*) build=${1#*=} ;;
  esac
  shift
done
python3 scripts/mutate.py --parse-only "${words[@]}"  # what is wrong with the arguments is said before anything is built
BUILD_DIR=$build scripts/build.sh -DSHARDBENCH_TESTS=ON >&2
exec nice python3 scripts/mutate.py "${words[@]}"
