"""What a report page shows: rows of summary CSVs, what they share and differ in, their operations, and the best."""
import collections
import json
import os
import re
import shlex

from tool import BadInput, read_table

AXES = ("tp", "pp", "dp", "cp", "ep")
# What tells configurations apart, with the words of a label; the degrees of the cut come before.
DIFFERENCES = (("model", ""), ("phase", ""), ("source", ""), ("system", ""), ("software_stack", ""), ("device", ""), ("precision", ""),
               ("layers", "layers"), ("seq", "seq"), ("context", "context"), ("image_size", "image"), ("global_batch", "batch"),
               ("micro_batch", "mb"), ("vpp", "vpp"), ("schedule", ""), ("etp", "etp"), ("cp_method", ""), ("zero_stage", "zero"),
               ("shard_ranks", "shards over"), ("sequence_parallel", "sp"), ("tp_overlap", "tp overlap"), ("tp_sync_fraction", "sync"),
               ("recompute", "recompute"), ("recompute_layers", "recompute layers"), ("strategy", ""), ("scope", "scope"),
               ("gradient_dtype", "gradients"), ("zero_keep", "keep"), ("dropout", "dropout"), ("clip_grad", "clip"), ("mtp", "mtp"),
               ("tp_overlap_chunks", "chunks"), ("bucket_mb", "bucket"), ("classes", "classes"), ("routing", ""), ("router_skew", "skew"),
               ("capacity", "capacity"), ("seed", "seed"), ("attention", ""), ("nccl_algo", ""), ("nccl_proto", ""),
               ("nccl_channels", "channels"), ("share_gpu", "shared GPU"), ("cuda_graph", "graph"))
TEXT = {"schema_version", "run_id", "source", "outcome", "reason", "command", "model", "precision", "cp_method", "tp_overlap",
        "schedule", "recompute", "strategy", "rank_order", "scope", "phase", "gradient_dtype", "attention_kernel", "device", "comm_backend",
        "comm_options", "system", "software_stack", "host", "versions", "git_commit", "time_utc", "peak_source", "flops_convention",
        "zero_keep", "run_command", "megatron_flags", "torchtitan_flags", "routing", "attention", "nccl_algo", "nccl_proto", "pareto",
        "sequence_parallel", "throttled", "share_gpu", "cuda_graph", "verify_collectives"}
NEEDED = ("source", "outcome", "reason", "command", "model", "ranks", "tp", "pp", "dp", "step_ms_p50")
MEMORY = (("parameters", "parameter_bytes"), ("gradients", "gradient_bytes"), ("optimizer", "optimizer_bytes"),
          ("activations", "activation_bytes"), ("temporaries", "temporary_bytes"), ("buffers", "buffer_bytes"),
          ("reserved", "reserved_bytes"))
SCHEDULE_WORDS = {"1f1b": "1F1B", "one_f_one_b": "1F1B"}

Group = collections.namedtuple("Group", "model phase rows")


def read_rows(paths):
    """(rows, ops by run_id) of summary CSVs and of the _ops.csv beside each. Cells are numbers, words or None."""
    rows, ops = [], collections.defaultdict(list)
    for path in paths:
        for cells in read_table(path, NEEDED):
            row = {name: value_of(name, text) for name, text in cells.items()}
            row["file"] = os.path.basename(path)
            rows.append(row)
        beside = path.removesuffix(".csv") + "_ops.csv"
        if os.path.exists(beside):
            for cells in read_table(beside, ("run_id", "label", "kind"), "the operations of a summary CSV"):
                ops[cells["run_id"]].append({name: value_of(name, text) for name, text in cells.items()})
    if not rows:
        raise BadInput(f"{paths[0]}: a header but no rows")
    return rows, ops


def value_of(name, text):
    if not text:
        return None
    if name in TEXT:
        return text
    try:
        value = float(text)
    except ValueError:
        return text
    return value if value - value == 0 else None


def groups_of(rows):
    """Rows of one model and phase together: others do not compare. The largest group first."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[(row.get("model") or "", row.get("phase") or "train")].append(row)
    return [Group(model, phase, held) for (model, phase), held in sorted(groups.items(), key=lambda item: -len(item[1]))]


def passed(rows):
    """Those that have a step time, fastest first."""
    return sorted((row for row in rows if row["outcome"] == "passed" and row.get("step_ms_p50")), key=lambda row: row["step_ms_p50"])


def model_name(model):
    return os.path.basename(model or "").removesuffix(".json") or "a model"


def is_off(name, value):
    return value in (None, "", "none", "false", "auto") or (name in ("zero_stage", "dropout", "mtp", "clip_grad") and value == 0) or (
        name in ("vpp", "etp", "tp_sync_fraction") and value == 1)


def words(name, value):
    """ "zero 1", "sp", "recompute full": a knob as people say it."""
    word = dict(DIFFERENCES).get(name, name)
    if isinstance(value, float):
        value = f"{value:g}" if abs(value) < 1e6 else f"{value:,.0f}"
    if value == "true":
        return word or name
    if name in ("model", "strategy"):
        value = model_name(value).removesuffix(".yaml")
    if name == "schedule":
        value = SCHEDULE_WORDS.get(value, value)
    if name == "tp_overlap":
        return "tp overlap"
    return f"{word} {value}".strip()


def cut_words(row, names=AXES):
    return " · ".join(f"{axis} {row[axis]:g}" for axis in names if (row.get(axis) or 1) > 1)


def full_cut(row):
    """The whole cut of a row, for headings."""
    parts = [cut_words(row) or "one rank"]
    pipelined = (row.get("pp") or 1) > 1
    for name in ("zero_stage", "vpp", "schedule", "sequence_parallel", "tp_overlap", "recompute", "cp_method", "strategy"):
        value = row.get(name)
        hidden = is_off(name, value) or (name in ("schedule", "vpp") and not pipelined) or (
            name == "schedule" and value in ("1f1b", "interleaved"))
        if not hidden:
            parts.append(words(name, value))
    parts.append(f"micro-batch {row['micro_batch']:g}" if row.get("micro_batch") else "")
    return " · ".join(part for part in parts if part)


# Empty where another knob is off, which says it already.
FOLLOWING = {"cp_method", "tp_overlap_chunks", "zero_keep", "routing", "router_skew", "capacity"}


def varying(rows):
    """Columns of the configuration that differ between rows."""
    out = []
    for name, _ in DIFFERENCES:
        values = {row.get(name) for row in rows} - ({None} if name in FOLLOWING else set())
        if name == "shard_ranks":  # the whole data-parallel group, unless something else was asked for
            values = {row.get(name) if row.get(name) not in (row.get("dp"), None) else None for row in rows}
        if len(values) > 1:
            out.append(name)
    return out


def give_labels(rows):
    """A short label for each: the degrees that differ between rows, then whatever else does."""
    degrees = [axis for axis in AXES if len({row.get(axis) or 1 for row in rows}) > 1]
    others = varying(rows)
    for row in rows:
        parts = [cut_words(row, degrees or AXES)]
        for name in others:
            value = row.get(name)
            if is_off(name, value) or (name == "shard_ranks" and value == row.get("dp")) or (name in ("schedule", "vpp") and (row.get("pp") or 1) == 1):
                continue
            if name == "schedule" and (row.get("vpp") or 1) > 1 and value == "interleaved":
                continue
            parts.append(words(name, value))
        row["label"] = " · ".join(part for part in parts if part) or "one rank"


def shared_words(rows):
    """What all rows have in common, for the heading."""
    first = rows[0]
    same = lambda name: first.get(name) is not None and len({row.get(name) for row in rows}) == 1  # noqa: E731
    out = []
    for name, text in (("layers", "{:g} layers"), ("seq", "sequence {:,.0f}"), ("image_size", "images of {:g} pixels"),
                       ("global_batch", "global batch {:,.0f}"), ("micro_batch", "micro-batch {:g}"), ("precision", "{}")):
        if same(name):
            out.append(text.format(first[name]))
    if same("software_stack"):
        out.append(f"stack {first['software_stack']}")
    if same("recompute") and first.get("recompute"):
        out.append("no recomputation" if first["recompute"] == "none" else f"{first['recompute']} recomputation")
    for name in ("zero_stage", "sequence_parallel", "tp_overlap", "strategy"):
        if same(name) and not is_off(name, first[name]):
            out.append(words(name, first[name]))
    fixed = [axis for axis in AXES if same(axis) and first[axis] > 1]
    if fixed and len(rows) > 1:
        out.append(cut_words(first, fixed))
    return out


def time_parts(row):
    """[(key, words, ms)] that add up to the step as broken down; None where it was not."""
    if row.get("compute_ms") is None or row.get("idle_ms") is None:
        return None
    parts = [("compute", "compute", row["compute_ms"])]
    for axis in AXES:
        value = row.get(f"exposed_{axis}_ms")
        if value:
            parts.append((axis, f"waiting for {axis} communication", value))
    if len(parts) == 1 and row.get("exposed_comm_ms"):
        parts.append(("tp", "waiting for communication", row["exposed_comm_ms"]))
    bubble = row.get("bubble_ms") or 0.0
    parts.append(("bubble", "pipeline bubble", bubble))
    parts.append(("idle", "other idle time", max(0.0, row["idle_ms"] - bubble)))
    return [part for part in parts if part[2] > 0]


def memory_parts(row):
    """[(key, bytes)] of the peak; what is not accounted for by kind comes last."""
    parts = [(name, row.get(column) or 0.0) for name, column in MEMORY]
    if not any(size for _, size in parts):
        return []
    rest = (row.get("memory_peak_bytes") or 0.0) - sum(size for _, size in parts)
    if rest > 0.002 * (row.get("memory_peak_bytes") or 1):
        parts.append(("other", rest))
    return [part for part in parts if part[1] > 0]


def configuration(row):
    """Equal for rows of one configuration, wherever its times come from."""
    place = ("source", "system", "software_stack", "device", "seed")
    return tuple(row.get(name) for name, _ in DIFFERENCES if name not in place) + tuple(row.get(axis) or 1 for axis in AXES)


def predicted_pairs(rows):
    """(row, predicted ms, measured ms): rows that hold both, then measured rows with a predicted one beside them."""
    pairs = [(row, row["predicted_step_ms"], row["step_ms_p50"]) for row in passed(rows)
             if row["source"] in ("measured", "external") and row.get("predicted_step_ms")]
    told = {configuration(row): row["step_ms_p50"] for row in passed(rows) if row["source"] in ("simulated", "planned", "replayed")}
    known = {id(row) for row, _, _ in pairs}
    for row in passed(rows):
        if row["source"] in ("measured", "external") and id(row) not in known and configuration(row) in told:
            pairs.append((row, told[configuration(row)], row["step_ms_p50"]))
    return pairs


def best_by_devices(rows):
    """{devices: its fastest row}, ascending."""
    best = {}
    for row in passed(rows):
        best.setdefault(row["ranks"], row)
    return dict(sorted(best.items()))


def front_of(rows):
    """Rows that no other beats in both time and memory, fastest first."""
    front, least = [], float("inf")
    for row in passed(rows):
        memory = row.get("memory_peak_bytes")
        if memory and memory < least:
            front.append(row)
            least = memory
    return front


def trust_words(row):
    """How far such numbers may be trusted, in words."""
    source = row.get("source")
    if source == "measured":
        spread = row.get("step_cv_pct")
        text = f"Measured on {row.get('device') or 'this machine'}"
        text += f", {row['iterations']:g} steps" if row.get("iterations") else ""
        text += f" that vary by {spread:.1f}%." if spread is not None else "."
        if (row.get("ranks_per_core") or 0) > 1:
            text += " Ranks shared cores: these times show how a cut behaves, not how fast a machine is."
        return text
    if source == "external":
        return "Read from the log of another program."
    if source == "counted":
        return "Counted: FLOPs, bytes and memory, no time."
    kind = "mixtures of experts" if row.get("routing") or (row.get("ep") or 1) > 1 else "dense models"
    where = f"{kind} in {row.get('precision')} on stack {row.get('software_stack')}"
    band = row.get("error_band_pct")
    if band is None:
        return f"Predicted, not measured. Predictions for {where} were never scored against published runs; take them as a guide to order, not as a promise."
    return f"Predicted, not measured. On published runs, predictions for {where} were off by {band:.0f}% on average."


def reasons(rows):
    """[(outcome, kind of reason, count, an example)]: one for reasons of the same words, whatever their numbers."""
    kinds = {}
    for row in rows:
        if row["outcome"] == "passed":
            continue
        reason = row.get("reason") or "no reason given"
        key = (row["outcome"], re.sub(r"[\d.,]+", "#", reason)[:90])
        kinds.setdefault(key, [0, reason])[0] += 1
    return [(outcome, example, count) for (outcome, _), (count, example) in sorted(kinds.items(), key=lambda item: -item[1][0])]


def command_words(row):
    """The words of the command that reproduces a row."""
    try:
        return shlex.split(row.get("command") or "")
    except ValueError:
        return []


def read_facts(path):
    try:
        with open(path, encoding="utf-8") as file:
            facts = json.load(file)
    except (ValueError, UnicodeDecodeError) as error:
        raise BadInput(f"--facts: {path} is no JSON ({error})") from error
    if not isinstance(facts, dict):
        raise BadInput(f"--facts: {path} holds no object")
    return facts
