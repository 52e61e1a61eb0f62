#!/usr/bin/env bash
# Runs a configuration under Nsight Systems, one report a rank: scripts/nsys_profile.sh RANKS OUT_DIR SHARDBENCH_ARG...
#   scripts/nsys_profile.sh 4 /tmp/trace run --model llama3.1-8b --layers 2 --tp 4 --device cuda
# On a GPU only the profiled iterations are captured (cudaProfilerStart to Stop); --device cpu captures the whole run.
# Under Slurm use srun instead of mpirun: LAUNCHER="srun -n 4" scripts/nsys_profile.sh 4 ...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case ${1:-} in
  --help | -h) sed -n '2,5s/^# \{0,1\}//p' "scripts/nsys_profile.sh"; exit 0 ;;
  -*) echo "nsys_profile.sh: unknown flag '$1'; allowed: RANKS OUT_DIR SHARDBENCH_ARG..., --help" >&2; exit 2 ;;
esac
if [ $# -lt 3 ] || [[ ! $1 =~ ^[1-9][0-9]*$ ]]; then
  sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
ranks=$1 out=$2
shift 2
command -v nsys >/dev/null || { echo "nsys_profile.sh: nsys is not on PATH; it comes with Nsight Systems" >&2; exit 2; }
binary=${SHARDBENCH:-build/bin/shardbench}
[ -x "$binary" ] || { echo "nsys_profile.sh: no $binary; build first, or set SHARDBENCH" >&2; exit 2; }
mkdir -p "$out"

flags=("--trace=cuda,nvtx,mpi" --mpi-impl=openmpi --capture-range=cudaProfilerApi --capture-range-end=stop)
case " $* " in
  *" --device cpu "*) flags=("--trace=nvtx,mpi" --mpi-impl=openmpi) ;;
esac
# The rank is known only inside the launched process, so the output's name is made there.
# shellcheck disable=SC2016
per_rank='out=$1; shift; rank=${OMPI_COMM_WORLD_RANK:-${SLURM_PROCID:-${PMI_RANK:-0}}}
exec nsys profile --output="$out/rank$rank" --force-overwrite=true --sample=none --cpuctxsw=none "$@"'
read -r -a launcher <<<"${LAUNCHER:-scripts/mpirun.sh $ranks}"
"${launcher[@]}" bash -c "$per_rank" nsys "$out" "${flags[@]}" "$binary" "$@"

for report in "$out"/rank*.nsys-rep; do
  nsys export --type sqlite --force-overwrite=true --output "${report%.nsys-rep}.sqlite" "$report" >/dev/null
done
python3 scripts/nsys_report.py "$out"/rank*.sqlite
