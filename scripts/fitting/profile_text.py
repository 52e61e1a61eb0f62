"""Replaces sections of a profile's YAML and leaves every other line as it is."""
import re


def short(value, digits=4):
    """A number with so many significant digits, never in the notation that YAML readers differ on."""
    text = f"{value:.{digits}g}"
    return text if "e" not in text else f"{value:.6f}".rstrip("0").rstrip(".") or "0"


def flow(fields):
    """One line of {key: value}."""
    return "{" + ", ".join(f"{key}: {value if isinstance(value, str) else short(value)}" for key, value in fields) + "}"


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def with_section(text, key, lines, before, indent=2):
    """The text with the section `key` of the device made of `lines`; a new one goes before the line of `before`."""
    lead = " " * indent
    block = "".join(f"{line}\n" for line in [f"{lead}{key}:"] + lines)
    old = re.search(rf"^{lead}{re.escape(key)}:\n(?:{lead}[ -].*\n)*", text, re.M)
    if old:
        return text[:old.start()] + block + text[old.end():]
    at = re.search(rf"^{lead}{re.escape(before)}:", text, re.M)
    return text[:at.start()] + block + text[at.start():]
