#!/usr/bin/env bash
# Makes the reference fixtures of tests/data/reference with PyTorch and transformers, in a virtual environment of its own.
# Usage: scripts/reference/make.sh [NAME ...]     all cases when none is named
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
venv=${SHARDBENCH_REFERENCE_VENV:-$root/build/reference-venv}
if [ ! -x "$venv/bin/python" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --no-cache-dir -r "$here/requirements.txt"
fi
exec "$venv/bin/python" "$here/make.py" --out "$root/tests/data/reference" "$@"
