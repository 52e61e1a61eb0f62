#!/usr/bin/env python3
"""Fails on product functions that no command reaches: declared in harness/ or kernels/ and called by tests alone, or by nobody.

Names are looked for in the text of the product, comments and literals left out. A function that is overloaded counts as
called when one of its name is. What the kernel language and the plugin call by other means than a name is not looked at.
"""
import os
import re
import sys

ROOT = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "scripts"))
import house  # noqa: E402

PRODUCT = ("harness", "kernels", "bench")
# A free function or a static member at the beginning of a line: type, name, opening parenthesis.
DECLARED = re.compile(r"^(?:  )?(?:inline |constexpr |static |\[\[\w+\]\] )*[A-Za-z_][\w:<>,&*\s]*?[\s&*](\w+)\(", re.MULTILINE)
NOT_FUNCTIONS = {"if", "for", "while", "switch", "return", "operator", "defined", "sizeof", "static_assert", "alignas", "decltype"}
# Each with what it is for.
ALLOWED = {
    "column_reference_markdown": "the tests write results/README.md with it",
    "configuration_key": "what makes two rows one configuration, said of a row and of a file",
    "local_rank": "beside local_size, for back ends that choose a device by it",
    "kv_bytes_per_token": "what a cache takes, to compare published sizes with",
    "parse_schedule": "reads back what `schedule` prints: proof that the text says all",
    "plan_memory": "the whole plan as a value",
    "prompt_attention_us": "of prompts cut into chunks, for the serving simulation",
    "reference_kernels": "what every kernel is tested against",
    "to_global": "of the DTensor library, for programs of one's own (bench/examples)",
}


def texts(folders):
    for folder in folders:
        for place, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in names:
                if name.endswith((".hpp", ".cpp", ".cu", ".cuh")):
                    path = os.path.join(place, name)
                    with open(path, encoding="utf-8") as file:
                        yield os.path.relpath(path, ROOT), house.without_comments_and_strings(file.read())


def statements(text):
    """Where each piece between ; { } begins and ends: what a declaration and the head of a definition fit in."""
    start = 0
    for found in re.finditer(r"[;{}]", text):
        yield start, found.start(), found.group()
        start = found.end()


def heads(text, name):
    """How often a name stands in its own declaration or in the head of its definition: a type before, parameters behind."""
    pattern = re.compile(rf"(?:^|[;{{}}>])\s*(?:template\s*<[^;{{}}]*>\s*)?(?:inline |constexpr |static |\[\[\w+\]\] )*"
                         rf"(?!return\b|throw\b|else\b|case\b)[A-Za-z_][\w:<>,\s]*[\s&*]+(?:\w+::)*{name}\([^;{{}}]*\)\s*(?:const\s*)?(?:noexcept\s*)?[;{{]", re.MULTILINE)
    return len(pattern.findall(text))


def unreached():
    product = dict(texts(PRODUCT))
    tested = " ".join(text for _, text in texts(("tests",)))
    words, test_words = {}, set(re.findall(r"\w+", tested))
    for text in product.values():
        for word in re.findall(r"\w+", text):
            words[word] = words.get(word, 0) + 1
    found = []
    for path, text in sorted(product.items()):
        if not path.endswith(".hpp") or path.startswith("bench"):
            continue
        for name in sorted(set(DECLARED.findall(text)) - NOT_FUNCTIONS):
            if name in ALLOWED or words[name] > 4:
                continue
            own = sum(heads(other, name) for other in product.values() if name in other)
            if words[name] <= own:
                found.append(f"{path}: {name} is {'called by tests alone' if name in test_words else 'called by nobody'}")
    return found


if __name__ == "__main__":
    problems = unreached()
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)
