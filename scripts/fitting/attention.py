"""Fused attention of a prompt, the formula of harness/simulate/attention_time.cpp: attention_context.csv, mla_context.csv."""
from fitting.machines import PRECISIONS
from fitting.profile_text import flow, quoted, with_section
from fitting.search import errors, fit, np, seen

NAMES = ["efficiency", "tile_overhead", "window_overhead", "tail", "launch_us", "prepare_traffic", "cached_share"]
START = [0.6, 50, 20, 0.3, 5, 1, 0.5]
LOW = [0.03, 0, 0, 0, 0.5, 0, 0]
HIGH = [1, 3000, 1500, 1.5, 40, 8, 1]
TILES = [64, 128, 192, 256, 512]
QUERY_TILES = [64, 128]
KEPT_FROM = 0.35  # of the cache, as in the C++
LATENT_HEAD, LATENT_VALUE = 192, 128  # sizes of DeepSeek's heads in a prompt
# FlashAttention-3 (arXiv 2407.08608), figures 5 and 6, H100, heads of 128 without a mask: backward over forward at 16k is
# 561/648 (FA3), 516/595 (cuDNN), 322/370 (FA2); at 512 tokens 316/467, 305/497, 214/309, as 250 more keys a tile make it.
BACKWARD_SHARE, BACKWARD_OVERHEAD = 0.87, 250
# Heads of these sizes where a GPU's table has none: efficiency over that of heads of 128, as on the H100.
OTHER_TILES = {64: 0.87, 256: 1.09}
SOURCE = ("fitted by scripts/fit_systems.py to attention_context and mla_context of ai-dynamo/aiconfigurator (see "
          "results/systems for the errors; heads of 64 and 256 on the A100 by the H100's ratio); backward from FlashAttention-3 (arXiv 2407.08608), figures 5 and 6")


def tile_of(size):
    return next((tile for tile in TILES if size <= tile), size)


def shapes(rows):
    """batch, length, heads, kv heads, head size, value size, window, padded sizes; one line each."""
    latent = "mla_dtype" in rows[0]
    columns = []
    for r in rows:
        heads = float(r["num_heads"])
        kv_heads, head, value, window = ((heads, LATENT_HEAD, LATENT_VALUE, 0) if latent else
                                         (float(r["num_key_value_heads"]), float(r["head_dim"]), float(r["head_dim"]),
                                          float(r["window_size"])))
        columns.append([float(r["batch_size"]), float(r["isl"]), heads, kv_heads, head, value, window, tile_of(head),
                        tile_of(value)])
    return np.array(columns).T


def predict(parameters, sizes, machine, precision, cache, query_tile):
    """Microseconds of each call."""
    efficiency, overhead, window_overhead, tail, launch, traffic, cached = parameters
    batch, length, heads, kv_heads, head, value, window, head_tile, value_tile = sizes
    window = np.where((window > 0) & (window < length), window, 0)
    pairs = np.where(window > 0, window * (window + 1) / 2 + (length - window) * window, length * (length + 1) / 2)
    beyond = overhead + np.where(window > 0, window_overhead, 0)
    keys = pairs / length + query_tile / 2 + np.where(window > 0, query_tile / 2, 0) + beyond
    longest = np.where(window > 0, np.minimum(length, window + query_tile), length + query_tile / 2) + beyond
    key_us = query_tile * 2 * (head_tile + value_tile) * machine.processors / (machine.peaks[precision] * efficiency)
    work = batch * heads * np.ceil(length / query_tile) * keys * key_us / machine.processors
    compute = np.maximum(work, longest * key_us) + tail * np.minimum(work, longest * key_us)
    width = {"bf16": 2, "fp8": 1}
    moved = batch * length * (heads * (head + value) * width[precision] + kv_heads * (head + value) * width[cache])
    fresh = 2 * batch * length * (heads * head + kv_heads * (head + value))
    left = np.clip((fresh / machine.cache - KEPT_FROM) / (1 - KEPT_FROM), 0, 1)
    return (launch + np.maximum(compute, moved / machine.memory) +
            traffic * fresh / machine.memory * (cached + (1 - cached) * left))


def fit_kernel(machine, rows, precision, cache):
    """Parameters and errors of the kernel that these rows of one GPU ran."""
    sizes = shapes(rows)
    measured = np.array([float(r["us"]) for r in rows])
    part = seen([tuple(column) for column in sizes.T])
    high = list(HIGH)
    if not sizes[6].any():
        high[NAMES.index("window_overhead")] = 0
    best = None
    for query_tile in QUERY_TILES:
        def told(p, which):
            return predict(p, sizes[:, which], machine, precision, cache, query_tile)
        p = fit(lambda p: told(p, part), START, LOW, high, measured[part], starts=3)
        off = errors(told(p, np.ones(len(rows), bool)), measured)
        if best is None or off[part].mean() < best[2][best[3]].mean():
            best = (query_tile, p, off, part)
    return best


def kernel_line(precision, cache, head_tile, value_tile, query_tile, parameters):
    fields = [("precision", precision), ("cache", cache), ("head_tile", float(head_tile))]
    if value_tile != head_tile:
        fields.append(("value_tile", float(value_tile)))
    fields += [("query_tile", float(query_tile))] + list(zip(NAMES, parameters))
    return "      - " + flow(fields)


def groups_of(tables, gpu):
    """Rows by precision of products and of the cache, and by tile; kernels of latent attention have their own."""
    groups = {}
    for table, dtype in (("attention_context", "attn_dtype"), ("mla_context", "mla_dtype")):
        for r in tables[table]:
            if r["gpu"] != gpu:
                continue
            head, value = (float(r["head_dim"]),) * 2 if table == "attention_context" else (LATENT_HEAD, LATENT_VALUE)
            key = (table, PRECISIONS[r[dtype]], PRECISIONS[r["kv_cache_dtype"]], tile_of(head), tile_of(value))
            groups.setdefault(key, []).append(r)
    return groups


def other_tiles(kernels):
    """Kernels of 64 and 256 for a precision that was measured with 128 alone."""
    made = []
    for (precision, cache, head, value), (query_tile, parameters) in kernels.items():
        if head != 128 or value != 128:
            continue
        for tile, share in OTHER_TILES.items():
            if (precision, cache, tile, tile) not in kernels:
                made.append(kernel_line(precision, cache, tile, tile, query_tile,
                                        [min(1, share * parameters[0]), *parameters[1:]]))
    return made


def fit_attention(machine, tables, report):
    """The lines of the profile's section `attention`."""
    lines, kernels = [], {}
    for key, rows in sorted(groups_of(tables, machine.gpu).items()):
        table, precision, cache, head_tile, value_tile = key
        if precision not in machine.peaks:
            continue
        query_tile, parameters, off, part = fit_kernel(machine, rows, precision, cache)
        lines.append(kernel_line(precision, cache, head_tile, value_tile, query_tile, parameters))
        kernels[precision, cache, head_tile, value_tile] = (query_tile, parameters)
        report.add(table, machine.gpu, f"{precision}, cache {cache}, heads to {head_tile}", off, part)
    return lines + other_tiles(kernels)


def write(text, lines):
    section = ["    kernels:"] + lines + [f"    backward_share: {BACKWARD_SHARE}", f"    backward_overhead: {BACKWARD_OVERHEAD}",
                                          f"    source: {quoted(SOURCE)}"]
    return with_section(text, "attention", section, "memory_gb")
