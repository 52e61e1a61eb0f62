#!/usr/bin/env python3
"""Fits the few physical numbers of software stacks to published steps, and says how far off each source is without its rows.

  python3 scripts/fit_stacks.py [--binary build/bin/bench_steps] [--rounds 1] [--write | --folds]

A number belongs to a group: stacks that share what it stands for share it (PARAMETERS). A group is drawn to what all groups of
its family have in common, relative to what was counted for it (`counted`), the more the fewer rows it has; one without rows takes
that. Rows are drawn by a seed: half of each large source is fitted, the rest left out. Then each source in turn is left out whole.
--write puts the numbers into bench/systems; it and --folds write those fitted without a source to
results/accuracy/without_source.csv, which scripts/accuracy.py plays.
"""
import csv
import hashlib
import math
import os
import re
import statistics
import sys
import tempfile

import published_steps as steps
from tool import Parser, run

ROOT = steps.ROOT
STACKS = os.path.join(ROOT, "bench/systems/stacks")
SEED = "shardbench 1"
# Systems of each generation of devices: what is fitted to one is of all.
SYSTEMS = {"a100": ["a100-80gb-sxm", "aws-p4d", "a100-4x200g"], "h100": ["h100-sxm", "aws-p5", "h200-sxm", "h800"],
           "b200": ["b200", "gb200-nvl72"]}
SMALL = {"korthikanti22", "zero-bubble", "sc21", "megatron-bridge-25.09", "nemo-24.07", "fms-fsdp", "megatron-h100"}  # under 30 rows
GENERATION = {system: name for name, systems in SYSTEMS.items() for system in systems}


class Parameter:
    """A family of fitted numbers: the key of a stack, its unit, the group of a row, and what was counted for each group."""

    def __init__(self, name, unit, meaning, group_of, counted, reciprocal=False, least=0.0, most=1e9, family=None, sure=0.003, of_device=False):
        self.name, self.unit, self.meaning, self.group_of = name, unit, meaning, group_of
        self.counted, self.reciprocal, self.least, self.most = counted, reciprocal, least, most
        self.family, self.sure, self.of_device = family or name, sure, of_device


FUSED = {"te-2025", "te-2024-fp8", "te-2025-fp8", "torch-compile"}
EAGER = {"torch-eager", "torch-eager-fp8"}
EAGER_NORM = {"megatron-flash-eager-norm", "megatron-flash-1", "megatron-fused-softmax", "megatron-eager-softmax"}
FLASH = {"torch-eager": "flash-2", "torch-eager-fp8": "flash-2", "megatron-flash-1": "flash-1", "megatron-flash": "flash-2",
         "megatron-flash-eager-norm": "flash-2", "torch-compile": "flash-2", "te-2024-fp8": "te", "te-2025": "te", "te-2025-fp8": "te"}


def precision_of(row):
    return "fp8" if row["stack"].endswith("fp8") else "bf16"


def level(row):
    return "fused" if row["stack"] in FUSED else "torch" if row["stack"] in EAGER else "megatron"


def older_kernel(row):
    """Flash attention 1 and 2 on a device whose tensor instructions they do not know."""
    return GENERATION[row["system"]] if FLASH.get(row["stack"], "te") != "te" and GENERATION[row["system"]] != "a100" else None


PARAMETERS = [
    # Shares assumed for power-limited boards until rows say otherwise.
    Parameter("sustained", "share", "of the measured GEMM rate that hours of training keep up",
              lambda r: f"{GENERATION[r['system']]} {precision_of(r)}",
              {"a100 bf16": 0.85, "h100 bf16": 0.82, "h100 fp8": 0.85, "b200 fp8": 0.8}, True, 0.3, 1, sure=0.15, of_device=True),
    # Kernels of a residual sum beside the norm in eager PyTorch, of a bias in Megatron-LM; norms of eleven kernels.
    Parameter("elementwise_traffic", "times", "memory traffic of element-wise kernels over ours", level,
              {"torch": 1.25, "megatron": 1.1, "fused": 1}, least=0.5, family="traffic", sure=0.001),
    Parameter("norm_traffic", "times", "memory traffic of norms made of many kernels over ours",
              lambda r: "eager" if r["stack"] in EAGER_NORM else None, {"eager": 8}, least=1, family="traffic", sure=0.001),
    # Of flash attention 1 over 2: arXiv 2307.08691, its charts.
    Parameter("attention_factor", "times", "rate of fused attention over the device's measured kernels", lambda r: FLASH.get(r["stack"]),
              {"flash-1": 0.6, "flash-2": 1, "te": 1}, True, 0.1, 3, sure=0.05),
    Parameter("warp_mma_share", "share", "of a device's attention rate that kernels written for Ampere reach", older_kernel,
              {"h100": 0.55}, True, 0.05, 1, sure=0.02, of_device=True),
    Parameter("host_us", "us", "time of the host to launch one of our operations",
              lambda r: "fused" if r["stack"] in FUSED else "eager", {"eager": 90, "fused": 35}),
]
POOLING = 0.02  # of the squared logarithm by which a group differs from its family, beside a mean relative error


def keys_of(row):
    return [(p.name, p.group_of(row)) for p in PARAMETERS if p.group_of(row)]


FAMILY = {p.name: p for p in PARAMETERS}
START = {(p.name, g): v for p in PARAMETERS for g, v in p.counted.items()}


def stated(row):
    """Whether a row says all that decides its time, and is of a dense model, whose kernels these numbers are of."""
    return row["measured_ms"] != "" and row["ep"] == "1" and not any("," in row[f] for f in steps.SWEPT)


def fitted(row):
    return stated(row) and drawn(row)


def kin(key, other):
    return FAMILY[key[0]].family == FAMILY[other[0]].family


def in_units(key, value):
    return 1 / value if FAMILY[key[0]].reciprocal else value


def drawn(row):
    """Whether a row is fitted, by the seed alone; small sources are fitted whole, and only left out whole."""
    if row["source"] in SMALL:
        return True
    return hashlib.sha256(f"{SEED}|{row['source']}|{row['name']}".encode()).digest()[0] < 128


class StackFiles:
    """Files of stacks with other numbers in them."""

    def __init__(self, folder, stacks=STACKS):
        self.folder, self.texts = folder, {}
        for name in os.listdir(stacks):
            with open(os.path.join(stacks, name), encoding="utf-8") as file:
                self.texts[name[:-5]] = file.read()

    def of(self, row, values):
        text = self.texts[row["stack"]]
        for key in keys_of(row):
            value = values[key]
            if key[0] == "sustained":
                text = with_number(text, "gemm_derate", value / sustained_now(row))
            elif key[0] == "warp_mma_share":
                text = with_number(text, "attention_factor", value / device_number(row, key[0], 1) * number_in(text, "attention_factor"))
            else:
                text = with_number(text, key[0], value)
        path = os.path.join(self.folder, hashlib.sha256(text.encode()).hexdigest()[:16] + ".yaml")
        if not os.path.exists(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path


def number_in(text, name, default=None):
    found = re.search(rf"^\s*{name}: ([-0-9.e]+)", text, re.M)
    return float(found.group(1)) if found else default


def with_number(text, name, value):
    line = f"{name}: {value:.5g}"
    changed, count = re.subn(rf"^{name}: .*$", line, text, flags=re.M)
    return changed if count else text + line + "\n"


def rounded(value):
    return float(f"{value:.3g}")


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def device_number(row, name, default):
    return number_in(text_of(steps.system_of(row["system"])), name, default)


def sustained_now(row):
    """What the system of a row says already."""
    text = text_of(steps.system_of(row["system"]))
    section = re.search(rf"^    {precision_of(row)}:\n((?:      .*\n)+)", text, re.M)
    return number_in(section.group(1), "sustained", 1) if section else 1


class Surrogate:
    """Steps as linear functions of the numbers near those that they were told with, which they are but for what hides what."""

    def __init__(self, rows, binary, folder, files, values):
        jobs, self.keys = [], [keys_of(row) for row in rows]
        for row, keys in zip(rows, self.keys):
            names = [files.of(row, values)]
            for key in keys:
                names.append(files.of(row, {**values, key: self.stepped(key, values[key])}))
            jobs.append((row, names))
        self.base = {key: in_units(key, value) for key, value in values.items()}
        self.rows, self.at, self.slopes = rows, [], []
        for row, keys, told in zip(rows, self.keys, steps.predict(binary, folder, jobs)):
            known = [a.steps for _, a in told if not a.complaint]
            if not known:
                sys.exit(f"{row['source']}, {row['name']}: {told[0][1].complaint}")
            best = min(known)  # published runs are tuned: of fields that a row lacks the best
            measured = float(row["measured_ms"])
            self.at.append(best[0] / measured)
            self.slopes.append([(b - best[0]) / measured /
                                (in_units(key, self.stepped(key, values[key])) - self.base[key])
                                for b, key in zip(best[1:], keys)])

    @staticmethod
    def stepped(key, value):
        return value * 0.95 if FAMILY[key[0]].reciprocal else value * 1.1 + 1e-3

    def told(self, i, values):
        """Predicted over measured."""
        return self.at[i] + sum(s * (in_units(k, values[k]) - self.base[k]) for k, s in zip(self.keys[i], self.slopes[i]))


def fit(surrogate, chosen, start):
    """The numbers that make the mean error of the sources least, on the chosen rows; cheap, as no step is played."""
    values = dict(start)
    count = {}
    for i in chosen:
        count[surrogate.rows[i]["source"]] = count.get(surrogate.rows[i]["source"], 0) + 1
    weight = {i: 1 / count[surrogate.rows[i]["source"]] / len(count) for i in chosen}
    users = {}
    for i in chosen:
        for j, key in enumerate(surrogate.keys[i]):
            users.setdefault(key, []).append((i, surrogate.slopes[i][j]))
    told = {i: surrogate.told(i, values) for i in chosen}

    def off(key, value):
        return math.log(value / START[key])

    def penalty(key, value):
        others = [off(k, values[k]) for k in users if kin(k, key) and k != key]
        apart = off(key, value) - (sum(others) / len(others) if others else 0)
        return (POOLING * apart**2 if others else 0) + FAMILY[key[0]].sure * off(key, value)**2

    def error(t):
        e = abs(t - 1)
        return e if e > 0.02 else e * e / 0.04 + 0.01  # round at nothing

    for step in (0.2, 0.1, 0.05, 0.02, 0.01, 0.005):
        moved = True
        for _ in range(60):
            if not moved:
                break
            moved = False
            for key, rows in users.items():
                p = FAMILY[key[0]]
                best, best_value = None, values[key]
                for factor in (1, 1 + step, 1 / (1 + step)):
                    value = min(max(values[key] * factor, p.least), p.most)
                    change = in_units(key, value) - in_units(key, values[key])
                    cost = sum(weight[i] * error(told[i] + s * change) for i, s in rows) + penalty(key, value)
                    if best is None or cost < best - 1e-9:
                        best, best_value = cost, value
                if best_value != values[key]:
                    change = in_units(key, best_value) - in_units(key, values[key])
                    for i, s in rows:
                        told[i] += s * change
                    values[key] = best_value
                    moved = True
    for key in values:  # groups without rows take what their family has in common
        if key not in users:
            others = [off(k, values[k]) for k in users if kin(k, key)]
            p = FAMILY[key[0]]
            values[key] = min(max(START[key] * math.exp(sum(others) / len(others) if others else 0), p.least), p.most)
    return values


def mean_by_source(rows, ratios):
    by = {}
    for row, t in zip(rows, ratios):
        by.setdefault(row["source"], []).append(abs(t - 1) * 100)
    return {s: statistics.mean(e) for s, e in by.items()}


def tell(binary, folder, files, rows, values_of):
    """Predicted over measured, played."""
    out = []
    for row, told in zip(rows, steps.predict(binary, folder, [(r, [files.of(r, values_of(r))]) for r in rows])):
        known = [a.steps[0] for _, a in told if not a.complaint]
        out.append(min(known) / float(row["measured_ms"]) if known else None)
    return out


def told_without(rows, binary, folder, files, values_without):
    """Predicted over measured of each row, with the numbers fitted without its source."""
    return tell(binary, folder, files, rows, lambda r: values_without[r["source"]])


WITHOUT = os.path.join(ROOT, "results/accuracy/without_source.csv")


def write_without(path, values_without):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["without", "number", "group", "unit", "value"])
        for source, values in values_without.items():
            for (name, group), value in values.items():
                writer.writerow([source, name, group, FAMILY[name].unit, f"{value:.4g}"])


def read_without(path=WITHOUT):
    out = {}
    for row in steps.read_rows(path):
        out.setdefault(row["without"], {})[row["number"], row["group"]] = float(row["value"])
    return out


def shipped_values(rows):
    """The numbers as bench/systems has them."""
    values = dict(START)
    for row in rows:
        stack = text_of(os.path.join(STACKS, row["stack"] + ".yaml"))
        for key in keys_of(row):
            values[key] = (sustained_now(row) if key[0] == "sustained" else device_number(row, key[0], 1) if FAMILY[key[0]].of_device
                           else number_in(stack, key[0], values[key]))
    return values


def users_of(rows):
    """Fitted rows and sources that each number rests on."""
    count, sources = {}, {}
    for row in rows:
        for key in keys_of(row):
            count[key] = count.get(key, 0) + 1
            sources.setdefault(key, set()).add(row["source"])
    return count, sources


def write_stacks(values, rows, published):
    """Puts the numbers into every stack that published rows are of; those of which none is fitted share their groups' too."""
    count, sources = users_of(rows)
    for stack in sorted({r["stack"] for r in published}):
        path = os.path.join(STACKS, stack + ".yaml")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        keys = sorted({k for r in published if r["stack"] == stack for k in keys_of(r)})
        told = []
        for key in keys:
            if FAMILY[key[0]].of_device or key not in count:
                continue
            text = with_number(text, key[0], rounded(values[key]))
            told.append(f"{key[0]} ({FAMILY[key[0]].unit}; {count[key]} rows of {', '.join(sorted(sources[key]))})")
        text = re.sub(r" Fitted by scripts/fit_stacks.py: [^']*'", "'", text)
        text = re.sub(r"^(source: '[^']*)'$", lambda m: f"{m.group(1)} Fitted by scripts/fit_stacks.py: {'; '.join(told)}'", text, flags=re.M)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def write_systems(values, rows):
    """Puts what is the device's into every system that has it."""
    count, sources = users_of(rows)
    for (name, group), value in values.items():
        if not FAMILY[name].of_device:
            continue
        generation, _, precision = group.partition(" ")
        told = f"fitted by scripts/fit_stacks.py to {count[name, group]} published steps of {', '.join(sorted(sources[name, group]))}"
        for system in SYSTEMS[generation]:
            text = text_of(steps.system_of(system))
            if precision:
                section = re.search(rf"^    {precision}:\n((?:      .*\n)+)", text, re.M)
                lines = re.sub(r"^      sustained(_source)?: .*\n", "", section.group(1), flags=re.M)
                lines += f"      sustained: {rounded(value)}\n      sustained_source: 'clocks under power in long runs; {told}'\n"
                text = text[:section.start(1)] + lines + text[section.end(1):]
            else:
                text = re.sub(rf"^  {name}: .*$", f"  {name}: {rounded(value)}", text, flags=re.M)
            with open(steps.system_of(system), "w", encoding="utf-8") as file:
                file.write(text)


def main(words):
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=os.path.join(ROOT, "build/bin/bench_steps"))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="put the numbers into bench/systems and results/accuracy")
    parser.add_argument("--folds", action="store_true", help="write only what is fitted without each source")
    arguments = parser.parse_args(words)
    published = steps.read_rows()
    rows = [r for r in published if fitted(r)]
    values = shipped_values(rows)
    with tempfile.TemporaryDirectory() as folder:
        files = StackFiles(folder)
        for _ in range(arguments.rounds):
            surrogate = Surrogate(rows, arguments.binary, folder, files, values)
            values = fit(surrogate, range(len(rows)), values)
        sources = list(dict.fromkeys(r["source"] for r in rows))
        without = {s: fit(surrogate, [i for i, r in enumerate(rows) if r["source"] != s], values) for s in sources}
    count, used = users_of(rows)
    for key, value in values.items():
        print(f"{key[0]:<20} {key[1]:<15} {value:8.3f} {FAMILY[key[0]].unit:<6} {count.get(key, 0):4} rows of {len(used.get(key, ()))} sources; "
              f"{min(w[key] for w in without.values()):.3f} to {max(w[key] for w in without.values()):.3f} without one")
    if arguments.write:
        write_stacks(values, rows, published)
        write_systems(values, rows)
    if arguments.write or arguments.folds:
        write_without(WITHOUT, without)
    return values, without


if __name__ == "__main__":
    run(lambda words: main(words) and None)
