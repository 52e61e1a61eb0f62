#!/usr/bin/env python3
"""Predicts every published step and says how far off: with a source's rows among those fitted, and without.

  python3 scripts/accuracy.py [--binary build/bin/bench_steps] [--out results/accuracy] [--source NAME] [--check]

Writes into the output folder: step_times.csv, a row for each published one; summary.csv, the errors of each source, first of all
*without it* (parameters of without_source.csv, which scripts/fit_stacks.py writes); ranking.csv, how well layouts are put in
order; fits.csv, who is told to fit; memory.csv; and error_bands.csv, which the program is built with. --source prints one source
and writes nothing. --check plays each source with the parameters fitted without it and fails where the mean has risen by more
than half a point over summary.csv.
"""
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile

import fit_stacks
import published_steps as steps
from tool import BadInput, Parser, read_table, run

ROOT = steps.ROOT
OUT = os.path.join(ROOT, "results/accuracy")
PROGRAM = os.path.join(ROOT, "build/bin/shardbench")
RISE = 0.5  # points that --check allows
SCALES = [(1, 8), (9, 64), (65, 512), (513, 1000000)]
LEAST_ROWS = 5


def states_of(answer):
    return sum(answer[k] for k in ("parameter_bytes", "gradient_bytes", "optimizer_bytes")) / 2**30


def memory_rows(folder):
    """Kept activations of the first stage's blocks, and states: by the published convention, of our blocks, of the stage."""
    out = []
    for row in steps.read_rows(os.path.join(ROOT, "tests/data/published/memory.csv")):
        (answer, complaint), (whole, _) = (steps.simulate(PROGRAM, folder, r, r["stack"]) for r in (row, {**row, "note": ""}))
        if complaint:
            raise BadInput(f"{row['name']}: {complaint}")
        layers, hidden, ffn = (int(n) for n in row["model"].split(":")[1:4])
        # What the convention counts: weights of the blocks' matrices, no bias, norm or embedding.
        described = subprocess.run([PROGRAM, "describe", "--json", "--model", steps.model_file(folder, row["model"])],
                                   capture_output=True, text=True, cwd=ROOT, check=True)
        weights = json.loads(described.stdout)["parameters_by_part"]["blocks"] - layers * (5 * hidden + ffn)
        activations = answer["activation_bytes"] / 2**30
        convention = 18 * weights / (int(row["tp"]) * int(row["pp"])) / 2**30
        out.append({"source": row["source"], "name": row["name"], "activation_gib": row["activation_gib"],
                    "predicted_activation_gib": f"{activations:.4f}",
                    "activation_error_pct": f"{100 * (activations / float(row['activation_gib']) - 1):.2f}",
                    "states_gib": row["states_gib"], "convention_states_gib": f"{convention:.6f}",
                    "states_error_pct": f"{100 * (convention / float(row['states_gib']) - 1):.3f}",
                    "blocks_states_gib": f"{states_of(answer):.4f}",
                    "fullest_stage_states_gib": f"{states_of(whole):.4f}"})
    return out


def split_of(row):
    if not row["measured_ms"]:
        return "out of memory"
    if not fit_stacks.stated(row):
        return "experts" if row["ep"] != "1" else "swept"
    return "fitted" if fit_stacks.drawn(row) else "left out"


def error_pct(told, row):
    return 100 * (told / float(row["measured_ms"]) - 1)


class Told:
    """A published row with what was told of it: best and worst of what it leaves open, with and without its source."""

    def __init__(self, row, answers):
        self.row, self.split = row, split_of(row)
        known = [a for _, a in answers if not a.complaint]
        self.complaint = "" if known else answers[0][1].complaint
        self.best = min((a.steps[0] for a in known), default=None)
        self.worst = max((a.steps[0] for a in known), default=None)
        self.without = min((a.steps[-1] for a in known), default=None)
        self.needed = min((a.needed for a in known), default=None)
        self.fits = any(a.needed <= a.capacity for a in known)

    def scored(self):
        return self.without is not None and self.split in ("fitted", "left out")

    def cells(self):
        r, measured = self.row, self.row["measured_ms"]
        number = lambda value: f"{value:.6g}" if value is not None else ""
        return {**{k: r[k] for k in ("source", "where", "name", "system", "stack")}, "split": self.split, "measured_ms": measured,
                "predicted_ms": number(self.best), "worst_predicted_ms": number(self.worst) if self.split in ("swept", "experts") else "",
                "error_pct": f"{error_pct(self.best, r):.2f}" if measured and self.best else "",
                "without_source_error_pct": f"{error_pct(self.without, r):.2f}" if measured and self.without else "",
                "needed_gb": f"{self.needed / 1e9:.4g}" if self.needed else "",
                "told_to_fit": "" if self.needed is None else "yes" if self.fits else "no", "remark": self.complaint}


def summary_line(source, rows, part, error_of):
    errors = [error_of(t) for t in part]
    worst = max(part, key=lambda t: abs(error_of(t)))
    size = [abs(e) for e in errors]
    return {"source": source, "rows": rows, "count": len(part), "mean_abs_error_pct": f"{statistics.mean(size):.2f}",
            "median_abs_error_pct": f"{statistics.median(size):.2f}", "bias_pct": f"{statistics.mean(errors):.2f}",
            "worst": worst.row["name"], "worst_error_pct": f"{error_of(worst):.2f}"}


def summary_of(told):
    table, means = [], []
    for source in dict.fromkeys(t.row["source"] for t in told):
        of_source = [t for t in told if t.row["source"] == source]
        scored = [t for t in of_source if t.scored()]
        if scored:
            table.append(summary_line(source, "without it", scored, lambda t: error_pct(t.without, t.row)))
            means.append(table[-1])
        for split in ("fitted", "left out", "swept", "experts"):
            part = [t for t in of_source if t.split == split and t.best]
            if part:
                table.append(summary_line(source, split, part, lambda t: error_pct(t.best, t.row)))
    worst = max(means, key=lambda m: float(m["mean_abs_error_pct"]))
    table.insert(0, {"source": "mean over sources", "rows": "without it", "count": sum(m["count"] for m in means),
                     "mean_abs_error_pct": f"{statistics.mean(float(m['mean_abs_error_pct']) for m in means):.2f}",
                     "median_abs_error_pct": f"{statistics.median(float(m['mean_abs_error_pct']) for m in means):.2f}",
                     "bias_pct": f"{statistics.mean(float(m['bias_pct']) for m in means):.2f}", "worst": worst["source"],
                     "worst_error_pct": worst["mean_abs_error_pct"]})
    return table


def choices(told):
    """Rows between which somebody could choose: the same model, batch, devices and software of a source, three or more."""
    groups = {}
    for t in told:
        r = t.row
        if t.scored() and r["note"] != "layer":
            devices = int(r["tp"]) * int(r["pp"]) * int(r["dp"]) * int(r["cp"])
            groups.setdefault((r["source"], r["model"], r["system"], r["stack"], r["seq"], r["global_batch"], devices), []).append(t)
    return {key: group for key, group in groups.items() if len(group) >= 3}


def kendall(group):
    """Agreeing less disagreeing pairs over all pairs that differ by more than measuring repeats (1%)."""
    agree = disagree = 0
    for i, a in enumerate(group):
        for b in group[:i]:
            measured = float(a.row["measured_ms"]) / float(b.row["measured_ms"])
            if abs(measured - 1) < 0.01:
                continue
            if (a.without - b.without) * (measured - 1) > 0:
                agree += 1
            else:
                disagree += 1
    return agree, disagree


def regret(group):
    """How much slower the best predicted is than the best measured, percent."""
    chosen = min(group, key=lambda t: t.without)
    return 100 * (float(chosen.row["measured_ms"]) / min(float(t.row["measured_ms"]) for t in group) - 1)


def ranking_of(told):
    table, by_source = [], {}
    for key, group in choices(told).items():
        by_source.setdefault(key[0], []).append(group)
    for source, groups in by_source.items():
        pairs = [kendall(g) for g in groups]
        agree, disagree = sum(p[0] for p in pairs), sum(p[1] for p in pairs)
        if not agree + disagree:
            continue
        regrets = [regret(g) for g in groups]
        table.append({"source": source, "choices": len(groups), "rows": sum(map(len, groups)), "pairs": agree + disagree,
                      "kendall_tau": f"{(agree - disagree) / (agree + disagree):.3f}",
                      "mean_regret_pct": f"{statistics.mean(regrets):.2f}", "worst_regret_pct": f"{max(regrets):.2f}"})
    if table:
        table.insert(0, {"source": "mean over sources", "choices": sum(t["choices"] for t in table),
                         "rows": sum(t["rows"] for t in table), "pairs": sum(t["pairs"] for t in table),
                         "kendall_tau": f"{statistics.mean(float(t['kendall_tau']) for t in table):.3f}",
                         "mean_regret_pct": f"{statistics.mean(float(t['mean_regret_pct']) for t in table):.2f}",
                         "worst_regret_pct": f"{max(float(t['worst_regret_pct']) for t in table):.2f}"})
    return table


def fits_of(told):
    table = []
    for source in dict.fromkeys(t.row["source"] for t in told):
        part = [t for t in told if t.row["source"] == source and t.needed]
        ran, out = [t for t in part if t.row["measured_ms"]], [t for t in part if not t.row["measured_ms"]]
        table.append({"source": source, "ran": len(ran), "ran_told_not_to_fit": sum(not t.fits for t in ran),
                      "out_of_memory": len(out), "out_of_memory_told_to_fit": sum(t.fits for t in out)})
    return table


def bands_of(told):
    """Four of five rows of a stack, precision, kind and scale were told within so much, without their source."""
    groups = {}
    for t in told:
        r = t.row
        if t.without is None or not r["measured_ms"] or r["note"] == "layer":
            continue
        devices = int(r["tp"]) * int(r["pp"]) * int(r["dp"]) * int(r["cp"])
        scale = next(s for s in SCALES if devices <= s[1])
        kind = "experts" if t.split == "experts" else "dense"
        groups.setdefault((r["stack"], fit_stacks.precision_of(r), kind, scale), []).append(abs(error_pct(t.without, r)))
    table = []
    for (stack, precision, kind, (least, most)), errors in sorted(groups.items()):
        if len(errors) >= LEAST_ROWS:
            band = sorted(errors)[-(-4 * len(errors) // 5) - 1]
            table.append({"stack": stack, "precision": precision, "kind": kind, "devices_from": least, "devices_to": most,
                          "rows": len(errors), "band_pct": f"{band:.1f}"})
    return table


def write(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def tell_all(binary, folder, rows, shipped=True):
    """What is told of rows with the shipped stacks, and with those fitted without their source; or with the latter alone."""
    files = fit_stacks.StackFiles(folder)
    without = fit_stacks.read_without()
    stacks_of = lambda r: [steps.stack_of(r["stack"])] * shipped + [files.of(r, without[r["source"]]) if r["source"] in without
                                                                       else steps.stack_of(r["stack"])]
    jobs = [(r, stacks_of(r)) for r in rows]
    return [Told(row, answers) for row, answers in zip(rows, steps.predict(binary, folder, jobs))]


def check(told):
    """0 when the mean over sources without their rows has not risen by more than RISE."""
    now = float(summary_of(told)[0]["mean_abs_error_pct"])
    committed = float(next(r for r in steps.read_rows(os.path.join(OUT, "summary.csv")) if r["source"] == "mean over sources")["mean_abs_error_pct"])
    print(f"mean error over sources, each without its rows: {now:.2f}%, committed {committed:.2f}%")
    if now <= committed + RISE:
        return 0
    print(f"accuracy.py: risen by more than {RISE} points", file=sys.stderr)
    return 1


def main(words):
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=os.path.join(ROOT, "build/bin/bench_steps"))
    parser.add_argument("--rows", default=steps.ROWS)
    parser.add_argument("--out", default=OUT)
    parser.add_argument("--source")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args(words)
    if not os.access(arguments.binary, os.X_OK) or os.path.isdir(arguments.binary):
        raise BadInput(f"--binary: {arguments.binary} is no program (scripts/build.sh makes one)")
    table = read_table(arguments.rows, ("source", "name", "measured_ms"), "a table of published steps")
    rows = [r for r in table if arguments.source in (None, r["source"]) and not (arguments.check and not fit_stacks.stated(r))]
    if not rows:
        raise BadInput(f"--source: no row is of '{arguments.source}'; there are: {', '.join(sorted({r['source'] for r in table}))}")
    binary = os.path.abspath(arguments.binary)
    with tempfile.TemporaryDirectory() as folder:
        told = tell_all(binary, folder, rows, not arguments.check)
        if arguments.check:
            return check(told)
        memory = [] if arguments.source else memory_rows(folder)
    if arguments.source:
        for cells in (t.cells() for t in told):
            print(f"{cells['name'][:70]:<72}{cells['split']:<14}{cells['measured_ms']:>10}{cells['predicted_ms']:>10}{cells['error_pct']:>8}"
                  f"{cells['without_source_error_pct']:>8}  {cells['told_to_fit']:<4}{cells['remark'][:60]}")
    else:
        os.makedirs(arguments.out, exist_ok=True)
        files = {"step_times": [t.cells() for t in told], "summary": summary_of(told), "ranking": ranking_of(told),
                 "fits": fits_of(told), "memory": memory, "error_bands": bands_of(told)}
        for name, content in files.items():
            write(os.path.join(arguments.out, name + ".csv"), content)
    for r in summary_of(told):
        print(f"{r['source']:<24}{r['rows']:<12}{r['count']:>4} rows: mean {r['mean_abs_error_pct']:>6}%, median "
              f"{r['median_abs_error_pct']:>6}%, bias {r['bias_pct']:>7}%, worst {r['worst_error_pct']}% ({r['worst']})")
    for r in ranking_of(told):
        print(f"{r['source']:<24}order of {r['rows']:>4} rows in {r['choices']:>3} choices: Kendall's tau {r['kendall_tau']}, regret "
              f"{r['mean_regret_pct']}%, at most {r['worst_regret_pct']}%")
    for r in fits_of(told):
        print(f"{r['source']:<24}memory: of {r['ran']} that ran {r['ran_told_not_to_fit']} told not to fit; of {r['out_of_memory']} out of "
              f"memory {r['out_of_memory_told_to_fit']} told to fit")
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
