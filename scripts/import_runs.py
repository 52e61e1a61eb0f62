#!/usr/bin/env python3
"""What other programs measured, as JSON that `shardbench import` makes rows of.

  scripts/import_runs.py FILE...

Reads nsys SQLite exports and `nsys stats` tables, PyTorch (Kineto) traces, and logs of Megatron-LM, torchtitan, nanotron and
DeepSpeed; outputs of nccl-tests are named and left to the program. Each entry has the flags that the file prints, the results as
columns of a row, operations, and notes.
"""
import gzip
import json
import sys

from import_kernels import read_kineto, read_nsys_sqlite, read_nsys_stats
from import_training_logs import read_training_log
from tool import BadInput, Parser, run

KNOWN = ("nsys SQLite or stats, PyTorch trace, nccl-tests output, log of Megatron-LM, torchtitan, nanotron or DeepSpeed")
LARGEST = 2**31


def read(path):
    with open(path, "rb") as file:
        content = file.read(LARGEST)
    if content.startswith(b"\x1f\x8b"):
        content = gzip.decompress(content)
    if content.startswith(b"SQLite format 3\0"):
        return read_nsys_sqlite(path)
    text = content.decode("utf-8", "replace")
    if text.lstrip().startswith(("{", "[{", "[\n")) and '"nccl' not in text[:400] and "traceEvents" in text:
        return read_kineto(path, text)
    for reader in (read_nsys_stats, read_training_log):
        found = reader(path, text)
        if found:
            return found
    if "algbw" in text or "busbw" in text or "nccl-tests" in text:
        return {"file": path, "kind": "nccl-tests", "flags": {}, "results": {}, "ops": [], "notes": []}
    if text.lstrip().startswith("{"):
        return read_kineto(path, text)
    raise BadInput(f"{path}: no file that is known; allowed: {KNOWN}")


def main(arguments):
    parser = Parser(description=__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE")
    options = parser.parse_args(arguments)
    json.dump([read(path) for path in options.files], sys.stdout)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
