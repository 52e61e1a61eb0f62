"""The interactive page (plotly), self-contained."""
import html

import plotly.graph_objects as go

from plot_data import COLOURS, MEMORY_PARTS, family, rate, time_parts


def write_html(sweeps, stem):
    path = f"{stem}.html"
    parts = []
    for sweep in sweeps:
        if sweep.name:
            parts.append(f"<h2>{html.escape(sweep.name.replace('_', ', '))}</h2>")
        parts += [f"<p>{html.escape(line)}</p>" for line in sweep.caption if line]
        parts += [figure.to_html(full_html=False, include_plotlyjs=sweep is sweeps[0] and index == 0)
                  for index, figure in enumerate((breakdown(sweep), throughput(sweep), memory(sweep)))]
    title = html.escape(sweeps[0].path)
    page = (f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{title}</title></head>"
            f"<body style='font-family:sans-serif'><h1>{title}</h1>{''.join(parts)}</body></html>")
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)
    return path


def stacked(title, unit, labels, series):
    figure = go.Figure()
    positions = list(range(len(labels)))
    for name, colour, values in series:
        if any(values):
            figure.add_bar(name=name, y=positions, x=values, orientation="h", marker_color=colour,
                           customdata=labels, hovertemplate="%{customdata}<br>%{x:.3g} " + unit)
    figure.update_layout(title=title, barmode="stack", xaxis_title=unit, height=220 + 28 * len(labels))
    figure.update_yaxes(tickvals=positions, ticktext=labels, autorange="reversed")
    return figure


def breakdown(sweep):
    rows = [row for row in sweep.rows if time_parts(row)]
    series = {}
    for index, row in enumerate(rows):
        for name, colour, value in time_parts(row):
            series.setdefault((name, COLOURS[colour]), [0.0] * len(rows))[index] = value
    return stacked("Where a step goes, fastest first", "ms a step", [row["label"] for row in rows],
                   [(name, colour, values) for (name, colour), values in series.items()])


def throughput(sweep):
    figure = go.Figure()
    rows = [row for row in sweep.rows if rate(row)[0]]
    for name in sorted({family(row) for row in rows}):
        chosen = [row for row in rows if family(row) == name]
        figure.add_scatter(name=name, mode="markers", x=[row["ranks"] for row in chosen],
                           y=[rate(row)[0] for row in chosen], text=[row["label"] for row in chosen])
    figure.update_layout(title="Throughput against ranks", xaxis_title="ranks", yaxis_title=rate(sweep.rows[0])[1])
    figure.update_yaxes(rangemode="tozero")
    return figure


def memory(sweep):
    labels = [row["label"] for row in sweep.rows]
    series = [(name, colour, [(row.get(column) or 0.0) / 1e9 for row in sweep.rows]) for name, column, colour in MEMORY_PARTS]
    return stacked("Memory of the fullest rank", "GB a rank", labels, series)
