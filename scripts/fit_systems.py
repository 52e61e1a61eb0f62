#!/usr/bin/env python3
"""Fits the device and network parameters of the shipped profiles to measured tables, and says how far off they are.

  .venv/bin/python scripts/fit_systems.py --tables FOLDER [--only attention,...] [--gpu h100_sxm,...] [--jobs N]

FOLDER holds tables of ai-dynamo/aiconfigurator's collectors as CSV (attention_context.csv, gemm.csv, ...). Three rows in ten,
drawn by a hash of their sizes, are left out of every fit. Writes the parameters into bench/systems/*.yaml, and the error of each
table, fitted and left out, into results/systems/errors.csv.
"""
import csv
import multiprocessing
import os
import sys

from fitting import attention
from fitting.machines import SYSTEMS, machine, profile_path
from fitting.search import np
from tool import BadInput, Parser, at_least_one, read_table, run

ERRORS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "results", "systems", "errors.csv")
COLUMNS = ["table", "gpu", "kernel", "rows_fitted", "error_fitted_pct", "rows_left_out", "error_left_out_pct", "p90_left_out_pct"]
# What is fitted: its tables, the fit, and what writes its section of the profile.
PARTS = {
    "attention": (["attention_context", "mla_context"], attention.fit_attention, attention.write),
}


class Report:
    """Errors by table, GPU and kernel."""

    def __init__(self):
        self.rows = []

    def add(self, table, gpu, kernel, off, part):
        left = off[~part]
        percent = [round(100 * value, 2) if len(values) else "" for value, values in
                   ((np.mean(off[part]), off[part]), (np.mean(left) if len(left) else 0, left),
                    (np.percentile(left, 90) if len(left) else 0, left))]
        self.rows.append([table, SYSTEMS[gpu], kernel, int(part.sum()), percent[0], len(left), percent[1], percent[2]])


def fit_one(job):
    """One part of one GPU, in a process of its own."""
    part, gpu, tables = job
    report = Report()
    lines = PARTS[part][1](machine(gpu), tables, report)
    return part, gpu, lines, report.rows


def keep_errors(rows):
    """Replaces in the CSV what was fitted again."""
    old = []
    if os.path.exists(ERRORS):
        with open(ERRORS, newline="", encoding="utf-8") as file:
            old = list(csv.reader(file))[1:]
    fitted = {(row[0], row[1]) for row in rows}
    rows = sorted([row for row in old if (row[0], row[1]) not in fitted] + [[str(cell) for cell in row] for row in rows])
    with open(ERRORS, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS] + rows)


def print_means(rows):
    """The mean over the rows left out, of each table and GPU."""
    sums = {}
    for table, gpu, _, _, _, count, error, _ in rows:
        if count:
            total = sums.setdefault((table, gpu), [0, 0])
            total[0] += count * error
            total[1] += count
    for (table, gpu), (total, count) in sorted(sums.items()):
        print(f"{table:22} {gpu:16} {count:6} rows left out: mean {total / count:5.1f}%")


def chosen(text, known, flag):
    names = text.split(",") if text else list(known)
    for name in names:
        if name not in known:
            raise BadInput(f"{flag}: '{name}' is not one of {', '.join(known)}")
    return names


def main(words):
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", required=True, help="folder of the tables")
    parser.add_argument("--only", default="", help="parts to fit: " + ", ".join(PARTS))
    parser.add_argument("--gpu", default="", help="GPUs to fit: " + ", ".join(SYSTEMS))
    parser.add_argument("--jobs", type=at_least_one, default=1, help="processes")
    arguments = parser.parse_args(words)
    parts, gpus = chosen(arguments.only, PARTS, "--only"), chosen(arguments.gpu, SYSTEMS, "--gpu")
    tables = {name: read_table(os.path.join(arguments.tables, name + ".csv")) for part in parts for name in PARTS[part][0]}
    jobs = [(part, gpu, {name: [r for r in tables[name] if r["gpu"] == gpu] for name in PARTS[part][0]})
            for part in parts for gpu in gpus if os.path.exists(profile_path(gpu))]
    errors = []
    with multiprocessing.Pool(arguments.jobs) as pool:
        for part, gpu, lines, rows in pool.imap(fit_one, jobs):
            if not lines:
                continue
            with open(profile_path(gpu), encoding="utf-8") as file:
                text = file.read()
            with open(profile_path(gpu), "w", encoding="utf-8") as file:
                file.write(PARTS[part][2](text, lines))
            errors += rows
    keep_errors(errors)
    print_means(errors)
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
