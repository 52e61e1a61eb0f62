#!/usr/bin/env python3
"""Predicts every row of tests/data/published/step_times.csv and writes how far off each prediction is.

  python3 scripts/accuracy.py --binary build/bin/shardbench [--out results/accuracy] [--source NAME] [--stack FILE.yaml]

step_times.csv in the output folder has a row for each published one, summary.csv the errors of each source: rows used to fit,
rows left out, and both together. A row that lacks a field that decides its time is listed without a prediction. --source runs
one source only, --stack replaces its stack; then nothing is written.
"""
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile

from tool import BadInput, Parser, read_table, run

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FLAGS = ["seq", "tp", "pp", "vpp", "dp", "cp", "zero", "micro_batch", "global_batch", "recompute", "schedule", "precision"]
# Stacks that keep and reduce gradients in two bytes: bf16, or fp16 as Megatron does in fp16 runs unless told otherwise.
BF16_GRADIENTS = {"te-2024-fp8", "te-2025-fp8", "te-2025-fp8-b200", "megatron-deepspeed"}
NOT_SCORED = "lacks a field"


def model_file(folder, spec):
    """The --model argument of a row: a preset, or a file made from the sizes it prints."""
    if ":" not in spec:
        return spec
    kind, *sizes = spec.split(":")
    numbers = [int(s) for s in sizes]
    if kind == "gpt":
        names = ["num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "vocab_size"]
        config = dict(zip(names, numbers), seq_length=8192)
    else:
        names = ["num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads",
                 "vocab_size"]
        config = dict(zip(names, numbers), model_type="llama", hidden_act="silu", max_position_embeddings=8192,
                      rms_norm_eps=1e-5, tie_word_embeddings=False)
    path = os.path.join(folder, spec.replace(":", "-") + ".json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    return path


def simulate(binary, folder, row, stack):
    """The program's row, or None and its complaint."""
    command = [binary, "simulate", "--json", "--system", row["system"], "--stack", stack or row["stack"],
               "--model", model_file(folder, row["model"])]
    one_stage = int(row["pp"]) == 1
    for flag in FLAGS:
        if not (flag == "schedule" and one_stage):  # which has no schedule
            command += ["--" + flag.replace("_", "-"), row[flag]]
    if row["sequence_parallel"] == "yes" and int(row["tp"]) > 1:
        command.append("--sequence-parallel")
    if row["note"] == "layer":
        command += ["--scope", "layer"]
    if row["stack"] in BF16_GRADIENTS:
        command += ["--gradient-dtype", "bf16"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode == 2 or not done.stdout.strip():
        return None, done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no answer"
    return json.loads(done.stdout)[0], ""


def predict(binary, folder, row, stack):
    """Step time of a row in ms and a remark, or None and why there is none."""
    if row.get("split") == NOT_SCORED:
        return None, row["note"]
    answer, complaint = simulate(binary, folder, row, stack)
    if answer is None:
        return None, complaint
    step = answer["step_ms_p50"]
    # A published layer time has no optimizer and no reduction of gradients.
    if row["note"] == "layer":
        step -= answer["optimizer_ms"]
    return step, answer["reason"] or ""


def states_of(answer):
    return sum(answer[k] for k in ("parameter_bytes", "gradient_bytes", "optimizer_bytes")) / 2**30


def matrix_weights(binary, folder, row):
    """Weights of the blocks' matrices: what the published convention counts, no bias, norm or embedding."""
    command = [binary, "describe", "--json", "--model", model_file(folder, row["model"])]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    layers, hidden, ffn = (int(n) for n in row["model"].split(":")[1:4])
    biases = layers * (5 * hidden + ffn)
    return json.loads(done.stdout)["parameters_by_part"]["blocks"] - biases


def memory_rows(binary, folder):
    """Kept activations of the first stage's blocks, and states: by the published convention, of our blocks, of the stage."""
    with open(os.path.join(ROOT, "tests/data/published/memory.csv"), newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    out = []
    for row in rows:
        answer, complaint = simulate(binary, folder, row, None)
        whole, complaint = simulate(binary, folder, {**row, "note": ""}, None)
        if answer is None or whole is None:
            sys.exit(f"{row['name']}: {complaint}")
        activations = answer["activation_bytes"] / 2**30
        convention = 18 * matrix_weights(binary, folder, row) / (int(row["tp"]) * int(row["pp"])) / 2**30
        out.append({"source": row["source"], "name": row["name"], "activation_gib": row["activation_gib"],
                    "predicted_activation_gib": f"{activations:.4f}",
                    "activation_error_pct": f"{100 * (activations / float(row['activation_gib']) - 1):.2f}",
                    "states_gib": row["states_gib"], "convention_states_gib": f"{convention:.6f}",
                    "states_error_pct": f"{100 * (convention / float(row['states_gib']) - 1):.3f}",
                    "blocks_states_gib": f"{states_of(answer):.4f}",
                    "fullest_stage_states_gib": f"{states_of(whole):.4f}"})
    return out


def summary_of(rows):
    table = []
    for source in dict.fromkeys(r["source"] for r in rows):
        for split in ("fitted", "left out", "both"):
            part = [r for r in rows if r["source"] == source and split in ("both", r["split"]) and r["predicted_ms"]]
            if not part:
                continue
            errors = [float(r["error_pct"]) for r in part]
            worst = max(part, key=lambda r: abs(float(r["error_pct"])))
            size = [abs(e) for e in errors]
            table.append({"source": source, "rows": split, "count": len(part),
                          "mean_abs_error_pct": f"{statistics.mean(size):.2f}",
                          "median_abs_error_pct": f"{statistics.median(size):.2f}",
                          "bias_pct": f"{statistics.mean(errors):.2f}",
                          "worst": worst["name"], "worst_error_pct": worst["error_pct"]})
    return table


def write(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main(words):
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=os.path.join(ROOT, "build/bin/shardbench"))
    parser.add_argument("--rows", default=os.path.join(ROOT, "tests/data/published/step_times.csv"))
    parser.add_argument("--out", default=os.path.join(ROOT, "results/accuracy"))
    parser.add_argument("--source")
    parser.add_argument("--stack")
    arguments = parser.parse_args(words)
    if not os.access(arguments.binary, os.X_OK) or os.path.isdir(arguments.binary):
        raise BadInput(f"--binary: {arguments.binary} is no program (scripts/build.sh makes one)")
    table = read_table(arguments.rows, ("source", "name", "measured_ms"), "a table of published steps")
    rows = [r for r in table if arguments.source in (None, r["source"])]
    if not rows:
        raise BadInput(f"--source: no row is of '{arguments.source}'; there are: {', '.join(sorted({r['source'] for r in table}))}")
    out = []
    with tempfile.TemporaryDirectory() as folder:
        memory = [] if arguments.source else memory_rows(os.path.abspath(arguments.binary), folder)
        for row in rows:
            step, remark = predict(os.path.abspath(arguments.binary), folder, row, arguments.stack)
            measured = float(row["measured_ms"])
            out.append({**{k: row[k] for k in ("source", "where", "name", "system", "stack", "split", "measured_ms")},
                        "predicted_ms": f"{step:.6g}" if step else "",
                        "error_pct": f"{100 * (step / measured - 1):.2f}" if step else "", "remark": remark})
    table = summary_of(out)
    if arguments.source:
        for r in out:
            print(f"{r['name']:<44}{r['split']:<10}{r['measured_ms']:>12}{r['predicted_ms']:>12}{r['error_pct']:>9}  "
                  f"{r['remark'][:90]}")
    else:
        os.makedirs(arguments.out, exist_ok=True)
        write(os.path.join(arguments.out, "step_times.csv"), out)
        write(os.path.join(arguments.out, "summary.csv"), table)
        write(os.path.join(arguments.out, "memory.csv"), memory)
        for r in memory:
            print(f"{r['name']:<32}activations {r['activation_error_pct']:>6}%, states {r['states_error_pct']:>6}%")
    for r in table:
        print(f"{r['source']:<24}{r['rows']:<10}{r['count']:>4} rows: mean {r['mean_abs_error_pct']:>6}%, median "
              f"{r['median_abs_error_pct']:>6}%, bias {r['bias_pct']:>7}%, worst {r['worst_error_pct']}% ({r['worst']})")
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
