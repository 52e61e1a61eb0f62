#!/usr/bin/env python3
"""Plots of a shardbench summary CSV: where the time goes, throughput against ranks, memory.

  .venv/bin/python scripts/plot.py FILE.csv [--out DIR] [--html] [--top N]

Writes DIR/FILE_breakdown.png, DIR/FILE_throughput.png and DIR/FILE_memory.png, each as .svg too, and with --html the page of
scripts/report.py, DIR/FILE.html. A file of several models or phases gives these for each, as DIR/FILE_MODEL_PHASE_breakdown.png.
"""
import argparse
import os
import sys

import report
from plot_data import read_sweeps
from tool import BadInput, Parser, at_least_one, in_words, run


def parse_arguments(arguments):
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", metavar="FILE.csv", help="a summary CSV (not the _ops.csv beside it)")
    parser.add_argument("--out", metavar="DIR", default=".", help="folder for the plots (default: here)")
    parser.add_argument("--html", action="store_true", help="also the page of scripts/report.py")
    parser.add_argument("--top", type=at_least_one, default=30, metavar="N", help="show the N fastest configurations (default 30)")
    return parser.parse_args(arguments)


def make_folder(path):
    if path == "-":
        raise BadInput("--out: '-' is not a folder; allowed: DIR")
    try:
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, ".shardbench-plot"), "w", encoding="utf-8") as probe:
            os.unlink(probe.name)
    except OSError as error:
        raise BadInput(f"--out: {in_words(error, path)}") from error


def main(arguments):
    options = parse_arguments(arguments)
    sweeps = read_sweeps(options.csv, options.top)
    make_folder(options.out)
    stem = os.path.join(options.out, os.path.splitext(os.path.basename(options.csv))[0])
    try:
        from plot_figures import write_figures  # slow to load, and not needed to refuse bad input

        written = [path for sweep in sweeps for path in write_figures(sweep, stem)]
    except ImportError as error:
        raise BadInput(f"{error}; scripts/setup.sh makes .venv, use .venv/bin/python") from error
    for path in written:
        print(path)
    return report.main([options.csv, "--out", f"{stem}.html"]) if options.html else 0


if __name__ == "__main__":
    sys.exit(run(main))
