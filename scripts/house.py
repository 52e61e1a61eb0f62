#!/usr/bin/env python3
"""Counts what the house is held to: lines of code, casts, names of schedules, long functions, large classes.

  scripts/house.py [DIR] [--list]     DIR: a checkout (default: this one); --list names the long functions and large classes

A line of code is neither blank nor comment. Functions and classes are found by their braces, which is enough for formatted code.
"""
import os
import re
import sys

FOLDERS = ("harness", "bench", "kernels")
SOURCES = (".cpp", ".hpp", ".cu", ".cuh")
LONGEST_FUNCTION, MOST_MEMBERS = 60, 40


def sources(root):
    for folder in FOLDERS:
        for place, _, names in os.walk(os.path.join(root, folder)):
            for name in sorted(names):
                if name.endswith(SOURCES):
                    yield os.path.join(place, name)


def without_comments_and_strings(text):
    """The text with comments and the insides of literals blanked, line breaks kept."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group(0))
    pattern = r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''
    return re.sub(pattern, lambda m: blank(m) if m.group(0).startswith("/") else '""' + blank(m)[2:], text, flags=re.DOTALL)


def code_lines(text):
    return sum(1 for line in without_comments_and_strings(text).splitlines() if line.strip())


CONTROL = re.compile(r"^\s*(if|for|while|switch|else|do|try|catch|return|case)\b")
CLASS = re.compile(r"\b(class|struct)\s+(?:alignas\([^)]*\)\s*)?(\w+)(?:\s+final)?\s*(?::[^;{]*)?$")
MEMBER = re.compile(r"[\w>&*\]]\s*[&*]?\s*(~?\w+|operator[^\s(]+)\s*\($")


def blocks(text):
    """(head, begin line, end line, body) of each brace block, where head is what stands before the brace since ; { or }."""
    open_blocks, head, line = [], "", 1
    for i, char in enumerate(text):
        if char == "\n":
            line += 1
        if char == "{":
            open_blocks.append((head.strip(), line - head.strip().count("\n"), i))
            head = ""
        elif char == "}":
            if open_blocks:
                what, begin, start = open_blocks.pop()
                yield what, begin, line, text[start + 1 : i]
            head = ""
        elif char == ";":
            head = ""
        else:
            head += char


def is_function(head):
    return bool(re.search(r"\)\s*(const)?\s*(noexcept)?\s*(final|override)*\s*(->\s*[\w:<>&* ]+)?\s*(:\s.*)?$", head, re.DOTALL)) and not CONTROL.match(
        head) and "=" not in head.split("(")[0] and not re.search(r"\]\s*(\([^)]*\))?\s*(mutable)?\s*(->.*)?$", head) and bool(re.search(r"\w\s*\(", head))


def members(body):
    """Member functions declared directly in a class body."""
    flat, depth = "", 0
    for char in body:
        if char == "{":
            depth += 1
            if depth == 1:
                flat += ";"
        elif char == "}":
            depth -= 1
        elif depth == 0:
            flat += char
    count = 0
    for statement in flat.split(";"):
        statement = re.sub(r"\b(public|private|protected)\s*:", "", statement).strip()
        if not statement or statement.startswith(("using", "friend", "static_assert", "template <class F> requires")):
            continue
        if re.search(r"(~?\w+|operator\s*[^\s\w(]+)\s*\(", statement) and "=" not in statement.split("(")[0]:
            count += 1
    return count


def measure(root):
    total = {"lines of code": 0, "static_cast<std::size_t>": 0, "other casts to size_t": 0, "ScheduleKind::": 0}
    functions, classes = [], []
    for path in sources(root):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        clean = without_comments_and_strings(text)
        total["lines of code"] += code_lines(text)
        total["static_cast<std::size_t>"] += len(re.findall(r"static_cast<(?:std::)?size_t>", clean))
        total["other casts to size_t"] += len(re.findall(r"(?<![\w:<])(?:std::)?size_t[({](?!\d|\s*\))|\((?:std::)?size_t\)", clean))
        total["ScheduleKind::"] += len(re.findall(r"ScheduleKind::", clean))
        name = os.path.relpath(path, root)
        for head, begin, end, body in blocks(clean):
            found = CLASS.search(head)
            if found:
                if (count := members(body)) > MOST_MEMBERS:
                    classes.append((count, f"{name}:{begin} {found.group(2)}"))
            elif is_function(head) and end - begin + 1 > LONGEST_FUNCTION:
                functions.append((end - begin + 1, f"{name}:{begin} {' '.join(head.split())[:80]}"))
    total[f"functions over {LONGEST_FUNCTION} lines"] = len(functions)
    total[f"classes of more than {MOST_MEMBERS} member functions"] = len(classes)
    return total, sorted(functions, reverse=True), sorted(classes, reverse=True)


def main(arguments):
    listed = "--list" in arguments
    rest = [word for word in arguments if word != "--list"]
    root = rest[0] if rest else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    total, functions, classes = measure(root)
    for what, count in total.items():
        print(f"{count:7} {what}")
    if listed:
        for size, where in functions + classes:
            print(f"  {size:4} {where}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
