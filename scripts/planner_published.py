#!/usr/bin/env python3
"""Sets each published configuration beside the planner's best for the same model, devices, batch and software stack.

  python3 scripts/planner_published.py [--binary build/bin/shardbench] [--out results/planner]

The planner has the knobs that the software of the run had (KNOBS below). published.csv has a row a configuration: the cut that
was run, its predicted step, the planner's best, its predicted step, and the reason for a difference from the two budgets.
"""
import json
import os
import subprocess
import sys
import tempfile

from accuracy import split_of, write
from published_steps import ROOT, model_file, simulate
from tool import BadInput, Parser, read_table, run

KNOBS = {  # what runs of each stack could choose; schedules of later years are left out everywhere
    "megatron-unfused": "schedule=1f1b|interleaved,tp-overlap=none,zero=0,cp=1",
    "te-2024-fp8": "schedule=1f1b|interleaved,tp-overlap=none,zero=0|1",
    **{stack: "schedule=1f1b|interleaved,tp-overlap=none,zero=0|1|3"
       for stack in ("te-2025", "te-2025-fp8")},
}
SOURCES = ("sc21", "korthikanti22", "megatron-h100", "megatron-bridge-25.09", "nemo-24.07")
# Best cuts that a public planner (Python, exhaustive) reports for itself, with its step times in ms.
PEERS = [
    {"source": "public planner", "name": "GPT-3 175B on 4096, batch 1536", "model": "gpt:96:12288:49152:96:51200",
     "tp": "8", "pp": "16", "vpp": "6", "dp": "32", "global_batch": "1536", "recompute": "none", "measured_ms": "5110",
     "zero": "0"},
    {"source": "public planner", "name": "Megatron-1T on 3072, batch 3072", "model": "gpt:128:25600:102400:160:51200",
     "tp": "4", "pp": "32", "vpp": "4", "dp": "24", "global_batch": "3072", "recompute": "selective",
     "measured_ms": "58680", "zero": "1"},
]
for peer in PEERS:
    peer.update(system="a100-80gb-sxm", seq="2048", cp="1", micro_batch="1", sequence_parallel="yes", precision="bf16",
                schedule="interleaved", gradient_dtype="fp32", ep="1", note="")
PEER_STACKS = {"megatron-unfused": "schedule=1f1b|interleaved,tp-overlap=none,cp=1", "ours": "cp=1"}

PARTS = [("bubble_ms", "pipeline bubble"), ("exposed_tp_ms", "tp communication waited for"),
         ("exposed_cp_ms", "cp communication waited for"), ("exposed_dp_ms", "dp communication waited for"),
         ("exposed_pp_ms", "pp communication waited for"), ("exposed_ep_ms", "ep communication waited for"),
         ("optimizer_ms", "optimizer")]


def plan(binary, folder, row, stack, knobs):
    devices = 1
    for axis in ("tp", "pp", "dp", "cp"):
        devices *= int(row[axis])
    command = [binary, "plan", "--json", "--top", "1", "--model", model_file(folder, row["model"]), "--system", row["system"],
               "--stack", stack, "--gpus", str(devices), "--global-batch", row["global_batch"], "--seq", row["seq"],
               "--precision", row["precision"], "--fix", knobs]
    command += ["--gradient-dtype", row["gradient_dtype"]]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if not done.stdout.strip() or done.returncode == 2:
        sys.exit(f"{row['name']}: {done.stderr.strip()}")
    answers = json.loads(done.stdout)
    return (answers[0] if answers else None), devices


def cut_text(answer):
    parts = [f"{axis} {answer[axis]}" for axis in ("tp", "pp", "vpp", "dp", "cp") if answer[axis] > 1 or axis == "dp"]
    parts.append(f"mb {answer['micro_batch']}")
    if answer["schedule"] not in ("1f1b", "interleaved"):
        parts.append(answer["schedule"])
    if answer["zero_stage"]:
        parts.append(f"zero {answer['zero_stage']}")
    if answer["sequence_parallel"]:
        parts.append("sp")
    if answer["tp_overlap"] != "none":
        parts.append("tp overlap")
    if answer["recompute"] != "none":
        parts.append(f"recompute {answer['recompute']}")
    return ", ".join(parts)


def budget(answer):
    parts = {words: answer[key] or 0 for key, words in PARTS}
    model = answer["model_tflops_per_rank"] / answer["hardware_tflops_per_rank"] if answer["hardware_tflops_per_rank"] else 1
    products = answer["compute_ms"] - parts["optimizer"]
    parts["recomputation"] = products * (1 - model)
    parts["layers"] = products * model
    parts["other idle time"] = answer["step_ms_p50"] - sum(parts.values())
    return parts


def reason(published, best):
    """What the planner's best spends less on, largest first, and what it spends more on."""
    gain = published["step_ms_p50"] - best["step_ms_p50"]
    if abs(gain) < 0.0005 * published["step_ms_p50"]:
        return "the same or as fast"
    before, after = budget(published), budget(best)
    change = sorted(((before[k] - after[k], k) for k in before), reverse=True)
    least = 0.1 * abs(gain)
    less = [f"{ms:.0f} ms less {words}" for ms, words in change if ms > least][:3]
    more = [f"{-ms:.0f} ms more {words}" for ms, words in reversed(change) if -ms > least][:2]
    text = ", ".join(less + more)
    gb = [answer["memory_peak_bytes"] / 1e9 for answer in (published, best)]
    text += f"; {gb[1]:.0f} GB instead of {gb[0]:.0f}"
    if published["outcome"] != "passed":
        text += "; the published cut is over the memory by our count"
    return text


def compared(binary, folder, row, stack, knobs):
    published, complaint = simulate(binary, folder, row, stack)
    if published is None:
        sys.exit(f"{row['name']}: {complaint}")
    best, devices = plan(binary, folder, row, stack, knobs)
    out = {"source": row["source"], "name": row["name"], "devices": devices, "global_batch": row["global_batch"], "stack": stack,
           "reported_ms": row["measured_ms"], "published_cut": cut_text(published),
           "published_predicted_ms": f"{published['step_ms_p50']:.1f}"}
    if best is None:
        return {**out, "best_cut": "", "best_ms": "", "published_over_best_pct": "", "why": "nothing fits by our count"}
    over = 100 * (published["step_ms_p50"] / best["step_ms_p50"] - 1)
    out.update(best_cut=cut_text(best), best_ms=f"{best['step_ms_p50']:.1f}", published_over_best_pct=f"{over:.1f}",
               why=reason(published, best))
    print(f"{row['name']:<36}{stack:<18}{out['published_predicted_ms']:>10}{out['best_ms']:>10}{over:>7.1f}%  {out['best_cut']}",
          flush=True)
    return out


def main(words):
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=os.path.join(ROOT, "build/bin/shardbench"))
    parser.add_argument("--rows", default=os.path.join(ROOT, "tests/data/published/step_times.csv"))
    parser.add_argument("--out", default=os.path.join(ROOT, "results/planner"))
    parser.add_argument("--source", help="rows of this source alone; nothing is written")
    arguments = parser.parse_args(words)
    binary = os.path.abspath(arguments.binary)
    if not os.access(binary, os.X_OK) or os.path.isdir(binary):
        raise BadInput(f"--binary: {arguments.binary} is no program (scripts/build.sh makes one)")
    if arguments.source not in (None, "public planner", *SOURCES):
        raise BadInput(f"--source: '{arguments.source}' is not one of {', '.join(SOURCES)}, public planner")
    rows = [r for r in read_table(arguments.rows, ("source", "note", "stack"), "a table of published steps")
            if r["source"] in SOURCES and r["note"] != "layer" and split_of(r) in ("fitted", "left out") and arguments.source in (None, r["source"])]
    out = []
    with tempfile.TemporaryDirectory() as folder:
        for row in rows:
            out.append(compared(binary, folder, row, row["stack"], KNOBS[row["stack"]]))
        for row in PEERS if arguments.source in (None, "public planner") else []:
            for stack, knobs in PEER_STACKS.items():
                out.append(compared(binary, folder, {**row, "stack": stack}, stack, knobs))
    if not arguments.source:
        os.makedirs(arguments.out, exist_ok=True)
        write(os.path.join(arguments.out, "published.csv"), out)
    near = [r for r in out if r["best_ms"] and float(r["published_over_best_pct"]) <= 5]
    print(f"{len(near)} of {len(out)} published cuts within 5% of the planner's best")
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
