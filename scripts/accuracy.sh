#!/usr/bin/env bash
# Predicts the published step times, and those of single products and collectives, and writes the errors to results/accuracy.
# Flags go to the step times, which are then all there is.
set -euo pipefail
cd "$(dirname "$0")/.."
python3 scripts/accuracy.py "$@"
if (($# == 0)); then exec python3 scripts/accuracy_components.py; fi
