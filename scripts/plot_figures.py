"""The figures of a sweep (matplotlib), each as PNG and as SVG, for papers and slides."""
import textwrap

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402 (the backend must be chosen first)
import matplotlib.ticker  # noqa: E402

import report_units as units  # noqa: E402
from plot_data import COLOURS, MEMORY_COLOURS, family, rate  # noqa: E402
from report_data import memory_parts, time_parts  # noqa: E402

FAMILY_STYLES = [("#000000", "o"), ("#0072B2", "s"), ("#D55E00", "^"), ("#009E73", "D"), ("#CC79A7", "v"),
                 ("#E69F00", "P"), ("#56B4E9", "X"), ("#8C8C8C", "*")]
WIDTH = 9.0
LABEL_WIDTH = 0.078  # inches that a letter of a label takes
BAR = 0.72  # of the distance between two bars
INSIDE = 0.055  # of the axis: a piece of a bar that is that wide holds its share
MOST_PANELS = 5  # device counts, each with a scale of its own
STYLE = {"font.family": "DejaVu Sans", "font.size": 9.5, "axes.titlesize": 10.5, "svg.fonttype": "none", "axes.edgecolor": "#777777",
         "svg.hashsalt": "shardbench"}


def write_figures(sweep, stem):
    written = []
    if sweep.name:
        stem = f"{stem}_{sweep.name}"
    with plt.rc_context(STYLE):
        for name, draw in (("breakdown", draw_breakdown), ("throughput", draw_throughput), ("memory", draw_memory)):
            figure = draw(sweep)
            for kind in ("png", "svg"):
                figure.savefig(f"{stem}_{name}.{kind}", dpi=160, metadata={"Date": None} if kind == "svg" else None)
                written.append(f"{stem}_{name}.{kind}")
            plt.close(figure)
    return written


def panels(rows, title):
    """A figure with a panel a device count, most devices first, each of its own scale: [(axes, rows)]."""
    counts = sorted({row["ranks"] for row in rows}, reverse=True)[:MOST_PANELS]
    groups = [[row for row in rows if row["ranks"] == count] for count in counts]
    longest = max((len(row["label"]) for row in rows), default=0)
    heights = [0.36 * len(group) + 0.62 for group in groups]
    figure, grid = plt.subplots(len(groups), 1, figsize=(WIDTH + LABEL_WIDTH * max(0, longest - 26), 1.75 + sum(heights)),
                                layout="constrained", squeeze=False, gridspec_kw={"height_ratios": heights})
    figure.shardbench_title = title
    for axes, count, group in zip(grid[:, 0], counts, groups):
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.set_axisbelow(True)
        axes.grid(axis="x", color="#E8E8E8")
        axes.set_yticks(range(len(group)), [row["label"] for row in group])
        axes.set_ylim(len(group) - 0.4, -0.6)
        if len(groups) > 1:
            axes.set_title(f"{count:,.0f} devices" if count > 1 else "one device", loc="left", color="#444444")
    return figure, list(zip(grid[:, 0], groups))


def finish(figure, sweep, columns=4, note=None):
    """Title and legend above the panels and caption below, all outside the data."""
    handles = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    legend = figure.legend(handles.values(), handles.keys(), loc="outside upper left", ncols=columns, frameon=False, fontsize=9,
                           title=figure.shardbench_title, alignment="left", title_fontproperties={"weight": "bold", "size": 12})
    legend.set_in_layout(True)
    lines = [line for line in sweep.caption if line] + ([note] if note else [])
    text = "\n".join(part for line in lines for part in textwrap.wrap(line, 125))
    figure.supxlabel(text, x=0.01, ha="left", fontsize=8, color="#555555")
    return figure


def stack(axes, rows, parts_of, colours, words, end_text, top):
    """Bars of parts beside each other, their shares inside where there is room, and what they come to at the end."""
    seen = set()
    for index, row in enumerate(rows):
        parts, left = parts_of(row), 0.0
        total = sum(value for _, value in parts)
        for key, value in parts:
            axes.barh(index, value, left=left, height=BAR, color=colours[key], edgecolor="white", linewidth=0.6,
                      label=None if key in seen else words[key], hatch="////" if key == "bubble" else None)
            seen.add(key)
            if value > INSIDE * top:
                axes.text(left + value / 2, index, f"{100 * value / total:.0f}%", ha="center", va="center", fontsize=8,
                          color="#222222" if key in ("idle", "dp", "ep", "gradients", "other", "reserved") else "white")
            left += value
        axes.text(left + 0.008 * top, index, end_text(row, total), va="center", fontsize=8.5,
                  zorder=4, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8})
    axes.set_xlim(0, top * 1.17)


TIME_WORDS = {"compute": "compute", "tp": "waiting for tp", "cp": "waiting for cp", "dp": "waiting for dp", "pp": "waiting for pp",
              "ep": "waiting for ep", "bubble": "pipeline bubble", "idle": "other idle time"}
MEMORY_WORDS = {"parameters": "parameters", "gradients": "gradients", "optimizer": "optimizer states", "activations": "activations",
                "temporaries": "temporaries", "buffers": "buffers", "reserved": "reserved by the software", "other": "other"}


def plain_time(ms):
    return units.time(ms).replace(units.GAP, " ")


def plain_data(size):
    return units.data(size).replace(units.GAP, " ")


def time_axis(axes, unit):
    """Ticks in the unit that people read."""
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1e3:g}" if unit == "s" else f"{value:g}")
    axes.set_xlabel(f"{unit} a step, mean over devices", fontsize=9)


def draw_breakdown(sweep):
    rows = [row for row in sweep.rows if time_parts(row)]
    figure, drawn = panels(rows, "Where a step goes")
    for axes, group in drawn:
        parts_of = lambda row: [(key, value) for key, _, value in time_parts(row)]  # noqa: E731
        top = max(sum(value for _, value in parts_of(row)) for row in group)

        def end(row, total):
            mfu = f"  MFU {row['mfu_pct']:.0f}%" if row.get("mfu_pct") is not None else ""
            return plain_time(total) + mfu

        stack(axes, group, parts_of, COLOURS, TIME_WORDS, end, top)
        time_axis(axes, "s" if top >= 2000 else "ms")
    missing = len(sweep.rows) - len(rows)
    note = f"{missing} of the rows shown elsewhere have no breakdown" if missing else None
    return finish(figure, sweep, note=note)


def draw_throughput(sweep):
    rows = [row for row in sweep.rows if rate(row)[0] and row["ranks"]]
    unit = rate(sweep.rows[0])[1]
    counts = sorted({row["ranks"] for row in rows})
    if len(counts) < 2:
        return draw_rates(sweep, rows, unit)
    figure, axes = plt.subplots(figsize=(WIDTH, 5.4), layout="constrained")
    figure.shardbench_title = "Throughput against devices, the best of each kind of cut"
    axes.spines[["top", "right"]].set_visible(False)
    base = max(rate(row)[0] for row in rows if row["ranks"] == counts[0])
    axes.plot(counts, [base * count / counts[0] for count in counts], "--", color="#8C8C8C", label="ideal")
    for index, (name, best) in enumerate(best_of_families(rows, counts, base)):
        colour, marker = FAMILY_STYLES[index % len(FAMILY_STYLES)]
        axes.plot(sorted(best), [best[count] for count in sorted(best)], marker=marker, color=colour, label=name)
    top = {count: max(rate(row)[0] for row in rows if row["ranks"] == count) for count in counts}
    for count, value in top.items():
        axes.annotate(units.rate(value, "").strip().replace(units.GAP, " ").strip(), (count, value), textcoords="offset points", xytext=(0, 7),
                      ha="center", fontsize=8.5)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(counts, [f"{count:,.0f}" for count in counts])
    axes.yaxis.set_major_formatter(lambda value, _: units.rate(value, "").replace(units.GAP, " ").strip())
    axes.yaxis.set_major_locator(matplotlib.ticker.LogLocator(base=2, subs=(1.0, 1.5)))
    axes.minorticks_off()
    axes.grid(color="#E8E8E8")
    axes.set_xlabel("devices (logarithmic)")
    axes.set_ylabel(f"{unit} (logarithmic)")
    return finish(figure, sweep, columns=5)


def best_of_families(rows, counts, base):
    """[(kind of cut, {devices: its best rate})]; one rank is where every kind starts."""
    out = []
    for name in sorted({family(row) for row in rows} - {"1 rank"}, key=lambda text: (len(text), text)):
        best = {1: base} if counts[0] == 1 else {}
        for row in rows:
            if family(row) == name:
                best[row["ranks"]] = max(best.get(row["ranks"], 0.0), rate(row)[0])
        out.append((name, best))
    return out


def draw_rates(sweep, rows, unit):
    figure, drawn = panels(rows, "Throughput")
    for axes, group in drawn:
        top = max(rate(row)[0] for row in group)
        axes.barh(range(len(group)), [rate(row)[0] for row in group], height=BAR, color=COLOURS["compute"])
        for index, row in enumerate(group):
            axes.text(rate(row)[0] + 0.008 * top, index, units.rate(rate(row)[0], "").replace(units.GAP, " ").strip(), va="center", fontsize=8.5)
        axes.set_xlim(0, top * 1.1)
        axes.xaxis.set_major_formatter(lambda value, _: units.rate(value, "").replace(units.GAP, " ").strip() if value else "0")
        axes.set_xlabel(f"{unit} on {group[0]['ranks']:,.0f} {'devices' if group[0]['ranks'] > 1 else 'device'}", fontsize=9)
    return finish(figure, sweep)


def draw_memory(sweep):
    figure, drawn = panels(sweep.rows, "Memory of the fullest device")
    for axes, group in drawn:
        capacity = next((row["memory_capacity_bytes"] for row in group if row.get("memory_capacity_bytes")), None)
        peaks = [max(sum(size for _, size in memory_parts(row)), row.get("memory_peak_bytes") or 0) for row in group]
        top = max(peaks + [capacity or 0])
        stack(axes, group, memory_parts, MEMORY_COLOURS, MEMORY_WORDS, lambda row, total: plain_data(total), top)
        measured = [(row["memory_measured_bytes"], index) for index, row in enumerate(group) if row.get("memory_measured_bytes")]
        if measured:
            axes.scatter(*zip(*measured), marker="x", s=36, color="black", zorder=3, label="measured")
        if capacity:
            axes.axvline(capacity, color="#B3361D", linestyle="--", linewidth=1.3, label=f"capacity, {plain_data(capacity)}")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1e9:g}")
        axes.set_xlabel("GB a device (1 GB = 1e9 bytes)", fontsize=9)
    return finish(figure, sweep)
