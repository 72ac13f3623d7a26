"""Drawing panels in a page, by plotly: traces, axes and layouts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np

from simulator.reporting.figures.style.colours import GREY
from simulator.reporting.figures.style.panels import STROKES, Band, Boxes, Mark, Panel, PanelAxis, Panels, Series
from simulator.reporting.figures.style.paper import thin_ticks
from simulator.reporting.page.parts import Plot
from simulator.reporting.page.theme import css_colour, ink_on

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


def wrap_text(value: str, width: int = 30, most: int = 3) -> str:
    """A long name on several lines."""
    from textwrap import wrap

    lines = wrap(str(value), width) or [""]
    return "<br>".join(
        escape_text(line) for line in [*lines[: most - 1], " ".join(lines[most - 1 :])[: width + 4]] if line
    )


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
