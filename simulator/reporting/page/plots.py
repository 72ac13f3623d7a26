"""Drawing panels in a page by plotly, and a sweep's rows for the browser, column by column."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import pairwise
from textwrap import wrap
from typing import Any

import numpy as np
import pandas as pd

from simulator.models.timeline import BREAKDOWN, TERM_LABELS
from simulator.records import Record, replace
from simulator.reporting.figures.data.sources import methods, varied_keys
from simulator.reporting.figures.style.panels import (
    GREY,
    STROKES,
    Band,
    Boxes,
    Mark,
    Panel,
    PanelAxis,
    Panels,
    Series,
    assign_looks,
)
from simulator.reporting.figures.style.paper import thin_ticks
from simulator.reporting.page.theme import css_colour, ink_on
from simulator.reporting.wording.blocks import Column, describe, method_name

Plot = dict[str, Any]
"""A plotly figure as JSON, `data` (traces) and `layout`, or a piece of one: a trace, an axis, a shape."""
_DASH = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}
_MARK = {
    "o": "circle", "s": "square", "^": "triangle-up", "D": "diamond", "v": "triangle-down", "P": "cross", "X": "x",
}  # fmt: skip
BACKGROUND, REFERENCE = "var(--background)", "var(--reference)"
"""Colours by the names of `assets/theme.css`, which the page looks up for light and dark."""
_HOVER = {"time": ".4~s", "bytes": ".4~s", "percent": ".3~p", "number": ",.4~g", "size": ".4~s"}
"""How a value of an axis is written at the pointer, by the kind of the axis's values (`assets/format.js`)."""
_GAP, _SHARED, _NAMED = 0.12, 0.03, 0.24
"""Shares of the width between panels: of any two, of those that share an axis, and where names stand between them."""
_NAME = 26
AXIS: Plot = {
    "gridcolor": "var(--grid)",
    "zeroline": False,
    "automargin": True,
    "ticks": "outside",
    "tickcolor": REFERENCE,
}
LAYOUT: Plot = {
    "autosize": True,
    "font": {"family": "system-ui, 'DejaVu Sans', Arial, sans-serif", "size": 14, "color": "var(--text)"},
    "paper_bgcolor": BACKGROUND,
    "plot_bgcolor": BACKGROUND,
    "margin": {"l": 60, "r": 20, "t": 16, "b": 50},
    "hovermode": "closest",
    "barmode": "overlay",
    "uniformtext": {"mode": "hide", "minsize": 12},
    "hoverlabel": {"font": {"size": 14}, "namelength": -1},
    "legend": {"orientation": "h", "x": 0, "xref": "container", "y": 0, "yref": "container", "yanchor": "bottom"},
}


def escape_text(value: Any) -> str:
    """A text for plotly, which interprets some HTML: nothing of it is markup any more.

    >>> escape_text("<b>$a$</b>")
    '&lt;b&gt;&#36;a&#36;&lt;/b&gt;'
    """
    return escape(str(value), quote=False).replace("$", "&#36;")


def wrap_text(value: str, width: int) -> str:
    """A long name on at most three lines."""
    lines = wrap(value, width)
    return "<br>".join(escape_text(line) for line in [*lines[:2], " ".join(lines[2:])[: width + 4]] if line)


def json_numbers(column: Iterable[Any]) -> list[float | None]:
    """Numbers for JSON, to 6 significant digits; null for those that are not finite."""
    array = np.asarray(list(column), dtype=float)
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in array.tolist()]


def draw_in_page(panels: Panels) -> Plot:
    """Panels side by side, each name once in the legend below them.

    On a narrow screen the page puts panels one below the other, but for those that share a vertical axis.
    """
    shown = panels.panels
    known: set[str] = set()
    kinds: dict[str, str] = {}
    result: Plot = {"data": [], "layout": LAYOUT | {"height": panels.height}}
    for place, (panel, domain) in enumerate(zip(shown, _domains(shown), strict=True)):
        number = str(place + 1) if place else ""
        for mark in panel.marks:
            if not (isinstance(mark, Band) and None in json_numbers([*mark.low, *mark.high])):
                trace = _trace(mark, mark.name not in known)
                result["data"].append(trace | ({"xaxis": f"x{number}", "yaxis": f"y{number}"} if place else {}))
                known |= {mark.name} if trace["showlegend"] else set()
        x, y = _axis_of(panel.x), _axis_of(panel.y)
        x["domain"] = domain
        if panel.shared:
            y |= {"matches": "y2", "showticklabels": False, "ticks": ""}
        if panel.y.names:
            y |= {"range": y["range"][::-1], "automargin": not place}
        for letter, own, other in (("x", x, "y"), ("y", y, "x")):
            if "kind" in own:
                kinds[f"{letter}axis{number}"] = own.pop("kind")
            result["layout"][f"{letter}axis{number}"] = own | {"anchor": f"{other}{number}"}
    starts = [place for place, panel in enumerate(shown) if not panel.shared]
    stacks = [list(range(*ends)) for ends in pairwise([*starts, len(shown)])]
    result["layout"]["meta"] = {"kinds": kinds, "stacks": stacks}
    return result


def _domains(panels: Sequence[Panel]) -> Iterator[list[float]]:
    """From where to where each panel is, as shares of the width; names on a vertical axis have room beside it."""
    gaps = [0.0, *(_SHARED if panel.shared else _NAMED if panel.y.names else _GAP for panel in panels[1:])]
    unit, end = (1 - sum(gaps)) / sum(panel.width for panel in panels), 0.0
    for gap, panel in zip(gaps, panels, strict=True):
        start, end = end + gap, min(1.0, end + gap + unit * panel.width)
        yield [start, end]


def _trace(mark: Mark, first: bool) -> Plot:
    """A line, its marks, or both; a shaded area; or boxes, which are bars with any base."""
    colour, name = css_colour(mark.colour) if mark.colour else "transparent", escape_text(mark.name)
    trace: Plot = {"type": "scatter", "name": name, "legendgroup": name, "showlegend": False, "hoverinfo": "skip"}
    if isinstance(mark, Boxes):
        heights, strengths = np.asarray(mark.height), np.asarray(mark.strengths)
        ink = {"color": [ink_on(mark.colour, strength) for strength in strengths]} if len(strengths) else {}
        return _told(mark, trace | {
            "type": "bar",
            "showlegend": first and bool(mark.name),
            "x": json_numbers(mark.x),
            "width": json_numbers(mark.width),
            "base": json_numbers(np.asarray(mark.y) - heights / 2),
            "y": json_numbers(heights),
            "marker": {
                "color": colour,
                "line": {"color": BACKGROUND, "width": 0 if mark.hatched else 1},
                **({"opacity": json_numbers(0.2 + 0.8 * strengths)} if len(strengths) else {}),
                "pattern": {"shape": "/" * mark.hatched, "fgcolor": STROKES, "size": 18, "solidity": 0.08},
            },
            "text": list(mark.texts),
            "textposition": {"middle": "inside", "above": "outside", "right": "none"}[mark.texts_at],
            "textangle": 0,
            "insidetextanchor": "middle",
            "textfont": {"size": 13, **ink},
        })  # fmt: skip
    if isinstance(mark, Band):
        return trace | {
            "mode": "lines",
            "x": json_numbers([*mark.x, *[*mark.x][::-1]]),
            "y": json_numbers([*mark.low, *[*mark.high][::-1]]),
            "fill": "toself",
            "fillcolor": f"color-mix(in srgb, {colour} 16%, transparent)",
            "line": {"width": 0},
        }
    colour = REFERENCE if mark.colour == GREY else colour
    trace |= {
        "mode": "+".join(["lines"] * bool(mark.stroke) + ["markers"] * bool(mark.marker)),
        "showlegend": first and mark.legend,
        "x": json_numbers(mark.x),
        "y": json_numbers(mark.y),
    }
    if mark.stroke:
        width = 3 if mark.colour == GREY and mark.width > 2 else 2 if mark.width >= 1.5 else 1.5
        trace["line"] = {"color": colour, "dash": _DASH[mark.stroke], "width": width}
    if mark.marker:
        trace["marker"] = {"color": colour, "symbol": _MARK[mark.marker] + "-open" * mark.hollow}
        trace["marker"]["size"] = 7 if mark.stroke else max(8, mark.size)
    if mark.reach is not None:
        less, more = (np.abs(np.asarray(ends) - np.asarray(mark.x)).tolist() for ends in mark.reach)
        trace["error_x"] = {"type": "data", "symmetric": False, "color": colour, "width": 5}
        trace["error_x"] |= {"array": more, "arrayminus": less}
    return _told(mark, trace)


def _told(mark: Series | Boxes, trace: Plot) -> Plot:
    """A trace with what is said at the pointer."""
    if len(mark.told):
        trace["customdata"] = [
            [wrap_text(value, 50) if isinstance(value, str) else json_numbers([value])[0] for value in row]
            for row in mark.told
        ]
    if mark.said:
        del trace["hoverinfo"]
        said = map(escape_text, mark.said)
        trace["hovertemplate"] = "<br>".join(["<b>%{fullData.name}</b>", *said]) + "<extra></extra>"
    return trace


def _axis_of(given: PanelAxis) -> Plot:
    """An axis of a panel as plotly has it, with the `kind` of its values for the page, which chooses the ticks."""
    made = AXIS | {"title": {"text": escape_text(given.label if given.page is None else given.page), "standoff": 8}}
    if given.names:
        words = [wrap_text(name, _NAME) for name in given.names]
        span = [-0.5, len(words) - 0.5]
        return made | {
            "tickvals": [*range(len(words))],
            "ticktext": words,
            "range": span,
            "showgrid": False,
            "ticks": "",
        }
    if len(given.values):
        # Ticks at the values themselves, fewer where there are many.
        counts = sorted({float(value) for value in given.values})
        ticks = thin_ticks(counts)
        scale = {"type": "log"} if len(counts) > 1 and counts[0] > 0 else {}
        return made | scale | {"tickvals": ticks, "ticktext": [f"{tick:,.0f}" for tick in ticks]}
    made |= {"kind": given.kind} | ({"type": "log"} if given.log else {})
    if given.kind in _HOVER:
        made["hoverformat"] = _HOVER[given.kind]
    if given.low is not None and given.high is not None:
        made["range"] = [math.log10(end) if given.log else end for end in (given.low, given.high)]
    elif given.low == 0:
        made["rangemode"] = "tozero"
    return made


_RESULTS = (
    *("iteration_time_s", "iteration_time_interval_s.p5", "iteration_time_interval_s.p95", "throughput_samples_per_s"),
    *("verdict", "speed_up", "speed_up_interval.p5", "speed_up_interval.p95", "probability"),
    *("scaling_efficiency", *(f"breakdown_s.{phase}" for phase in BREAKDOWN), "communication_total_s"),
    *("traffic.sent_bytes_per_worker", "traffic.busiest_link.utilisation", "density.selected", "density.aggregated"),
    *("density.build_up", "density.padding", "workers", "fidelity.tier", "digest"),
)
"""The results in the table of points, in this order."""
_DIGEST = 12
_REFERENCES = {
    "speed_up": {"value": 1.0, "label": "break-even: as fast as dense"},
    "scaling_efficiency": {"value": 1.0, "label": "ideal"},
}
"""Lines of the plot of points, as in the figures."""
_FIRST = ("speed_up", "iteration_time_s", "throughput_samples_per_s")
"""What is plotted first, where it differs: the answer to whether a method pays, else how long an iteration takes."""


class Points(Record):
    """Rows of a sweep for the reader to filter, sort and plot: `columns`, and the values of each by its key.

    The first `varied` columns were varied, the others are results. `palette` holds the colours of the methods,
    `phases` the breakdown's terms with their classes, `constant` the terms (s) that are the same in all rows.
    `x` and `y` are the columns that are plotted first, empty where no result differs; `references` are values of
    columns that a line marks, with what they are. `look` is what all axes of the plot have, `layout` the rest of it.
    """

    columns: Sequence[Column]
    values: dict[str, dict[str, Any]]
    count: int
    varied: int
    palette: dict[str, dict[str, str]]
    phases: Sequence[dict[str, str]]
    constant: dict[str, float]
    x: str
    y: str
    references: dict[str, dict[str, Any]]
    look: Plot
    layout: Plot


def points_of(table: pd.DataFrame) -> Points:
    """Every row of a sweep; columns that are the same in all rows are left out (`constants`)."""
    keys = varied_keys(table)
    different = [
        name for name in _RESULTS if name in table and name not in keys and table[name].nunique(dropna=False) > 1
    ]
    columns = [describe(name) for name in (*keys, *different)]
    for place, column in enumerate(columns[: len(keys)]):
        if not pd.api.types.is_numeric_dtype(table[column.key]):
            columns[place] = replace(column, kind="text")
    names = methods(table)
    looks = {
        name: {"colour": css_colour(look.colour), "stroke": look.stroke} for name, look in assign_looks(names).items()
    }
    x, y = _choose_axes(table, columns[: len(keys)], different)
    entries = {**LAYOUT["legend"], "traceorder": "normal"}
    return Points(
        look=AXIS,
        layout=LAYOUT | {"height": 440, "legend": entries, "showlegend": True},
        x=x,
        y=y,
        references={key: reference for key, reference in _REFERENCES.items() if key in different},
        columns=columns,
        values={column.key: _encode(table[column.key], column) for column in columns}
        | {"method": _encode_levels(names.map(str).tolist())},
        count=len(table),
        varied=len(keys),
        palette=looks,
        phases=[
            {"key": f"breakdown_s.{phase}", "label": TERM_LABELS[phase], "look": f"term-{phase}"}
            for phase in BREAKDOWN
            if f"breakdown_s.{phase}" in table
        ],
        constant={name: value for name, value in constants(table).items() if name.startswith("breakdown_s.")},
    )


def _choose_axes(table: pd.DataFrame, varied: Sequence[Column], results: Sequence[str]) -> tuple[str, str]:
    """What is plotted first: the answer against the varied number with the most values, or against what is varied."""
    numbers = [name for name in results if pd.api.types.is_numeric_dtype(table[name])]
    y = next((name for name in (*_FIRST, *numbers) if name in numbers), "")
    ranked = sorted(varied, key=lambda column: (column.kind == "text", -table[column.key].nunique()))
    return (ranked[0].key if ranked else y), y


def constants(table: pd.DataFrame) -> dict[str, Any]:
    """What is the same in all rows, by column."""
    same = [name for name in table if len(table) and table[name].nunique(dropna=False) == 1]
    return {str(name): table[name].iloc[0] for name in same if not pd.isna(table[name].iloc[0])}


def _encode(values: pd.Series[Any], column: Column) -> dict[str, Any]:
    if column.key == "digest":
        return {"plain": [str(value)[:_DIGEST] for value in values]}
    if column.kind == "text" or not pd.api.types.is_numeric_dtype(values):
        return _encode_levels([None if pd.isna(value) else method_name(value) for value in values])
    numbers = json_numbers(values)
    return _encode_levels(numbers) if values.nunique() * 4 < len(values) else {"plain": numbers}


def _encode_levels(values: list[Any]) -> dict[str, Any]:
    """Each value as its place among the different ones."""
    levels = list(dict.fromkeys(values))
    place = {value: number for number, value in enumerate(levels)}
    return {"levels": levels, "codes": [place[value] for value in values]}
