#!/usr/bin/env bash
# Installs what shardbench needs on Debian 12 or Ubuntu. Safe to run twice: what is there is left alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/setup.sh [--no-plots] [--cuda] [--fuzzers] [--bundle DIR] [--help]
  (none)        compiler, CMake, Ninja, MPI, OpenBLAS and libraries (scripts/packages.txt), and .venv for the plots
  --no-plots    leave out .venv (matplotlib)
  --cuda        also the CUDA toolkit, cuBLAS, cuDNN and NCCL, as wheels, into .cuda/ (2 GB) unless a whole toolkit is found
  --fuzzers     also clang with libFuzzer
  --bundle DIR  take packages from DIR, made by scripts/offline_bundle.sh, instead of the network
TEXT
}

plots=1 cuda='' fuzzers='' bundle=''
while [ $# -gt 0 ]; do
  case $1 in
    --no-plots) plots='' ;;
    --cuda) cuda=1 ;;
    --fuzzers) fuzzers=1 ;;
    --bundle)
      bundle=${2:-}
      if [ ! -d "$bundle/debs" ] || [ ! -d "$bundle/wheels" ]; then
        echo "setup.sh: --bundle '$bundle': a folder made by scripts/offline_bundle.sh is needed" >&2
        exit 2
      fi
      bundle=$(realpath "$bundle")
      shift
      ;;
    --help | -h) usage; exit 0 ;;
    *) echo "setup.sh: unknown flag '$1'; allowed: --no-plots --cuda --fuzzers --bundle DIR --help" >&2; exit 2 ;;
  esac
  shift
done

say() { echo "setup: $*"; }
fail() { echo "setup: $*" >&2; exit 1; }
installed() { dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }

as_root() {
  if [ "$(id -u)" = 0 ]; then
    env DEBIAN_FRONTEND=noninteractive "$@"
  else
    sudo env DEBIAN_FRONTEND=noninteractive "$@"
  fi
}

apt_install() {
  if [ -n "$bundle" ]; then
    # Also what is there in an older version: a -dev package may want exactly the library that came with it.
    local files=() file have
    for file in "$bundle"/debs/*.deb; do
      have=$(dpkg-query -W -f='${Version}' "$(dpkg-deb -f "$file" Package)" 2>/dev/null || true)
      if dpkg --compare-versions "$(dpkg-deb -f "$file" Version)" gt "${have:-0~}"; then files+=("$file"); fi
    done
    as_root apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends "${files[@]}" >/dev/null
  else
    as_root apt-get update -qq &&
      as_root apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends "$@" >/dev/null
  fi
}

# Installs those of the given packages that are absent; one retry, since a mirror may hiccup.
need_packages() {
  local missing=() package
  for package in "$@"; do installed "$package" || missing+=("$package"); done
  if [ ${#missing[@]} = 0 ]; then
    say "system packages: all $# are there"
    return
  fi
  say "system packages: installing ${missing[*]}"
  command -v apt-get >/dev/null || fail "needs apt-get (Debian or Ubuntu); install these by hand: ${missing[*]}"
  [ "$(id -u)" = 0 ] || command -v sudo >/dev/null || fail "needs root or sudo to install: ${missing[*]}"
  apt_install "${missing[@]}" || { say "trying once more"; sleep 5; apt_install "${missing[@]}"; } ||
    fail "apt-get could not install: ${missing[*]}"
}

# pip of the given virtual environment; from the bundle when there is one.
pip_install() {
  local venv=$1
  shift
  local pip=("$venv/bin/python" -m pip --disable-pip-version-check -q install)
  [ -z "$bundle" ] || pip+=(--no-index --find-links "$bundle/wheels")
  "${pip[@]}" "$@" || { say "pip: trying once more"; sleep 5; "${pip[@]}" "$@"; }
}

setup_plots() {
  if cmp -s scripts/requirements.txt .venv/requirements.txt; then
    say "plots: .venv is up to date"
    return
  fi
  say "plots: making .venv with $(tr '\n' ' ' <scripts/requirements.txt)"
  [ -x .venv/bin/python ] || python3 -m venv --clear .venv
  pip_install .venv -r scripts/requirements.txt || fail "pip could not install the plot packages; --no-plots does without"
  cp scripts/requirements.txt .venv/requirements.txt # the mark that all went well
}

# A toolkit counts when it can compile and link the whole back end.
whole_toolkit() {
  [ -x "$1/bin/nvcc" ] && [ -e "$1/include/cublasLt.h" ] && [ -e "$1/include/nvtx3/nvToolsExt.h" ] &&
    { [ -e "$1/include/nccl.h" ] || [ -e /usr/include/nccl.h ]; }
}

verify_toolkit() {
  local home=$1 work
  work=$(mktemp -d)
  cat >"$work/probe.cu" <<'CODE'
#include <cublasLt.h>
#include <nccl.h>
#include <nvtx3/nvToolsExt.h>
__global__ void twice(float* x) { x[threadIdx.x] *= 2.0F; }
int main() {
  float* x = nullptr;
  if (cudaMalloc(&x, 128) == cudaSuccess) twice<<<1, 32>>>(x);
  int version = 0;
  return cublasLtGetVersion() == 0 || ncclGetVersion(&version) != ncclSuccess;
}
CODE
  "$home/bin/nvcc" -std=c++20 -arch=sm_80 --cudart=shared "$work/probe.cu" -o "$work/probe" \
    -lcublasLt -lnccl -Xlinker -rpath,"$home/lib64" || { rm -rf "$work"; fail "the toolkit in $home cannot compile a kernel"; }
  "$work/probe" || { rm -rf "$work"; fail "a program made by the toolkit in $home does not start"; }
  rm -rf "$work"
}

# Wheels keep CUDA and NCCL in folders of their own, with versioned libraries only: lay them out as a toolkit is.
lay_out_toolkit() {
  local site=$1 home=$2 library
  mkdir -p "$home"
  cp -a "$site"/nvidia/cu13/. "$home/"
  cp -a "$site"/nvidia/nccl/include/. "$home/include/"
  cp -a "$site"/nvidia/nccl/lib/. "$home/lib/"
  cp -a "$site"/nvidia/cudnn/include/. "$home/include/"
  cp -a "$site"/nvidia/cudnn/lib/. "$home/lib/"
  cp -a "$site"/include/cudnn_* "$home/include/" # the frontend, headers only
  for library in "$home"/lib/*.so.*; do ln -sf "$(basename "$library")" "${library%%.so.*}.so"; done
  ln -sfn lib "$home/lib64"
  mkdir -p "$home/targets/x86_64-linux"
  ln -sfn ../../include "$home/targets/x86_64-linux/include"
  ln -sfn ../../lib "$home/targets/x86_64-linux/lib"
  echo '*' >"$home/.gitignore"
}

setup_cuda() {
  local home found=''
  for home in "${CUDA_HOME:-}" "$(dirname "$(dirname "$(command -v nvcc || echo /none/none)")")" /usr/local/cuda "$PWD/.cuda"; do
    if whole_toolkit "$home"; then found=$home && break; fi
  done
  if [ -n "$found" ]; then
    say "CUDA: a whole toolkit is there"
  else
    [ "$(uname -m)" = x86_64 ] || fail "--cuda knows the wheels of x86_64 only, this is $(uname -m); set CUDA_HOME to a toolkit"
    say "CUDA: bringing the toolkit, cuBLAS, cuDNN and NCCL into .cuda/ (about 2 GB)"
    found=$PWD/.cuda
    rm -rf .cuda .cuda.part
    python3 -m venv .cuda.part
    pip_install .cuda.part --no-deps --target .cuda.part/site -r scripts/requirements-cuda.txt ||
      { rm -rf .cuda.part; fail "pip could not bring the CUDA wheels"; }
    lay_out_toolkit .cuda.part/site .cuda
    rm -rf .cuda.part
  fi
  verify_toolkit "$found"
  say "CUDA: $("$found/bin/nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/release \1/p') compiles; use it with"
  echo "  export CUDA_HOME=$found PATH=$found/bin:\$PATH"
}

setup_fuzzers() {
  need_packages clang
  local version
  version=$(clang --version | sed -n 's/.*version \([0-9]*\).*/\1/p' | head -1)
  # Until 14 on Ubuntu the run-time libraries came with libclang-common.
  if apt-cache show "libclang-rt-$version-dev" >/dev/null 2>&1; then
    need_packages "libclang-rt-$version-dev"
  fi
}

mapfile -t packages <scripts/packages.txt
need_packages "${packages[@]}"
[ -z "$plots" ] || setup_plots
[ -z "$cuda" ] || setup_cuda
[ -z "$fuzzers" ] || setup_fuzzers
say "done"
