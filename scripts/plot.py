#!/usr/bin/env python3
"""Plots of a shardbench summary CSV: where the time goes, throughput against ranks, memory.

  .venv/bin/python scripts/plot.py FILE.csv [--out DIR] [--html] [--top N]

Writes DIR/FILE_breakdown.png, DIR/FILE_throughput.png and DIR/FILE_memory.png, and with --html DIR/FILE.html.
"""
import argparse
import os
import sys

from plot_data import BadInput, read_sweep


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", metavar="FILE.csv", help="a summary CSV (not the _ops.csv beside it)")
    parser.add_argument("--out", metavar="DIR", default=".", help="folder for the plots (default: here)")
    parser.add_argument("--html", action="store_true", help="also one interactive HTML page")
    parser.add_argument("--top", type=int, default=30, metavar="N", help="show the N fastest configurations (default 30)")
    options = parser.parse_args(arguments)
    if options.top < 1:
        parser.error(f"--top {options.top}: a number of at least 1 is needed")
    return options


def main(arguments):
    options = parse_arguments(arguments)
    try:
        sweep = read_sweep(options.csv, options.top)
        os.makedirs(options.out, exist_ok=True)
        stem = os.path.join(options.out, os.path.splitext(os.path.basename(options.csv))[0])
        from plot_png import write_pngs  # slow to load, and not needed to refuse bad input

        written = write_pngs(sweep, stem)
        if options.html:
            from plot_html import write_html

            written.append(write_html(sweep, stem))
    except (BadInput, OSError) as error:
        print(f"plot.py: {error}", file=sys.stderr)
        return 2
    except ImportError as error:
        print(f"plot.py: {error}; scripts/setup.sh makes .venv, use .venv/bin/python", file=sys.stderr)
        return 2
    for path in written:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
