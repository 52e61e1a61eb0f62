"""Quantities in the units that people read: 4.8 s, 1.05 M tokens/s, 72.9 GB. Number and unit stay on one line."""

GAP = "\u00a0"


def significant(value, digits=3):
    """With so many digits, and no exponent."""
    if value == 0:
        return "0"
    size = abs(float(f"{value:.{digits}g}"))
    places = digits - 1
    while size >= 10 and places > 0:
        size /= 10
        places -= 1
    while size < 1 and places < 9:
        size *= 10
        places += 1
    return f"{value:,.{places}f}"


def scaled(value, units):
    for factor, unit in units:
        if abs(value) >= factor * 0.9995:
            return f"{significant(value / factor)}{GAP}{unit}"
    factor, unit = units[-1]
    return f"{significant(value / factor)}{GAP}{unit}"


def time(ms):
    if abs(ms) >= 119_950:
        return scaled(ms, [(3.6e6, "h"), (6e4, "min")])
    return scaled(ms, [(1e3, "s"), (1, "ms"), (1e-3, "µs")])


def data(count):
    return scaled(count, [(1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")])


def rate(value, unit="tokens/s"):
    return scaled(value, [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1, "")]).rstrip(GAP) + f"{GAP}{unit}"


def flops(count):
    return scaled(count, [(1e18, "EFLOP"), (1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1, "FLOP")])


def percent(value):
    return f"{value:.0f}%" if abs(value) >= 99.95 else f"{value:.1f}%"


def days(value):
    return f"{value:.1f}{GAP}days" if value >= 1 else f"{24 * value:.1f}{GAP}h"


def money(usd):
    return "$" + scaled(usd, [(1e9, "bn"), (1e6, "M"), (1e3, "k"), (1, "")]).rstrip(GAP)


def change(value, against):
    part = 100 * (value / against - 1)
    return f"{part:+.1f}%".replace("-", "−")
