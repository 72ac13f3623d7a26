"""Drawing panels on paper, by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patches import Rectangle

from simulator.reporting.figures.style.axes import add_legend, set_axis
from simulator.reporting.figures.style.colours import BLACK, tint
from simulator.reporting.figures.style.panels import STROKES, Band, Boxes, Mark, Panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase


_MANY = 2000
"""Boxes that are an image in a file of lines."""


def draw_panels(panels: Panels, figure: FigureBase) -> None:
    """Draw panels side by side into an empty figure, or a part of one, with the legend below."""
    shown = panels.panels
    drawn = figure.subplots(1, len(shown), width_ratios=[panel.width for panel in shown], squeeze=False)[0]
    for place, (axes, panel) in enumerate(zip(drawn, shown, strict=True)):
        if panel.shared:
            axes.sharey(drawn[place - 1])
            axes.tick_params(labelleft=False)
        for mark in panel.marks:
            _draw_mark(axes, mark)
    for axes, panel in zip(drawn, shown, strict=True):
        set_axis(axes, "x", panel.x)
        if not panel.shared:
            set_axis(axes, "y", panel.y)
        axes.set_title(panel.title)
        if panel.square:
            axes.set_aspect("equal")
    add_legend(figure, *drawn)


def _draw_mark(axes: Axes, mark: Mark) -> None:
    if isinstance(mark, Boxes):
        _draw_boxes(axes, mark)
        return
    if isinstance(mark, Band):
        look: Any = {"color": mark.colour, "alpha": mark.strength, "linewidth": 0}
        axes.fill_between(mark.x, mark.low, mark.high, **look)
        return
    look = {"color": mark.colour, "linestyle": mark.stroke or "none", "linewidth": mark.width}
    if mark.legend:
        look["label"] = mark.name
    if mark.level:
        (axes.axhline if mark.level == "y" else axes.axvline)(next(iter(getattr(mark, mark.level))), **look)
        return
    if mark.marker:
        look |= {"marker": mark.marker, "markersize": mark.size}
        look["markerfacecolor"] = "white" if mark.hollow else mark.colour
        if not mark.stroke:
            look["markeredgewidth"] = mark.width
    if mark.reach is not None:
        label = {} if mark.marker else {"label": look.pop("label")}
        ends = np.abs(np.asarray(mark.reach) - np.asarray(mark.x))
        bars: Any = {"fmt": "none", "ecolor": mark.colour, "elinewidth": 1.8, "capsize": 4, "capthick": 1.6, **label}
        axes.errorbar(mark.x, mark.y, xerr=ends, **bars)
    axes.plot(mark.x, mark.y, **look)


def _draw_boxes(axes: Axes, mark: Boxes) -> None:
    strengths = mark.strengths if len(mark.strengths) else [1.0] * len(mark.x)
    look: Any = {"linewidth": 0 if len(mark.strengths) else 0.5, "edgecolor": "white"}
    look["rasterized"] = len(mark.x) > _MANY
    if mark.hatched:
        look |= {"linewidth": 0, "edgecolor": STROKES, "hatch": "//"}
    if mark.name:  # the legend shows the colour itself
        axes.add_patch(Rectangle((0, 0), 0, 0, facecolor=mark.colour or "none", label=mark.name, **look))
    for place, (x, y, width, height, strength) in enumerate(
        zip(mark.x, mark.y, mark.width, mark.height, strengths, strict=True)
    ):
        fill, ink = tint(mark.colour, strength) if mark.colour else ("none", BLACK)
        if mark.colour or mark.hatched:
            axes.add_patch(Rectangle((x - width / 2, y - height / 2), width, height, facecolor=fill, **look))
        if len(mark.texts):
            at, moved, across, along = {
                "middle": ((x, y), (0, 0), "center", "center"),
                "above": ((x, y + height / 2), (0, 3), "center", "bottom"),
                "right": ((x + width / 2, y), (6, 0), "left", "center"),
            }[mark.texts_at]
            words: Any = {"ha": across, "va": along, "fontsize": mark.letters, "color": BLACK}
            if mark.texts_at == "middle":  # no strokes behind the text
                words |= {"color": ink, "bbox": {"boxstyle": "square,pad=0.1", "facecolor": fill, "linewidth": 0}}
            axes.annotate(mark.texts[place], at, moved, textcoords="offset points", **words)
    axes.autoscale_view()
