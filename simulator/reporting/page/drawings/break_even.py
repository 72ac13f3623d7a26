"""The break-even map."""

from __future__ import annotations

from typing import Any

import pandas as pd

from simulator.reporting.figures.break_even_map import DENSE, LINES, NOT_DECIDED, UNDECIDED, map_axes, place_cells
from simulator.reporting.figures.style.axes import format_bits
from simulator.reporting.figures.style.colours import assign_looks
from simulator.reporting.figures.style.panels import Panel, Panels
from simulator.reporting.page.parts import Plot
from simulator.reporting.page.plots import BACKGROUND, draw_in_page, escape_text, json_numbers
from simulator.reporting.page.theme import css_colour, ink_on, mix_css


def break_even_map(data: pd.DataFrame) -> Plot:
    """One heat map for each winning method, so that each is in the legend; the stronger, the larger the margin."""
    data = place_cells(data)
    styles = assign_looks(sorted(data["winner"], key=lambda name: (name != DENSE, name)))
    x, y = map_axes(data)
    shape = len(y.names), len(x.names)
    traces: list[Plot] = []
    for winner, look in styles.items():
        # A heat map has one colour of texts, so cells that need another one are a heat map of their own.
        parts: dict[str, list[Any]] = {}
        for row in data[data["winner"] == winner].itertuples():
            parts.setdefault(ink_on(look.colour, _strength(float(row.margin))), []).append(row)
        traces += [_winner_cells(rows, ink, look.colour, shape) for ink, rows in parts.items()]
        traces.append(_legend_entry(winner, css_colour(look.colour)))
    plot = draw_in_page(Panels([Panel(x, y, ())], 120 + 44 * shape[0]))
    undecided = data.loc[data["verdict"] == UNDECIDED, ["x", "y"]].to_numpy().tolist()
    if undecided:
        plot["layout"]["shapes"] = [_hatch(undecided)]
        entry = _legend_entry(NOT_DECIDED, BACKGROUND)
        line = {"color": LINES, "width": 2}
        traces.append(entry | {"hoverinfo": "skip", "marker": {"symbol": "line-ne", "size": 13, "line": line}})
    return plot | {"data": traces}


def _hatch(cells: list[list[int]]) -> Plot:
    """One shape of strokes over all cells that are not decided."""
    strokes = (
        f"M{x - 0.5 + max(0.0, at):g},{y + 0.5 - max(0.0, -at):g}L{x + 0.5 + min(0.0, at):g},{y - 0.5 + max(0.0, at):g}"
        for x, y in cells
        for at in (-0.5, 0.0, 0.5)
    )
    return {"type": "path", "path": "".join(strokes), "line": {"color": LINES, "width": 1}, "opacity": 0.7}


def _strength(margin: float) -> float:
    """How strong the colour of a cell is."""
    return min(max(margin, 0.0), 1.0)


def _winner_cells(part: list[Any], ink: str, colour: str, shape: tuple[int, int]) -> Plot:
    """The cells of one method whose numbers have the same colour."""
    winner = part[0].winner
    z: list[list[float | None]] = [[None] * shape[1] for _ in range(shape[0])]
    said = [[""] * shape[1] for _ in range(shape[0])]
    custom: list[list[list[Any]]] = [[[] for _ in range(shape[1])] for _ in range(shape[0])]
    for row in part:
        y, x, margin = row.y, row.x, float(row.margin)
        z[y][x] = _strength(margin)
        said[y][x] = f"{100 * margin:.0f}" if margin < 9.995 else f"{1 + margin:.0f}×"
        times = json_numbers([row.iteration_time_s, row.over_iteration_time_s])
        custom[y][x] = [
            escape_text(row.over),
            *times,
            format_bits(float(row.bandwidth_bytes_per_s)),
            f"{row.workers:,}",
            "<br>not decided whether it pays" if row.verdict == UNDECIDED else "",
        ]
    written = shape[0] <= 16 and shape[1] <= 16
    return {
        "type": "heatmap",
        "name": escape_text(winner),
        "legendgroup": escape_text(winner),
        "z": z,
        "zmin": 0,
        "zmax": 1,
        "colorscale": [[part / 10, mix_css(colour, part / 10)] for part in range(11)],
        "showscale": False,
        "hoverongaps": False,
        "xgap": 1,
        "ygap": 1,
        "text": said,
        "texttemplate": "%{text}" if written else "",
        "textfont": {"color": ink, "size": 13},
        "customdata": custom,
        "hovertemplate": "<b>%{fullData.name}</b><br>%{customdata[4]} workers, %{customdata[3]}bit/s"
        "<br>%{customdata[1]:.4~s}s per iteration<br>%{customdata[0]}: %{customdata[2]:.4~s}s"
        "%{customdata[5]}<extra></extra>",
    }


def _legend_entry(winner: str, colour: str) -> Plot:
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
