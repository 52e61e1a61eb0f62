"""Kernels of profilers: nsys SQLite exports and stats tables, PyTorch (Kineto) traces. Overlap by union of intervals."""
import collections
import csv
import json
import re
import sqlite3

from tool import BadInput

# NCCL's kernels under all their names: ncclKernel_, ncclDevKernel_, ncclDevKernel_Generic_1, lower case.
NCCL = re.compile(r"nccl(dev)?kernel", re.IGNORECASE)
COLLECTIVE = re.compile(r"(AllReduce|ReduceScatter|AllGather|AllToAll|SendRecv|Broadcast|Reduce)", re.IGNORECASE)
# What some names end in is the entry they were launched by; algorithm and protocol are chosen as they run.
LAUNCH_ENTRY = re.compile(r"_RING_LL\b|RING_LL_", re.IGNORECASE)
KINDS = {"allreduce": "all_reduce", "reducescatter": "reduce_scatter", "allgather": "all_gather", "alltoall": "all_to_all",
         "sendrecv": "send, receive", "broadcast": "broadcast", "reduce": "reduce"}
ENTRY_NOTE = "RING_LL in a kernel's name is how it was launched, not the algorithm and protocol that ran"


def is_communication(name):
    return NCCL.search(name) is not None


def collective_of(name):
    found = COLLECTIVE.search(name)
    return KINDS[found[1].lower()] if found else "communication"


def union(intervals):
    """Length covered by [(start, end)], each part once."""
    covered, reached = 0.0, None
    for start, end in sorted(intervals):
        if reached is None or start > reached:
            covered += end - start
            reached = end
        elif end > reached:
            covered += end - reached
            reached = end
    return covered


def overlap(compute, communication):
    """What compute and communication cover, together and by themselves: {compute, comm, busy, overlap, exposed}."""
    lengths = {"compute": union(compute), "comm": union(communication), "busy": union(compute + communication)}
    lengths["overlap"] = lengths["compute"] + lengths["comm"] - lengths["busy"]
    lengths["exposed"] = lengths["busy"] - lengths["compute"]
    return lengths


def results_of(kernels, unit_ms):
    """Row values of [(name, start, end)]: the span of all, and its parts."""
    compute = [(start, end) for name, start, end in kernels if not is_communication(name)]
    communication = [(start, end) for name, start, end in kernels if is_communication(name)]
    parts = {name: length * unit_ms for name, length in overlap(compute, communication).items()}
    whole = (max(end for _, _, end in kernels) - min(start for _, start, _ in kernels)) * unit_ms
    return {"instrumented_step_ms": whole, "compute_ms": parts["compute"], "exposed_comm_ms": parts["exposed"],
            "idle_ms": max(0.0, whole - parts["busy"]), "comm_ms": parts["comm"]}


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def ops_of(kernels, unit_us):
    groups = collections.defaultdict(list)
    for name, start, end in kernels:
        groups[name].append((end - start) * unit_us)
    out = []
    for name, times in sorted(groups.items(), key=lambda item: -sum(item[1])):
        out.append({"label": name, "kind": collective_of(name) if is_communication(name) else "kernel",
                    "axis": "communication" if is_communication(name) else "compute", "count": len(times),
                    "p50_us": median(times), "total_ms": sum(times) / 1e3})
    return out


def entry(path, kind, results, ops, notes):
    if any(LAUNCH_ENTRY.search(op["label"]) for op in ops):
        notes = notes + [ENTRY_NOTE]
    return {"file": path, "kind": kind, "flags": {}, "results": results, "ops": ops, "notes": notes}


# PyTorch's profiler and others that write Chrome's format.
def read_kineto(path, text):
    try:
        trace = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(f"{path}: byte {len(text[:error.pos].encode())}: no JSON ({error.msg}); a trace that is cut or broken is not summed") from error
    events = trace.get("traceEvents") if isinstance(trace, dict) else trace
    if not isinstance(events, list):
        raise BadInput(f"{path}: no traceEvents")
    kernels = []
    for event in events:
        if isinstance(event, dict) and event.get("ph") == "X" and str(event.get("cat", "")).lower() in ("kernel", "gpu_memcpy", "gpu_memset"):
            start, length = number(path, event.get("ts")), number(path, event.get("dur"))
            kernels.append((str(event.get("name", "")), start, start + length))
    if not kernels:
        raise BadInput(f"{path}: no kernels in it (events of category kernel); profile with the CUDA activity")
    return entry(path, "kineto", results_of(kernels, 1e-3), ops_of(kernels, 1.0), device_notes(trace))


def device_notes(trace):
    info = trace.get("distributedInfo") if isinstance(trace, dict) else None
    if not info:
        return []
    return [f"rank {info.get('rank')} of {info.get('world_size')}"]


def number(path, value):
    """Some writers quote their numbers."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise BadInput(f"{path}: '{value}' is no time") from None


# Nsight Systems.
def read_nsys_sqlite(path):
    try:
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        columns = [row[1] for row in database.execute("PRAGMA table_info(CUPTI_ACTIVITY_KIND_KERNEL)")]
        if not columns:
            raise BadInput(f"{path}: no table CUPTI_ACTIVITY_KIND_KERNEL; trace with --trace=cuda and export to SQLite")
        strings = dict(database.execute("SELECT id, value FROM StringIds"))
        name = next(column for column in ("demangledName", "shortName", "mangledName") if column in columns)
        kernels = [(strings.get(identifier, str(identifier)), start, end) for start, end, identifier in
                   database.execute(f'SELECT start, "end", "{name}" FROM CUPTI_ACTIVITY_KIND_KERNEL')]
    except sqlite3.Error as error:
        raise BadInput(f"{path}: cannot be read as SQLite: {error}") from error
    if not kernels:
        raise BadInput(f"{path}: no kernels in it")
    return entry(path, "nsys sqlite", results_of(kernels, 1e-6), ops_of(kernels, 1e-3), [])


HEADINGS = {"share": r"time ?\(%\)", "total": r"total time \((ns|nsec|us|ms|s)\)", "count": r"(instances|calls|num calls)",
            "mean": r"(average|avg \((ns|nsec|us|ms)\)|avg)", "median": r"(med|median) ?(\((ns|nsec|us|ms)\))?", "name": r"(name|range|operation)"}
UNITS_NS = {"ns": 1, "nsec": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def read_nsys_stats(path, text):
    """A table of `nsys stats` in any of its forms: CSV behind some lines of words, or drawn with lines."""
    lines = text.splitlines()
    first = next((index for index, line in enumerate(lines) if looks_like_heading(line)), None)
    if first is None:
        return None
    drawn = lines[first].lstrip().startswith("|")
    split = (lambda line: [cell.strip() for cell in line.strip().strip("|").split("|")]) if drawn else None
    header = split(lines[first]) if drawn else next(csv.reader([lines[first]]))
    places, unit = columns_of(header)
    ops, notes = [], []
    for line in lines[first + 1:]:
        cells = table_cells(line, drawn, split, len(header))
        if cells is None:
            continue
        ops.append(stats_op(path, cells, places, unit))
    if not ops:
        raise BadInput(f"{path}: a table of nsys stats without rows")
    total = sum(op["total_ms"] for op in ops)
    told = sum(op["share_pct"] for op in ops)
    if told < 99:
        notes.append(f"the rows shown are {told:.1f}% of all kernel time: the table is cut")
    communication = sum(op["share_pct"] for op in ops if op["axis"] == "communication")
    notes.append(f"communication {communication:.1f}% of kernel time, by sums: a table of sums does not tell what overlaps")
    results = {"comm_ms": sum(op["total_ms"] for op in ops if op["axis"] == "communication"), "kernel_ms": total}
    return entry(path, "nsys stats", results, ops, notes)


def looks_like_heading(line):
    return re.search(HEADINGS["share"], line, re.IGNORECASE) and re.search(HEADINGS["total"], line, re.IGNORECASE)


def columns_of(header):
    """{what: its column}, and nanoseconds of the unit of the total."""
    places, unit = {}, 1
    for index, cell in enumerate(header):
        for what, form in HEADINGS.items():
            found = re.fullmatch(form, cell.strip(), re.IGNORECASE)
            if found and what not in places:
                places[what] = index
                unit = UNITS_NS[found[1].lower()] if what == "total" else unit
    return places, unit


def table_cells(line, drawn, split, width):
    if drawn:
        return split(line) if line.lstrip().startswith("|") and len(split(line)) == width else None
    cells = next(csv.reader([line]), [])
    return cells if len(cells) == width else None


def stats_op(path, cells, places, unit):
    def read(what):
        text = cells[places[what]].replace(",", "").strip()
        return number(path, text)

    name = cells[places["name"]].strip()
    total, count = read("total") * unit, read("count")
    middle = read("median") * unit if "median" in places else read("mean") * unit if "mean" in places else total / count
    return {"label": name, "kind": collective_of(name) if is_communication(name) else "kernel",
            "axis": "communication" if is_communication(name) else "compute", "count": int(count), "p50_us": middle / 1e3,
            "total_ms": total / 1e6, "share_pct": read("share")}
