#!/usr/bin/env python3
"""The breakdown of a step from Nsight Systems traces, with the meaning that the CSV of shardbench gives it.

  scripts/nsys_report.py rank0.sqlite [rank1.sqlite ...] [--range NAME] [--ops]

Reads SQLite exports (nsys export --type sqlite, or scripts/nsys_profile.sh). A kernel belongs to the innermost range of domain
"shardbench" that was open on the thread that launched it; the range's category is its lane (compute, tp, cp, dp, pp, ep).
Without kernels (a CPU run) the ranges themselves are the spans. Prints CSV: a row for each process and each range called NAME
(all of the capture without --range), or with --ops a row for each range name. Times are in milliseconds.
"""
import argparse
import bisect
import collections
import csv
import sqlite3
import sys

from tool import BadInput, Parser, run

LANES = ("compute", "tp", "cp", "dp", "pp", "ep", "other_comm")
COMM = LANES[1:]
DOMAIN = "shardbench"
# NVTX_EVENTS.eventType, as nsys writes it.
CATEGORY_NAME, PUSH_POP, START_END, DOMAIN_NAME = 33, 59, 60, 75
PROCESS_MASK = ~0xFFFFFF  # globalTid without its lowest 24 bits, the thread, is globalPid

Range = collections.namedtuple("Range", "name lane start end thread payload")
Span = collections.namedtuple("Span", "lane start end process label payload")


def columns_of(database, table):
    return [row[1] for row in database.execute(f"PRAGMA table_info({table})")]


def select(database, table, wanted):
    """Rows of a table as dicts; a column that this version of nsys lacks is None, a table that it lacks is empty."""
    present = columns_of(database, table)
    chosen = [name for name in wanted if name in present]
    if not chosen:
        return []
    quoted = ", ".join(f'"{name}"' for name in chosen)
    return [dict.fromkeys(wanted) | dict(zip(chosen, row)) for row in database.execute(f"SELECT {quoted} FROM {table}")]


def read_ranges(database):
    """Ranges of our domain, by start; the lanes come from the names given to the categories."""
    strings = {row["id"]: row["value"] for row in select(database, "StringIds", ("id", "value"))}
    events = select(database, "NVTX_EVENTS", ("start", "end", "eventType", "category", "text", "textId", "domainId",
                                              "globalTid", "doubleValue", "uint64Value", "int64Value"))
    for event in events:
        event["name"] = event["text"] or strings.get(event["textId"], "")
        event["globalTid"] = event["globalTid"] or 0
    # Domain ids are given per process.
    ours = {(event["globalTid"] & PROCESS_MASK, event["domainId"]) for event in events
            if event["eventType"] == DOMAIN_NAME and event["name"] == DOMAIN}
    mine = [event for event in events if (event["globalTid"] & PROCESS_MASK, event["domainId"]) in ours]
    names = {(event["globalTid"] & PROCESS_MASK, event["category"]): event["name"] for event in mine
             if event["eventType"] == CATEGORY_NAME}
    ranges = []
    for event in mine:
        if event["eventType"] in (PUSH_POP, START_END) and event["end"] is not None:
            lane = names.get((event["globalTid"] & PROCESS_MASK, event["category"]))
            payload = next((event[key] for key in ("doubleValue", "uint64Value", "int64Value") if event[key] is not None), 0)
            ranges.append(Range(event["name"], lane if lane in LANES else None, event["start"], event["end"],
                                event["globalTid"], payload))
    return sorted(ranges, key=lambda item: (item.start, -item.end)), strings


class Nesting:
    """The ranges of each thread, which nest: who holds whom, and which is innermost at a time."""

    def __init__(self, ranges):
        self.ranges = [item for item in ranges if item.lane]
        self.parent = [None] * len(self.ranges)
        self.by_thread = collections.defaultdict(list)
        stacks = collections.defaultdict(list)
        for index, item in enumerate(self.ranges):
            stack = stacks[item.thread]
            while stack and self.ranges[stack[-1]].end <= item.start:
                stack.pop()
            self.parent[index] = stack[-1] if stack else None
            stack.append(index)
            self.by_thread[item.thread].append(index)
        self.starts = {thread: [self.ranges[index].start for index in held] for thread, held in self.by_thread.items()}

    def innermost(self, thread, time):
        position = bisect.bisect_right(self.starts.get(thread, []), time) - 1
        index = self.by_thread[thread][position] if position >= 0 else None
        while index is not None and self.ranges[index].end < time:
            index = self.parent[index]
        return None if index is None else self.ranges[index]

    def leaves(self):
        holders = set(self.parent)
        return [item for index, item in enumerate(self.ranges) if index not in holders]


def device_spans(database, ranges, strings):
    """Kernels, copies and fills on the device, each billed to the lane of the range that launched it."""
    calls = {(row["globalTid"] & PROCESS_MASK, row["correlationId"]): row for row in
             select(database, "CUPTI_ACTIVITY_KIND_RUNTIME", ("start", "globalTid", "correlationId"))}
    nesting = Nesting(ranges)
    spans = []
    for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"):
        for row in select(database, table, ("start", "end", "correlationId", "globalPid", "shortName")):
            call = calls.get((row["globalPid"], row["correlationId"]))
            source = nesting.innermost(call["globalTid"], call["start"]) if call else None
            name = strings.get(row["shortName"], table.rsplit("_", 1)[1].lower())
            lane = source.lane if source else "other_comm" if "nccl" in name.lower() else "compute"
            launched = call["start"] if call else row["start"]
            spans.append((launched, Span(lane, row["start"], row["end"], row["globalPid"], source.name if source else name,
                                         source.payload if source else 0)))
    return spans


def range_spans(ranges):
    """On the host a range lasts as long as its work. A range that holds others (a step, a layer) is not work of its own."""
    return [(item.start, Span(item.lane, item.start, item.end, item.thread & PROCESS_MASK, item.name, item.payload))
            for item in Nesting(ranges).leaves()]


def break_down(spans, start, end):
    """step = compute + exposed + idle over [start, end]; axes in flight together share exposed time equally."""
    edges = collections.defaultdict(lambda: [0] * len(LANES))
    for span in spans:
        first, last = max(span.start, start), min(span.end, end)
        if last > first:
            lane = LANES.index(span.lane)
            edges[first][lane] += 1
            edges[last][lane] -= 1
    result = dict.fromkeys(["compute", "exposed", "idle", "comm"] + [f"comm_{lane}" for lane in COMM] +
                           [f"exposed_{lane}" for lane in COMM], 0.0)
    running, previous = [0] * len(LANES), start
    for time in sorted(edges) + [end]:
        account(result, running, time - previous)
        previous = time
        running = [a + b for a, b in zip(running, edges.get(time, [0] * len(LANES)))]
    result["step"] = end - start
    return {name: value / 1e6 for name, value in result.items()}


def account(result, running, duration):
    active = [lane for lane, count in zip(LANES, running) if count > 0 and lane != "compute"]
    for lane in active:
        result[f"comm_{lane}"] += duration
    if active:
        result["comm"] += duration
    if running[0] > 0:
        result["compute"] += duration
    elif active:
        result["exposed"] += duration
        for lane in active:
            result[f"exposed_{lane}"] += duration / len(active)
    else:
        result["idle"] += duration


def windows_of(process, ranges, spans, name, on_device):
    """(start, end, spans) of each step: the range called `name`, or on a device from its first kernel to its last."""
    mine = [(launched, span) for launched, span in spans if span.process == process]
    if name is None:
        chosen = [span for _, span in mine]
        return [(min(s.start for s in chosen), max(s.end for s in chosen), chosen)] if chosen else []
    windows = []
    for item in ranges:
        if item.name == name and item.thread & PROCESS_MASK == process:
            chosen = [span for launched, span in mine if item.start <= launched <= item.end]
            if on_device and chosen:
                windows.append((min(span.start for span in chosen), max(span.end for span in chosen), chosen))
            else:
                windows.append((item.start, item.end, chosen))
    return windows


def read_trace(path):
    """(ranges, spans with their launch times, whether they are a device's)"""
    try:
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        if "start" not in columns_of(database, "NVTX_EVENTS"):
            raise BadInput(f"{path}: no table NVTX_EVENTS; trace with --trace=nvtx and export to SQLite")
        ranges, strings = read_ranges(database)
        if not ranges:
            raise BadInput(f"{path}: no ranges of domain '{DOMAIN}'")
        on_device = bool(select(database, "CUPTI_ACTIVITY_KIND_KERNEL", ("start",)))
        return ranges, device_spans(database, ranges, strings) if on_device else range_spans(ranges), on_device
    except sqlite3.Error as error:
        raise BadInput(f"{path}: cannot be read as SQLite: {error}") from error


def step_rows(path, name):
    ranges, spans, on_device = read_trace(path)
    known = sorted({item.name for item in ranges})
    if name is not None and name not in known:
        raise BadInput(f"{path}: no range '{name}'; there are: {', '.join(known[:20])}")
    for process in sorted({span.process for _, span in spans}):
        windows = windows_of(process, ranges, spans, name, on_device)
        if not windows:
            continue
        parts = [break_down(chosen, start, end) for start, end, chosen in windows]
        mean = {key: sum(part[key] for part in parts) / len(parts) for key in parts[0]}
        row = {"file": path, "process": process >> 24 & 0xFFFFFF, "spans": "device" if on_device else "host",
               "range": name or "", "instances": len(parts), "step_ms": mean["step"], "compute_ms": mean["compute"],
               "exposed_comm_ms": mean["exposed"], "idle_ms": mean["idle"], "comm_ms": mean["comm"]}
        row |= {f"comm_{lane}_ms": mean[f"comm_{lane}"] for lane in COMM}
        yield row | {f"exposed_{lane}_ms": mean[f"exposed_{lane}"] for lane in COMM}


def op_rows(path):
    _, spans, _ = read_trace(path)
    groups = collections.defaultdict(list)
    for _, span in spans:
        groups[(span.lane, span.label)].append(span)
    order = sorted(groups.items(), key=lambda item: -sum(span.end - span.start for span in item[1]))
    for (lane, label), group in order:
        total = sum(span.end - span.start for span in group)
        yield {"file": path, "lane": lane, "name": label, "count": len(group), "total_ms": total / 1e6,
               "mean_us": total / len(group) / 1e3, "payload": group[0].payload}


def main(arguments):
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE.sqlite")
    parser.add_argument("--range", metavar="NAME", help="a step is each range with this name")
    parser.add_argument("--ops", action="store_true", help="a row for each range name instead")
    options = parser.parse_args(arguments)
    rows = [row for path in options.files for row in (op_rows(path) if options.ops else step_rows(path, options.range))]
    if not rows:
        raise BadInput(f"{options.files[0]}: no step in it")
    writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()})
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
