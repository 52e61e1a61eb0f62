#!/usr/bin/env python3
"""How far the cost model is from published times of single products and collectives.

  python3 scripts/accuracy_components.py [--binary build/bin/bench_components] [--out results/accuracy]
  .venv/bin/python scripts/accuracy_components.py --tables FOLDER

Writes components.csv: tests/data/published/products.csv and collectives.csv, by source, system, and precision or operation; rows that
a parameter was chosen by, and rows left out. With --tables it scores the whole tables of ai-dynamo/aiconfigurator instead, which
are not part of this project, and writes component_tables.csv.
"""
import os
import statistics
import subprocess
import sys

from accuracy import write
from tool import BadInput, Parser, read_table, run

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PUBLISHED = os.path.join(ROOT, "tests/data/published")
LARGE_FLOP, LARGE_BYTES = 1e10, 2**24
# What the fp8 tables of aiconfigurator hold besides the product: the cast of one operand, bytes an element and us.
CAST = "8.2 4"
PRODUCT_TABLES = (("a100_sxm__gemm__trtllm__1.0.0__bfloat16.csv", "a100-80gb-sxm", "bf16"),
                  ("h100_sxm__gemm__trtllm__1.3.0rc20__bfloat16.csv", "h100-sxm", "bf16"),
                  ("h100_sxm__gemm__trtllm__1.3.0rc20__fp8.csv", "h100-sxm", "fp8"))
# No profile says that its numbers come of the table of the B200.
NETWORK_TABLES = (("a100_sxm__comm__nccl__2.27.3__nccl_perf.csv", "a100-80gb-sxm", "fitted"),
                  ("h100_sxm__comm__nccl__2.27.3__nccl_perf.csv", "h100-sxm", "fitted"),
                  ("b200_sxm__comm__nccl__2.28.9__nccl_perf.csv", "b200", "left out"),
                  ("gb200__comm__nccl__2.29.2__nccl_perf.csv", "gb200-nvl72", "fitted"))


def product(row):
    flop = 2 * float(row["m"]) * float(row["n"]) * float(row["k"])
    cast = CAST if row["precision"] == "fp8" and row["source"].startswith("aiconfigurator") else ""
    return {**row, "kind": "products", "what": row["precision"], "large": flop >= LARGE_FLOP,
            "name": f"{row['m']} x {row['n']} x {row['k']}",
            "request": f"product {row['system']} {row['precision']} {row['m']} {row['n']} {row['k']} {cast}"}


def collective(row):
    switch = " no-switch" if row["switch"] else ""
    return {**row, "kind": "collectives", "what": row["operation"], "large": float(row["bytes"]) >= LARGE_BYTES,
            "name": f"{row['ranks']} ranks {row['bytes']} bytes{switch}",
            "request": f"collective {row['system']} {row['operation']} {row['ranks']} {row['bytes']}{switch}"}


def published():
    products = read_table(os.path.join(PUBLISHED, "products.csv"), ("m", "measured_us", "split"), "a table of products")
    collectives = read_table(os.path.join(PUBLISHED, "collectives.csv"), ("operation", "measured_us", "split"), "a table of collectives")
    return [product(r) for r in products] + [collective(r) for r in collectives]


def whole_tables(folder):
    import fit_gemm  # needs numpy, as the split is drawn by it
    rows = []
    for name, system, precision in PRODUCT_TABLES:
        table = [r for r in read_table(os.path.join(folder, name), ("m", "n", "k", "latency_ms")) if float(r["latency_ms"]) > 0]
        fitted = set(fit_gemm.parts(len(table))[0])
        rows += [product({**r, "source": "aiconfigurator", "system": system, "precision": precision,
                          "measured_us": 1e3 * float(r["latency_ms"]), "split": "fitted" if i in fitted else "left out"})
                 for i, r in enumerate(table)]
    for name, system, split in NETWORK_TABLES:
        # One-byte elements are what no program of ours sums.
        rows += [collective({"source": "aiconfigurator", "system": system, "operation": r["op_name"].replace("alltoall", "all_to_all"),
                             "ranks": r["num_gpus"], "bytes": str(2 * int(r["message_size"])), "switch": "", "split": split,
                             "measured_us": 1e3 * float(r["latency"])})
                 for r in read_table(os.path.join(folder, name), ("op_name", "message_size", "latency")) if r["nccl_dtype"] == "half"]
    return rows


def predict(binary, rows):
    if not os.access(binary, os.X_OK) or os.path.isdir(binary):
        raise BadInput(f"--binary: {binary} is no program (scripts/build.sh makes one)")
    done = subprocess.run([binary], input="".join(r["request"] + "\n" for r in rows), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BadInput(done.stderr)
    for row, us in zip(rows, done.stdout.split(), strict=True):
        row["error_pct"] = 100 * (float(us) / float(row["measured_us"]) - 1)


def line_of(part, names):
    errors = [r["error_pct"] for r in part]
    large = [abs(r["error_pct"]) for r in part if r["large"]]
    worst = max(part, key=lambda r: abs(r["error_pct"]))
    return {**names, "count": len(part), "mean_abs_error_pct": f"{statistics.mean(map(abs, errors)):.1f}",
            "median_abs_error_pct": f"{statistics.median(map(abs, errors)):.1f}", "bias_pct": f"{statistics.mean(errors):.1f}",
            "worst": worst["name"], "worst_error_pct": f"{worst['error_pct']:.1f}", "large_count": len(large),
            "large_mean_abs_error_pct": f"{statistics.mean(large):.1f}" if large else ""}


def summary_of(rows):
    """A line for each source, system, precision or operation, and part; then the lines of all."""
    keys = ("source", "system", "what", "split")
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[k] for k in keys), []).append(row)
        groups.setdefault(("all " + row["kind"], "", "", row["split"]), []).append(row)
    order = sorted(groups, key=lambda key: key[0].startswith("all "))
    return [line_of(groups[key], dict(zip(keys, key))) for key in order]


def make(binary, out, tables=None):
    """Scores the published rows, or whole tables, and writes the errors. Returns the lines written."""
    rows = whole_tables(tables) if tables else published()
    predict(binary, rows)
    lines = summary_of(rows)
    os.makedirs(out, exist_ok=True)
    write(os.path.join(out, "component_tables.csv" if tables else "components.csv"), lines)
    return lines


def main(words):
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=os.path.join(ROOT, "build/bin/bench_components"))
    parser.add_argument("--out", default=os.path.join(ROOT, "results/accuracy"))
    parser.add_argument("--tables", help="a folder with the tables of aiconfigurator")
    arguments = parser.parse_args(words)
    for r in make(arguments.binary, arguments.out, arguments.tables):
        print(f"{r['source'][:40]:<42}{r['system']:<15}{r['what']:<16}{r['split']:<10}{r['count']:>6}: mean {r['mean_abs_error_pct']:>6}%, "
              f"median {r['median_abs_error_pct']:>6}%, bias {r['bias_pct']:>6}%, large {r['large_mean_abs_error_pct']:>5}%, worst "
              f"{r['worst_error_pct']}% ({r['worst']})")
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
