"""Reads a summary CSV for plotting: which rows can be shown, how they are called, and what the caption must say."""
import collections
import os
import re

from report_data import AXES, give_labels, shared_words, value_of, varying
from tool import BadInput, finite, read_table

# Okabe and Ito's palette, told apart with any colour vision, plus greys for idle time.
COLOURS = {"compute": "#0072B2", "tp": "#D55E00", "cp": "#009E73", "dp": "#E69F00", "pp": "#CC79A7", "ep": "#56B4E9",
           "comm": "#D55E00", "bubble": "#8C8C8C", "idle": "#D9D9D9"}
TEXT_COLUMNS = ("source", "outcome", "reason", "model", "precision", "cp_method", "tp_overlap", "schedule", "recompute",
                "strategy", "scope", "phase", "device", "host", "system", "sequence_parallel", "comm_backend",
                "software_stack", "attention_kernel", "command", "run_id", "gradient_dtype", "zero_keep", "routing", "attention",
                "nccl_algo", "nccl_proto", "share_gpu", "cuda_graph", "verify_collectives")
REQUIRED = ("outcome", "ranks", "dp", "tp", "pp", "step_ms_p50", "compute_ms", "exposed_comm_ms", "idle_ms",
            "tokens_per_s", "memory_peak_bytes")
# `name` tells the sweeps of one file apart; empty where there is one.
Sweep = collections.namedtuple("Sweep", "path rows caption name", defaults=("",))


def read_sweeps(path, top):
    """A sweep for each model and phase of the file, since their rates and times do not compare: the `top` fastest rows
    that passed, each with a `label`, and a caption that accounts for all the others of that model and phase."""
    groups = collections.defaultdict(list)
    rows = [convert(path, line, row) for line, row in enumerate(read_cells(path), start=2)]
    for row in rows:
        groups[(row.get("model") or "", row.get("phase") or "train")].append(row)
    sweeps = []
    for (model, phase), group in groups.items():
        sweep = sweep_of(path, group, top)
        if sweep:
            sweeps.append(sweep._replace(name=f"{model_name(model)}_{phase}" if len(groups) > 1 else ""))
    if not sweeps:
        raise BadInput(f"{path}: none of the {len(rows)} rows passed and has a step time: nothing to plot")
    return sweeps


def model_name(model):
    """Of a preset, or of the file that a path names."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", os.path.basename(model).removesuffix(".json")) or "model"


def sweep_of(path, rows, top):
    passed = [row for row in rows if row["outcome"] == "passed" and row["step_ms_p50"]]
    if not passed:
        return None
    passed.sort(key=lambda row: row["step_ms_p50"])
    shown = passed[:top]
    give_labels(shown)
    return Sweep(path, shown, caption(rows, passed, shown, varying(shown)))


def takes_images(row):
    return bool(row.get("image_size"))


def rate(row):
    """(tokens a second, "tokens/s"), or the same of images; None where it was not measured."""
    return (row.get("samples_per_s"), "images/s") if takes_images(row) else (row["tokens_per_s"], "tokens/s")


def read_cells(path):
    rows = read_table(path, REQUIRED)
    if not rows:
        raise BadInput(f"{path}: a header but no rows")
    return rows


def convert(path, line, row):
    """Numbers as floats (empty stays None: not measured), text as it is."""
    numeric = set(REQUIRED) | {name for name in row if name.endswith(("_ms", "_bytes", "_stage", "_fraction"))}
    numeric |= {"mfu_pct", "cp", "ep", "etp", "vpp", "layers", "seq", "micro_batch", "global_batch", "ranks_per_core", "image_size", "samples_per_s"}
    result = dict(row)
    for name in row.keys() - set(TEXT_COLUMNS):
        result[name] = finite(path, line, name, row[name]) if name in numeric else value_of(name, row[name])
    return result


def caption(rows, passed, shown, differing):
    """Lines under each plot: model, machine, and what became of the rows that are not in it."""
    first = shown[0]
    what = [text for text in (model_name(first.get("model") or ""), first.get("phase")) if text] + shared_words(shown)
    if "source" not in differing and first.get("source"):
        what.append(first["source"])
    crowded = max((row.get("ranks_per_core") or 0) for row in shown)
    places = (("host", "host"), ("device", "on"), ("system", "system"), ("comm_backend", "communication by"))
    where = [f"{word} {first[name]}" for name, word in places if first.get(name)]
    if crowded > 1:
        where.append(f"up to {crowded:g} ranks share a core: such times do not compare with others")
    counts = collections.Counter(row["outcome"] for row in rows)
    rest = [f"{count} {outcome}" for outcome, count in sorted(counts.items()) if outcome != "passed"]
    if len(passed) > len(shown):
        rest.append(f"{len(passed) - len(shown)} slower than those shown")
    untimed = counts["passed"] - len(passed)
    if untimed:
        rest.append(f"{untimed} passed without a step time")
    account = f"{len(shown)} of {len(rows)} rows shown" + (f"; not shown: {', '.join(rest)}" if rest else "")
    return [", ".join(what), ", ".join(where), account]


# By kind of memory, in the colours of times.
MEMORY_COLOURS = {"parameters": "#0072B2", "gradients": "#E69F00", "optimizer": "#009E73", "activations": "#CC79A7", "temporaries": "#D55E00",
                  "buffers": "#56B4E9", "reserved": "#B5B5B5", "other": "#D9D9D9"}


def family(row):
    """Which axes a configuration uses, e.g. 'dp + tp'."""
    return " + ".join(axis for axis in ("dp", "tp", "pp", "cp", "ep") if (row.get(axis) or 1) > 1) or "1 rank"
