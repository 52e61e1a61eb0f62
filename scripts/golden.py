#!/usr/bin/env python3
"""Keeps what the program answers over all axes and families, and says what a change made different.

  scripts/golden.py make DIR [--bin build/bin/shardbench] [--no-run]    one file a command, without what differs each time
  scripts/golden.py compare OLD NEW [--tolerance 1e-12]                 every value that is not the same; exit 1 when there is one

Commands: describe, simulate (rows and rows of operations), plan, schedule, strategies, and a sweep over 4 ranks with --check whose
counts and outcomes are kept. `--no-run` leaves the sweep out. Numbers are compared by their relative difference.
"""
import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile

STEPS = {  # name: flags of one configuration, counted and simulated
    "gpt2": "--model gpt2 --dp 2 --tp 2 --pp 2 --global-batch 8",
    "gpt2-gpipe": "--model gpt2 --pp 4 --schedule gpipe --global-batch 16 --dropout 0.1 --clip-grad 1",
    "gpt2-partial": "--model gpt2 --tp 4 --tp-sync-fraction 0.5 --global-batch 4",
    "gpt2-layer": "--model gpt2 --scope layer --tp 2 --global-batch 4",
    "gpt3": "--model gpt3-175b --tp 8 --pp 16 --dp 8 --vpp 6 --seq 2048 --global-batch 512 --precision bf16 --sequence-parallel --zero 1",
    "gpt3-full": "--model gpt3-175b --tp 8 --pp 8 --dp 4 --seq 2048 --global-batch 256 --precision bf16 --recompute full",
    "megatron-1t": "--model megatron-1t --tp 8 --pp 64 --dp 6 --seq 2048 --global-batch 3072 --precision bf16 --recompute full",
    "llama8b-zero3": "--model llama3.1-8b --dp 8 --zero 3 --global-batch 32 --seq 4096 --precision bf16 --recompute selective",
    "llama8b-zero2": "--model llama3.1-8b --dp 8 --zero 2 --global-batch 32 --seq 4096 --precision bf16",
    "llama8b-hsdp": "--model llama3.1-8b --dp 16 --zero 3 --shard-ranks 8 --zero-keep weights --global-batch 64 --precision bf16",
    "llama8b-overlap": "--model llama3.1-8b --tp 4 --tp-overlap chunked --sequence-parallel --global-batch 4 --precision bf16",
    "llama8b-grad16": "--model llama3.1-8b --dp 8 --global-batch 16 --precision bf16 --gradient-dtype bf16",
    "llama8b-ring": "--model llama3.1-8b --cp 4 --tp 2 --seq 32768 --global-batch 2 --precision bf16",
    "llama8b-gather": "--model llama3.1-8b --cp 4 --cp-method all-gather --seq 32768 --global-batch 2 --precision bf16",
    "llama8b-ulysses": "--model llama3.1-8b --cp 4 --cp-method ulysses --seq 32768 --global-batch 2 --precision bf16",
    "llama8b-prefill": "--model llama3.1-8b --phase prefill --tp 4 --seq 4096 --precision bf16",
    "llama8b-decode": "--model llama3.1-8b --phase decode --tp 4 --seq 4096 --micro-batch 16 --precision bf16",
    "llama8b-decode-pp": "--model llama3.1-8b --phase decode --pp 2 --tp 2 --context 4000 --seq 4096 --micro-batch 8 --precision bf16",
    "llama405b": "--model llama3.1-405b --tp 8 --pp 16 --dp 128 --seq 8192 --global-batch 2048 --precision bf16 --sequence-parallel --zero 1 --recompute full --recompute-layers 2",
    "llama70b-zbh1": "--model llama3.1-70b --tp 8 --pp 8 --dp 2 --schedule zb-h1 --global-batch 64 --precision bf16",
    "llama70b-zbv": "--model llama3.1-70b --tp 8 --pp 8 --dp 2 --schedule zb-v --global-batch 64 --precision bf16",
    "llama70b-dualpipe": "--model llama3.1-70b --tp 8 --pp 8 --dp 2 --schedule dualpipe --global-batch 64 --precision bf16 --zero 1",
    "llama70b-odd": "--model llama3.1-70b --tp 8 --pp 3 --dp 2 --global-batch 30 --precision bf16",
    "smollm": "--model smollm-360m --tp 5 --pp 2 --global-batch 4",
    "qwen3-4b": "--model qwen3-4b --tp 2 --dp 4 --zero 1 --global-batch 16 --precision bf16",
    "qwen2-7b": "--model qwen2-7b --tp 4 --global-batch 4 --precision bf16",
    "qwen3-moe": "--model qwen3-30b-a3b --ep 8 --dp 8 --zero 1 --global-batch 16 --seq 4096 --precision bf16",
    "qwen-moe": "--model qwen1.5-moe-a2.7b --ep 4 --dp 4 --global-batch 8 --precision bf16",
    "mixtral-etp": "--model mixtral-8x7b --tp 2 --ep 4 --etp 2 --dp 4 --global-batch 16 --precision bf16 --router-skew 1.5 --capacity 1.25",
    "mixtral-decode": "--model mixtral-8x7b --phase decode --tp 2 --dp 4 --ep 4 --seq 2048 --micro-batch 8 --precision bf16",
    "deepseek-v2-lite": "--model deepseek-v2-lite --tp 2 --dp 4 --ep 8 --global-batch 8 --precision bf16",
    "deepseek-v3": "--model deepseek-v3 --pp 16 --ep 64 --dp 128 --zero 1 --seq 4096 --global-batch 15360 --precision bf16 --mtp 1",
    "deepseek-v3-dualpipe": "--model deepseek-v3 --pp 16 --ep 64 --dp 128 --zero 1 --seq 4096 --global-batch 15360 --precision bf16 --schedule dualpipe",
    "gemma2": "--model gemma-2-9b --tp 4 --global-batch 4 --precision bf16",
    "gemma3": "--model gemma-3-27b --tp 8 --dp 2 --seq 8192 --global-batch 4 --precision bf16",
    "neox": "--model gpt-neox-20b --tp 8 --pp 2 --global-batch 8 --precision bf16",
    "falcon": "--model falcon-40b --tp 8 --global-batch 4 --precision bf16",
    "phi3": "--model phi-3-medium-14b --tp 2 --pp 4 --vpp 2 --global-batch 16 --precision bf16",
    "vit": "--model vit-22b --tp 8 --pp 4 --global-batch 64 --precision bf16",
    "vit-h": "--model vit-h --dp 8 --zero 2 --global-batch 64 --image-size 518",
    "yolo": "--model yolo26m --dp 8 --global-batch 64",
}
SIMULATED = {  # name: (system, stack) in place of the default
    "gpt3": ("a100-80gb-sxm", "megatron-unfused"), "gpt3-full": ("a100-80gb-sxm", "megatron-unfused"),
    "megatron-1t": ("a100-80gb-sxm", "megatron-unfused"), "llama405b": ("h100-sxm", "te-2025"),
    "deepseek-v3": ("h800", "te-2025-fp8"), "gpt2": ("pcie-box", "ours"), "llama8b-hsdp": ("aws-p5", "te-2025"),
    "llama8b-grad16": ("gb200-nvl72", "te-2025"), "llama70b-odd": ("aws-p4d", "megatron-deepspeed"),
    "qwen3-moe": ("b200", "te-2025-fp8"),
}
PLANS = {
    "plan-405b": "--model llama3.1-405b --system h100-sxm --gpus 1024 --global-batch 512 --seq 8192 --stack te-2025",
    "plan-gpt2xl": "--model gpt2-xl --system pcie-box --gpus 16 --global-batch 64 --seq 1024 --what-if --pareto",
    "plan-mixtral": "--model mixtral-8x7b --system h100-sxm --gpus 32 --global-batch 128 --seq 4096 --tokens 1T",
    "plan-fewest": "--model llama3.1-8b --system h100-sxm --objective gpus --tokens 100B --deadline 60d --global-batch 256 --seq 4096",
    "plan-serve": "--model llama3.1-70b --system h200-sxm --gpus 16 --seq 1000 --context 2000 --ttft 500ms --tpot 30ms",
    "plan-yolo": "--model yolo26s --system pcie-box --gpus 8 --global-batch 256",
}
SCHEDULES = {f"schedule-{name}": f"--schedule {name} --pp 4 --microbatches 8" + (" --vpp 2" if name == "interleaved" else "")
             for name in ("gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe")}
# Small models of each family, written where the sweeps run, so that all axes are executed in a minute.
SMALL = {
    "llama": {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 8,
              "num_key_value_heads": 4, "vocab_size": 250, "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "rope_theta": 1e4},
    "gpt2": {"model_type": "gpt2", "n_embd": 64, "n_layer": 4, "n_head": 4, "n_positions": 128, "vocab_size": 250},
    "mixtral": {"model_type": "mixtral", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 8,
                "num_key_value_heads": 4, "vocab_size": 250, "max_position_embeddings": 256, "num_local_experts": 4,
                "num_experts_per_tok": 2, "rms_norm_eps": 1e-5, "rope_theta": 1e4},
    "deepseek": {"model_type": "deepseek_v2", "hidden_size": 64, "intermediate_size": 128, "moe_intermediate_size": 32,
                 "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 250,
                 "max_position_embeddings": 256, "n_routed_experts": 8, "n_shared_experts": 2, "num_experts_per_tok": 2,
                 "first_k_dense_replace": 1, "kv_lora_rank": 32, "q_lora_rank": None, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
                 "v_head_dim": 16, "rms_norm_eps": 1e-6, "rope_theta": 1e4, "norm_topk_prob": False},
}
SWEEPS = {
    "check-axes": "--model gpt2.json --seq 32 --global-batch 8 --dp 1,2,4 --tp 1,2,4 --pp 1,2,4 --ranks 4",
    "check-schedules": "--model llama.json --seq 32 --global-batch 8 --pp 2 --dp 2 --schedule gpipe,1f1b,zb-h1,zb-v,dualpipe",
    "check-interleaved": "--model gpt2.json --seq 32 --global-batch 4 --pp 2 --vpp 2 --tp 2 --recompute none,selective,full",
    "check-zero": "--model llama.json --seq 32 --global-batch 8 --dp 4 --zero 0,1,2,3 --micro-batch 1,2",
    "check-hsdp": "--model llama.json --seq 32 --global-batch 8 --dp 4 --zero 3 --shard-ranks 2 --zero-keep none,weights,all",
    "check-context": "--model llama.json --seq 64 --global-batch 2 --cp 2,4 --cp-method ring,all-gather,ulysses",
    "check-sequence": "--model llama.json --seq 32 --global-batch 2 --tp 4 --sequence-parallel --tp-overlap none,chunked",
    "check-partial": "--model gpt2.json --seq 32 --global-batch 2 --tp 2 --tp-sync-fraction 0,0.5,1",
    "check-mixtral": "--model mixtral.json --seq 32 --global-batch 4 --dp 2 --tp 2 --ep 1,2,4 --etp 1,2 --routing learned",
    "check-deepseek": "--model deepseek.json --seq 32 --global-batch 4 --dp 4 --ep 1,2,4 --router-skew 0,2",
    "check-bf16": "--model llama.json --seq 32 --global-batch 4 --tp 2 --pp 2 --precision bf16 --gradient-dtype fp32,bf16",
    "check-decode": "--model llama.json --seq 32 --phase prefill,decode --tp 1,2 --pp 2",
}
UNSTABLE = re.compile(r"(^run_id|_?time_utc|^host|git_commit|versions|clock_mhz|power_w|ranks_per_core|_ms(_|$)|_ms$|_us$|tokens_per_s|"
                      r"samples_per_s|tflops|mfu_pct|hfu_pct|iterations|cv_pct|memory_measured|device$|comm_options|"
                      r"gb_per_s|prediction_error|max_rel_error|reason)")


def stable(row, measured):
    """A row without what each run has of its own; of measured rows also without times."""
    drop = UNSTABLE.search if measured else re.compile(r"^(run_id|time_utc|host|git_commit)$").match
    return {key: value for key, value in row.items() if not drop(key)}


def run(binary, words, folder):
    return subprocess.run([binary, *words], cwd=folder, capture_output=True, text=True, check=False)


def write(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)


def read_csv(path):
    if not os.path.exists(path):
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def make_steps(binary, out, folder):
    for name, flags in STEPS.items():
        done = run(binary, ["describe", *flags.split(), "--json"], folder)
        write(f"{out}/describe-{name}.json", {"code": done.returncode, "error": done.stderr, "answer": json.loads(done.stdout or "null")})
        system, stack = SIMULATED.get(name, ("h100-sxm", "ours"))
        rows = os.path.join(folder, f"{name}.csv")
        done = run(binary, ["simulate", *flags.split(), "--system", system, "--stack", stack, "--out", rows], folder)
        write(f"{out}/simulate-{name}.json", {
            "code": done.returncode, "text": done.stdout.splitlines(), "error": done.stderr.replace(folder, ""),
            "rows": [stable(row, False) for row in read_csv(rows)],
            "ops": [stable(row, False) for row in read_csv(rows.replace(".csv", "_ops.csv"))]})


def make_texts(binary, out, folder):
    for name, flags in PLANS.items():
        done = run(binary, ["plan", *flags.split()], folder)
        write(f"{out}/{name}.json", {"code": done.returncode, "text": done.stdout.splitlines(), "error": done.stderr})
    for name, flags in SCHEDULES.items():
        done = run(binary, ["schedule", *flags.split()], folder)
        write(f"{out}/{name}.json", {"code": done.returncode, "text": done.stdout.splitlines(), "error": done.stderr})
    for words in ("strategies", "models", "systems", "run --help", "sweep --help", "plan --help", "simulate --help", "describe --help"):
        done = run(binary, words.split(), folder)
        write(f"{out}/{words.replace(' --', '-')}.json", {"code": done.returncode, "text": done.stdout.splitlines()})


def make_sweeps(binary, out, folder):
    for name, config in SMALL.items():
        write(os.path.join(folder, f"{name}.json"), config)
    for name, flags in SWEEPS.items():
        rows = os.path.join(folder, f"{name}.csv")
        run(binary, ["sweep", *flags.split(), "--device", "cpu", "--check", "--warmup", "1", "--max-iterations", "3", "--out", rows], folder)
        write(f"{out}/{name}.json", {"rows": [stable(row, True) for row in read_csv(rows)],
                                     "ops": [stable(row, True) for row in read_csv(rows.replace(".csv", "_ops.csv"))]})


def make(options):
    binary = os.path.abspath(options.bin)
    os.makedirs(options.dir, exist_ok=True)
    out = os.path.abspath(options.dir)
    with tempfile.TemporaryDirectory() as folder:
        make_steps(binary, out, folder)
        make_texts(binary, out, folder)
        if not options.no_run:
            make_sweeps(binary, out, folder)
    print(f"{len(os.listdir(out))} files in {options.dir}")
    return 0


def number(value):
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def differences(old, new, where, tolerance):
    """Lines 'where: old -> new' for each leaf that differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            if key not in old or key not in new:
                yield f"{where}.{key}: {'gone' if key in old else 'new'} ({old.get(key, new.get(key))})"
            else:
                yield from differences(old[key], new[key], f"{where}.{key}", tolerance)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{where}: {len(old)} -> {len(new)} entries"
        for i, (a, b) in enumerate(zip(old, new)):
            yield from differences(a, b, f"{where}[{i}]", tolerance)
    elif old != new:
        a, b = number(old), number(new)
        if a is None or b is None or abs(a - b) > tolerance * max(abs(a), abs(b), 1e-9):
            yield f"{where}: {old} -> {new}"


def compare(options):
    found = 0
    for name in sorted({*os.listdir(options.old), *os.listdir(options.new)}):
        pair = [os.path.join(folder, name) for folder in (options.old, options.new)]
        if not all(os.path.exists(path) for path in pair):
            lines = [f"only in {options.old if os.path.exists(pair[0]) else options.new}"]
        else:
            values = []
            for path in pair:
                with open(path, encoding="utf-8") as file:
                    values.append(json.load(file))
            lines = list(differences(*values, "", options.tolerance))
        found += len(lines)
        for line in lines[: options.most]:
            print(f"{name}{line}")
        if len(lines) > options.most:
            print(f"{name}: {len(lines) - options.most} more")
    print(f"{found} differences")
    return 1 if found else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    maker = commands.add_parser("make")
    maker.add_argument("dir")
    maker.add_argument("--bin", default="build/bin/shardbench")
    maker.add_argument("--no-run", action="store_true")
    comparer = commands.add_parser("compare")
    comparer.add_argument("old")
    comparer.add_argument("new")
    comparer.add_argument("--tolerance", type=float, default=1e-12)
    comparer.add_argument("--most", type=int, default=12, help="lines a file")
    options = parser.parse_args()
    return make(options) if options.command == "make" else compare(options)


if __name__ == "__main__":
    sys.exit(main())
