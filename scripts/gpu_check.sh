#!/usr/bin/env bash
# Checks the CUDA back end on this machine's GPU, in under 9 minutes and without a network: scripts/gpu_check.sh [OUT_DIR]
#   --bundle DIR  packages and toolkit from DIR, made by scripts/offline_bundle.sh --cuda
#   --only A,B    these steps only
#   --plan        print the steps and what each may take, and do nothing
# Builds for that GPU only (BUILD_DIR, default build-gpu/), then runs each step under a timeout of its own, whatever
# became of the others. OUT_DIR (default results/gpu_check/) keeps all rows and logs; a short table comes last.
# Exit code: 0 every step passed, 1 one did not, 2 there is no GPU, or no toolkit to build with.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2

usage() { sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
refuse() { echo "gpu_check.sh: $*" >&2; exit 2; }
out='' bundle=${GPU_CHECK_BUNDLE:-} plan='' only='' one=''
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --plan) plan=1 ;;
    --bundle) bundle=${2:-}; [ -d "$bundle/debs" ] || refuse "--bundle '$bundle': a folder made by scripts/offline_bundle.sh is needed"; shift ;;
    --only) only=${2:?}; shift ;;
    --step) one=${2:?}; shift ;; # of this script itself: one step in a process of its own
    -*) refuse "unknown flag '$1'; allowed: --bundle DIR --only STEP,STEP --plan --help" ;;
    *) [ -z "$out" ] || refuse "one folder is needed, not also '$1'"; out=$1 ;;
  esac
  shift
done
out=${out:-results/gpu_check}
build=${BUILD_DIR:-build-gpu}
total_seconds=${GPU_CHECK_SECONDS:-530}

# ---- the steps: name, seconds it may take, command; what one prints as its last line is its key figure

model=(--model gpt2 --layers 2 --seq 256 --micro-batch 2 --global-batch 4 --warmup 2 --max-iterations 10 --max-seconds 5)
layer=(--scope layer --model llama3.1-8b --layers 2 --seq 4096 --micro-batch 1 --precision bf16 --warmup 3 --max-iterations 20 --max-seconds 5)
bin() { echo "$build/bin/$1"; }

step_setup() {
  if [ -n "$bundle" ]; then scripts/setup.sh --no-plots --cuda --bundle "$bundle" || return; fi
  echo "GPU $gpu, sm_$arch"
}
step_build() {
  BUILD_DIR=$build scripts/build.sh -DSHARDBENCH_CUDA=ON -DSHARDBENCH_TESTS=ON "-DCMAKE_CUDA_ARCHITECTURES=$arch-real" \
    -- shardbench shardbench_cuda bench_kernels test_cuda test_exec_cuda || return
  echo "$(nproc) cores"
}
step_doctor() { "$(bin shardbench)" doctor; }
# Fresh random data, outputs poisoned before each call.
step_kernels() { "$(bin test_cuda)" --gtest_brief=1 && gtest_figure; }
step_parity() { # PRECISION
  "$(bin shardbench)" run "${model[@]}" --device cuda --precision "$1" --check --out "$out/parity.csv" && column_of "$out/parity.csv" max_rel_error
}
# The same step on GPU and CPU, gradient by gradient, in both precisions.
step_host() { "$(bin test_exec_cuda)" --gtest_brief=1 '--gtest_filter=ParityWithHost*' && gtest_figure; }
step_graph() {
  "$(bin shardbench)" run "${model[@]}" --device cuda --precision bf16 --cuda-graph --out "$out/parity.csv" && column_of "$out/parity.csv" step_ms_p50
}
# Ranks that share the GPU: NCCL over sockets on loopback. Slow, and right all the same.
step_shared() { # RANKS
  local filter='*EveryProduct*:*SequenceParallel:*ShardedStates:*Bfloat16'
  [ "$1" = 2 ] || filter='*EveryProduct*'
  scripts/mpirun.sh "$1" "$(bin test_exec_cuda)" --gtest_brief=1 "--gtest_filter=$filter" && gtest_figure
}
step_shared_run() {
  "$(bin shardbench)" sweep "${model[@]}" --device cuda --share-gpu --dp 1,2 --tp 1,2 --ranks 2 --check --out "$out/shared.csv" &&
    column_of "$out/shared.csv" max_rel_error
}
step_kernel_bench() {
  "$(bin bench_kernels)" --device=cuda --benchmark_min_time=0.02s \
    --benchmark_filter='llama3-(8b|70b)/tp(1|8)/|grouped_gemm' | tee "$out/kernels.txt" || return
  awk '$5 ~ /%$/ && $1 ~ /bf16/ { v = $5 + 0; if (v > most) { most = v; name = $1 } } END { print most "% of peak at most (" name ")" }' "$out/kernels.txt"
}
step_layer_bench() {
  "$(bin shardbench)" sweep "${layer[@]}" --device cuda --attention query-blocks,cudnn --out "$out/layer.csv" && column_of "$out/layer.csv" model_tflops_per_rank
}
# What the plan says against what the device gave.
step_memory() {
  python3 - "$out/layer.csv" "$out/parity.csv" <<'CODE'
import csv, sys
worst, seen = 0.0, 0
for path in sys.argv[1:]:
    for row in csv.DictReader(open(path, newline="", encoding="utf-8")):
        if not (row["memory_measured_bytes"] and row["memory_peak_bytes"]):
            continue
        predicted, measured = float(row["memory_peak_bytes"]), float(row["memory_measured_bytes"])
        print(f"{row['model']} {row['scope']} {row['precision']}: predicted {predicted / 1e9:.3f} GB, measured {measured / 1e9:.3f} GB")
        seen += 1
        # The plan knows neither workspaces (96 MiB at most) nor what allocations are rounded up to.
        worst = max(worst, abs(measured - predicted) - 100 * 2**20)
        if measured > 1.1 * predicted + 200e6:
            sys.exit("measured is far above the plan")
print(f"{seen} rows, at most {max(worst, 0) / 1e6:.0f} MB beyond plan and workspaces")
sys.exit(0 if seen else "no rows to compare")
CODE
}
step_sanitizer() {
  local tool
  tool=$(command -v compute-sanitizer || ls "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer" 2>/dev/null) || {
    echo "compute-sanitizer is not installed"
    return 77
  }
  "$tool" --error-exitcode 9 "$(bin shardbench)" run --model gpt2 --layers 1 --seq 32 --global-batch 1 --device cuda \
    --scope layer --warmup 0 --max-iterations 1 && echo "memcheck clean"
}
# Shards of larger models: the compute of one rank on this device, the network of a machine of such devices.
replay_system() {
  case $gpu in
    *A100*) echo a100-80gb-sxm ;;
    *H200*) echo h200-sxm ;;
    *B200*) echo b200 ;;
    *) echo h100-sxm ;;
  esac
}
step_replayed() {
  local system
  local -a short
  system=$(replay_system)
  short=(--source replayed --system "$system" --scope layer --layers 2 --seq 4096 --precision bf16 --tp "1,2,4,8" --sequence-parallel
    --warmup 2 --max-iterations 5 --max-seconds 3 --device cuda --out "$out/replayed.csv")
  "$(bin shardbench)" sweep --model llama3.1-8b "${short[@]}" && "$(bin shardbench)" sweep --model llama3.1-70b "${short[@]}" &&
    column_of "$out/replayed.csv" step_ms_p50 | sed "s/^/network of $system, /"
}

steps='setup 150 step_setup
build 330 step_build
doctor 30 step_doctor
kernels 90 step_kernels
parity-with-cpu 45 step_host
parity-fp32 45 step_parity fp32
parity-bf16 45 step_parity bf16
shared-gpu-2-ranks 75 step_shared 2
shared-gpu-4-ranks 60 step_shared 4
shared-gpu-sweep 60 step_shared_run
kernel-bench 90 step_kernel_bench
layer-bench 60 step_layer_bench
memory 15 step_memory
cuda-graph 45 step_graph
sanitizer 75 step_sanitizer
replayed 90 step_replayed'

column_of() { # FILE COLUMN: what each row has there
  python3 -c 'import csv, sys
rows = list(csv.DictReader(open(sys.argv[1], newline="", encoding="utf-8")))
print(sys.argv[2], ", ".join(row[sys.argv[2]] or row["outcome"] for row in rows))' "$1" "$2"
}
gtest_figure() { grep -o '\[  PASSED  \] [0-9]* tests\?' "$log" | head -1; }

if [ -n "$one" ]; then
  read -ra words <<<"$one"
  "${words[@]}"
  exit
fi

# ---- what must be there

if [ -n "$plan" ]; then
  while read -r name limit command; do printf '%-20s at most %4s s\n' "$name" "$limit"; done <<<"$steps"
  echo "all together at most $total_seconds s"
  exit 0
fi
command -v nvidia-smi >/dev/null || refuse "no GPU: nvidia-smi, which comes with NVIDIA's driver, is not on PATH"
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1)
arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d .)
[[ $arch =~ ^[0-9]+$ ]] || refuse "no GPU: nvidia-smi is there and lists none"
[ "$arch" -ge 80 ] || refuse "$gpu has compute capability $arch; 80 (A100) or newer is needed"
missing=()
for tool in g++ cmake ninja mpirun python3; do command -v $tool >/dev/null || missing+=("$tool"); done
command -v nvcc >/dev/null || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ] || [ -x .cuda/bin/nvcc ] || missing+=(nvcc)
[ -n "$bundle" ] || [ ${#missing[@]} = 0 ] ||
  refuse "missing: ${missing[*]}; scripts/setup.sh --cuda brings them, or --bundle DIR without a network"

# ---- all steps

mkdir -p "$out" && : >"$out/summary.txt" || refuse "$out cannot be written"
rm -f "$out"/*.csv "$out"/*.log
export log build out bundle gpu arch BUILD_DIR=$build GPU_CHECK_BUNDLE=$bundle
failed=0 broken=''

record() { # RESULT FIGURE
  printf '%-20s %-6s %4ss  %s\n' "$name" "$1" "$((SECONDS - began))" "$2" >>"$out/summary.txt"
  tail -1 "$out/summary.txt"
}

# In a process of its own, so that a timeout ends all that the step has started.
run_step() {
  local left=$((total_seconds - SECONDS)) code figure
  began=$SECONDS log="$out/$name.log"
  [ -z "$broken" ] || { record skip "$broken"; return; }
  [ "$left" -ge 10 ] || { record FAIL "no time left of $total_seconds s"; failed=1; return; }
  [ "$limit" -le "$left" ] || limit=$left
  timeout -k 5 "$limit" bash scripts/gpu_check.sh --step "$command" "$out" >"$log" 2>&1
  code=$?
  figure=$(grep -v '^[[:space:]]*$' "$log" | tail -1 | cut -c1-90)
  case $code in
    0) record pass "$figure"; return ;;
    77) record skip "$figure"; return ;;
    124 | 137) record FAIL "not done after $limit s; see $log" ;;
    *) record FAIL "$figure; see $log" ;;
  esac
  failed=1
  case $name in setup | build) broken="needs $name" ;; esac
}

while read -r name limit command; do
  [ -z "$only" ] || [[ ,$only, == *,$name,* ]] || continue
  run_step </dev/null
done <<<"$steps"

printf '\n%s, sm_%s\n%-20s %-6s %5s  %s\n' "$gpu" "$arch" step result time "key figure"
cat "$out/summary.txt"
echo "rows and logs in $out/"
exit "$failed"
