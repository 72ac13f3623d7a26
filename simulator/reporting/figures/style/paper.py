"""Figures on paper by matplotlib: panels with axes, ticks and legends in the house style, saved with the same bytes."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib import ticker
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from simulator.errors import InputError, Problem
from simulator.files import replace_file
from simulator.reporting.figures.style.panels import BLACK, STROKES, Band, Boxes, Mark, PanelAxis, Panels, tint
from simulator.reporting.wording.values import format_share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import FigureBase

Which = Literal["x", "y"]
_NAME_LENGTH = 26
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
        names = ["\n".join(wrap(name, _NAME_LENGTH)[:3]) if which == "y" else name for name in given.names]
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


def thin_ticks(ticks: Sequence[float]) -> Sequence[float]:
    """At most nine of the ticks, at equal steps, the last one included."""
    step = -(-len(ticks) // 9) or 1
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


SCREEN_DPI, FILE_DPI = 96, 200
FORMATS = (".png", ".svg", ".pdf")
_STYLE: Any = {
    "text.parse_math": False,  # a dollar in a name is a dollar
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters everywhere
    "font.size": 12,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "legend.fontsize": 11,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E5E5E5",
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.w_pad": 0.06,
    "pdf.fonttype": 42,
    "svg.hashsalt": "sparsim",
    "savefig.facecolor": "white",
}
_UNDATED: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""Metadata that would make two files of the same figure differ."""


def house_style() -> AbstractContextManager[None]:
    """The style of all figures, as a context in which they are drawn."""
    return mpl.rc_context(_STYLE)


class Picture(Figure):
    """A matplotlib figure in the house style. `data`: the tidy table that it shows, empty until something is drawn."""

    data: pd.DataFrame = pd.DataFrame()

    def _repr_png_(self) -> bytes:
        """PNG for a notebook's cell (IPython's rich display)."""
        buffer = io.BytesIO()
        with house_style():
            self.savefig(buffer, format="png", dpi=SCREEN_DPI, metadata={"Software": None})
        return buffer.getvalue()


def save_figure(canvas: Figure, path: Path, dpi: float = FILE_DPI) -> None:
    """Write a figure as PNG, SVG or PDF, by the file's name, whole or not at all; the same bytes for the same figure.

    Raises InputError for another format or a place that can't be written.
    """
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise InputError(Problem(str(path), f"a file name that ends in {', '.join(FORMATS)}", path.suffix or "none"))
    with house_style():
        replace_file(path, lambda name: canvas.savefig(name, format=suffix[1:], dpi=dpi, metadata=_UNDATED[suffix]))
