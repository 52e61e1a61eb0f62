"""Published steps as requests to build/bin/bench_steps: models from the sizes that rows print, sweeps of fields that they lack."""
import csv
import itertools
import json
import os
import subprocess
import sys
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROWS = os.path.join(ROOT, "tests/data/published/step_times.csv")
PUBLISHED = os.path.join(ROOT, "tests/data/published")
FLAGS = ["seq", "tp", "pp", "vpp", "dp", "cp", "ep", "zero", "shard_ranks", "micro_batch", "global_batch", "recompute", "precision",
         "gradient_dtype", "schedule"]
SWEPT = ("micro_batch", "vpp", "recompute")  # may hold several values, where the source does not say


def read_rows(path=ROWS):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def model_file(folder, spec):
    """The model of a row: a preset, or a file made from the sizes it prints."""
    if ":" not in spec:
        return spec
    kind, *sizes = spec.split(":")
    numbers = [int(s) for s in sizes]
    if kind in ("gpt", "gqa"):
        names = ["num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "vocab_size"]
        if kind == "gqa":
            names.insert(4, "num_query_groups")
        config = dict(zip(names, numbers), seq_length=65536)
    else:
        names = ["num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads",
                 "vocab_size"]
        config = dict(zip(names, numbers), model_type="llama", hidden_act="silu", max_position_embeddings=65536,
                      rms_norm_eps=1e-5, tie_word_embeddings=False)
    path = os.path.join(folder, spec.replace(":", "-") + ".json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    return path


def variants(row):
    """The row with each combination of the values of its swept fields."""
    lists = [row[f].split(",") for f in SWEPT]
    return [{**row, **dict(zip(SWEPT, values))} for values in itertools.product(*lists)]


def system_of(name):
    """The file of a system: one that only published rows ran on, or a shipped one as it is now, not as it was built in."""
    own = os.path.join(PUBLISHED, name + ".yaml")
    return own if os.path.exists(own) else os.path.join(ROOT, "bench/systems", name + ".yaml")


def stack_of(name):
    return os.path.join(ROOT, "bench/systems/stacks", name + ".yaml")


def flags_of(row):
    """The flags of a row and their values; "true" is one of a switch."""
    flags = {}
    for flag in FLAGS:
        one_stage = flag == "schedule" and int(row["pp"]) == 1  # which has no schedule
        if row.get(flag) and not one_stage and row[flag] != "auto":
            flags[flag.replace("_", "-")] = row[flag]
    if row["sequence_parallel"] == "yes" and int(row["tp"]) > 1:
        flags["sequence-parallel"] = "true"
    if row["note"] == "layer":
        flags["scope"] = "layer"
    return flags


def request(folder, row, stacks):
    words = [system_of(row["system"]), ",".join(stacks), "model=" + model_file(folder, row["model"])]
    return " ".join(words + [f"{flag}={value}" for flag, value in flags_of(row).items()])


def simulate(binary, folder, row, stack):
    """The whole row that the program answers with, or None and its complaint."""
    command = [binary, "simulate", "--json", "--system", system_of(row["system"]), "--stack", stack,
               "--model", model_file(folder, row["model"])]
    for flag, value in flags_of(row).items():
        command += ["--" + flag] + ([] if flag == "sequence-parallel" else [value])
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode == 2 or not done.stdout.strip():
        return None, done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no answer"
    return json.loads(done.stdout)[0], ""


def ask(binary, requests, processes=2):
    """The answers to the requests, in their order, from several processes side by side."""
    shares = [requests[i::processes] for i in range(processes)]
    running = [subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in shares]
    outputs = [None] * processes
    def talk(i):
        outputs[i] = running[i].communicate("".join(r + "\n" for r in shares[i]))[0].splitlines()

    threads = [threading.Thread(target=talk, args=(i,)) for i in range(processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, (share, lines) in enumerate(zip(shares, outputs)):
        if len(lines) != len(share):
            sys.exit(f"{binary}: ended at '{share[len(lines)]}'")
    answers = [None] * len(requests)
    for i, lines in enumerate(outputs):
        answers[i::processes] = lines
    return answers


class Answer:
    """What was told of one configuration: memory by the first stack, the step by each; or a complaint."""

    def __init__(self, text, layer=False):
        self.complaint = text[2:] if text.startswith("!") else ""
        self.steps, self.needed, self.capacity = [], None, None
        if not self.complaint:
            numbers = [float(w) for w in text.split()]
            self.needed, self.capacity = numbers[:2]
            # A published layer time has no optimizer and no reduction of gradients.
            self.steps = [s - o if layer else s for s, o in zip(numbers[2::2], numbers[3::2])]


def predict(binary, folder, jobs):
    """[(row, stack files)] -> for each the answers of its variants."""
    flat = [(i, v, stacks) for i, (row, stacks) in enumerate(jobs) for v in variants(row)]
    texts = ask(binary, [request(folder, v, stacks) for _, v, stacks in flat])
    out = [[] for _ in jobs]
    for (i, v, _), text in zip(flat, texts):
        out[i].append((v, Answer(text, v["note"] == "layer")))
    return out
