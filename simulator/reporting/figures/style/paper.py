"""Drawing panels on paper, by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulator.reporting.figures.style.axes import add_legend, set_axis
from simulator.reporting.figures.style.panels import Band, Panels, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase


def draw_panels(panels: Panels, figure: FigureBase) -> None:
    """Draw panels side by side into an empty figure, or a part of one, with the legend below."""
    shown = [panel for panel in panels.panels if panel.where != "page"]
    drawn = figure.subplots(1, len(shown), width_ratios=[panel.width for panel in shown], squeeze=False)[0]
    for place, (axes, panel) in enumerate(zip(drawn, shown, strict=True)):
        if panel.shared:
            axes.sharey(drawn[place - 1])
            axes.tick_params(labelleft=False)
        for mark in panel.marks:
            if mark.where != "page":
                _draw_mark(axes, mark)
    for axes, panel in zip(drawn, shown, strict=True):
        set_axis(axes, "x", panel.x)
        if not panel.shared:
            set_axis(axes, "y", panel.y)
        axes.set_title(panel.title)
        if panel.square:
            axes.set_aspect("equal")
    add_legend(figure, *drawn)


def _draw_mark(axes: Axes, mark: Series | Band) -> None:
    if isinstance(mark, Band):
        look: Any = {"color": mark.colour, "alpha": mark.strength, "linewidth": 0}
        axes.fill_between(mark.x, mark.low, mark.high, **look)
        return
    look = {"color": mark.colour, "linestyle": mark.stroke or "none", "linewidth": mark.width}
    if mark.legend in ("both", "paper"):
        look["label"] = mark.name
    if mark.level:
        (axes.axhline if mark.level == "y" else axes.axvline)(next(iter(getattr(mark, mark.level))), **look)
        return
    if mark.marker:
        look |= {"marker": mark.marker, "markersize": mark.size}
        look["markerfacecolor"] = "white" if mark.hollow else mark.colour
        if not mark.stroke:
            look["markeredgewidth"] = mark.width
    axes.plot(mark.x, mark.y, **look)
    if mark.reach is not None:
        for *ends, y in zip(*mark.reach, mark.y, strict=True):
            axes.plot(ends, [y, y], color=mark.colour, linewidth=2)
