#!/usr/bin/env bash
# From a fresh clone to a measured and verified comparison of data, tensor and pipeline parallelism.
# Results: results/quickstart/ (of an earlier run: replaced). Takes minutes; see README.md for what the numbers mean.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ $# -gt 0 ]; then
  if [ "$1" = --help ] || [ "$1" = -h ]; then sed -n '2,3s/^# //p' "${BASH_SOURCE[0]}"; exit 0; fi
  echo "quickstart.sh: unknown argument '$1'; it takes none" >&2
  exit 2
fi

step() { printf '\n== %s\n' "$*"; }
out=results/quickstart
model=(--model gpt2 --layers 4 --micro-batch 1 --global-batch 4 --device cpu)

step "1/5 setting up"
gpu=''
if command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then gpu=1; fi
scripts/setup.sh ${gpu:+--cuda}

step "2/5 building${gpu:+ (a GPU was found: with CUDA)}"
scripts/build.sh -DSHARDBENCH_CUDA="$([ -n "$gpu" ] && echo ON || echo OFF)" -DSHARDBENCH_TESTS=OFF

mkdir -p "$out"
rm -f "$out"/*.csv "$out"/*.png

# One rank is the baseline; two ranks on two cores are honest timings. On fewer cores the rows say so (ranks_per_core).
step "3/5 timing: a GPT-2 of 4 layers on 1 and 2 ranks"
build/bin/shardbench run "${model[@]}" --seq 128 --ranks 1 --out "$out/timing.csv"
build/bin/shardbench sweep "${model[@]}" --seq 128 --dp 1,2 --tp 1,2 --pp 1,2 --ranks 2 --out "$out/timing.csv"

step "4/5 checking: every cut over 4 ranks against the unsharded step"
# Short sequences: four ranks share the cores here, and the question is whether the numbers are right.
build/bin/shardbench sweep "${model[@]}" --seq 64 --dp 1,2,4 --tp 1,2,4 --pp 1,2,4 --ranks 4 --check --warmup 1 \
  --max-seconds 3 --out "$out/check.csv"

step "5/5 results"
for file in timing check; do .venv/bin/python scripts/plot.py "$out/$file.csv" --out "$out"; done
python3 scripts/show.py "$out/timing.csv" "$out/check.csv"
cat <<TEXT

Files in $out/: timing.csv and check.csv (a row a configuration), *_ops.csv (a row an operation), *.png (plots).
What to do next:
  build/bin/shardbench models                                     which models ship; or --model path/to/config.json
  build/bin/shardbench describe --model llama3.1-8b --tp 8 --dp 4  parameters, FLOPs, traffic, memory; no hardware needed
  build/bin/shardbench sweep --model smollm-360m --layers 2 --seq 256 --tp 1,5 --pp 1,2 --ranks 2 --out my.csv
  .venv/bin/python scripts/plot.py my.csv --out plots             the plots of your own sweep
  less results/README.md                                          what every column means
TEXT
