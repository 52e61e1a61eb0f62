#!/usr/bin/env bash
# Sets published configurations beside the planner's best and writes results/planner.
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 scripts/planner_published.py "$@"
