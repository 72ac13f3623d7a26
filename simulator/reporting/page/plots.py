"""Traces, axes and layouts of interactive drawings, in the style of the figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from simulator.reporting.figures.style.axes import thin_ticks
from simulator.reporting.figures.style.colours import Look
from simulator.reporting.page.parts import Plot
from simulator.reporting.page.theme import css_colour

_DASH = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}
_MARK = {
    "o": "circle", "s": "square", "^": "triangle-up", "D": "diamond", "v": "triangle-down", "P": "cross", "X": "x",
}  # fmt: skip
GRID, INK, MUTED = "var(--grid)", "var(--text)", "var(--muted)"
BACKGROUND, REFERENCE = "var(--background)", "var(--reference)"
"""Colours by the names of `assets/theme.css`, which the page looks up for light and dark."""
LEGEND = {"orientation": "h", "x": 0, "xref": "container", "y": 0, "yref": "container", "yanchor": "bottom"}
SECONDS = {"kind": "time", "hoverformat": ".4~s"}
BYTES = {"kind": "bytes", "hoverformat": ".4~s"}
SHARE = {"kind": "percent", "hoverformat": ".3~p"}
NUMBER = {"kind": "number", "hoverformat": ",.4~g"}
SIZE = {"kind": "size", "hoverformat": ".4~s"}
"""How an axis writes its ticks: a kind of `assets/format.js`, as in the tables of the page."""


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


def line(name: str, x: Iterable[Any], y: Iterable[Any], look: Look, panel: int = 0, **more: Any) -> Plot:
    """A line with marks in a method's look; all lines of one name share one entry of the legend."""
    hollow = "" if look.stroke == "-" else "-open"
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": escape_text(name),
        "legendgroup": escape_text(name),
        "showlegend": panel == 0,
        "x": json_numbers(x),
        "y": json_numbers(y),
        "line": {"color": css_colour(look.colour), "dash": _DASH[look.stroke], "width": 2},
        "marker": {"color": css_colour(look.colour), "symbol": _MARK[look.marker] + hollow, "size": 7},
        **axes_of(panel),
    } | more


def marks(name: str, x: Iterable[Any], y: Iterable[Any], look: Look, panel: int = 0, **more: Any) -> Plot:
    """Marks without a line."""
    result = line(name, x, y, look, panel)
    del result["line"]
    return result | {"mode": "markers"} | more


def rule(name: str, x: Sequence[Any], y: Sequence[Any], panel: int = 0, **more: Any) -> Plot:
    """A grey reference line behind the others."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "legendgroup": name,
        "showlegend": panel == 0,
        "x": json_numbers(x),
        "y": json_numbers(y),
        "line": {"color": REFERENCE, "width": 3},
        "hoverinfo": "skip",
        **axes_of(panel),
    } | more


def axes_of(panel: int) -> dict[str, str]:
    """The axes that a trace of a panel belongs to."""
    return {"xaxis": f"x{panel + 1}", "yaxis": f"y{panel + 1}"} if panel else {}


def hover(*parts: str) -> dict[str, str]:
    """The text at the pointer: the trace's name, then one line for each part (`label: %{x:format}`)."""
    return {"hovertemplate": "<br>".join(["<b>%{fullData.name}</b>", *parts]) + "<extra></extra>"}


def band(name: str, x: Sequence[Any], ends: Sequence[Sequence[Any]], look: Look, panel: int = 0) -> Plot:
    """The shaded area between the two lines of `ends`, such as those of intervals; shown and hidden with its method."""
    low, high = map(list, ends)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": escape_text(name),
        "legendgroup": escape_text(name),
        "showlegend": False,
        "x": json_numbers([*x, *reversed(x)]),
        "y": json_numbers([*low, *reversed(high)]),
        "fill": "toself",
        "fillcolor": f"color-mix(in srgb, {css_colour(look.colour)} 16%, transparent)",
        "line": {"width": 0},
        "hoverinfo": "skip",
        **axes_of(panel),
    }


def axis(title: str, style: Plot | None = None, **more: Any) -> Plot:
    """An axis with its title and the kind of its values; `more` are keys of plotly. The page chooses its ticks."""
    return (
        {
            "title": {"text": title, "standoff": 8},
            "gridcolor": GRID,
            "zeroline": False,
            "automargin": True,
            "ticks": "outside",
            "tickcolor": REFERENCE,
        }
        | (style or {})
        | more
    )


def count_axis(title: str, column: Iterable[Any]) -> Plot:
    """A logarithmic axis of whole numbers with ticks at the values themselves, fewer where there are many."""
    ticks = sorted({float(value) for value in column})
    shown = thin_ticks(ticks)
    kind: Plot = {"type": "log"} if len(ticks) > 1 and ticks[0] > 0 else {}
    return axis(title, **kind) | {"tickvals": shown, "ticktext": [f"{tick:,.0f}" for tick in shown]}


def layout(
    xs: Sequence[Plot],
    ys: Sequence[Plot],
    height: int = 420,
    stacks: Sequence[Sequence[int]] | None = None,
    **more: Any,
) -> Plot:
    """A layout of panels side by side, the legend below.

    On a narrow screen the page puts them one below the other; `stacks` are the panels that stay beside each other.
    """
    gap = 0.12
    width = (1 - gap * (len(xs) - 1)) / len(xs)
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
        "meta": {"kinds": kinds, "stacks": stacks or [[place] for place in range(len(xs))]},
    }
    for place, (x, y) in enumerate(zip(xs, ys, strict=True)):
        number = str(place + 1) if place else ""
        domain = {"domain": [place * (width + gap), place * (width + gap) + width]} if "domain" not in x else {}
        for letter, given, other in (("x", x | domain, "y"), ("y", y, "x")):
            own = dict(given)
            if "kind" in own:
                kinds[f"{letter}axis{number}"] = str(own.pop("kind"))
            result[f"{letter}axis{number}"] = own | {"anchor": f"{other}{number}"}
    return result | more
