"""Training logs: steps and settings as Megatron-LM, torchtitan, nanotron and DeepSpeed print them."""
import re

from import_kernels import median
from tool import BadInput

ANSI = re.compile(r"\x1b\[[0-9;]*m")
LETTERS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
LEAST_STEPS = 3  # of which the first is a warm-up
GIB = 1024.0**3


def summary(path, steps_ms):
    """Median, 95th percentile, least and spread of the steps behind the first, which warms up."""
    kept = steps_ms[1:] if len(steps_ms) >= LEAST_STEPS else steps_ms
    if not kept:
        raise BadInput(f"{path}: no step time in it")
    ordered = sorted(kept)
    mean = sum(kept) / len(kept)
    spread = (sum((value - mean) ** 2 for value in kept) / len(kept)) ** 0.5
    return {"step_ms_p50": median(kept), "step_ms_p95": ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))], "step_ms_min": ordered[0],
            "step_cv_pct": 100 * spread / mean, "iterations": len(kept)}


def entry(path, kind, flags, results, notes):
    return {"file": path, "kind": kind, "flags": {name: str(value) for name, value in flags.items() if value not in (None, "")},
            "results": results, "ops": [], "notes": notes}


def last(pattern, text, group=1):
    found = None
    for found in re.finditer(pattern, text):
        pass
    return found[group] if found else None


# Megatron-LM, and Megatron-DeepSpeed, which prints the same lines.
MEGATRON_STEP = re.compile(r"iteration\s+(\d+)/\s*\d+ \|(.*)")
MEGATRON_ARGUMENT = re.compile(r"^\s*(?:\[[^\]]*\]:?\s*)*([a-z0-9_]+) \.{3,}\s?(\S+)\s*$", re.MULTILINE)
MEGATRON_FLAGS = (("tp", "tensor_model_parallel_size"), ("pp", "pipeline_model_parallel_size"), ("cp", "context_parallel_size"),
                  ("ep", "expert_model_parallel_size"), ("micro-batch", "micro_batch_size"), ("seq", "seq_length"))


def read_megatron(path, text):
    steps, rates, batch, skipped = [], [], None, 0
    for found in MEGATRON_STEP.finditer(text):
        fields = dict(re.findall(r"([a-zA-Z ()/]+?):\s*([-+0-9.eE]+)", found[2].replace("|", "\n")))
        fields = {name.strip(): value for name, value in fields.items()}
        time = next((value for name, value in fields.items() if name.startswith("elapsed time per iteration")), None)
        if time is None:
            continue
        steps.append(float(time) * (1e3 if "elapsed time per iteration (s)" in fields else 1))
        batch = fields.get("global batch size", batch)
        rate = next((value for name, value in fields.items() if name.startswith("throughput per GPU")), None)
        rates += [float(rate)] if rate else []
        skipped = int(float(fields.get("number of skipped iterations", 0)))
    if not steps:
        return None
    arguments = dict(MEGATRON_ARGUMENT.findall(text))
    flags, notes = megatron_flags(text, arguments, batch), []
    results = summary(path, steps)
    if rates:
        results["model_tflops_per_rank"] = median(rates[1:] or rates)
    peak = last(r"max reserved: ([\d.]+)", text)
    if peak:
        results["memory_measured_bytes"] = float(peak) * 1024**2
    if skipped:
        notes.append(f"{skipped} iterations were skipped (loss scale)")
    if "CUDA_DEVICE_MAX_CONNECTIONS=1" in text and flags.get("tp", "1") == "1" and flags.get("dp", "1") != "1":
        notes.append("CUDA_DEVICE_MAX_CONNECTIONS=1 without tensor parallelism: gradients cannot be reduced beside compute")
    if rates:
        notes.append("Megatron-LM counts attention whole, and no recomputation")
    return entry(path, "Megatron-LM log", flags, results, notes)


def megatron_flags(text, arguments, batch):
    flags = {flag: arguments.get(name) for flag, name in MEGATRON_FLAGS}
    sizes = re.search(r"using world size: (\d+), data-parallel[- ]size: (\d+)(.*)", text)
    if sizes:
        flags["dp"] = sizes[2]
        for flag, word in (("tp", "tensor-model-parallel"), ("pp", "pipeline-model-parallel"), ("cp", "context-parallel")):
            found = re.search(word + r"[- ]size:? (\d+)", sizes[3])
            flags[flag] = found[1] if found else flags.get(flag)
    flags["global-batch"] = batch or arguments.get("global_batch_size")
    if arguments.get("num_layers"):
        flags["layers"] = arguments["num_layers"]
    if arguments.get("bf16") == "True":
        flags["precision"] = "bf16"
    if arguments.get("sequence_parallel") == "True":
        flags["sequence-parallel"] = "true"
    if arguments.get("use_distributed_optimizer") == "True":
        flags["zero"] = "1"
    if arguments.get("recompute_granularity") in ("full", "selective"):
        flags["recompute"] = arguments["recompute_granularity"]
    if arguments.get("virtual_pipeline_model_parallel_size", "None") not in ("None", "1"):
        flags["vpp"] = arguments["virtual_pipeline_model_parallel_size"]
    return {name: value for name, value in flags.items() if value not in (None, "", "None")}


# torchtitan.
TITAN_STEP = re.compile(r"step:\s*(\d+)\s+loss:\s*[-\d.naif]+.*?memory:\s*([\d.]+)GiB.*?(?:tps|wps):\s*([\d,]+)(?:\s+tflops:\s*([\d,.]+))?.*?mfu:\s*([\d.]+)%")
TITAN_SIZES = re.compile(r"local batch size (\d+), global batch size (\d+)(?:, gradient accumulation steps \d+)?, sequence length (\d+)")
TITAN_AXES = {"dp_shard": "dp", "dp_replicate": "dp", "dp": "dp", "tp": "tp", "pp": "pp", "cp": "cp"}


def read_torchtitan(path, text):
    seen = {}
    for found in TITAN_STEP.finditer(text):
        seen.setdefault(int(found[1]), found)  # every rank says its own; the first speaks
    if not seen:
        return None
    degrees, notes = titan_mesh(text)
    sizes = TITAN_SIZES.search(text)
    if not sizes:
        raise BadInput(f"{path}: torchtitan's line with batch and sequence is missing ('... local batch size 1, global batch size 8, "
                       "sequence length 8192'), without which a rate is no step time")
    local, batch, seq = (int(text) for text in sizes.groups())
    world = 1
    for ranks in degrees.values():
        world *= ranks
    steps, mfu, tflops, memory = [], [], [], 0.0
    for found in (seen[step] for step in sorted(seen)):
        steps.append(1e3 * batch * seq / (float(found[3].replace(",", "")) * world))
        mfu.append(float(found[5]))
        tflops += [float(found[4].replace(",", ""))] if found[4] else []
        memory = max(memory, float(found[2]) * GIB)
    results = summary(path, steps) | {"mfu_pct": median(mfu[1:] or mfu), "memory_measured_bytes": memory}
    if tflops:
        results["model_tflops_per_rank"] = median(tflops[1:] or tflops)
    peak = re.search(r"Peak FLOPS used for computing MFU: ([\d.e+]+)", text)
    if peak:
        results["peak_tflops"] = float(peak[1]) / 1e12
    notes.append("step times from tokens a second of each GPU; torchtitan counts attention whole")
    flags = degrees | {"global-batch": batch, "seq": seq, "micro-batch": local}
    if "Applied FSDP" in text or "dp_shard" in text:
        flags["zero"] = 3
    return entry(path, "torchtitan log", flags, results, notes)


def titan_mesh(text):
    found = re.search(r"Building \d+-D device mesh with [\[(]([^\])]*)[\])], \[([\d, ]+)\]", text)
    if not found:
        return {"dp": 1}, ["no device mesh in the log: one GPU"]
    degrees = {}
    for name, ranks in zip(re.findall(r"[a-z_]+", found[1]), found[2].split(",")):
        axis = TITAN_AXES.get(name, name)
        degrees[axis] = degrees.get(axis, 1) * int(ranks)
    return degrees, []


# nanotron.
NANOTRON_STEP = re.compile(r"\[INFO\|DP=(\d+)\|PP=(\d+)\|TP=(\d+)[^\]]*\]: iteration: (\d+) / \d+ \| (.*)")


def human(text):
    found = re.fullmatch(r"([-\d.e+]+)([KMGBT]?)", text.strip())
    return float(found[1]) * LETTERS[found[2]] if found else None


def read_nanotron(path, text):
    steps, batch, tokens, consumed, gpu_rates, rates, tflops = {}, None, None, {}, [], [], []
    for found in NANOTRON_STEP.finditer(text):
        fields = dict(part.split(": ", 1) for part in found[5].split(" | ") if ": " in part)
        step = int(found[4])
        if step in steps or "elapsed_time_per_iteration_ms" not in fields:
            continue  # the last pipeline stage of each replica may say it, too
        steps[step] = human(fields["elapsed_time_per_iteration_ms"])
        batch = human(fields.get("global_batch_size", "")) or batch
        rates.append(human(fields.get("tokens_per_sec", "")))
        gpu_rates.append(human(fields.get("tokens_per_sec_per_gpu", "")))
        tflops.append(human(fields.get("model_tflops_per_gpu", "")))
    if not steps:
        return None
    results, notes = summary(path, [steps[step] for step in sorted(steps)]), ["nanotron prints three digits: step times are that exact"]
    flags = nanotron_flags(text)
    if batch:
        flags["global-batch"] = f"{batch:.0f}"
    pairs = [(whole, gpu) for whole, gpu in zip(rates, gpu_rates) if whole and gpu]
    if pairs:
        results["ranks"] = round(median([whole / gpu for whole, gpu in pairs]))
        results["tokens_per_s"] = median([whole for whole, _ in pairs])
    if any(tflops):
        results["model_tflops_per_rank"] = median([value for value in tflops if value])
    return entry(path, "nanotron log", flags, results, notes)


def nanotron_flags(text):
    flags = {}
    for flag, name in (("dp", "dp"), ("tp", "tp"), ("pp", "pp"), ("ep", "expert_parallel_size")):
        found = re.search(rf"ParallelismArgs\((?:[^()]|\([^()]*\))*?\b{name}=(\d+)", text)
        if found:
            flags[flag] = found[1]
    for flag, name in (("seq", "sequence_length"), ("micro-batch", "micro_batch_size"), ("layers", "num_hidden_layers")):
        found = re.search(rf"\b{name}=(\d+)", text)
        if found:
            flags[flag] = found[1]
    return flags


# DeepSpeed.
DEEPSPEED_STEP = re.compile(r"(?:CurrSamplesPerSec|(?<![A-Za-z])SamplesPerSec)=([\d.]+)(?:,\s*MemAllocated=[\d.]+GB,\s*MaxMemAllocated=([\d.]+)GB)?")


def read_deepspeed(path, text):
    found = list(DEEPSPEED_STEP.finditer(text))
    if not found:
        return None
    batch = last(r'"?train_batch_size"?\s*(?::|\.{3,})\s*(\d+)', text)
    if not batch:
        raise BadInput(f"{path}: DeepSpeed's train_batch_size is not in the log, without which samples a second are no step time")
    results = summary(path, [1e3 * int(batch) / float(step[1]) for step in found])
    memory = max((float(step[2]) for step in found if step[2]), default=0)
    if memory:
        results["memory_measured_bytes"] = memory * GIB
    flags = {"global-batch": batch, "micro-batch": last(r'"?train_micro_batch_size_per_gpu"?\s*(?::|\.{3,}|\s)\s*(\d+)', text),
             "zero": last(r'"stage":\s*(\d)', text) or last(r"zero_optimization_stage \.+ (\d)", text), "dp": last(r"world_size \.+ (\d+)", text)}
    return entry(path, "DeepSpeed log", flags, results, ["step times from samples a second, of the reported steps"])


READERS = (read_megatron, read_torchtitan, read_nanotron, read_deepspeed)


def read_training_log(path, text):
    """The entry of the first reader that finds its steps; None where none does."""
    plain = ANSI.sub("", text)
    for reader in READERS:
        found = reader(path, plain)
        if found:
            return found
    return None
