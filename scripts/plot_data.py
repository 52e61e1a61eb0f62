"""Reads a summary CSV for plotting: which rows can be shown, how they are called, and what the caption must say."""
import collections
import os
import re

from tool import BadInput, finite, read_table

AXES = ("tp", "cp", "dp", "pp", "ep")

# Okabe and Ito's palette, told apart with any colour vision, plus greys for idle time.
COLOURS = {"compute": "#0072B2", "tp": "#D55E00", "cp": "#009E73", "dp": "#E69F00", "pp": "#CC79A7", "ep": "#56B4E9",
           "comm": "#D55E00", "bubble": "#8C8C8C", "idle": "#D9D9D9"}
TEXT_COLUMNS = ("source", "outcome", "reason", "model", "precision", "cp_method", "tp_overlap", "schedule", "recompute",
                "strategy", "scope", "phase", "device", "host", "system", "sequence_parallel", "comm_backend",
                "software_stack", "attention_kernel", "command", "run_id", "gradient_dtype", "zero_keep", "routing", "attention",
                "nccl_algo", "nccl_proto", "share_gpu", "cuda_graph", "verify_collectives")
REQUIRED = ("outcome", "ranks", "dp", "tp", "pp", "step_ms_p50", "compute_ms", "exposed_comm_ms", "idle_ms",
            "tokens_per_s", "memory_peak_bytes")
# What tells configurations apart, with the short name used in labels.
IDENTITY = (("source", ""), ("model", ""), ("precision", ""), ("layers", "layers"), ("seq", "seq"),
            ("micro_batch", "micro"), ("global_batch", "batch"), ("vpp", "vpp"), ("cp_method", ""), ("etp", "etp"),
            ("zero_stage", "zero"), ("sequence_parallel", "sp"), ("tp_sync_fraction", "sync"), ("tp_overlap", "overlap"),
            ("schedule", ""), ("recompute", "recompute"), ("strategy", ""), ("phase", ""), ("system", ""),
            ("software_stack", ""), ("device", ""), ("scope", "scope"), ("gradient_dtype", "gradients"), ("shard_ranks", "shards over"),
            ("zero_keep", "keep"), ("dropout", "dropout"), ("clip_grad", "clip"), ("mtp", "mtp"), ("mtp_weight", "mtp weight"),
            ("recompute_layers", "recompute layers"), ("tp_overlap_chunks", "chunks"), ("bucket_mb", "bucket"),
            ("context", "context"), ("image_size", "image"), ("classes", "classes"), ("routing", ""), ("router_skew", "skew"),
            ("capacity", "capacity"), ("seed", "seed"), ("attention", ""), ("nccl_algo", ""), ("nccl_proto", ""),
            ("nccl_channels", "channels"), ("share_gpu", "shared GPU"), ("cuda_graph", "graph"),
            ("verify_collectives", "verified"))


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
    varying = [name for name, _ in IDENTITY if len({row.get(name) for row in shown}) > 1]
    for row in shown:
        row["label"] = label(row, varying)
    return Sweep(path, shown, caption(rows, passed, shown, varying))


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
    numeric |= {"cp", "ep", "etp", "vpp", "layers", "seq", "micro_batch", "global_batch", "ranks_per_core", "image_size", "samples_per_s"}
    result = dict(row)
    for name in numeric & row.keys() - set(TEXT_COLUMNS):
        result[name] = finite(path, line, name, row[name])
    return result


def label(row, varying):
    """The cut, then whatever else differs between the rows shown."""
    parts = [f"{axis}{row[axis]:g}" for axis in ("dp", "tp", "pp", "cp", "ep") if (row.get(axis) or 1) > 1]
    text = " ".join(parts) or "1 rank"
    names = dict(IDENTITY)
    extra = []
    for name in varying:
        value = row.get(name)
        without = value in (None, "", "none", "false") or (name == "zero_stage" and value == 0)
        if without or (name == "schedule" and (row.get("pp") or 1) == 1):
            continue
        shown = f"{value:g}" if isinstance(value, float) else "" if value == "true" else model_name(value) if name == "model" else value
        extra.append(f"{names[name]} {shown}".strip())
    return text + (f" ({', '.join(extra)})" if extra else "")


def caption(rows, passed, shown, varying):
    """Lines under each plot: model, machine, and what became of the rows that are not in it."""
    first = shown[0]
    facts = (("model", "{}"), ("phase", "{}"), ("layers", "{:g} layers"), ("seq", "sequence {:g}"), ("global_batch", "global batch {:g}"),
             ("micro_batch", "micro-batch {:g}"), ("precision", "{}"), ("source", "{}"))
    what = [text.format(first[name]) for name, text in facts if first.get(name) not in (None, "") and name not in varying]
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


def time_parts(row):
    """[(name, colour key, ms)] that add up to the instrumented step, or None where it was not broken down."""
    if row["compute_ms"] is None or row["idle_ms"] is None:
        return None
    parts = [("compute", "compute", row["compute_ms"])]
    exposed = [(axis, row.get(f"exposed_{axis}_ms")) for axis in AXES]
    if any(value is not None for _, value in exposed):
        parts += [(f"exposed communication, {axis}", axis, value or 0.0) for axis, value in exposed]
    else:
        parts.append(("exposed communication", "comm", row["exposed_comm_ms"] or 0.0))
    bubble = row.get("bubble_ms") or 0.0
    parts.append(("idle: pipeline bubble", "bubble", bubble))
    parts.append(("idle: other", "idle", max(0.0, row["idle_ms"] - bubble)))
    return parts


MEMORY_PARTS = (("parameters", "parameter_bytes", "#0072B2"), ("gradients", "gradient_bytes", "#E69F00"),
                ("optimizer", "optimizer_bytes", "#009E73"), ("activations", "activation_bytes", "#CC79A7"))


def family(row):
    """Which axes a configuration uses, e.g. 'dp + tp'."""
    return " + ".join(axis for axis in ("dp", "tp", "pp", "cp", "ep") if (row.get(axis) or 1) > 1) or "1 rank"
