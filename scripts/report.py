#!/usr/bin/env python3
"""A page to look at, from summary CSVs: the answer, where the time goes, timeline, memory, what-ifs, all rows.

  scripts/report.py FILE.csv... [--out FILE.html] [--facts FILE.json] [--bin shardbench] [--no-run]

One file that needs no network and nothing but a browser; made with Python's standard library alone. FILE_ops.csv beside a file is
read, too. The timeline of the best row comes from --facts, or from running its `shardbench simulate` command again (not with
--no-run; --bin says where the program is).
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import report_sections as sections
from report_data import (cut_words, full_cut, give_labels, groups_of, model_name, passed, read_facts, read_rows, reasons, shared_words, trust_words)
from report_svg import escape
from tool import BadInput, Parser, run

HERE = os.path.dirname(os.path.abspath(__file__))
SIMULATION_SECONDS = 60
MOST_BLOCKS = 24000  # drawn in a timeline
FLAGS_OF = 12  # rows that carry other programs' flags
COLUMNS = (("label", "configuration", "words", "", 1), ("ranks", "devices", "number", "devices", 1), ("step_ms_p50", "step", "time", "step", 1),
           ("tokens_per_s", "tokens/s", "rate", "rate", 1), ("tokens_per_s_per_rank", "a device", "rate", "tgs", 1), ("samples_per_s", "samples/s", "rate", "samples", 1),
           ("mfu_pct", "MFU", "percent", "mfu", 1), ("memory_peak_bytes", "memory", "bytes", "memory", 1e9), ("bubble_pct", "bubble", "percent", "bubble", 1),
           ("exposed_pct", "exposed comm.", "percent", "exposed", 1), ("prediction_error_pct", "prediction", "percent", "error", 1),
           ("training_days", "days", "number", "days", 1), ("cost_usd", "cost, $", "number", "cost", 1), ("source", "source", "words", "", 1))


def parse_arguments(arguments):
    parser = Parser(description=__doc__, formatter_class=__import__("argparse").RawDescriptionHelpFormatter)
    parser.add_argument("csv", nargs="+", metavar="FILE.csv", help="summary CSVs (not the _ops.csv beside them)")
    parser.add_argument("--out", metavar="FILE.html", help="the page (default: beside the first file)")
    parser.add_argument("--facts", metavar="FILE.json", help="timeline, memory and what-ifs, as `shardbench simulate --facts` writes them")
    parser.add_argument("--bin", metavar="FILE", help="the program, to play the best row's step again for its timeline")
    parser.add_argument("--no-run", action="store_true", help="do not run anything: no timeline without --facts")
    parser.add_argument("--made-by", metavar="TEXT", help="the command that the page is of, for its foot")
    return parser.parse_args(arguments)


def program(options):
    """Where the program is, None where it is not found."""
    if options.bin:
        if not os.access(options.bin, os.X_OK):
            raise BadInput(f"--bin: {options.bin} is no program")
        return options.bin
    near = (os.path.join(HERE, "..", "build", "bin", "shardbench"), os.path.join(HERE, "..", "..", "..", "bin", "shardbench"))
    return next((path for path in near if os.access(path, os.X_OK)), shutil.which("shardbench"))


def facts_by_running(options, best):
    """Of the best row, told again by its own command; nothing where it was not simulated or the program is not here."""
    command = [] if options.no_run or best.get("source") not in ("simulated", "planned") else sections_command(best)
    binary = program(options) if command else None
    if not binary:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "facts.json")
        try:
            subprocess.run([binary, *command, "--facts", path], capture_output=True, timeout=SIMULATION_SECONDS, check=False)
            facts = read_facts(path)
        except (OSError, subprocess.TimeoutExpired):
            return {}
    facts["run_id"] = best.get("run_id")
    return facts


def sections_command(best):
    from report_data import command_words

    command = command_words(best)
    return command[1:] if command[:2] == ["shardbench", "simulate"] else []


def percentages(rows):
    for row in rows:
        whole = sum(row.get(name) or 0 for name in ("compute_ms", "exposed_comm_ms", "idle_ms"))
        for name, column in (("bubble_pct", "bubble_ms"), ("exposed_pct", "exposed_comm_ms")):
            row[name] = 100 * row[column] / whole if whole and row.get(column) is not None else None


def table_data(rows):
    """The table as columns, its commands as words of one list."""
    shown = [column for column in COLUMNS if column[0] in ("label", "step_ms_p50") or len({row.get(column[0]) for row in rows} - {None}) > (1 if column[0] in ("ranks", "source") else 0)]
    if any(column[0] == "tokens_per_s" for column in shown) and not any(row.get("image_size") for row in rows):
        shown = [column for column in shown if column[0] != "samples_per_s"]
    words, commands = {}, []
    for row in rows:
        commands.append([words.setdefault(word, len(words)) for word in (row.get("command") or "").split(" ")])
    flags = {}
    for index, row in enumerate(rows[:FLAGS_OF]):
        told = {name: row[column] for name, column in (("Measure it", "run_command"), ("Megatron-LM", "megatron_flags"), ("torchtitan", "torchtitan_flags")) if row.get(column)}
        if told:
            flags[index] = told
    return {
        "columns": [{"name": name, "title": title, "kind": kind, "short": short, "factor": factor} for name, title, kind, short, factor in shown],
        "rows": {name: [rounded(row.get(name)) for row in rows] for name in [column[0] for column in shown] + ["outcome"]},
        "search": [f"{row['label']} {row['outcome']} {row.get('reason') or ''} {row.get('source')}".lower()[:300] for row in rows],
        "reasons": [row.get("reason") or "" for row in rows],
        "commands": commands,
        "words": list(words),
        "flags": flags,
        "count": len(rows),
        "sort": "step_ms_p50",
    }


def rounded(value):
    return float(f"{value:.7g}") if isinstance(value, float) else value


def timeline_data(facts):
    """Blocks and operations of the timeline, what stages share held once."""
    line = facts.get("timeline")
    if not line:
        return None
    stages = line["stages"]
    if sum(len(stage["blocks"]) for stage in stages) > MOST_BLOCKS:
        most = max(2, MOST_BLOCKS // max(1, max(len(stage["blocks"]) for stage in stages)))
        stages = stages[:: max(1, -(-len(stages) // most))]
    kinds, words, ops, known = {}, {}, [], {}
    drawn = []
    pipelined = len({stage["stage"] for stage in stages}) == len(stages)
    for stage in stages:
        held = {}
        for name, entries in stage["ops"].items():
            content = json.dumps(entries)
            if content not in known:
                known[content] = len(ops)
                ops.append([[words.setdefault(entry[0], len(words)), entry[1], *entry[2:]] for entry in entries])
            held[name] = known[content]
        drawn.append({
            "name": f"stage {stage['stage']}" if pipelined else f"rank {stage['rank']}",
            "chunks": len(stage["chunks"]),
            "blocks": [[start, length, kinds.setdefault(kind, len(kinds)), microbatch, chunk] for start, length, kind, microbatch, chunk in stage["blocks"]],
            "communication": {lane: [[*piece[:4], words.setdefault(piece[4], len(words))] for piece in pieces] for lane, pieces in stage["communication"].items()},
            "ops": held,
        })
    spoken = {"F": "forward", "B": "backward", "I": "backward, inputs", "W": "backward, weights", "R": "recompute", "OPT": "optimizer", "D": "decode",
              "REDUCE": "reduction", "GATHER": "gather", "ADD": "adding gradients"}
    return {"end": 1e3 * line["step_ms"], "stages": drawn, "kinds": list(kinds), "names": spoken, "words": list(words), "ops": ops}


def table_section(data, rows):
    heads = "".join(f'<th scope="col" data-column="{column["name"]}"{" class=words" if column["kind"] == "words" else ""}><button type="button">{escape(column["title"])}</button></th>' for column in data["columns"])
    outcomes = sorted({row["outcome"] for row in rows})
    options = "".join(f'<option value="{escape(outcome)}">{escape(outcome)} ({sum(row["outcome"] == outcome for row in rows)})</option>' for outcome in outcomes)
    told = reasons(rows)
    why = ""
    if told:
        lines = "".join(f"<tr><td>{escape(outcome)}</td><td class='num'>{count:,}</td><td>{escape(reason)}</td></tr>" for outcome, reason, count in told[:8])
        why = f"<h3>Why rows have no step</h3><div class='scroll'><table class='facts'><thead><tr><th>outcome</th><th class='num'>rows</th><th>the first reason</th></tr></thead><tbody>{lines}</tbody></table></div>"
    body = (f'<div class="tools"><input id="filter" type="search" placeholder="Filter: tp 8, zero 1, mfu&gt;40, memory&lt;70" aria-label="Filter rows by words, or by numbers such as mfu&gt;40">'
            f'<select id="outcome" aria-label="Outcome"><option value="">every outcome</option>{options}</select><button id="download" type="button">Download CSV</button></div>'
            f'<div class="scroll"><table class="rows"><thead><tr>{heads}<th scope="col"><span hidden>command</span></th></tr></thead><tbody></tbody></table></div>'
            f'<div class="tools" style="margin:14px 0 0"><button id="more" type="button">Show more</button><span id="count" class="said" aria-live="polite"></span></div>{why}')
    takeaway = ("Sort by a heading, filter, download what is left. Each row has the command that makes it again." if len(rows) > 1
                else "With the command that makes it again.")
    return sections.section("rows", f"{'All rows' if len(rows) > 1 else 'The row'}", takeaway, body)


def group_sections(group, best, facts, ops):
    mine = facts if best.get("run_id") == facts.get("run_id") else {}
    parts = [sections.where_time_goes(group, best), sections.timeline(mine, group, best), sections.memory(group, best, mine),
             sections.scaling(group), sections.heat_map(group, best), sections.front(group, best), sections.what_ifs(mine, best),
             sections.agreement(group), sections.operations(ops, best, mine)]
    return even_halves([text for text in parts if text])


def even_halves(parts):
    """Half-width sections come in pairs: one without a partner takes the whole width."""
    flat = []
    for part in parts:
        pieces = part.split("<section ")
        flat += ["<section " + piece for piece in pieces if piece]
    halves = [index for index, part in enumerate(flat) if 'class="half"' in part.split(">", 1)[0]]
    others = [part for index, part in enumerate(flat) if index not in halves]
    if len(halves) % 2:
        flat[halves[-1]] = flat[halves[-1]].replace(' class="half"', "", 1)
    return others + [flat[index] for index in halves]


def headings(parts):
    out = []
    for part in parts:
        name = part.split('id="', 1)[1].split('"', 1)[0]
        heading = part.split("<h2", 1)[1].split(">", 1)[1].split("</h2>", 1)[0]
        out.append((name, heading))
    return out


def top_of(group, best, rows, alone):
    if best is None:
        counts = ", ".join(f"{sum(row['outcome'] == outcome for row in rows)} {outcome}" for outcome in sorted({row["outcome"] for row in rows}))
        told = reasons(rows)
        why = f" {told[0][1]}" if told else ""
        return f"No configuration has a step time: {counts}.", "", escape(why.strip())
    return sections.answer(group, best), sections.tiles(best), escape(trust_words(best))


def page(paths, rows, ops, facts, options):
    give_labels(rows)
    percentages(rows)
    groups = groups_of(rows)
    chosen = max((group for group in groups), key=lambda group: (any(row.get("run_id") == facts.get("run_id") for row in group.rows), bool(passed(group.rows)), len(group.rows)))
    for group in groups:
        give_labels(group.rows)
    best = best_of(chosen, facts)
    headline, tiles, trust = top_of(chosen, best, rows, len(groups) == 1)
    body = [sections.comparison(facts)]
    for group in [chosen] + [group for group in groups if group is not chosen]:
        first = best if group is chosen else best_of(group, facts)
        if first is None:
            continue
        parts = group_sections(group, first, facts, ops)
        if len(groups) > 1:
            suffix = str(groups.index(group))
            parts = [part.replace('id="', f'id="g{suffix}-').replace('labelledby="', f'labelledby="g{suffix}-') for part in parts]
            body.append(f'<h2 class="group-name">{escape(model_name(group.model))}{"" if group.phase == "train" else ", " + escape(group.phase)}: {escape(sections.answer(group, first))}</h2>')
        body += parts
    ordered = sorted(rows, key=lambda row: (row["outcome"] != "passed", row.get("step_ms_p50") or float("inf")))
    if len(groups) > 1:
        give_labels(ordered)
    data = table_data(ordered)
    data["download"] = os.path.splitext(os.path.basename(paths[0]))[0] + "_shown.csv"
    data["timeline"] = timeline_data(facts)
    body.append(table_section(data, ordered))
    body = [part for part in body if part]
    return assemble(chosen, best, rows, headline, tiles, trust, body, data, options)


def best_of(group, facts):
    """The row that the facts are of, where the command chose it; else the fastest."""
    ran = passed(group.rows)
    told = [row for row in ran if row.get("run_id") and row["run_id"] == facts.get("run_id")]
    return told[0] if told else ran[0] if ran else None


def assemble(group, best, rows, headline, tiles, trust, body, data, options):
    files = {name: open(os.path.join(HERE, name), encoding="utf-8").read() for name in ("report_page.css", "report_page.js")}
    model = model_name(group.model)
    what = f"<b>{escape(model)}</b>{'' if group.phase == 'train' else ', ' + escape(group.phase)}"
    place = (best or rows[0]).get("system") or (best or rows[0]).get("device") or ""
    shared = shared_words([row for row in group.rows])
    winner = f"<p class='shared'><b style='color:var(--ink);font-weight:600'>{escape(full_cut(best))}</b></p>" if best else ""
    navigation = "".join(f'<a href="#{name}">{heading}</a>' for name, heading in headings([part for part in body if part.startswith("<section")]))
    written = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    stamp = (best or rows[0]).get("time_utc") or ""
    made = f"<p>Made by <code>{escape(options.made_by)}</code></p>" if options.made_by else ""
    title = f"{model}: {headline}"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:">
<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{files['report_page.css']}</style></head>
<body><a class="skip" href="#rows">To the table</a>
<header class="top"><p class="eyebrow">{what}{' on ' + escape(place) if place else ''} · {len(rows):,} {'row' if len(rows) == 1 else 'rows'}</p>
<h1>{escape(headline)}</h1>{winner}<p class="shared">{escape(', '.join(shared))}</p>{tiles}<p class="trust">{trust}</p><nav aria-label="Sections">{navigation}</nav></header>
<main><div class="sections">{''.join(body)}</div></main>
<footer>{made}<p>MFU counts the model's FLOPs, recomputation not; GB is 1e9 bytes; what was not measured is empty.{' ' + escape(stamp) if stamp else ''} shardbench</p></footer>
<script id="data" type="application/json">{written}</script><script>{files['report_page.js']}</script></body></html>
"""


def main(arguments):
    options = parse_arguments(arguments)
    rows, ops = read_rows(options.csv)
    out = options.out or os.path.splitext(options.csv[0])[0] + ".html"
    if os.path.abspath(out) in {os.path.abspath(path) for path in options.csv}:
        raise BadInput(f"--out: {out} is one of the files to read; allowed: another name")
    ran = passed(rows)
    facts = read_facts(options.facts) if options.facts else facts_by_running(options, ran[0]) if ran else {}
    text = page(options.csv, rows, ops, facts, options)
    with open(out, "w", encoding="utf-8") as file:
        file.write(text)
    print(out)
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
