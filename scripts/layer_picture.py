#!/usr/bin/env python3
"""A picture of a layer from `shardbench explain --json`: its operations from top to bottom, how each result lies on the ranks, and the
collectives between, forward beside backward.

  shardbench explain ... --json | scripts/layer_picture.py [--out FILE.svg]
"""
import json
import sys

import report_units as units
from report_svg import escape
from tool import BadInput, Parser, run

COLUMN, ROW, GAP, TOP = 440, 32, 36, 96
COLOURS = {"shard": "#dfe9f7", "replicate": "#f3f3f0", "partial": "#fbe3d6"}
STYLE = """text{font-family:system-ui,"Segoe UI",Roboto,Arial,sans-serif;fill:#15181e}.t{font-size:17px;font-weight:650}.s{font-size:12px;fill:#5a6170}
.h{font-size:13px;font-weight:600}.n{font-size:12.5px}.c{font-size:12px;fill:#fff;font-weight:600}.b{stroke:#d4d7dd}.a{stroke:#9aa0a8;stroke-width:1.2}"""


def shape(tensor):
    local, whole = tensor["local"], tensor["global"]
    if not local[0]:
        return ""
    text = f"{local[0]:,} x {local[1]:,}"
    return text if local == whole else f"{text} of {whole[0]:,} x {whole[1]:,}"


def lies(placement):
    return next((colour for word, colour in COLOURS.items() if placement.startswith(word)), COLOURS["replicate"])


def box(x, y, op):
    right = shape(op["result"])
    words = op["operation"]
    return (f'<rect x="{x}" y="{y}" width="{COLUMN}" height="{ROW - 8}" rx="5" fill="{lies(op["result"]["placement"])}" class="b"/>'
            f'<text x="{x + 10}" y="{y + 17}" class="n">{escape(words)}</text>'
            f'<text x="{x + COLUMN - 10}" y="{y + 17}" text-anchor="end" class="s">{escape(right)}</text>')


def collective(x, y, op):
    words = f"{op['kind'].replace('_', '-')} over {op['axis']} ({op['ranks']} ranks), {units.data(op['bytes']).replace(units.GAP, ' ')}, for {op['caused_by']}"
    return (f'<rect x="{x}" y="{y}" width="{COLUMN}" height="{ROW - 8}" rx="5" fill="#c4551f"><title>{escape(op["why"] or "")}</title></rect>'
            f'<text x="{x + COLUMN / 2}" y="{y + 17}" text-anchor="middle" class="c">{escape(words)}</text>')


def column(x, heading, ops):
    parts = [f'<text x="{x}" y="{TOP - 14}" class="h">{heading}</text>']
    for index, op in enumerate(ops):
        y = TOP + index * ROW
        if index:
            parts.append(f'<line x1="{x + COLUMN / 2}" x2="{x + COLUMN / 2}" y1="{y - 8}" y2="{y}" class="a"/>')
        parts.append(collective(x, y, op) if op["axis"] else box(x, y, op))
    return "".join(parts)


def shown(ops):
    """Without the small ones between: what adds up a bias's gradient."""
    return [op for op in ops if op["axis"] or op["kind"] not in ("column_sum", "copy_block")]


def picture(told):
    forward, backward = shown(told["forward"]), shown(told["backward"])
    height = TOP + ROW * max(len(forward), len(backward)) + 40
    width = 2 * COLUMN + GAP + 40
    key = "".join(f'<rect x="{20 + 210 * index}" y="{height - 28}" width="13" height="13" rx="3" fill="{colour}" class="b"/>'
                  f'<text x="{39 + 210 * index}" y="{height - 17}" class="s">{words}</text>'
                  for index, (colour, words) in enumerate(((COLOURS["shard"], "each rank has a part"), (COLOURS["replicate"], "every rank has all of it"),
                                                          (COLOURS["partial"], "each rank has a term of a sum"), ("#c4551f", "communication"))))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
            f'aria-label="A layer of {escape(told["model"])}, {escape(told["cut"])}"><style>{STYLE}</style><rect width="100%" height="100%" fill="#fff"/>'
            f'<text x="20" y="32" class="t">One layer of {escape(told["model"])} as one rank runs it</text><text x="20" y="53" class="s">{escape(told["cut"])}; '
            "local shapes, of all ranks' together</text>"
            + column(20, "forward", forward) + column(20 + COLUMN + GAP, "backward", backward) + key + "</svg>\n")


def main(arguments):
    parser = Parser(description=__doc__)
    parser.add_argument("--out", metavar="FILE.svg", help="the picture (default: standard output)")
    options = parser.parse_args(arguments)
    try:
        told = json.load(sys.stdin)
        text = picture(told)
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput("standard input is not what `shardbench explain --json` prints") from error
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
