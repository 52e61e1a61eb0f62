#!/usr/bin/env bash
# Predicts the published step times and writes the errors to results/accuracy.
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 scripts/accuracy.py "$@"
