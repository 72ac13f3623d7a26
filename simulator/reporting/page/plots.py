"""Drawing panels in a page, by plotly: traces, axes and layouts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from simulator.reporting.figures.style.axes import thin_ticks
from simulator.reporting.figures.style.colours import GREY
from simulator.reporting.figures.style.panels import Band, Panel, PanelAxis, Panels, Series
from simulator.reporting.page.parts import Plot
from simulator.reporting.page.theme import css_colour

_DASH = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}
_MARK = {
    "o": "circle", "s": "square", "^": "triangle-up", "D": "diamond", "v": "triangle-down", "P": "cross", "X": "x",
}  # fmt: skip
GRID, INK = "var(--grid)", "var(--text)"
BACKGROUND, REFERENCE = "var(--background)", "var(--reference)"
"""Colours by the names of `assets/theme.css`, which the page looks up for light and dark."""
LEGEND = {"orientation": "h", "x": 0, "xref": "container", "y": 0, "yref": "container", "yanchor": "bottom"}
_HOVER = {"time": ".4~s", "bytes": ".4~s", "percent": ".3~p", "number": ",.4~g", "size": ".4~s"}
"""How a value of an axis is written at the pointer, by the kind of the axis's values (`assets/format.js`)."""
_GAP, _NARROW, _NAMED = 0.12, 0.03, 0.24
"""Shares of the width between panels: of any two, of those that share an axis, and where names stand between them."""
_NAME = 26


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


def hover(*parts: str) -> dict[str, str]:
    """The text at the pointer: the trace's name, then one line for each part (`label: %{x:format}`)."""
    return {"hovertemplate": "<br>".join(["<b>%{fullData.name}</b>", *parts]) + "<extra></extra>"}


def draw_in_page(panels: Panels) -> Plot:
    """Panels side by side, each name once in the legend below them; what is drawn only on paper is left out."""
    shown = [panel for panel in panels.panels if panel.where != "paper"]
    known: set[str] = set()
    traces: list[Plot] = []
    for place, panel in enumerate(shown):
        for mark in panel.marks:
            if mark.where == "paper" or (isinstance(mark, Band) and None in json_numbers([*mark.low, *mark.high])):
                continue
            trace = _band(mark) if isinstance(mark, Band) else _series(mark, mark.name not in known)
            traces.append(trace | ({"xaxis": f"x{place + 1}", "yaxis": f"y{place + 1}"} if place else {}))
            if trace["showlegend"]:
                known.add(mark.name)
    xs = [_axis_of(panel.x) for panel in shown]
    ys = [
        _axis_of(panel.y, upright=True)
        | ({"matches": "y2", "showticklabels": False, "ticks": ""} if panel.shared else {})
        | ({"automargin": False} if panel.y.names and place else {})
        for place, panel in enumerate(shown)
    ]
    stacks = _stacks(shown)
    for panels_beside, (start, width) in zip(stacks, _split_width(shown, stacks), strict=True):
        each = (width - _NARROW * (len(panels_beside) - 1)) / len(panels_beside)
        for number, place in enumerate(panels_beside):
            low = start + number * (each + _NARROW)
            xs[place]["domain"] = [low, low + each]
    return {"data": traces, "layout": layout(xs, ys, panels.height, stacks)}


def _stacks(panels: Sequence[Panel]) -> list[list[int]]:
    """The places of panels that share a vertical axis, together."""
    stacks: list[list[int]] = []
    for place, panel in enumerate(panels):
        if panel.shared:
            stacks[-1].append(place)
        else:
            stacks.append([place])
    return stacks


def _split_width(panels: Sequence[Panel], stacks: Sequence[Sequence[int]]) -> list[tuple[float, float]]:
    """Where each stack of panels begins, and its width; names on a vertical axis have room beside it."""
    gaps = [0.0, *(_NAMED if panels[first].y.names else _GAP for first, *_ in stacks[1:])]
    width = (1 - sum(gaps)) / len(stacks)
    return [(sum(gaps[: number + 1]) + number * width, width) for number in range(len(stacks))]


def _series(mark: Series, first: bool) -> Plot:
    """A line, its marks, or both."""
    grey, name = mark.colour == GREY, escape_text(mark.name)
    colour = REFERENCE if grey else css_colour(mark.colour)
    trace: Plot = {
        "type": "scatter",
        "mode": "+".join(["lines"] * bool(mark.stroke) + ["markers"] * bool(mark.marker)),
        "name": name,
        "legendgroup": name,
        "showlegend": first and mark.legend in ("both", "page"),
        "x": json_numbers(mark.x),
        "y": json_numbers(mark.y),
    }
    if mark.stroke:
        width = 3 if grey and mark.width > 2 else 2 if mark.width >= 1.5 else 1.5
        trace["line"] = {"color": colour, "dash": _DASH[mark.stroke], "width": width}
    if mark.marker:
        trace["marker"] = {"color": colour, "symbol": _MARK[mark.marker] + "-open" * mark.hollow, "size": 7}
    if mark.reach is not None:
        less, more = (np.abs(np.asarray(ends) - np.asarray(mark.x)).tolist() for ends in mark.reach)
        trace["error_x"] = {"type": "data", "symmetric": False, "color": colour, "width": 5}
        trace["error_x"] |= {"array": more, "arrayminus": less}
    if len(mark.told):
        trace["customdata"] = [
            [wrap_text(value, 50) if isinstance(value, str) else json_numbers([value])[0] for value in row]
            for row in mark.told
        ]
    return trace | (hover(*map(escape_text, mark.said)) if mark.said else {"hoverinfo": "skip"})


def _band(mark: Band) -> Plot:
    name = escape_text(mark.name)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "legendgroup": name,
        "showlegend": False,
        "x": json_numbers([*mark.x, *[*mark.x][::-1]]),
        "y": json_numbers([*mark.low, *[*mark.high][::-1]]),
        "fill": "toself",
        "fillcolor": f"color-mix(in srgb, {css_colour(mark.colour)} 16%, transparent)",
        "line": {"width": 0},
        "hoverinfo": "skip",
    }


def _axis_of(given: PanelAxis, upright: bool = False) -> Plot:
    """An axis of a panel as plotly has it; the kind of its values stays for the page, which chooses the ticks."""
    title = escape_text(given.label if given.page is None else given.page)
    if given.names:
        words = [wrap_text(name, _NAME) for name in given.names]
        span = [len(words) - 0.5, -0.5] if upright else [-0.5, len(words) - 0.5]
        return axis(title, tickvals=[*range(len(words))], ticktext=words, range=span, showgrid=False, ticks="")
    if len(given.values):
        # Ticks at the values themselves, fewer where there are many.
        counts = sorted({float(value) for value in given.values})
        ticks = thin_ticks(counts)
        kind: Plot = {"type": "log"} if len(counts) > 1 and counts[0] > 0 else {}
        return axis(title, **kind, tickvals=ticks, ticktext=[f"{tick:,.0f}" for tick in ticks])
    made = axis(title, kind=given.kind, **({"type": "log"} if given.log else {}))
    if given.kind in _HOVER:
        made["hoverformat"] = _HOVER[given.kind]
    if given.low is not None and given.high is not None:
        made["range"] = [math.log10(end) if given.log else end for end in (given.low, given.high)]
    elif given.low == 0:
        made["rangemode"] = "tozero"
    return made


def axis(title: str, **more: Any) -> Plot:
    """An axis with its title; `more` are keys of plotly, and the `kind` of its values. The page chooses its ticks."""
    return {
        "title": {"text": title, "standoff": 8},
        "gridcolor": GRID,
        "zeroline": False,
        "automargin": True,
        "ticks": "outside",
        "tickcolor": REFERENCE,
    } | more


def layout(
    xs: Sequence[Plot], ys: Sequence[Plot], height: int, stacks: Sequence[Sequence[int]] = ((0,),), **more: Any
) -> Plot:
    """A layout of panels side by side, the legend below.

    On a narrow screen the page puts them one below the other; `stacks` are the panels that stay beside each other.
    """
    kinds: dict[str, str] = {}
    result: Plot = {
        "height": height,
        "autosize": True,
        "font": {"family": "system-ui, 'DejaVu Sans', Arial, sans-serif", "size": 14, "color": INK},
        "paper_bgcolor": BACKGROUND,
        "plot_bgcolor": BACKGROUND,
        "margin": {"l": 60, "r": 20, "t": 16, "b": 50},
        "hovermode": "closest",
        "hoverlabel": {"font": {"size": 14}, "namelength": -1},
        "legend": LEGEND,
        "meta": {"kinds": kinds, "stacks": stacks},
    }
    for place, pair in enumerate(zip(xs, ys, strict=True)):
        number = str(place + 1) if place else ""
        for letter, given, other in zip("xy", pair, "yx", strict=True):
            own = dict(given)
            if "kind" in own:
                kinds[f"{letter}axis{number}"] = str(own.pop("kind"))
            result[f"{letter}axis{number}"] = own | {"anchor": f"{other}{number}"}
    return result | more
