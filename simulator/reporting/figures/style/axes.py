"""Axes with their units, ticks, and legends below the panels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from matplotlib import ticker
from matplotlib.legend_handler import HandlerTuple

from simulator.reporting.wording.values import format_share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import FigureBase

Which = Literal["x", "y"]


def set_seconds_axis(axes: Axes, label: str, which: Which = "y") -> None:
    """An axis in seconds, with prefixes."""
    _set_axis(axes, which, label, ticker.EngFormatter(unit="s", sep=" "))


def set_bytes_axis(axes: Axes, label: str, which: Which = "y") -> None:
    """An axis in bytes, with decimal prefixes."""
    _set_axis(axes, which, label, ticker.EngFormatter(unit="B", sep=" "))


def set_share_axis(axes: Axes, label: str, which: Which = "y") -> None:
    """An axis of fractions, shown in percent; also on a logarithmic scale."""
    _set_axis(axes, which, label, ticker.FuncFormatter(lambda value, _: format_share(value)))


def set_number_axis(axes: Axes, label: str, which: Which = "y") -> None:
    """An axis of plain numbers, such as ratios."""
    _set_axis(axes, which, label, ticker.FuncFormatter(lambda value, _: f"{value:,.10g}"))


def set_count_axis(axes: Axes, label: str, values: Iterable[float], which: Which = "x") -> None:
    """A logarithmic axis of whole numbers (workers), with ticks at the values, fewer where there are many."""
    ticks = thin_ticks(sorted({float(value) for value in values}))
    if len(ticks) > 1:
        getattr(axes, f"set_{which}scale")("log", base=2)
    _set_axis(axes, which, label, ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"))
    _axis(axes, which).set_major_locator(ticker.FixedLocator(ticks))


def thin_ticks(ticks: Sequence[float], most: int = 9) -> Sequence[float]:
    """At most `most` of the ticks, at equal steps, the last one included."""
    step = -(-len(ticks) // most) or 1
    return ticks[::-1][::step][::-1]


def set_log_ticks(axes: Axes, which: Which = "y") -> None:
    """Ticks of a logarithmic axis: powers of ten, and 2 and 5 between them where that would be fewer than three.

    Equal steps where the axis is too short for two of those.
    """
    axis = _axis(axes, which)
    low, high = sorted(axis.get_view_interval())
    ticks = [base * 10.0**exponent for exponent in range(-18, 19) for base in (1, 2, 5)]
    inside = [tick for tick in ticks if low <= tick <= high]
    powers = [tick for tick in inside if f"{tick:e}".startswith("1.0")]
    chosen = powers if len(powers) > 2 else inside
    most = 5 if which == "x" else 8
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


def add_legend(canvas: FigureBase, axes: Axes) -> None:
    """The legend of `axes` below everything, where it can hide nothing."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        add_legend_of(canvas, handles, labels)


def add_legend_of(canvas: FigureBase, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """A legend below everything, in as many columns as fit."""
    area: Any = getattr(canvas, "bbox")  # noqa: B009 - figures and their parts have one, their base has not
    columns = min(6, len(labels))
    while True:
        legend = canvas.legend(
            handles,
            labels,
            loc="outside lower left",
            ncols=columns,
            handler_map={tuple: HandlerTuple(ndivide=None, pad=0)},
        )
        if columns <= 1 or legend.get_window_extent().width < 0.97 * area.width:
            return
        legend.remove()
        columns -= 1


def _set_axis(axes: Axes, which: Which, label: str, formatter: ticker.Formatter) -> None:
    axis = _axis(axes, which)
    axis.set_major_formatter(formatter)
    axis.set_minor_formatter(ticker.NullFormatter())
    axis.set_label_text(label)


def _axis(axes: Axes, which: Which) -> Axis:
    return axes.xaxis if which == "x" else axes.yaxis
