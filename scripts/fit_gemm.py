#!/usr/bin/env python3
"""Fits the GEMM parameters of a system profile to a measured table, and says how far off the fit is.

  .venv/bin/python scripts/fit_gemm.py TABLE.csv --peak 312 --bandwidth 2039 --processors 108 [--element-bytes 2]

TABLE.csv has the columns m, n, k, latency_ms. A fifth of the rows, drawn by a fixed rule, is left out of the fit, and so are those
beyond 6000 of the others; the error is reported on both parts. The formula is that of harness/simulate/gemm_time.cpp; with one
byte an element, the cast of the first operand that such a table contains is fitted too (cast_bytes, per element).
"""
import sys

from tool import BadInput, Parser, finite, package, read_table, run

np = package("numpy")

TILES = [(256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (64, 32), (32, 64)]
SPLITS = [1, 2, 4, 8, 16]
NAMES = ["max_efficiency", "k_overhead", "quantisation", "small_tile_penalty", "launch_us", "memory_efficiency",
         "cast_bytes"]
LOW = np.array([0.3, 0, 0, 0, 0.5, 0.3, 0])
HIGH = np.array([1, 1500, 1, 0.6, 20, 1, 0])
MOST_CAST_BYTES = 12
MOST_ROWS = 6000


def read(path):
    columns = ("m", "n", "k", "latency_ms")
    table = read_table(path, columns, "a table of products")
    rows = [[finite(path, line, c, r[c]) or 0 for c in columns] for line, r in enumerate(table, start=2)]
    if len(rows) < 10:
        raise BadInput(f"{path}: {len(rows)} rows; 10 and more are needed for a fit")
    return np.array(rows)


def predict(parameters, shapes, peak_tflops, bandwidth_gb, processors, element_bytes):
    """Microseconds of each [m, n, k]."""
    efficiency, k_overhead, quantisation, penalty, launch, memory, cast = parameters
    m, n, k = shapes.T
    moved = element_bytes * (m * k + k * n) + 2 * m * n
    best = np.full(len(m), np.inf)
    for tile_m, tile_n in TILES:
        tile = efficiency * (1 - penalty) ** np.log2(32768 / (tile_m * tile_n))
        for split in SPLITS:
            waves = np.ceil(m / tile_m) * np.ceil(n / tile_n) * split / processors
            waves = quantisation * np.ceil(waves) + (1 - quantisation) * np.maximum(waves, 1)
            time = waves * 2 * tile_m * tile_n * (k / split + k_overhead) / (peak_tflops * 1e6 / processors * tile)
            time = np.maximum(time, moved / (bandwidth_gb * 1e3 * memory))
            if split > 1:
                time = time + 8 * m * n * split / (bandwidth_gb * 1e3 * memory)
                time = np.where(k / split >= 256, time, np.inf)
            best = np.minimum(best, time)
    return launch + best + cast * m * k / (bandwidth_gb * 1e3)


def parts(count):
    """Which rows the fit reads, and which it leaves out."""
    order = np.random.default_rng(0).permutation(count)
    first, end = count // 5, count // 5 + MOST_ROWS
    return order[first:end], np.concatenate([order[:first], order[end:]])


def fit(rows, weights, machine):
    """Parameters of least weighted absolute log error: random starts, then shrinking steps around the best."""
    random = np.random.default_rng(1)
    target = np.log(rows[:, 3] * 1e3)

    def loss(p):
        return np.average(np.abs(np.log(predict(p, rows[:, :3], *machine)) - target), weights=weights)

    points = LOW + (HIGH - LOW) * random.random((100, len(LOW)))
    best = min(points, key=loss)
    best_loss = loss(best)
    width = 0.3 * (HIGH - LOW)
    for _ in range(500):
        trial = np.clip(best + width * random.standard_normal(len(LOW)) * (random.random(len(LOW)) < 0.5), LOW, HIGH)
        value = loss(trial)
        if value < best_loss:
            best, best_loss = trial, value
        else:
            width *= 0.99
    return best


def report(name, rows, parameters, machine):
    error = np.abs(predict(parameters, rows[:, :3], *machine) / (rows[:, 3] * 1e3) - 1)
    flops = 2 * rows[:, 0] * rows[:, 1] * rows[:, 2]
    for what, part in (("all", flops > 0), ("above 10 GFLOP", flops > 1e10), ("above 100 GFLOP", flops > 1e11)):
        if part.any():
            print(f"{name:9} {what:16} {part.sum():6} rows: mean {100 * error[part].mean():5.1f}%, "
                  f"median {100 * np.median(error[part]):5.1f}%, worst {100 * error[part].max():6.1f}%")


def main(words):
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("--peak", type=float, required=True, help="dense TFLOP/s")
    parser.add_argument("--bandwidth", type=float, required=True, help="GB/s")
    parser.add_argument("--processors", type=int, required=True)
    parser.add_argument("--element-bytes", type=float, default=2)
    arguments = parser.parse_args(words)
    rows = read(arguments.table)
    rows = rows[rows[:, 3] > 0]
    machine = (arguments.peak, arguments.bandwidth, arguments.processors, arguments.element_bytes)
    sample, left_out = (rows[part] for part in parts(len(rows)))
    # Training is made of large products, decoding of small ones: both halves of the table's work count.
    weights = np.where(2 * sample[:, 0] * sample[:, 1] * sample[:, 2] > 1e10, 4.0, 1.0)
    if arguments.element_bytes == 1:
        HIGH[-1] = MOST_CAST_BYTES
    parameters = fit(sample, weights, machine)
    for name, value in zip(NAMES, parameters):
        print(f"{name}: {value:.4g}")
    report("fitted", sample, parameters, machine)
    report("left out", left_out, parameters, machine)
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
