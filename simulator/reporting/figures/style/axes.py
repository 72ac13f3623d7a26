"""Axes with their units, ticks, and legends below the panels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

from matplotlib import ticker

from simulator.reporting.figures.style.panels import PanelAxis
from simulator.reporting.wording.values import format_share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import FigureBase

Which = Literal["x", "y"]
_NAME = 26
"""Characters in a line of a name beside a vertical axis."""
_FORMATTERS: dict[str, Callable[[], ticker.Formatter]] = {
    "time": lambda: ticker.EngFormatter(unit="s", sep=" "),
    "bytes": lambda: ticker.EngFormatter(unit="B", sep=" "),
    "size": lambda: ticker.EngFormatter(sep=" "),
    "percent": lambda: ticker.FuncFormatter(lambda value, _: format_share(value)),
    "number": lambda: ticker.FuncFormatter(lambda value, _: f"{value:,.10g}"),
    "count": lambda: ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"),
}
_FORMATTERS["share"] = _FORMATTERS["percent"]
"""How ticks are written, by the kind of the values."""


def set_axis(axes: Axes, which: Which, given: PanelAxis) -> None:
    """Give an axis its scale, limits, ticks and label, after everything has been drawn."""
    axis: Axis = axes.xaxis if which == "x" else axes.yaxis
    ticks = thin_ticks(sorted({float(value) for value in given.values}))
    if given.log or len(ticks) > 1:
        getattr(axes, f"set_{which}scale")("log", **({"base": 2} if ticks else {}))
    if given.margin is not None:
        getattr(axes, f"set_{which}margin")(given.margin)
    if given.low is not None or given.high is not None:
        getattr(axes, f"set_{which}lim")(given.low, given.high)
    axis.set_label_text(given.label)
    if given.names:
        step = -(-len(given.names) // (given.most or len(given.names)))
        names = ["\n".join(wrap(name, _NAME)[:3]) if which == "y" else name for name in given.names]
        axis.set_ticks(range(0, len(names), step), names[::step], fontsize=given.letters)
        span = -0.5, len(names) - 0.5
        getattr(axes, f"set_{which}lim")(span if which == "x" else span[::-1])
        axis.grid(visible=False)
        return
    axis.set_major_formatter(_FORMATTERS[given.kind]())
    axis.set_minor_formatter(ticker.NullFormatter())
    if ticks:
        axis.set_major_locator(ticker.FixedLocator(ticks))
    elif given.log:
        _set_log_ticks(axis, 5 if which == "x" else 8)
    elif given.most is not None:
        axes.locator_params(axis=which, nbins=given.most, integer=given.kind == "count")


def thin_ticks(ticks: Sequence[float], most: int = 9) -> Sequence[float]:
    """At most `most` of the ticks, at equal steps, the last one included."""
    step = -(-len(ticks) // most) or 1
    return ticks[::-1][::step][::-1]


def _set_log_ticks(axis: Axis, most: int) -> None:
    """Ticks of a logarithmic axis: powers of ten, and 2 and 5 between them where that would be fewer than three.

    Equal steps where the axis is too short for two of those.
    """
    low, high = sorted(axis.get_view_interval())
    ticks = [base * 10.0**exponent for exponent in range(-18, 19) for base in (1, 2, 5)]
    inside = [tick for tick in ticks if low <= tick <= high]
    powers = [tick for tick in inside if f"{tick:e}".startswith("1.0")]
    chosen = powers if len(powers) > 2 else inside
    if len(chosen) < 2:
        axis.set_major_locator(ticker.MaxNLocator(most, steps=(1, 2, 5, 10)))
    else:
        axis.set_major_locator(ticker.FixedLocator(chosen[:: -(-len(chosen) // most)]))


def format_bits(bytes_per_s: float) -> str:
    """A bandwidth in bit/s as a tick label, where the axis states the unit.

    >>> format_bits(12.5e6), format_bits(12.5e9)
    ('100 M', '100 G')
    """
    return ticker.EngFormatter(places=None, sep=" ")(float(f"{8 * bytes_per_s:.2g}"))


def add_legend(canvas: FigureBase, *panels: Axes) -> None:
    """The legend of all panels below everything, where it can hide nothing; a name in several has one entry."""
    known: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            known.setdefault(label, handle)
    area: Any = getattr(canvas, "bbox")  # noqa: B009 - figures and their parts have one, their base has not
    columns = min(6, len(known))
    while known:  # in as many columns as fit
        legend = canvas.legend(list(known.values()), list(known), loc="outside lower left", ncols=columns)
        if columns <= 1 or legend.get_window_extent().width < 0.97 * area.width:
            return
        legend.remove()
        columns -= 1
