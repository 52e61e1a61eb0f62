#!/usr/bin/env bash
# Fits the stacks' numbers without each source in turn, predicts the published steps, and single products and collectives, and
# writes the errors to results/accuracy. Flags go to the steps, which are then all there is (--check: as CI does).
set -euo pipefail
cd "$(dirname "$0")/.."
if (($# == 0)); then python3 scripts/fit_stacks.py --folds; fi
python3 scripts/accuracy.py "$@"
if (($# == 0)); then exec python3 scripts/accuracy_components.py; fi
