"""Charts of a report page as SVG, each drawn twice, for a wide and for a narrow screen: text keeps its size on both."""
import html
import math

from report_units import significant

WIDE, NARROW = 620, 340


def escape(text):
    return html.escape(str(text), quote=True)


class Scale:
    """From values to pixels, along a line or its logarithm."""

    def __init__(self, low, high, start, end, logarithmic=False):
        self.logarithmic = logarithmic
        if logarithmic:
            low, high = math.log10(low), math.log10(high)
        if high == low:
            low, high = low - 0.5, high + 0.5
        self.low, self.high, self.start, self.end = low, high, start, end

    def __call__(self, value):
        value = math.log10(value) if self.logarithmic else value
        return self.start + (self.end - self.start) * (value - self.low) / (self.high - self.low)

    def ticks(self, about=5):
        if self.logarithmic:
            return self.log_ticks(about)
        step = 10 ** math.floor(math.log10((self.high - self.low) / about))
        step = next(step * factor for factor in (1, 2, 2.5, 5, 10) if (self.high - self.low) / (step * factor) <= about)
        first = math.ceil(self.low / step - 1e-9)
        return [step * number for number in range(first, int(math.floor(self.high / step + 1e-9)) + 1)]

    def log_ticks(self, about):
        for factors in ((1, 2, 5), (1, 3), (1,)):
            values = [factor * 10.0**power for power in range(math.floor(self.low), math.ceil(self.high) + 1) for factor in factors]
            inside = [value for value in values if self.low - 1e-9 <= math.log10(value) <= self.high + 1e-9]
            if len(inside) <= about + 2 or factors == (1,):
                every = max(1, math.ceil(len(inside) / (about + 2)))
                return inside[::every]
        return []


class Chart:
    """An SVG that is filled bit by bit: axes first, marks after."""

    def __init__(self, width, height, name, left=52, right=14, top=14, bottom=40):
        self.width, self.height, self.name = width, height, name
        self.left, self.right, self.top, self.bottom = left, width - right, top, height - bottom
        self.parts = []

    def add(self, text):
        self.parts.append(text)

    def text(self, x, y, words, anchor="start", kind="tick"):
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(words)}</text>')

    def axes(self, x, y, x_words, y_words, x_text, y_text, x_values=None, y_values=None):
        """Grid, ticks and what the axes say. `*_text` makes words of a tick's value."""
        for value in y_values if y_values is not None else y.ticks():
            at = y(value)
            self.add(f'<line x1="{self.left}" x2="{self.right}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>')
            self.text(self.left - 8, at + 4, y_text(value), "end")
        about = 6 if self.width > 500 else 4
        for value in x_values if x_values is not None else x.ticks(about):
            self.text(x(value), self.bottom + 16, x_text(value), "middle")
        self.add(f'<line x1="{self.left}" x2="{self.right}" y1="{self.bottom}" y2="{self.bottom}" class="axis"/>')
        self.text((self.left + self.right) / 2, self.height - 6, x_words, "middle", "axis-name")
        self.text(2, 10, y_words, "start", "axis-name")

    def line(self, points, kind, extra=""):
        path = " ".join(f"{'L' if index else 'M'}{x:.1f} {y:.1f}" for index, (x, y) in enumerate(points))
        self.add(f'<path d="{path}" class="{kind}" {extra}/>')

    def dot(self, x, y, radius, kind, tip, reachable=True):
        focus = ' tabindex="0" role="img"' if reachable else ""
        self.add(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" class="{kind}"{focus} data-tip="{escape(tip)}" '
                 f'aria-label="{escape(tip)}"/>' if reachable else
                 f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" class="{kind}" data-tip="{escape(tip)}"/>')

    def done(self, kind):
        return (f'<svg class="chart {kind}" viewBox="0 0 {self.width} {self.height}" role="group" '
                f'aria-label="{escape(self.name)}">{"".join(self.parts)}</svg>')


def both(draw, height=300):
    """The chart for wide and for narrow screens; `draw(chart)` fills it. Style sheets show one of the two."""
    out = []
    for kind, width in (("wide", WIDE), ("narrow", NARROW)):
        chart = draw(width, height if kind == "wide" else min(height, 280))
        out.append(chart.done(kind))
    return "".join(out)


def plain(value):
    """A tick's value in few characters."""
    for factor, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:g}{letter}"
    return f"{value:g}" if abs(value) >= 1e-3 or value == 0 else f"{value:.0e}"


def room(values, logarithmic=False, share=0.08):
    """A range that holds the values with some room beside them."""
    low, high = min(values), max(values)
    if logarithmic:
        factor = max((high / low) ** share, 1.15)
        return low / factor, high * factor
    spread = (high - low) or abs(high) or 1
    return low - share * spread, high + share * spread


def scaling(best, rate_of, unit):
    """Throughput against devices, both logarithmic, with the line of an ideal machine. `best`: {devices: row}."""
    counts = list(best)
    rates = [rate_of(best[count]) for count in counts]
    ideal = [rates[0] * count / counts[0] for count in counts]

    def draw(width, height):
        chart = Chart(width, height, f"{unit} against devices")
        x = Scale(*room(counts, True, 0.06), chart.left, chart.right, True)
        y = Scale(*room(rates + ideal, True, 0.1), chart.bottom, chart.top + 12, True)
        chart.axes(x, y, "devices", unit, lambda value: f"{value:,.0f}", plain, x_values=thinned(counts, 8 if width > 500 else 5))
        chart.line([(x(count), y(value)) for count, value in zip(counts, ideal)], "ideal")
        chart.text(x(counts[-1]) - 6, y(ideal[-1]) + 2, "ideal", "end", "note")
        chart.line([(x(count), y(value)) for count, value in zip(counts, rates)], "series")
        for count, value, full in zip(counts, rates, ideal):
            row = best[count]
            chart.dot(x(count), y(value), 5, "mark", f"{count:,.0f} devices: {plain_rate(value)} {unit}, {100 * value / full:.0f}% of ideal; {row['label']}")
        return chart

    return both(draw)


def thinned(values, most):
    every = math.ceil(len(values) / most)
    return values[::every]


def plain_rate(value):
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{significant(value / factor)} {letter}"
    return significant(value)


def utilisation(best):
    """MFU against devices."""
    counts = [count for count, row in best.items() if row.get("mfu_pct") is not None]
    values = [best[count]["mfu_pct"] for count in counts]

    def draw(width, height):
        chart = Chart(width, height, "MFU against devices")
        x = Scale(*room(counts, True, 0.06), chart.left, chart.right, True)
        y = Scale(0, max(values) * 1.15, chart.bottom, chart.top + 12)
        chart.axes(x, y, "devices", "MFU %", lambda value: f"{value:,.0f}", lambda value: f"{value:g}", x_values=thinned(counts, 8 if width > 500 else 5))
        chart.line([(x(count), y(value)) for count, value in zip(counts, values)], "series")
        for count, value in zip(counts, values):
            chart.dot(x(count), y(value), 5, "mark", f"{count:,.0f} devices: MFU {value:.1f}%; {best[count]['label']}")
        return chart

    return both(draw)


def front(rows, chosen, best, capacity, tip):
    """Step time against memory: every row, the front joined, the answer marked."""
    on_front = {id(row) for row in chosen}
    shown = [row for row in rows if row.get("memory_peak_bytes")]
    memories = [row["memory_peak_bytes"] / 1e9 for row in shown]
    steps = [row["step_ms_p50"] for row in shown]
    logarithmic = max(steps) / min(steps) > 3

    def draw(width, height):
        chart = Chart(width, height, "Step time against memory")
        top = max(memories + ([capacity / 1e9] if capacity and capacity < 3e9 * max(memories) else []))
        x = Scale(0, top * 1.05, chart.left, chart.right)
        bounds = room(steps, logarithmic, 0.06)
        y = Scale(bounds[0] if logarithmic else max(0, bounds[0]), bounds[1], chart.bottom, chart.top + 12, logarithmic)
        seconds = max(steps) >= 2000
        chart.axes(x, y, "memory of the fullest device, GB", "step, s" if seconds else "step, ms", plain,
                   lambda value: plain(value / 1e3 if seconds else value))
        if capacity and capacity / 1e9 <= top:
            at = x(capacity / 1e9)
            chart.add(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{chart.top}" y2="{chart.bottom}" class="capacity"/>')
            chart.text(at - 5, chart.top + 8, f"capacity {capacity / 1e9:.0f} GB", "end", "note")
        chart.line([(x(row["memory_peak_bytes"] / 1e9), y(row["step_ms_p50"])) for row in chosen], "series")
        for row in sampled(shown, on_front):
            at = x(row["memory_peak_bytes"] / 1e9), y(row["step_ms_p50"])
            kind = "best" if row is best else "mark" if id(row) in on_front else "faint"
            chart.dot(*at, 7 if row is best else 5 if id(row) in on_front else 3, kind, tip(row), kind != "faint")
        return chart

    return both(draw, 320)


def sampled(rows, keep, most=600):
    """So many rows that are spread over all, and those to keep, drawn last."""
    others = [row for row in rows if id(row) not in keep]
    every = max(1, math.ceil(len(others) / most))
    return others[::every] + [row for row in rows if id(row) in keep]


def agreement(pairs, tip):
    """Predicted against measured steps, with the diagonal and a band of a tenth on either side."""
    values = [value for _, predicted, measured in pairs for value in (predicted, measured)]

    def draw(width, height):
        chart = Chart(width, height, "Predicted against measured step time")
        bounds = room(values, True, 0.06)
        x, y = Scale(*bounds, chart.left, chart.right, True), Scale(*bounds, chart.bottom, chart.top + 12, True)
        chart.axes(x, y, "measured step, ms", "predicted, ms", plain, plain)
        low, high = bounds
        band = [(x(low), y(low * 1.1)), (x(high / 1.1), y(high)), (x(high), y(high)), (x(high), y(high / 1.1)), (x(low * 1.1), y(low)), (x(low), y(low))]
        chart.line(band, "band")
        chart.line([(x(low), y(low)), (x(high), y(high))], "ideal")
        reachable = len(pairs) <= 80
        for row, predicted, measured in pairs:
            chart.dot(x(measured), y(predicted), 4.5, "mark", tip(row, predicted, measured), reachable)
        return chart

    return both(draw, 320)


def roofline(ops, peak, bandwidth):
    """Rates of operations against FLOPs a byte, under what the device can do. `ops`: dicts with intensity, rate, share, tip, name."""
    intensities = [op["intensity"] for op in ops]
    rates = [op["rate"] for op in ops]

    def draw(width, height):
        chart = Chart(width, height, "Rate of each operation against its FLOPs a byte")
        edge = [peak * 1e3 / bandwidth] if peak and bandwidth else []
        x = Scale(*room(intensities + edge, True, 0.06), chart.left, chart.right, True)
        y = Scale(*room(rates + ([peak] if peak else []), True, 0.08), chart.bottom, chart.top + 12, True)
        chart.axes(x, y, "FLOP a byte", "TFLOP/s", plain, plain)
        if peak:
            low, high = 10**x.low, 10**x.high
            corner = peak * 1e3 / bandwidth if bandwidth else low
            least = 10**y.low
            begin = max(low, least * 1e3 / bandwidth) if bandwidth else low
            roof = ([(x(begin), y(begin * bandwidth / 1e3))] if bandwidth and begin < corner else []) + [(x(max(corner, low)), y(peak)), (x(high), y(peak))]
            chart.line(roof, "ideal")
            chart.text(x(high) - 2, y(peak) - 6, f"peak {peak:,.0f} TFLOP/s", "end", "note")
        placed = []
        for op in sorted(ops, key=lambda op: -op["share"]):
            at = x(op["intensity"]), y(op["rate"])
            chart.dot(*at, 3.5 + 14 * math.sqrt(op["share"]), "mark see-through", op["tip"], len(placed) < 40)
            placed.append((at, op))
        name_largest(chart, placed)
        return chart

    return both(draw, 400)


def name_largest(chart, placed, most=5):
    """Names of the largest dots, in the corner that no operation reaches, each with a line to its dot."""
    names = []
    for (x, y), op in placed:
        if op["name"] not in [name for name, *_ in names] and len(names) < most:
            names.append((op["name"], op["share"], x, y))
    names.sort(key=lambda entry: -entry[2])
    for index, (name, share, x, y) in enumerate(names):
        at = chart.bottom - 14 - 17 * (len(names) - 1 - index)
        words = f"{name} {100 * share:.0f}%"
        end = chart.right - 6.6 * len(words)
        chart.add(f'<line x1="{end - 4:.1f}" y1="{at - 4:.1f}" x2="{x:.1f}" y2="{y:.1f}" class="leader"/>')
        chart.text(chart.right, at, words, "end", "note")
