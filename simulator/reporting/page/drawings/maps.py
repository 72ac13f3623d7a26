"""Drawings over a grid: the break-even map, the traffic matrix and the links over time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from simulator.reporting.figures.break_even_map import DENSE, LINES, NOT_DECIDED, UNDECIDED
from simulator.reporting.figures.style.axes import format_bits
from simulator.reporting.figures.style.colours import amount_colours, assign_looks, tint
from simulator.reporting.figures.traffic_matrix import workers_first
from simulator.reporting.page.parts import Plot
from simulator.reporting.page.plots import SECONDS, axis, escape_text, json_numbers, layout

_TICKS = 12


def break_even_map(data: pd.DataFrame) -> Plot:
    """One heat map for each winning method, so that each is in the legend; the larger the margin, the darker."""
    bandwidths, counts = (sorted(data[name].unique()) for name in ("bandwidth_bytes_per_s", "workers"))
    styles = assign_looks(sorted(data["winner"], key=lambda name: (name != DENSE, name)))
    traces: list[dict[str, Any]] = []
    for winner, look in styles.items():
        for light in (True, False):
            part = [
                row
                for row in data[data["winner"] == winner].itertuples()
                if (tint(look.colour, float(row.margin))[1] != "#FFFFFF") is light
            ]
            if part:
                traces.append(_winner_cells(part, look.colour, bandwidths, counts))
        traces.append(_legend_entry(winner, look.colour))
    undecided = [
        (bandwidths.index(row.bandwidth_bytes_per_s), counts.index(row.workers))
        for row in data[data["verdict"] == UNDECIDED].itertuples()
    ]
    hatching = {"shapes": [_hatch(undecided)]} if undecided else {}
    if undecided:
        entry = _legend_entry(NOT_DECIDED, "#FFFFFF")
        line = {"color": LINES, "width": 2}
        traces.append(entry | {"hoverinfo": "skip", "marker": {"symbol": "line-ne", "size": 13, "line": line}})
    x = axis("network bandwidth (bit/s)") | _ticks([format_bits(float(value)) for value in bandwidths], 7)
    y = axis("workers") | _ticks([f"{value:,}" for value in counts], 16)
    bare = {"showgrid": False, "ticks": ""}
    return {
        "data": traces,
        "layout": layout(
            [x | bare | _span(len(bandwidths))], [y | bare | _span(len(counts))], 120 + 44 * len(counts), **hatching
        ),
    }


def _hatch(cells: list[tuple[int, int]]) -> dict[str, Any]:
    """One shape of strokes over all cells that are not decided."""
    strokes = (
        f"M{x - 0.5 + max(0.0, at):g},{y - 0.5 + max(0.0, -at):g}L{x + 0.5 + min(0.0, at):g},{y + 0.5 - max(0.0, at):g}"
        for x, y in cells
        for at in (-0.5, 0.0, 0.5)
    )
    return {"type": "path", "path": "".join(strokes), "line": {"color": LINES, "width": 1}, "opacity": 0.7}


def _winner_cells(part: list[Any], colour: str, bandwidths: list[float], counts: list[int]) -> dict[str, Any]:
    """The cells of one method whose numbers have the same colour."""
    winner, shape = part[0].winner, (len(counts), len(bandwidths))
    z: list[list[float | None]] = [[None] * shape[1] for _ in range(shape[0])]
    said = [[""] * shape[1] for _ in range(shape[0])]
    custom: list[list[list[Any]]] = [[[] for _ in range(shape[1])] for _ in range(shape[0])]
    for row in part:
        y, x = counts.index(row.workers), bandwidths.index(row.bandwidth_bytes_per_s)
        margin = float(row.margin)
        z[y][x] = min(margin, 1.0)
        said[y][x] = f"{100 * margin:.0f}" if margin < 9.995 else f"{1 + margin:.0f}×"
        times = json_numbers([row.iteration_time_s, row.over_iteration_time_s])
        custom[y][x] = [
            escape_text(row.over),
            *times,
            format_bits(float(row.bandwidth_bytes_per_s)),
            f"{row.workers:,}",
            "<br>not decided whether it pays" if row.verdict == UNDECIDED else "",
        ]
    pale, full = (tint(colour, strength)[0] for strength in (0.0, 1.0))
    written = shape[0] <= 16 and shape[1] <= 16
    return {
        "type": "heatmap",
        "name": escape_text(winner),
        "legendgroup": escape_text(winner),
        "z": z,
        "zmin": 0,
        "zmax": 1,
        "colorscale": [[0, _rgb(pale)], [1, _rgb(full)]],
        "showscale": False,
        "hoverongaps": False,
        "xgap": 1,
        "ygap": 1,
        "text": said,
        "texttemplate": "%{text}" if written else "",
        "textfont": {"color": tint(colour, float(part[0].margin))[1], "size": 13},
        "customdata": custom,
        "hovertemplate": "<b>%{fullData.name}</b><br>%{customdata[4]} workers, %{customdata[3]}bit/s"
        "<br>%{customdata[1]:.4~s}s per iteration<br>%{customdata[0]}: %{customdata[2]:.4~s}s"
        "%{customdata[5]}<extra></extra>",
    }


def _legend_entry(winner: str, colour: str) -> dict[str, Any]:
    """An entry of the legend: a square that is not drawn in the panel."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": escape_text(winner),
        "legendgroup": escape_text(winner),
        "x": [None],
        "y": [None],
        "marker": {"symbol": "square", "size": 13, "color": colour},
    }


def traffic_matrix(data: pd.DataFrame) -> Plot:
    """Senders from top to bottom, receivers from left to right."""
    names = sorted({*data["source"], *data["destination"]}, key=workers_first)
    place = {name: number for number, name in enumerate(names)}
    matrix = np.full((len(names), len(names)), np.nan)
    matrix[data["source"].map(place), data["destination"].map(place)] = data["bytes"]
    labels = [escape_text(name) for name in names]
    trace = {
        "type": "heatmap",
        "z": [json_numbers(row) for row in matrix],
        "x": labels,
        "y": labels,
        "colorscale": _scale(),
        "zmin": 0,
        "zmax": float(data["bytes"].max()),
        "hoverongaps": False,
        "colorbar": {"title": {"text": "per iteration", "side": "top"}, "tickformat": "~s", "ticksuffix": "B"},
        "hovertemplate": "%{y} to %{x}<br>%{z:.4~s}B per iteration<extra></extra>",
    }
    step = -(-len(labels) // _TICKS)
    bare = {"type": "category", "showgrid": False, "tickvals": labels[::step]}
    x = axis("receiver") | bare | {"tickangle": -60}
    y = axis("sender") | bare | {"autorange": "reversed"}
    return {"data": [trace], "layout": layout([x], [y], 560)}


def link_utilisation(data: pd.DataFrame) -> Plot:
    """One row for each link, the busiest on top; periods as bars, shaded by utilisation."""
    shades = amount_colours()
    links = list(dict.fromkeys(data["link"]))
    place = {name: number for number, name in enumerate(links)}
    alike = data.groupby("link")["alike"].first()
    busy = data[data["utilisation"] > 0]
    names = [escape_text(name) + (f" and {int(alike[name]) - 1} alike" if alike[name] > 1 else "") for name in links]
    trace = {
        "type": "bar",
        "orientation": "h",
        "textposition": "none",
        "y": busy["link"].map(place).tolist(),
        "base": json_numbers(busy["start_s"]),
        "x": json_numbers(busy["end_s"] - busy["start_s"]),
        "customdata": [
            list(item)
            for item in zip(
                json_numbers(busy["utilisation"]),
                json_numbers(busy["bytes_per_s"]),
                json_numbers(busy["start_s"]),
                json_numbers(busy["end_s"]),
                [names[place[name]] for name in busy["link"]],
                strict=True,
            )
        ],
        "marker": {"color": [_rgb(shades(float(share))) for share in busy["utilisation"]], "line": {"width": 0}},
        "showlegend": False,
        "hovertemplate": "%{customdata[4]}<br>%{customdata[2]:.4~s}s to %{customdata[3]:.4~s}s"
        "<br>%{customdata[0]:.3~p} busy, %{customdata[1]:.4~s}B/s<extra></extra>",
    }
    bar = {
        "type": "scatter",
        "mode": "markers",
        "x": [None],
        "y": [None],
        "showlegend": False,
        "marker": {
            "color": [0],
            "cmin": 0,
            "cmax": 1,
            "colorscale": _scale(),
            "colorbar": {"title": {"text": "utilisation", "side": "top"}, "tickformat": ".0%"},
        },
    }
    y = axis("") | {"tickvals": list(range(len(links))), "ticktext": names, "autorange": "reversed", "ticks": ""}
    x = axis("time since the first iteration began", SECONDS)
    height = 110 + 30 * len(links)
    return {"data": [trace, bar], "layout": layout([x], [y | {"showgrid": False}], height, bargap=0.25)}


def _ticks(labels: list[str], most: int) -> dict[str, Any]:
    step = -(-len(labels) // most)
    return {"tickvals": list(range(0, len(labels), step)), "ticktext": labels[::step]}


def _span(count: int) -> dict[str, Any]:
    return {"range": [-0.5, count - 0.5]}


def _scale() -> list[list[Any]]:
    """The figures' colours of amounts, as a colour scale of plotly."""
    shades = amount_colours()
    return [[place / 10, _rgb(shades(place / 10))] for place in range(11)]


def _rgb(colour: tuple[float, ...]) -> str:
    return "rgb({})".format(",".join(str(round(255 * part)) for part in colour[:3]))
