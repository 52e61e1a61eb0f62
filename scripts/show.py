#!/usr/bin/env python3
"""Prints the rows of shardbench CSV files as a table, the fastest first: show.py FILE.csv..."""
import collections
import sys

from tool import BadInput, finite, read_table, run

COLUMNS = [  # heading, how the cell is made
    ("cut", lambda row: row["_cut"]),
    ("ranks", lambda row: row["ranks"]),
    ("outcome", lambda row: row["outcome"]),
    ("step ms", lambda row: number(row, "step_ms_p50", 1)),
    ("compute ms", lambda row: number(row, "compute_ms", 1)),
    ("exposed comm ms", lambda row: number(row, "exposed_comm_ms", 1)),
    ("idle ms", lambda row: number(row, "idle_ms", 1)),
    ("tokens/s", lambda row: number(row, "tokens_per_s", 0) if not takes_images(row) else "-"),
    ("images/s", lambda row: number(row, "samples_per_s", 2) if takes_images(row) else "-"),
    ("peak GB", lambda row: number(row, "memory_peak_bytes", 2, 1e-9)),
    ("max rel error", lambda row: scientific(row, "max_rel_error")),
]


# What a row may differ in beside its cut, times and places.
RESULTS = ("run_id", "outcome", "reason", "command", "ranks", "time_utc", "git_commit", "host", "versions", "clock_mhz", "power_w",
           "throttled", "padded_vocab", "microbatches", "iterations", "peak_source", "flops_convention", "pareto", "run_command",
           "megatron_flags", "torchtitan_flags", "device_count", "ranks_per_core", "peak_tflops", "attention_kernel",
           "training_days", "device_hours", "cost_usd", "schema_version")
ENDS = ("_ms", "_bytes", "_pct", "_s", "_rank", "_error", "_p50", "_p95", "_min")
CUT = ("dp", "tp", "pp", "cp", "ep", "vpp", "zero_stage", "schedule", "tp_overlap")
TELLING = ("model", "phase", "source")  # rows that differ in these measure different things


def is_result(name):
    return name in RESULTS or name.endswith(ENDS) or name.startswith(("payload_", "wire_", "exposed_", "comm_axis"))


def varying_columns(rows):
    """What tells rows of one file apart beside the cut: what is measured, wherever it differs, then what differs between
    rows of the same cut that measure the same."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[(cut_text(row | {"tp_overlap": ""}), *(row.get(name) for name in TELLING))].append(row)
    telling = [name for name in TELLING if len({row.get(name) for row in rows}) > 1]
    return telling + [name for name in rows[0] if name not in CUT + TELLING and not is_result(name)
                      and any(len({row[name] for row in group}) > 1 for group in groups.values())]


def cut_text(row, varying=()):
    names = ["dp", "tp", "pp", "cp", "ep", "vpp"]
    parts = [f"{name} {row[name]}" for name in names if row.get(name) not in (None, "", "1")]
    if row.get("zero_stage") not in (None, "", "0"):
        parts.append(f"zero {row['zero_stage']}")
    if row.get("schedule") and row.get("pp") not in (None, "", "1"):
        parts.append(row["schedule"])
    if row.get("tp_overlap") not in (None, "", "none"):
        parts.append(f"tp_overlap {row['tp_overlap']}")
    parts = parts or ["one rank"]
    told = [row[name] for name in varying if name in TELLING and row.get(name)]
    parts += [f"{name} {row[name]}" for name in varying if name not in TELLING and row.get(name)]
    return ", ".join(told + parts)


def takes_images(row):
    return row.get("image_size") not in (None, "", "0")


def number(row, name, digits, factor=1.0):
    value = finite(row["_path"], row["_line"], name, row.get(name))
    return "-" if value is None else f"{value * factor:,.{digits}f}"


def scientific(row, name):
    if row.get(name) in ("nan", "inf"):
        return row[name]  # of an incorrect row
    value = finite(row["_path"], row["_line"], name, row.get(name))
    return "-" if value is None else f"{value:.1e}"


def read_rows(path):
    rows = read_table(path, ("outcome", "reason", "ranks", "dp", "tp", "pp", "step_ms_p50"))
    if not rows:
        raise BadInput(f"{path}: a header but no rows")
    return rows


def print_table(rows):
    columns = [column for column in COLUMNS if not column[0].endswith("/s") or any(column[1](row) != "-" for row in rows)]
    table = [[name for name, _ in columns]] + [[cell(row) for _, cell in columns] for row in rows]
    widths = [max(len(line[i]) for line in table) for i in range(len(columns))]
    for line in table:
        cells = [text.ljust(width) if i == 0 else text.rjust(width) for i, (text, width) in enumerate(zip(line, widths))]
        print("  " + "  ".join(cells).rstrip())


def heading(rows):
    """What all rows share, and how many there are of what they do not."""
    parts = []
    for label, plural, name in (("model", "models", "model"), ("phase", "phases", "phase"), ("layers", "depths", "layers"),
                                ("seq", "sequences", "seq"), ("global batch", "global batches", "global_batch"),
                                ("precision", "precisions", "precision"), ("host", "hosts", "host")):
        values = {row[name]: None for row in rows if row.get(name)}  # in the order of the file
        if len(values) == 1 and next(iter(values)) != "train":
            parts.append(f"{label} {next(iter(values))}")
        elif len(values) > 1 and name in TELLING:
            parts.append(f"{len(values)} {plural} ({', '.join(values)})")
        elif len(values) > 1:
            parts.append(f"{len(values)} {plural}")
    return ", ".join(parts)


def show(path):
    rows = read_rows(path)
    varying = varying_columns(rows)
    for line, row in enumerate(rows, start=2):
        row |= {"_cut": cut_text(row, varying), "_path": path, "_line": line}
    timed = [row for row in rows if row["outcome"] != "skipped"]
    timed.sort(key=lambda row: finite(path, row["_line"], "step_ms_p50", row["step_ms_p50"]) or float("inf"))
    print(f"\n{path}: {heading(rows)}")
    if timed:
        print_table(timed)
    skipped = [row for row in rows if row["outcome"] == "skipped"]
    if skipped:
        print(f"  and {len(skipped)} skipped, e.g. {skipped[0]['_cut']}: {skipped[0]['reason']}")
    for row in timed:
        if row["outcome"] != "passed":
            print(f"  {row['outcome']}: {row['_cut']}: {row['reason']}")


def main(paths):
    if paths and paths[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    if not paths or any(path.startswith("-") for path in paths):
        wrong = [path for path in paths if path.startswith("-")]
        raise BadInput(f"{wrong[0] + ': unknown flag' if wrong else 'no file given'}; allowed: show.py FILE.csv...")
    for path in paths:
        show(path)
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
