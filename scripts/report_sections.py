"""The sections of a report page, each from the rows of one model and phase; empty text where there is nothing to show."""
import report_svg as svg
import report_units as units
from report_data import (MEMORY, best_by_devices, cut_words, front_of, full_cut, memory_parts, passed, predicted_pairs, time_parts, words)
from report_svg import escape

PART_WORDS = {"compute": "compute", "tp": "tp communication waited for", "cp": "cp communication waited for", "dp": "dp communication waited for",
              "pp": "pp communication waited for", "ep": "ep communication waited for", "bubble": "pipeline bubble", "idle": "other idle time"}
MOST_BARS = 8  # of one device count


def section(name, heading, takeaway, body, half=False):
    kind = ' class="half"' if half else ""
    return (f'<section id="{name}"{kind} aria-labelledby="{name}-h"><h2 id="{name}-h">{escape(heading)}</h2>'
            f'<p class="take">{takeaway}</p>{body}</section>')


def key(entries):
    items = "".join(f'<li><i style="background:var(--{name})"></i>{escape(text)}</li>' for name, text in entries)
    return f'<ul class="key">{items}</ul>'


def bar(parts, total, longest, text_of):
    """Parts beside each other; `parts`: [(key, words, value)]."""
    pieces = []
    for name, meaning, value in parts:
        share = 100 * value / longest
        tip = f"{meaning}: {text_of(value)}, {100 * value / total:.1f}%"
        inside = f"{100 * value / total:.0f}%" if share > 7 else ""
        pieces.append(f'<span class="seg {name}" style="width:{share:.2f}%;background:var(--{name})" data-tip="{escape(tip)}">{inside}</span>')
    return "".join(pieces)


def bars(rows, parts_of, total_of, text_of, limit=None, side=None):
    """A bar for each row, all on one scale. `limit`: (value, words) is marked with a line."""
    longest = max([total_of(row) for row in rows] + ([limit[0]] if limit else []))
    out = []
    for index, row in enumerate(rows):
        parts, total = parts_of(row), total_of(row)
        spoken = ", ".join(f"{meaning} {text_of(value)}" for _, meaning, value in parts)
        line = f'<div class="limit" style="left:{100 * limit[0] / longest:.2f}%" title="{escape(limit[1])}"></div>' if limit else ""
        beside = f" <small>{escape(side(row))}</small>" if side else ""
        out.append(f'<div class="row"><div class="name{" best" if index == 0 else ""}">{escape(row["label"])}</div>'
                   f'<div class="track"><div class="bar" role="img" aria-label="{escape(row["label"])}: {escape(spoken)}">{bar(parts, total, longest, text_of)}</div>{line}</div>'
                   f'<div class="total">{escape(text_of(total))}{beside}</div></div>')
    return f'<div class="bars">{"".join(out)}</div>'


def by_devices(rows):
    """[(devices, its fastest rows)], most devices first."""
    counts = {}
    for row in rows:
        counts.setdefault(row["ranks"], []).append(row)
    return sorted(counts.items(), reverse=True)


def where_time_goes(group, best):
    rows = [row for row in passed(group.rows) if time_parts(row)]
    if not rows:
        return ""
    met, blocks = [], []
    counts = by_devices(rows)
    shown_counts = counts if len(counts) <= 4 else counts[:4]
    for count, held in shown_counts:
        chosen = held[:MOST_BARS if len(counts) == 1 else 4]
        met += [part[0] for row in chosen for part in time_parts(row)]
        head = f"<h3>{count:,.0f} {'device' if count == 1 else 'devices'}{f', the fastest {len(chosen)} of {len(held)}' if len(held) > len(chosen) else ''}</h3>" if len(counts) > 1 or len(held) > len(chosen) else ""
        mfu = (lambda row: f"MFU {row['mfu_pct']:.1f}%" if row.get("mfu_pct") is not None else "") if any(row.get("mfu_pct") is not None for row in chosen) else None
        blocks.append(head + bars(chosen, time_parts, lambda row: sum(part[2] for part in time_parts(row)), units.time, side=mfu))
    legend = key([(name, text) for name, text in PART_WORDS.items() if name in met])
    parts = time_parts(best) or time_parts(rows[0])
    total = sum(part[2] for part in parts)
    lost = sorted((part for part in parts if part[0] != "compute"), key=lambda part: -part[2])
    compute = 100 * parts[0][2] / total
    takeaway = f"<b>{compute:.0f}% of the best step is compute.</b>"
    if lost and lost[0][2] > 0.005 * total:
        takeaway += f" The largest loss is the {escape(lost[0][1])}: {units.time(lost[0][2])}, {units.percent(100 * lost[0][2] / total)}." if lost[0][0] in ("bubble", "idle") else f" The largest loss is {escape(lost[0][1])}: {units.time(lost[0][2])}, {units.percent(100 * lost[0][2] / total)}."
    else:
        takeaway += " Communication is hidden behind it almost whole."
    if len(counts) > 1:
        takeaway += " Each device count has a scale of its own."
    return section("time", "Where the step goes", takeaway, legend + "".join(blocks))


def timeline(facts, group, best):
    """A place that the script draws in."""
    line = facts.get("timeline")
    if not line or not any(row.get("run_id") == facts.get("run_id") for row in group.rows):
        return ""
    tools = "".join(f'<button type="button" data-do="{do}" aria-label="{spoken}">{text}</button>'
                    for do, text, spoken in (("in", "+", "Zoom in"), ("out", "−", "Zoom out"), ("left", "←", "Earlier"), ("right", "→", "Later"), ("all", "whole step", "Show the whole step")))
    kinds = {block[2] for stage in line["stages"] for block in stage["blocks"]}
    legend = [("f", "forward")] if kinds & {"F", "D"} else []
    legend += [("b", "backward" if "B" in kinds else "backward, inputs")] if kinds & {"B", "I"} else []
    legend += [("w", "backward, weights")] if "W" in kinds else []
    legend += [("r", "recompute")] if "R" in kinds else []
    legend += [("o", "optimizer")] if "OPT" in kinds else []
    legend += [("idle", "waits")]
    lanes = {lane for stage in line["stages"] for lane in stage["communication"]}
    legend += [(lane, f"{lane} communication, below") for lane in ("tp", "cp", "dp", "pp", "ep") if lane in lanes]
    stages, bubble = len({stage["stage"] for stage in line["stages"]}), best.get("bubble_ms") or 0.0
    share = 100 * bubble / best["step_ms_p50"] if best.get("step_ms_p50") else 0
    if stages > 1:
        takeaway = (f"<b>{stages} stages, {best.get('microbatches') or 0:g} microbatches"
                    f"{', ' + escape(words('schedule', best['schedule'])) if best.get('schedule') else ''}:</b> stages wait for their neighbours "
                    f"{units.percent(share)} of the step.")
    else:
        takeaway = f"<b>One stage, {best.get('microbatches') or 0:g} microbatches.</b>"
    takeaway += " Point at a block for the operation under the pointer; arrow keys walk from block to block, + and − zoom."
    name = f"Timeline of {full_cut(best)}: {stages} stages over {units.time(line['step_ms'])}"
    return section("timeline", "The step, stage by stage", takeaway,
                   f'{key(legend)}<div class="tools">{tools}</div><div class="timeline" data-name="{escape(name)}"></div>'
                   '<p class="said" aria-live="polite"></p><noscript><p>The timeline is drawn by a script.</p></noscript>')


def heat_map(group, best):
    """Best step of each tp and pp, at the best row's device count."""
    rows = [row for row in group.rows if row["ranks"] == best["ranks"]]
    cells = {}
    for row in passed(rows):
        cells.setdefault((row["tp"], row["pp"]), row)
    over = {(row["tp"], row["pp"]) for row in rows if row["outcome"] == "failed" and "memory" in (row.get("reason") or "")}
    tps, pps = sorted({row["tp"] for row in rows}), sorted({row["pp"] for row in rows})
    if len(tps) * len(pps) < 4 or len(tps) < 2 or len(pps) < 2 or len(cells) < 3 or len(cells) < 0.3 * len(tps) * len(pps):
        return ""
    fastest, slowest = best["step_ms_p50"], max(row["step_ms_p50"] for row in cells.values())
    lines = []
    for pp in pps:
        line = []
        for tp in tps:
            row = cells.get((tp, pp))
            if row is None:
                line.append('<td class="over">too big</td>' if (tp, pp) in over else '<td class="none">–</td>')
                continue
            speed = fastest / row["step_ms_p50"]
            shade = 100 * max(0.0, (speed - fastest / slowest) / (1 - fastest / slowest)) ** 1.2 if slowest > fastest else 100
            kind = ("dark " if shade > 55 else "") + ("chosen" if row is cells.get((best["tp"], best["pp"])) else "")
            tip = f"tp {tp:g}, pp {pp:g}: {units.time(row['step_ms_p50'])}; {row['label']}"
            second = f"<small>{row['mfu_pct']:.0f}% MFU</small>" if row.get("mfu_pct") is not None else ""
            line.append(f'<td class="{kind}" style="--shade:{8 + 0.92 * shade:.0f}%" tabindex="0" data-tip="{escape(tip)}">{escape(units.time(row["step_ms_p50"]))}{second}</td>')
        lines.append(f'<tr><th scope="row">pp {pp:g}</th>{"".join(line)}</tr>')
    head = "".join(f'<th scope="col">tp {tp:g}</th>' for tp in tps)
    takeaway = f"The best step of each pair, on {best['ranks']:,.0f} devices; darker is faster. <b>tp {best['tp']:g} with pp {best['pp']:g}</b> wins."
    return section("heat", "Tensor against pipeline parallelism", takeaway,
                   f'<table class="heat"><caption hidden>Best step time by tp and pp</caption><thead><tr><td class="none"></td>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>', half=True)


def scaling(group):
    best = best_by_devices(group.rows)
    images = any(row.get("image_size") for row in group.rows)
    column, unit = ("samples_per_s", "images/s") if images else ("tokens_per_s", "tokens/s")
    best = {count: row for count, row in best.items() if row.get(column)}
    if len(best) < 2:
        return ""
    batches = {row.get("global_batch") for row in best.values()}
    counts = list(best)
    gain = best[counts[-1]][column] / best[counts[0]][column]
    ideal = counts[-1] / counts[0]
    kind = "Strong scaling: the global batch stays" if len(batches) == 1 else "Weak scaling: the batch grows with the devices"
    takeaway = (f"<b>{counts[0]:,.0f} to {counts[-1]:,.0f} devices: {gain:.2f} times the rate, {100 * gain / ideal:.0f}% of ideal.</b> "
                f"{kind}; each point is the best cut of its device count.")
    body = f'<div>{svg.scaling(best, lambda row: row[column], unit)}</div>'
    if sum(row.get("mfu_pct") is not None for row in best.values()) >= 2:
        body = f'<div class="pair">{body}<div>{svg.utilisation(best)}</div></div>'
    return section("scaling", "Scaling", takeaway, body)


def memory(group, best, facts):
    """By kind against capacity, for the fastest rows and for what did not fit."""
    ran = [row for row in passed(group.rows) if memory_parts(row)]
    if not ran:
        return ""
    over = [row for row in group.rows if row["outcome"] == "failed" and memory_parts(row) and row.get("memory_capacity_bytes")]
    same_count = [row for row in ran if row["ranks"] == best["ranks"]] or ran
    rows = same_count[:MOST_BARS - 2] + sorted(over, key=lambda row: row["memory_peak_bytes"])[:2]
    capacity = next((row["memory_capacity_bytes"] for row in rows if row.get("memory_capacity_bytes")), None)
    text = {"parameters": "parameters", "gradients": "gradients", "optimizer": "optimizer states", "activations": "activations kept for backward",
            "temporaries": "temporaries", "buffers": "buffers", "reserved": "reserved by the software", "other": "other"}
    parts_of = lambda row: [(name, text[name], size) for name, size in memory_parts(row)]  # noqa: E731
    met = {part[0] for row in rows for part in memory_parts(row)}
    legend = key([(name, text[name]) for name in list(dict(MEMORY)) + ["other"] if name in met])
    largest = max(memory_parts(best) or memory_parts(rows[0]), key=lambda part: part[1])
    peak = best.get("memory_peak_bytes") or rows[0]["memory_peak_bytes"]
    takeaway = f"<b>{units.data(peak)}{f' of {units.data(capacity)}' if capacity else ''} on the fullest device;</b> most of it {text[largest[0]]}, {units.data(largest[1])}."
    note = f'<p class="limit-name">The dashed line is the device\'s memory, {units.data(capacity)}.</p>' if capacity else ""
    stage = facts.get("memory")
    if stage and stage.get("largest") and best.get("run_id") == facts.get("run_id"):
        names = "; ".join(f"{name} {units.data(size)}" for name, size in stage["largest"][:3])
        note += f'<p class="limit-name">Largest tensors at the peak, on stage {stage["stage"]}: {escape(names)}.</p>'
    total_of = lambda row: sum(part[1] for part in memory_parts(row))  # noqa: E731
    return section("memory", "Memory", takeaway, legend + bars(rows, parts_of, total_of, units.data, (capacity, "capacity") if capacity else None) + note)


def front(group, best):
    rows = [row for row in passed(group.rows) if row["ranks"] == best["ranks"] and row.get("memory_peak_bytes")]
    chosen = front_of(rows)
    if len(rows) < 3 or len({row["memory_peak_bytes"] for row in rows}) < 2:
        return ""
    capacity = best.get("memory_capacity_bytes")

    def tip(row):
        cost = f", {units.money(row['cost_usd'])}" if row.get("cost_usd") else f", {row['device_hours']:,.0f} device-hours" if row.get("device_hours") else ""
        return f"{row['label']}\n{units.time(row['step_ms_p50'])}, {units.data(row['memory_peak_bytes'])}{cost}"

    small = chosen[-1]
    if len(chosen) > 1:
        takeaway = (f"<b>The leanest cut needs {units.data(small['memory_peak_bytes'])} and takes {small['step_ms_p50'] / best['step_ms_p50']:.1f} times as long.</b> "
                    "On the line nothing is both faster and smaller; cost follows time, as all use the same devices.")
    else:
        takeaway = "<b>The fastest cut needs the least memory, too.</b>"
    return section("front", "Time, memory, cost", takeaway, svg.front(rows, chosen, best, capacity, tip), half=True)


def what_ifs(facts, best):
    entries = facts.get("what_ifs") or []
    told = [entry for entry in entries if entry.get("step_ms")]
    if not told:
        return ""
    step = best["step_ms_p50"]
    changes = [entry["step_ms"] / step - 1 for entry in told]
    low, high = min(changes + [0]), max(changes + [0])
    spread = (high - low) or 1
    zero = 100 * -low / spread
    out = []
    for title, kind in (("Other hardware, the same cut", "hardware"), ("The same hardware, another cut", "cut")):
        chosen = sorted((entry for entry in told if entry["kind"] == kind), key=lambda entry: entry["step_ms"])
        if not chosen:
            continue
        lines = []
        for entry in chosen:
            change = entry["step_ms"] / step - 1
            start, width = (zero + 100 * min(change, 0) / spread), 100 * abs(change) / spread
            again = f'<span class="again">planned again {escape(units.time(entry["again_ms"]))} ({units.change(entry["again_ms"], step)}): {escape(entry["again_cut"])}</span>' if entry.get("again_ms") else ""
            lines.append(f'<div class="row"><div class="what">{escape(entry["change"])}{again}</div>'
                         f'<div class="axis-bar" style="--zero:{zero:.2f}%" role="img" aria-label="{units.change(entry["step_ms"], step)}"><i class="{"faster" if change < 0 else "slower"}" style="left:{start:.2f}%;width:{max(width, 0.3):.2f}%"></i></div>'
                         f'<div class="num">{escape(units.time(entry["step_ms"]))} <b>{units.change(entry["step_ms"], step)}</b></div></div>')
        out.append(f'<h3>{title}</h3><div class="gain">{"".join(lines)}</div>')
    refused = [entry for entry in entries if not entry.get("step_ms") and entry.get("problem")]
    if refused:
        out.append('<p class="limit-name">Not possible: ' + "; ".join(f"{escape(entry['change'])} ({escape(entry['problem'])})" for entry in refused) + ".</p>")
    best_change = min(told, key=lambda entry: min(entry["step_ms"], entry.get("again_ms") or entry["step_ms"]))
    reached = min(best_change["step_ms"], best_change.get("again_ms") or best_change["step_ms"])
    takeaway = f"Against the step of {units.time(step)}. <b>The most would come from: {escape(best_change['change'])}, {units.change(reached, step)}.</b>"
    return section("what-if", "What if", takeaway, "".join(out))


def agreement(group):
    pairs = predicted_pairs(group.rows)
    if len(pairs) < 2:
        return ""
    errors = [100 * (predicted / measured - 1) for _, predicted, measured in pairs]
    mean = sum(abs(error) for error in errors) / len(errors)
    bias = sum(errors) / len(errors)
    worst = max(zip(errors, pairs), key=lambda item: abs(item[0]))
    takeaway = (f"<b>Off by {mean:.1f}% on average over {len(pairs)} configurations</b>, "
                f"{'too fast' if bias < 0 else 'too slow'} by {abs(bias):.1f}%; worst {worst[0]:+.0f}%: {escape(worst[1][0]['label'])}. The band is 10% either way.")
    tip = lambda row, predicted, measured: f"{row['label']}\nmeasured {units.time(measured)}, predicted {units.time(predicted)} ({100 * (predicted / measured - 1):+.1f}%)"  # noqa: E731
    return section("agreement", "Predicted against measured", takeaway, svg.agreement(pairs, tip), half=True)


def operations(ops, best, facts):
    """Roofline of the best row's compute, and the rates of its communication."""
    held = ops.get(best.get("run_id")) or []
    timed = [op for op in held if (op.get("p50_us") or op.get("predicted_us")) and op.get("total_ms")]
    compute = [op for op in timed if op.get("axis") == "compute" and op.get("flops") and op.get("bytes")]
    total = sum(op["total_ms"] for op in timed if op.get("axis") == "compute")
    out = ""
    if len(compute) >= 3:
        points = []
        for op in compute:
            us = op.get("p50_us") or op["predicted_us"]
            rate = op["flops"] / us / 1e6
            name = f"{op['label']}{'' if op.get('phase') == 'forward' else ' ' + str(op.get('phase'))}"
            points.append({"intensity": op["flops"] / op["bytes"], "rate": rate, "share": op["total_ms"] / total, "name": op["label"],
                           "tip": f"{name} ({op['kind']})\n{units.time(us / 1e3)} a call, {100 * op['total_ms'] / total:.1f}% of compute\n{rate:,.3g} TFLOP/s at {op['flops'] / op['bytes']:,.3g} FLOP a byte"})
        peak = best.get("peak_tflops") or (facts.get("device") or {}).get("peak_tflops")
        bandwidth = (facts.get("device") or {}).get("memory_gb_per_s")
        top = max(points, key=lambda op: op["share"])
        takeaway = f"<b>{escape(top['name'])} takes {100 * top['share']:.0f}% of the compute time.</b> Dots are as large as their share of it{'; above the dashed roof nothing can run' if peak else ''}."
        out += section("roofline", "Operations under the roof", takeaway, svg.roofline([point for point in points if point["rate"] > 0 and point["share"] > 2e-4], peak, bandwidth), half=True)
    return out + communication(timed)


def communication(timed):
    moved = sorted((op for op in timed if op.get("axis") not in ("compute", None)), key=lambda op: -op["total_ms"])[:8]
    if not moved:
        return ""
    lines = []
    for op in moved:
        us = op.get("p50_us") or op["predicted_us"]
        busbw = f"{op['busbw_gb_per_s']:,.0f} GB/s" if op.get("busbw_gb_per_s") else ""
        lines.append(f'<tr><td>{escape(op["label"])} <span class="again">{escape(op.get("phase") or "")}</span></td><td class="kind">{escape(op["kind"].replace("_", "-").replace(", ", " and "))}, {escape(op["axis"])}</td>'
                     f'<td class="num">{op.get("count") or 0:,.0f} × {escape(units.time(us / 1e3))}</td><td class="num">{escape(units.data(op["bytes"])) if op.get("bytes") else ""}</td><td class="num">{busbw}</td></tr>')
    first = moved[0]
    takeaway = f"<b>{escape(first['label'])} ({escape(first['kind'].replace('_', '-'))} over {escape(first['axis'])}) moves longest: {escape(units.time(first['total_ms']))} a step</b>, hidden or not."
    return section("communication", "Communication, longest first", takeaway,
                   f'<div class="scroll"><table class="facts"><thead><tr><th>operation</th><th>kind, axis</th><th class="num">calls</th><th class="num">payload</th><th class="num">bus rate</th></tr></thead><tbody>{"".join(lines)}</tbody></table></div>', half=True)


def comparison(facts):
    """Two files side by side."""
    told = facts.get("comparison")
    if not told or not told["rows"]:
        return ""
    rows = sorted(told["rows"], key=lambda row: row[4] / row[3])
    longest = max(max(row[3], row[4]) for row in rows)
    out = []
    for configuration, source_a, source_b, a, b in rows[:40]:
        out.append(f'<div class="row"><div class="what">{escape(configuration)}<span class="again">{escape(source_a)} against {escape(source_b)}</span></div>'
                   f'<div><div class="track" style="height:11px"><div class="bar" style="height:10px"><span class="seg" style="width:{100 * a / longest:.2f}%;background:var(--bubble)" data-tip="A: {escape(units.time(a))}"></span></div></div>'
                   f'<div class="track" style="height:11px"><div class="bar" style="height:10px"><span class="seg" style="width:{100 * b / longest:.2f}%;background:var(--compute)" data-tip="B: {escape(units.time(b))}"></span></div></div></div>'
                   f'<div class="num">{escape(units.time(a))} → {escape(units.time(b))} <b>{units.change(b, a)}</b></div></div>')
    ratio = 1.0
    for row in rows:
        ratio *= (row[4] / row[3]) ** (1 / len(rows))
    faster = sum(row[4] < row[3] for row in rows)
    takeaway = (f"<b>B takes {ratio:.3f} times as long as A, geometric mean of {len(rows)} configurations</b>; it is faster in {faster} of them.")
    legend = f'<ul class="key"><li><i style="background:var(--bubble)"></i>A: {escape(told["a"])}</li><li><i style="background:var(--compute)"></i>B: {escape(told["b"])}</li></ul>'
    more = f'<p class="limit-name">{len(rows) - 40} more are not shown.</p>' if len(rows) > 40 else ""
    return section("comparison", "A against B", takeaway, legend + f'<div class="gain">{"".join(out)}</div>' + more)


def answer(group, best):
    """The answer in a sentence."""
    ran = passed(group.rows)
    where = f" on {best['ranks']:,.0f} {device_words(best)}{'s' if best['ranks'] > 1 else ''}"
    cut = cut_words(best) or "one device"
    step = units.time(best["step_ms_p50"])
    mfu = f" at {best['mfu_pct']:.1f}% MFU" if best.get("mfu_pct") is not None else ""
    if len(ran) == 1:
        return f"A step takes {step}{where}{mfu}."
    counts = {row["ranks"] for row in ran}
    among = f"{sum(row['ranks'] == best['ranks'] for row in ran)} cuts" if len(counts) == 1 else f"{len(ran)} cuts"
    return f"{cut} is the fastest of {among}: {step} a step{where}{mfu}."


def device_words(row):
    device = row.get("device") or ""
    if "CPU" in device or "Xeon" in device or "EPYC" in device or "Processor" in device:
        return "CPU rank"
    for name in ("GB200", "GB300", "B200", "B300", "H200", "H100", "H800", "A100", "A800", "L40S", "MI300X", "TPU v5p", "V100"):
        if name in device:
            return name
    return "device"


def tiles(best):
    out = []

    def tile(name, value, sub="", meter=None):
        extra = f'<p class="sub">{sub}</p>' if sub else ""
        if meter is not None:
            extra = f'<div class="meter{" full" if meter > 1 else ""}"><i style="width:{100 * min(meter, 1):.1f}%"></i></div>' + extra
        out.append(f"<div><dt>{name}</dt><dd>{value}{extra}</dd></div>")

    def unit(text):
        number, _, word = text.partition(units.GAP)
        return f"{escape(number)} <small>{escape(word)}</small>"

    tile("Step", unit(units.time(best["step_ms_p50"])), f"{best.get('microbatches') or 0:g} microbatches of {best.get('micro_batch') or 0:g}" if best.get("microbatches") else "")
    if best.get("image_size") and best.get("samples_per_s"):
        tile("Throughput", unit(units.rate(best["samples_per_s"], "images/s")))
    elif best.get("tokens_per_s"):
        tile("Throughput", unit(units.rate(best["tokens_per_s"])), f"{best['tokens_per_s'] / best['ranks']:,.0f} a device")
    if best.get("mfu_pct") is not None:
        tile("MFU", unit(f"{best['mfu_pct']:.1f}{units.GAP}%"), f"of {best.get('peak_tflops') or 0:,.0f} TFLOP/s{', attention halved' if best.get('flops_convention') == 'causal_halved' else ''}", best["mfu_pct"] / 100)
    if best.get("memory_peak_bytes"):
        capacity = best.get("memory_capacity_bytes")
        tile("Memory", unit(units.data(best["memory_peak_bytes"])), f"of {units.data(capacity)} a device" if capacity else "fullest device", best["memory_peak_bytes"] / capacity if capacity else None)
    if best.get("training_days"):
        tile("Training run", unit(units.days(best["training_days"])), f"{best['device_hours']:,.0f} device-hours" if best.get("device_hours") else "")
    if best.get("cost_usd"):
        tile("Cost", unit(units.money(best["cost_usd"])), "at the price of a device-hour given")
    elif best.get("training_days"):
        tile("Cost", "–", "no price known (--price)")
    return f'<dl class="tiles">{"".join(out)}</dl>'
