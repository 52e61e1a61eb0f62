#!/usr/bin/env python3
"""Prints the rows of shardbench CSV files as a table, the fastest first: show.py FILE.csv..."""
import csv
import sys

COLUMNS = [  # heading, how the cell is made
    ("cut", lambda row: cut_text(row)),
    ("ranks", lambda row: row["ranks"]),
    ("outcome", lambda row: row["outcome"]),
    ("step ms", lambda row: number(row, "step_ms_p50", 1)),
    ("compute ms", lambda row: number(row, "compute_ms", 1)),
    ("exposed comm ms", lambda row: number(row, "exposed_comm_ms", 1)),
    ("idle ms", lambda row: number(row, "idle_ms", 1)),
    ("tokens/s", lambda row: number(row, "tokens_per_s", 0)),
    ("peak GB", lambda row: number(row, "memory_peak_bytes", 2, 1e-9)),
    ("max rel error", lambda row: scientific(row, "max_rel_error")),
]


class BadInput(Exception):
    """The user's input is wrong; the text is the one line to print."""


def cut_text(row):
    names = ["dp", "tp", "pp", "cp", "ep", "vpp"]
    parts = [f"{name} {row[name]}" for name in names if row.get(name) not in (None, "", "1")]
    if row.get("zero_stage") not in (None, "", "0"):
        parts.append(f"zero {row['zero_stage']}")
    if row.get("schedule") and row.get("pp") not in (None, "", "1"):
        parts.append(row["schedule"])
    return ", ".join(parts) or "one rank"


def number(row, name, digits, factor=1.0):
    text = row.get(name, "")
    return f"{float(text) * factor:,.{digits}f}" if text else "-"


def scientific(row, name):
    text = row.get(name, "")
    return f"{float(text):.1e}" if text else "-"


def read_rows(path):
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: cannot be read: {error}") from error
    if not rows:
        raise BadInput(f"{path}: no rows")
    for name in ("outcome", "reason", "ranks", "dp", "tp", "pp", "step_ms_p50"):
        if name not in rows[0]:
            raise BadInput(f"{path}: no column '{name}'; a summary CSV of shardbench is needed")
    return rows


def print_table(rows):
    table = [[heading for heading, _ in COLUMNS]] + [[cell(row) for _, cell in COLUMNS] for row in rows]
    widths = [max(len(line[i]) for line in table) for i in range(len(COLUMNS))]
    for line in table:
        cells = [text.ljust(width) if i == 0 else text.rjust(width) for i, (text, width) in enumerate(zip(line, widths))]
        print("  " + "  ".join(cells).rstrip())


def show(path):
    rows = read_rows(path)
    timed = [row for row in rows if row["outcome"] != "skipped"]
    timed.sort(key=lambda row: float(row["step_ms_p50"] or "inf"))
    first = rows[0]
    what = ", ".join(f"{label} {first[name]}" for label, name in
                     (("model", "model"), ("layers", "layers"), ("seq", "seq"), ("global batch", "global_batch"),
                      ("precision", "precision"), ("host", "host")) if first.get(name))
    print(f"\n{path}: {what}")
    if timed:
        print_table(timed)
    skipped = [row for row in rows if row["outcome"] == "skipped"]
    if skipped:
        print(f"  and {len(skipped)} skipped, e.g. {cut_text(skipped[0])}: {skipped[0]['reason']}")
    for row in timed:
        if row["outcome"] != "passed":
            print(f"  {row['outcome']}: {cut_text(row)}: {row['reason']}")


def main(paths):
    if not paths or paths[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if paths else 2
    try:
        for path in paths:
            show(path)
    except (BadInput, ValueError) as error:
        print(f"show.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
