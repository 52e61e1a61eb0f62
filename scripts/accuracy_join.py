#!/usr/bin/env python3
"""Joins predicted and measured rows of the same configuration: accuracy_join.py OUT.csv PLACE=PREFIX...
Each PREFIX-predicted.csv and PREFIX-measured.csv are outputs of `shardbench simulate` and `run`; a place without them is left out.
Writes one row a configuration and prints the mean absolute error, the worst row and how many pairs are in the right order."""
import csv
import itertools
import os
import statistics
import sys

from tool import BadInput, finite, read_table, run

KEYS = ("model", "layers", "scope", "seq", "micro_batch", "global_batch", "precision", "ranks", "dp", "tp", "pp", "zero_stage",
        "sequence_parallel", "schedule")


def rows_of(path):
    """key -> rows of a report, one for each round."""
    found = {}
    if os.path.exists(path):
        for line, row in enumerate(read_table(path, (*KEYS, "step_ms_p50")), start=2):
            if finite(path, line, "step_ms_p50", row["step_ms_p50"]):
                found.setdefault(tuple(row[k] for k in KEYS), []).append(row)
    return found


def step_ms(rows):
    """The median over the rounds."""
    return statistics.median(float(row["step_ms_p50"]) for row in rows)


def half_width(rows):
    """About the 95% confidence of a median: 1.25 standard errors of a mean, twice; in ms. Of several rounds what lies between them
    counts, as a machine changes its pace more from round to round than within one."""
    if len(rows) > 2:
        return 2 * 1.25 * statistics.stdev(float(row["step_ms_p50"]) for row in rows) / len(rows) ** 0.5
    n = sum(max(int(float(row["iterations"] or 1)), 1) for row in rows)
    return 2 * 1.25 * float(rows[-1]["step_cv_pct"] or 0) / 100 * step_ms(rows) / n ** 0.5


def join(place, prefix):
    predicted, measured = rows_of(prefix + "-predicted.csv"), rows_of(prefix + "-measured.csv")
    joined = []
    for key, rows in measured.items():
        if key not in predicted:
            continue
        real, told = step_ms(rows), step_ms(predicted[key])
        joined.append(dict(zip(KEYS, key)) | {
            "place": place, "rounds": len(rows), "measured_ms": f"{real:.3f}", "measured_half_width_ms": f"{half_width(rows):.3f}",
            "predicted_ms": f"{told:.3f}", "error_pct": f"{100 * (told / real - 1):.2f}"})
    return joined


def order(rows):
    """(pairs whose measured intervals are apart, those of them that the prediction orders alike)"""
    apart = right = 0
    for a, b in itertools.combinations(rows, 2):
        gap = float(a["measured_ms"]) - float(b["measured_ms"])
        if abs(gap) <= float(a["measured_half_width_ms"]) + float(b["measured_half_width_ms"]):
            continue
        apart += 1
        right += (float(a["predicted_ms"]) - float(b["predicted_ms"])) * gap > 0
    return apart, right


def report(place, rows):
    errors = [abs(float(row["error_pct"])) for row in rows]
    worst = rows[errors.index(max(errors))]
    apart, right = order(rows)
    print(f"{place}: {len(rows)} configurations, mean absolute error {sum(errors) / len(errors):.1f}%, median "
          f"{sorted(errors)[len(errors) // 2]:.1f}%, worst {worst['error_pct']}% ({worst['model']} seq {worst['seq']} dp {worst['dp']} tp "
          f"{worst['tp']} pp {worst['pp']} zero {worst['zero_stage']}); {right} of {apart} pairs in the right order")


def main(arguments):
    if len(arguments) < 2 or any("=" not in a for a in arguments[1:]):
        raise BadInput("two words and more are needed: accuracy_join.py OUT.csv PLACE=PREFIX...")
    joined = []
    for place, prefix in (argument.split("=", 1) for argument in arguments[1:]):
        rows = join(place, prefix)
        if rows:
            report(place, rows)
        joined += rows
    if not joined:
        print("accuracy_join: no configuration has both a prediction and a measurement", file=sys.stderr)
        return 1
    os.makedirs(os.path.dirname(arguments[0]) or ".", exist_ok=True)
    with open(arguments[0], "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=["place", *KEYS, "rounds", "measured_ms", "measured_half_width_ms", "predicted_ms", "error_pct"],
                                lineterminator="\n")
        writer.writeheader()
        writer.writerows(joined)
    print(f"{len(joined)} rows in {arguments[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
