"""One style for all figures: colours, marks, units on the axes, and files that are the same every time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib import ticker
from matplotlib.legend_handler import HandlerTuple

from simulator.errors import InputError, Problem
from simulator.models.timeline import BREAKDOWN

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure as Canvas
    from matplotlib.figure import FigureBase

    from simulator.reporting.figures.base import Figure
    from simulator.reporting.figures.style.picture import Picture

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, RED, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#BBBBBB"
PALETTE = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
"""Told apart by colour-blind readers: M. Okabe and K. Ito, Color Universal Design (2002, revised 2008).

Their black is kept for dense, and their yellow left out: thin lines of it are hard to see on white.
"""
PHASES = dict(zip(BREAKDOWN, (SKY, BLUE, RED, ORANGE, PURPLE, GREEN, GREY), strict=True))
"""The colour of each term of an iteration."""
PHASE_WORDS = {"communication_exposed": "exposed communication", "idle": "waiting and input"}
METHODS = (
    *("topk", "randomk", "gtopk", "dgc", "gaussiank", "redsync", "threshold", "sidco", "sage", "oktopk", "deft"),
    *("exdyna", "micro", "cltk", "omnireduce", "zen", "qsgd", "terngrad", "signsgd", "powersgd", "skip_reduce"),
)
"""Colours and strokes are given out in this order, once for ever, so that a method looks the same in all figures."""
STROKES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
FORMATS = (".png", ".svg", ".pdf")
DPI = 200

_RULES: Any = {
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
"""What would make two files of the same figure differ."""


@dataclass(frozen=True, slots=True)
class Look:
    """How the line of a method is drawn."""

    colour: str
    stroke: str
    marker: str

    def line(self, front: float = 1.0) -> dict[str, Any]:
        """As keywords of `plot`; marks are hollow where the stroke is not solid.

        `front`, from 0 to 1: lines further back are drawn wider, so that one under another is still seen.
        """
        face = self.colour if self.stroke == "-" else "white"
        return {
            "color": self.colour,
            "linestyle": self.stroke,
            "linewidth": 3.4 - 1.8 * front,
            "marker": self.marker,
            "markersize": 8.5 - 3.5 * front,
            "markerfacecolor": face,
        }


def _look(place: int) -> Look:
    colours = len(PALETTE)
    return Look(PALETTE[place % colours], STROKES[place // colours % len(STROKES)], MARKERS[place % len(MARKERS)])


def looks(labels: Iterable[str]) -> dict[str, Look]:
    """A look for each label, told apart from each other; a label's first word is the method's kind.

    The first label of a kind has the kind's own look; further ones, and kinds that are not known, take what is free.
    """
    made: dict[str, Look] = {}
    labels = list(dict.fromkeys(labels))
    for label in labels:
        kind = label.split(" ", maxsplit=1)[0].rstrip(",")
        own = Look(BLACK, "-", "o") if kind == "dense" else _look(METHODS.index(kind)) if kind in METHODS else None
        if own is not None and own not in made.values():
            made[label] = own
    free = (look for look in map(_look, range(len(PALETTE) * len(STROKES))) if look not in made.values())
    for label in labels:
        if label not in made:
            made[label] = next(free, _look(0))
    return {label: made[label] for label in labels}


def rules() -> AbstractContextManager[None]:
    """The style, for as long as something is drawn."""
    return mpl.rc_context(_RULES)


def drawn(member: Figure, data: pd.DataFrame) -> Picture:
    """The figure of a table, with its title."""
    from simulator.reporting.figures.style.picture import Picture

    with rules():
        canvas = Picture(figsize=(member.width, member.height), layout="constrained")
        canvas.data = data
        canvas.suptitle(member.title, x=0.015, ha="left", fontsize=13, fontweight="bold")
        member.draw(data, canvas)
    return canvas


def save(canvas: Canvas, path: Path, dpi: float = DPI) -> None:
    """Write a figure as PNG, SVG or PDF, by the file's name; the same bytes for the same figure.

    Raises InputError for another format or a place that can't be written.
    """
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise InputError(Problem(str(path), f"a file name that ends in {', '.join(FORMATS)}", path.suffix or "none"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with rules():
            canvas.savefig(path, dpi=dpi, metadata=_UNDATED[suffix])
    except OSError as error:
        raise InputError(Problem(str(path), "a place that can be written", error.strerror or str(error))) from None


Which = Literal["x", "y"]


def axis_seconds(axes: Axes, label: str, which: Which = "y") -> None:
    """An axis in seconds, with prefixes."""
    _axis(axes, which, label, ticker.EngFormatter(unit="s", sep=" "))


def axis_bytes(axes: Axes, label: str, which: Which = "y") -> None:
    """An axis in bytes, with decimal prefixes."""
    _axis(axes, which, label, ticker.EngFormatter(unit="B", sep=" "))


def axis_share(axes: Axes, label: str, which: Which = "y") -> None:
    """An axis of fractions, shown in percent; also on a logarithmic scale."""
    _axis(axes, which, label, ticker.FuncFormatter(lambda value, _: share(value)))


def axis_number(axes: Axes, label: str, which: Which = "y") -> None:
    """An axis of plain numbers, such as ratios."""
    _axis(axes, which, label, ticker.FuncFormatter(lambda value, _: f"{value:,.10g}"))


def axis_count(axes: Axes, label: str, values: Iterable[float], which: Which = "x") -> None:
    """A logarithmic axis of whole numbers (workers), with ticks at the values themselves, thinned where many."""
    ticks = sorted({float(value) for value in values})
    if len(ticks) > 1:
        getattr(axes, f"set_{which}scale")("log", base=2)
    most = 9
    step = -(-len(ticks) // most)
    _axis(axes, which, label, ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(ticker.FixedLocator(ticks[::-1][::step][::-1]))


def _axis(axes: Axes, which: Which, label: str, formatter: ticker.Formatter) -> None:
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_formatter(formatter)
    axis.set_minor_formatter(ticker.NullFormatter())
    axis.set_label_text(label)


def share(value: float) -> str:
    """A fraction in percent.

    >>> share(0.001), share(0.25), share(-0.03)
    ('0.1 %', '25 %', '-3 %')
    """
    return f"{100 * value:.3g} %"


def short_bits(bytes_per_s: float) -> str:
    """A bandwidth in bit/s as a tick label, where the axis says the unit.

    >>> short_bits(12.5e6), short_bits(12.5e9)
    ('100 M', '100 G')
    """
    return ticker.EngFormatter(places=None, sep=" ")(float(f"{8 * bytes_per_s:.2g}"))


def tinted(colour: str, strength: float) -> tuple[tuple[float, float, float], str]:
    """A colour from a light tint (0) to itself (1), and black or white, whichever is read more easily on it.

    Contrast by relative luminance (W3C, WCAG 2.1).
    """
    full = np.array(mpl.colors.to_rgb(colour))
    part = 0.2 + 0.8 * min(max(strength, 0.0), 1.0)
    mixed = 1 - part * (1 - full)
    linear = np.where(mixed <= 0.04045, mixed / 12.92, ((mixed + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ (0.2126, 0.7152, 0.0722))
    return (float(mixed[0]), float(mixed[1]), float(mixed[2])), BLACK if luminance > 0.179 else "#FFFFFF"


def intensities() -> Colormap:
    """A map of amounts, pale to dark blue (ColorBrewer's Blues, for colour-blind readers too); white: none."""
    from matplotlib.colors import LinearSegmentedColormap

    shades = mpl.colormaps["Blues"](np.linspace(0.15, 1.0, 128))
    return LinearSegmentedColormap.from_list("amount", shades).with_extremes(bad="white")


def words(phase: str) -> str:
    """A term of the breakdown as it stands in a legend."""
    return PHASE_WORDS.get(phase, phase)


def legend_below(canvas: FigureBase, axes: Axes) -> None:
    """The legend of `axes` under everything, where it can hide nothing."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        below(canvas, handles, labels)


def below(canvas: FigureBase, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """A legend under everything, in as many columns as fit."""
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


def front(place: int, count: int) -> float:
    """How far in front (0 to 1) one of several lines is drawn, in the order they are drawn."""
    return (place + 1) / count


def log_ticks(axes: Axes, which: Which = "y") -> None:
    """Ticks of a logarithmic axis: powers of ten, and 2 and 5 between them where that would be fewer than three.

    Equal steps where the axis is too short for two of those.
    """
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = sorted(axis.get_view_interval())
    ticks = [base * 10.0**exponent for exponent in range(-18, 19) for base in (1, 2, 5)]
    inside = [tick for tick in ticks if low <= tick <= high]
    powers = [tick for tick in inside if f"{tick:e}".startswith("1.0")]
    chosen = powers if len(powers) > 2 else inside
    most = 5 if which == "x" else 8
    if len(chosen) < 2:
        axis.set_major_locator(ticker.MaxNLocator(most))
    else:
        axis.set_major_locator(ticker.FixedLocator(chosen[:: -(-len(chosen) // most)]))
