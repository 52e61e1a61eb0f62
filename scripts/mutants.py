"""Draws small faults ("mutants") from C++ sources: one place of one line changed, as a slip of the hand would.

Comments, literals, preprocessor lines, checks of programmer errors (EXPECT) and static_assert are left alone. Every kind
is a row of CATALOGUE: a pattern over a line whose comments and literals are blanked, and what stands there instead.
"""
import dataclasses
import fnmatch
import os
import random
import re

import house

ROOTS = ("harness", "kernels")
# What a build without a GPU's toolkit does not compile.
NOT_BUILT = re.compile(r"(_cuda|_nccl|_nvtx|_none)\.(cpp|hpp)$|/cuda/")
SKIPPED = re.compile(r"^\s*(#|using\b|template\b|namespace\b|static_assert\b|EXPECT\(|///)|=\s*(0|default|delete);\s*$")
SYMMETRIC = {"if", "for", "while", "switch", "min", "max", "format", "EXPECT", "VALIDATE", "gcd", "lcm", "pair", "tie", "sizeof"}


@dataclasses.dataclass(frozen=True)
class Mutant:
    path: str
    line: int  # from 1
    begin: int  # columns of what is replaced
    end: int
    kind: str
    old: str
    new: str
    text: str  # the line as it was
    twin: int = 0  # how many lines of the file before it read the same

    def key(self):
        """What names it, wherever its line moves: the file and the line with the change in double braces."""
        line = f"{self.text[:self.begin]}{{{{{self.old} -> {self.new}}}}}{self.text[self.end:]}".strip()
        return f"{self.path}: {line}" + (f" #{self.twin + 1}" if self.twin else "")

    def module(self):
        parts = self.path.split("/")
        return parts[0] if parts[0] == "kernels" else "/".join(parts[:2])

    def apply(self, source):
        lines = source.split("\n")
        line = lines[self.line - 1]
        lines[self.line - 1] = line[: self.begin] + self.new + line[self.end :]
        return "\n".join(lines)



OPERATORS = {
    "comparison": {" < ": (" <= ", " > "), " <= ": (" < ", " > "), " > ": (" >= ", " < "), " >= ": (" > ", " < "),
                   " == ": (" != ",), " != ": (" == ",)},
    "arithmetic": {" + ": (" - ",), " - ": (" + ",), " * ": (" / ",), " / ": (" * ",), " % ": (" * ",),
                   " += ": (" -= ", " = "), " -= ": (" += ",), " *= ": (" /= ",), " & ": (" | ",), " | ": (" & ",)},
    "boolean": {" && ": (" || ",), " || ": (" && ",)},
}
STATEMENT = re.compile(r"(?:[\w.\->\[\]:*]+(?:\([^;]*\)[\w.\->\[\]]*)*\s(?:=|\+=|-=|\*=|/=|\|=|&=)\s.*|[\w.\->\[\]:]+\(.*\)|\+\+[\w.\->\[\]]+|"
                       r"[\w.\->\[\]]+\+\+|continue|break);$")
NUMBER = re.compile(r"(?<![\w.\"'])(\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|\.\d+|\d+)(?:LL|U|L|F|f)?(?![\w.\"'])")


def operators(code):
    for kind, table in OPERATORS.items():
        for old, news in table.items():
            for found in re.finditer(re.escape(old), code):
                for new in news:
                    yield kind, found.start(), found.end(), new


def constants(code):
    for found in NUMBER.finditer(code):
        literal = found.group(1)
        if re.fullmatch(r"\d+", literal):
            yield "constant", found.start(1), found.end(1), str(int(literal) + 1)
            if literal == "1":
                yield "constant", found.start(1), found.end(1), "0"
        else:
            value = float(literal)
            yield "constant", found.start(1), found.end(1), repr(value * 2) if value else "1.0"


def booleans(code):
    for found in re.finditer(r"\b(true|false)\b", code):
        yield "boolean", found.start(), found.end(), "false" if found.group() == "true" else "true"
    for found in re.finditer(r"(?<![\w!])!(?=[\w(])", code):
        yield "boolean", found.start(), found.end(), ""


def signs(code):
    for found in re.finditer(r"(?<=[(\[,=?:] |.[(\[])-(?=[\w(])|(?<=return )-(?=[\w(])", code):
        yield "sign", found.start(), found.end(), ""


def calls(code):
    for found in re.finditer(r"std::(min|max)\b(?=[(<])", code):
        yield "swapped", found.start(1), found.end(1), "max" if found.group(1) == "min" else "min"
    argument = r"[\w.\[\]]+(?:->[\w.]+)?(?:\(\))?"
    for found in re.finditer(rf"\b(\w+)\(({argument}), ({argument})(?=[,)])", code):
        name, first, second = found.groups()
        if name not in SYMMETRIC and first != second:
            yield "swapped", found.start(2), found.end(3), f"{second}, {first}"


def closing(code, start):
    """The index of the parenthesis that closes the one at `start`, or None where it is on another line."""
    depth = 0
    for i in range(start, len(code)):
        depth += (code[i] == "(") - (code[i] == ")")
        if depth == 0:
            return i
    return None


def conditions(code, before):
    """Negated conditions of `if` and `while`, and dropped statements."""
    head = re.match(r"\s*(?:\} )?(?:else )?(if|while) (?:constexpr )?\(", code)
    statement_at = len(code) - len(code.lstrip())
    if head:
        end = closing(code, head.end() - 1)
        if end is None:
            return
        inside = code[head.end() : end]
        if ";" not in inside and not re.search(r"(?<![=<>!])=(?!=)", inside):
            yield "boolean", head.end(), end, f"!({code[head.end() : end]})"
        statement_at = end + 2
    elif not (not before or before.endswith((";", "{", "}", ":")) or re.match(r"\s*(if|for|while|else)\b.*\)?$", before)):
        return
    statement = code[statement_at:].rstrip()
    if STATEMENT.fullmatch(statement) or (head and re.fullmatch(r"return\b.*;", statement)):
        yield "dropped", statement_at, statement_at + len(statement), ";"


def mutants_of(path, text):
    lines, masked = text.split("\n"), house.without_comments_and_strings(text).split("\n")
    seen, before = {}, ""
    for number, (line, code) in enumerate(zip(lines, masked), 1):
        twin = seen.get(line, 0)
        seen[line] = twin + 1
        if code.strip() and not SKIPPED.search(code):
            for rows in (operators(code), constants(code), booleans(code), signs(code), calls(code), conditions(code, before)):
                for kind, begin, end, new in rows:
                    # Rows see literals blanked: what they repeat of the line is written as it was.
                    written = f"!({line[begin:end]})" if new.startswith("!(") else new
                    yield Mutant(path, number, begin, end, kind, line[begin:end], written, line, twin)
        if code.strip():
            before = code.rstrip()


def files(root, globs):
    for folder in ROOTS:
        for place, _, names in sorted(os.walk(os.path.join(root, folder))):
            for name in sorted(names):
                path = os.path.relpath(os.path.join(place, name), root)
                if name.endswith(".cpp") and not NOT_BUILT.search(path) and (
                        not globs or any(fnmatch.fnmatch(path, glob) for glob in globs)):
                    yield path


def all_mutants(root, globs):
    for path in files(root, globs):
        with open(os.path.join(root, path), encoding="utf-8") as source:
            yield from mutants_of(path, source.read())


def draw(root, seed, count, globs=()):
    """`count` of all mutants, the same for the same sources and seed; those of a file one after the other."""
    everything = list(all_mutants(root, globs))
    drawn = random.Random(seed).sample(everything, min(count, len(everything)))
    return sorted(drawn, key=lambda m: (m.path, m.line, m.begin, m.new))
