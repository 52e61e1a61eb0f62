"""The PNG plots (matplotlib)."""
import textwrap

import matplotlib

matplotlib.use("Agg")
import matplotlib.ticker  # noqa: E402
import matplotlib.pyplot as plt  # noqa: E402 (the backend must be chosen first)

from plot_data import COLOURS, MEMORY_PARTS, family, rate, time_parts  # noqa: E402

FAMILY_STYLES = [("#000000", "o"), ("#0072B2", "s"), ("#D55E00", "^"), ("#009E73", "D"), ("#CC79A7", "v"),
                 ("#E69F00", "P"), ("#56B4E9", "X"), ("#8C8C8C", "*")]
WIDTH = 9.0
LABEL_WIDTH = 0.085  # inches that a letter of a label takes
BAR = 0.74  # of the distance between two bars


def write_pngs(sweep, stem):
    written = []
    if sweep.name:
        stem = f"{stem}_{sweep.name}"
    for name, draw in (("breakdown", draw_breakdown), ("throughput", draw_throughput), ("memory", draw_memory)):
        figure = draw(sweep)
        path = f"{stem}_{name}.png"
        figure.savefig(path, dpi=150)
        plt.close(figure)
        written.append(path)
    return written


def bar_figure(rows, title):
    """As wide as the bars and the longest label beside them need, as high as the bars do."""
    longest = max((len(row["label"]) for row in rows), default=0)
    size = (WIDTH + LABEL_WIDTH * max(0, longest - 24), 2.6 + 0.44 * max(len(rows), 1))
    figure, axes = plt.subplots(figsize=size, layout="constrained")
    axes.set_title(title, loc="left", fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    return figure, axes


def finish(figure, axes, sweep, columns=3, note=None):
    """Legend above the axes and caption below, both outside the data."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside upper left", ncols=columns, frameon=False, fontsize=9)
    lines = [line for line in sweep.caption if line] + ([note] if note else [])
    text = "\n".join(part for line in lines for part in textwrap.wrap(line, 135))
    figure.supxlabel(text, x=0.01, ha="left", fontsize=8, color="#444444")
    return figure


def name_bars(axes, rows):
    axes.set_yticks(range(len(rows)), [row["label"] for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="x", color="#E5E5E5")


def draw_breakdown(sweep):
    rows = [row for row in sweep.rows if time_parts(row)]
    figure, axes = bar_figure(rows, "Where a step goes, fastest first")
    left = [0.0] * len(rows)
    used = {}
    for index, row in enumerate(rows):
        for name, colour, value in time_parts(row):
            used.setdefault((name, colour), [0.0] * len(rows))[index] = value
    for (name, colour), values in used.items():
        if any(values):
            axes.barh(range(len(rows)), values, left=left, height=BAR, color=COLOURS[colour], label=name,
                      edgecolor="white", linewidth=0.6, hatch="////" if colour == "bubble" else None)
            left = [a + b for a, b in zip(left, values)]
    axes.scatter([row["step_ms_p50"] for row in rows], range(len(rows)), marker="|", s=180, color="black", zorder=3,
                 label="step, median, not instrumented")
    name_bars(axes, rows)
    axes.set_xlabel("ms a step (mean over ranks)")
    missing = len(sweep.rows) - len(rows)
    note = f"{missing} of the rows shown elsewhere have no breakdown" if missing else None
    return finish(figure, axes, sweep, note=note)


def draw_throughput(sweep):
    rows = [row for row in sweep.rows if rate(row)[0] and row["ranks"]]
    unit = rate(sweep.rows[0])[1]
    counts = sorted({row["ranks"] for row in rows})
    if len(counts) < 2:
        figure, axes = bar_figure(rows, "Throughput")
        axes.barh(range(len(rows)), [rate(row)[0] for row in rows], height=BAR, color=COLOURS["compute"])
        name_bars(axes, rows)
        axes.set_xlabel(f"{unit} on {counts[0]:g} ranks" if counts else unit)
        return finish(figure, axes, sweep)
    figure, axes = plt.subplots(figsize=(WIDTH, 5.4), layout="constrained")
    axes.set_title("Throughput against ranks, the best of each kind (both axes logarithmic)", loc="left", fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    base = max(rate(row)[0] for row in rows if row["ranks"] == counts[0])
    axes.plot(counts, [base * count / counts[0] for count in counts], "--", color="#8C8C8C", label="ideal")
    names = sorted({family(row) for row in rows} - {"1 rank"}, key=lambda text: (len(text), text))
    for index, name in enumerate(names):
        best = {1: base} if counts[0] == 1 else {}  # one rank is where every kind starts
        for row in rows:
            if family(row) == name:
                best[row["ranks"]] = max(best.get(row["ranks"], 0.0), rate(row)[0])
        colour, marker = FAMILY_STYLES[index % len(FAMILY_STYLES)]
        axes.plot(sorted(best), [best[count] for count in sorted(best)], marker=marker, color=colour, label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(counts, [f"{count:g}" for count in counts])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    axes.yaxis.set_major_locator(matplotlib.ticker.LogLocator(base=2, subs=(1.0, 1.5)))
    axes.minorticks_off()
    axes.grid(color="#E5E5E5")
    axes.set_xlabel("ranks")
    axes.set_ylabel(unit)
    return finish(figure, axes, sweep, columns=5)


def draw_memory(sweep):
    rows = sweep.rows
    figure, axes = bar_figure(rows, "Memory of the fullest rank")
    left = [0.0] * len(rows)
    for name, column, colour in MEMORY_PARTS:
        values = [(row.get(column) or 0.0) / 1e9 for row in rows]
        if any(values):
            axes.barh(range(len(rows)), values, left=left, height=BAR, color=colour, label=name, edgecolor="white",
                      linewidth=0.6)
            left = [a + b for a, b in zip(left, values)]
    for name, column, marker in (("peak by liveness", "memory_peak_bytes", "|"), ("measured", "memory_measured_bytes", "x")):
        points = [(row[column] / 1e9, index) for index, row in enumerate(rows) if row.get(column)]
        if points:
            axes.scatter(*zip(*points), marker=marker, s=180 if marker == "|" else 40, color="black", zorder=3, label=name)
    name_bars(axes, rows)
    axes.set_xlim(left=0)
    axes.set_xlabel("GB a rank (1 GB = 1e9 bytes)")
    return finish(figure, axes, sweep)
