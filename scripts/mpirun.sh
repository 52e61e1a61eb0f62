#!/usr/bin/env bash
# Runs a program on N ranks of this machine: scripts/mpirun.sh N PROGRAM [ARG...]
# Shared memory only, no binding (ranks may outnumber cores), and idle ranks yield, as root or not.
set -euo pipefail
case ${1:-} in --help | -h) sed -n '2,3s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;; esac
if [ $# -lt 2 ] || [[ ! $1 =~ ^[1-9][0-9]*$ ]]; then
  echo "mpirun.sh: '${1:-}': a number of ranks and a program are needed (--help)" >&2
  exit 2
fi
ranks=$1
shift
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1}
exec mpirun --oversubscribe --bind-to none --mca pml ob1 --mca btl vader,self --mca mpi_yield_when_idle 1 \
  --mca btl_vader_single_copy_mechanism none -np "$ranks" "$@"
