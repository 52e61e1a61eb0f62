#!/usr/bin/env bash
# Times the same GEMMs on each BLAS library that is installed and prints a Markdown table of TFLOP/s (median of rounds).
#   bench/kernels/blas_choice.sh BENCH_KERNELS [LIBRARY...]
# Debian's candidates: libopenblas0-pthread, libblis4-openmp (or -pthread, -serial).
set -euo pipefail

if [[ $# -lt 1 || ! -x $1 ]]; then
  echo "usage: $0 BENCH_KERNELS [LIBRARY...]   ('${1:-}' is no program; build the target bench_kernels first)" >&2
  exit 2
fi
bench=$1
shift
libraries=("$@")
if [[ ${#libraries[@]} -eq 0 ]]; then
  for name in libopenblas.so.0 libblis.so.4; do
    if ldconfig -p | grep -q "$name"; then libraries+=("$name"); fi
  done
fi
filter=${BLAS_CHOICE_FILTER:-'gemm\.(qkv|mlp_up|mlp_down|mlp_down\.weight_gradient|decode_mlp_down)/(gpt2/tp[14]|llama3-8b/tp[48])/fp32'}
rounds=${BLAS_CHOICE_ROUNDS:-3}

results=$(mktemp)
trap 'rm -f "$results"' EXIT
# Rounds go around the libraries, so that a slow minute of the machine falls on all of them.
for ((round = 0; round < rounds; ++round)); do
  for library in "${libraries[@]}"; do
    SHARDBENCH_BLAS=$library "$bench" --benchmark_filter="$filter" |
      awk -v library="$library" 'NR == 1 { sub(/.*, /, ""); name = $0 } NR > 2 { print library "\t" name "\t" $1 "\t" $3 }' >>"$results"
  done
done

awk -F'\t' '
  { key = $3 SUBSEP $1; n[key]++; value[key, n[key]] = $4; full[$1] = $2 }
  !($1 in known) { known[$1]; libraries[++columns] = $1 }
  !($3 in seen) { seen[$3]; rows[++count] = $3 }
  function median(key,   i, j, t, m) {
    m = n[key]
    for (i = 1; i <= m; ++i) sorted[i] = value[key, i] + 0
    for (i = 2; i <= m; ++i) for (j = i; j > 1 && sorted[j] < sorted[j-1]; --j) { t = sorted[j]; sorted[j] = sorted[j-1]; sorted[j-1] = t }
    return m % 2 ? sorted[(m + 1) / 2] : (sorted[m / 2] + sorted[m / 2 + 1]) / 2
  }
  END {
    printf "| TFLOP/s |"; for (c = 1; c <= columns; ++c) printf " %s |", full[libraries[c]]; printf "\n|---|"
    for (c = 1; c <= columns; ++c) printf "---|"
    printf "\n"
    for (r = 1; r <= count; ++r) {
      printf "| %s |", rows[r]
      for (c = 1; c <= columns; ++c) printf " %.4f |", median(rows[r] SUBSEP libraries[c])
      printf "\n"
    }
  }' "$results"
