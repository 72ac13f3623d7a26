"""What a figure shows: panels with their axes and marks, drawn on paper by matplotlib and in a page by plotly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
import pandas as pd

from simulator.models.timeline import BREAKDOWN
from simulator.records import Record

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, RED, PURPLE, OLIVE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#999933", "#BBBBBB"
PALETTE = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
"""Colours that colour-blind readers can distinguish: M. Okabe and K. Ito, Color Universal Design (2002, revised 2008).

Their black is kept for dense, and their yellow left out: thin lines of it are hard to see on white.
"""
_SPENT = [term for term in BREAKDOWN if term != "idle"]
PHASES = {**dict(zip(_SPENT, (SKY, BLUE, OLIVE, RED, ORANGE, PURPLE, GREEN, BLACK), strict=False)), "idle": GREY}
"""The colour of each term of an iteration; the grey one is hatched."""
METHODS = (
    *("topk", "randomk", "gtopk", "dgc", "gaussiank", "redsync", "threshold", "sidco", "sage", "oktopk", "deft"),
    *("exdyna", "micro", "cltk", "omnireduce", "zen", "qsgd", "terngrad", "signsgd", "powersgd", "skip_reduce"),
    *("efsignsgd", "signum", "onebit", "natural", "eight_bit", "sketch", "inceptionn", "sparseloco"),
    *("demo", "quantised_all_reduce"),
)
"""Colours and strokes are assigned in this fixed order, so that a method looks the same in all figures."""
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


class Look(Record):
    """How the line of a method is drawn."""

    colour: str
    stroke: str
    marker: str

    def line(self, front: float = 1.0) -> dict[str, Any]:
        """The look as fields of `panels.Series`; marks are hollow where the stroke is not solid.

        `front`, from 0 to 1: lines further back are wider, so that one that lies under another can still be seen.
        """
        look = {"colour": self.colour, "stroke": self.stroke, "marker": self.marker, "hollow": self.stroke != "-"}
        return look | {"width": 3.4 - 1.8 * front, "size": 8.5 - 3.5 * front}


def _look(place: int) -> Look:
    colours = len(PALETTE)
    return Look(PALETTE[place % colours], DASHES[place // colours % len(DASHES)], MARKERS[place % len(MARKERS)])


def assign_looks(labels: Iterable[str]) -> dict[str, Look]:
    """A different look for each label; a label's first word is the method's kind.

    The first label of a kind has the kind's own look; further ones, and unknown kinds, have the looks that are free.
    """
    looks: dict[str, Look] = {}
    labels = list(dict.fromkeys(labels))
    for label in labels:
        kind = label.split(" ", maxsplit=1)[0].rstrip(",")
        own = Look(BLACK, "-", "o") if kind == "dense" else _look(METHODS.index(kind)) if kind in METHODS else None
        if own is not None and own not in looks.values():
            looks[label] = own
    every = map(_look, range(len(PALETTE) * len(DASHES) * len(MARKERS)))
    free = (look for look in every if look not in looks.values())
    for label in labels:
        if label not in looks:
            looks[label] = next(free, _look(0))
    return {label: looks[label] for label in labels}


def line_styles(labels: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each label with the look of its line, as fields of `panels.Series`, in the order in which they are drawn."""
    looks = assign_looks(labels)
    for place, (label, look) in enumerate(looks.items(), start=1):
        yield label, look.line(place / len(looks))


def tint(colour: str, strength: float, background: str = "#FFFFFF") -> tuple[tuple[float, float, float], str]:
    """A colour from a tint of the background (0) to itself (1), and black or white, whichever is easier to read on it.

    Contrast by relative luminance (W3C, WCAG 2.1).
    """
    full, empty = (np.array(mpl.colors.to_rgb(item)) for item in (colour, background))
    part = 0.2 + 0.8 * min(max(strength, 0.0), 1.0)
    mixed = empty - part * (empty - full)
    linear = np.where(mixed <= 0.04045, mixed / 12.92, ((mixed + 0.055) / 1.055) ** 2.4)
    luminance = float((linear * (0.2126, 0.7152, 0.0722)).sum())
    return (float(mixed[0]), float(mixed[1]), float(mixed[2])), BLACK if luminance > 0.179 else "#FFFFFF"


WIDE = 6
"""Times that differ by more than this factor get a logarithmic axis."""
FEW = 3
"""Lines whose intervals can be told apart in one panel."""
STROKES = "#777777"
"""The colour of strokes over boxes."""
SAID = ("%{customdata[0]}",)
"""What is said at the pointer where rows of values are words already."""


class PanelAxis(Record):
    """An axis: its label, the kind of its values, and its scale.

    `kind` says how ticks are written: `time` (s) and `bytes` with prefixes, `percent` or `share` (fractions, shown in
    percent), `number`, `size` (with prefixes) or `count`. `low` and `high` are limits; without them the values decide,
    with the room of `margin` on both sides. `values` are the counts at which a logarithmic axis has its ticks; `names`
    stand at 0, 1, 2 and so on, from top to bottom on a vertical axis, in `letters` points. `most` limits the number of
    ticks on paper. `page` is the label in a page, where that is another one, since panels have no titles there.
    """

    label: str
    kind: str = "number"
    log: bool = False
    low: float | None = None
    high: float | None = None
    margin: float | None = None
    values: Sequence[float] = ()
    names: Sequence[str] = ()
    letters: float | None = None
    most: int | None = None
    page: str | None = None


class Series(Record):
    """Points in the order of a line, with the look of the line (`stroke`, empty for none) and of its marks.

    A line without marks has no `marker`. `level`: a line over the whole panel on paper, at its first `y` or `x`.
    `reach`: the ends of an interval of each `x`. All series of one name share an entry of the legend. `said` are the
    lines at the pointer, in plotly's templates, and `told` rows of values that they name.
    """

    name: str
    x: Sequence[Any]
    y: Sequence[Any]
    colour: str
    stroke: str = "-"
    width: float = 1.8
    marker: str = ""
    size: float = 5.5
    hollow: bool = False
    level: Literal["", "x", "y"] = ""
    reach: tuple[Sequence[float], Sequence[float]] | None = None
    legend: bool = True
    said: Sequence[str] = ()
    told: Sequence[Sequence[Any]] = ()


class Band(Record):
    """A shaded area between two lines, such as the ends of intervals; shown and hidden with the series of its name."""

    name: str
    x: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    colour: str
    strength: float = 0.15


class Boxes(Record):
    """Rectangles by their middles and sizes, such as parts of bars or cells of a map, under one entry of the legend.

    `strengths`: how far the colour of each is from a tint of the background (0) to itself (1). `hatched`: strokes over
    what is below; without a `colour` nothing else is drawn. `texts`, in `letters` points, stand in the middle of the
    boxes, above them, or to their right; those to the right only on paper.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    width: Sequence[float]
    height: Sequence[float]
    colour: str = ""
    strengths: Sequence[float] = ()
    hatched: bool = False
    texts: Sequence[str] = ()
    texts_at: Literal["middle", "above", "right"] = "middle"
    letters: float = 10.5
    said: Sequence[str] = ()
    told: Sequence[Sequence[Any]] = ()


Mark = Series | Band | Boxes


class Panel(Record):
    """Two axes and what is drawn between them.

    `title` stands above it on paper. `shared`: the vertical axis is that of the panel before. `square`: both axes have
    the same scale on paper.
    """

    x: PanelAxis
    y: PanelAxis
    marks: Sequence[Mark]
    title: str = ""
    shared: bool = False
    square: bool = False
    width: float = 1.0


class Panels(Record):
    """Panels side by side; `height` is that in a page, in pixels."""

    panels: Sequence[Panel]
    height: int = 420


def grey_line(name: str, x: Sequence[Any], y: Sequence[Any], **look: Any) -> Series:
    """A line that others are compared with, to be drawn before them; `look` are fields of `Series`."""
    return Series(name, x, y, GREY, **{"width": 3, **look})


def compose_lines(
    data: pd.DataFrame,
    by: str,
    over: str,
    shown: str,
    *,
    ends: Sequence[str] = (),
    order: Iterable[str] = (),
    **look: Any,
) -> list[Mark]:
    """A line of the column `shown` for each value of the column `by`, in the order of the column `over`.

    Between the columns `ends` the panel is shaded where few lines share it, and the values at the pointer are told.
    `order`: all values of `by` in the figure, where the table has only some. `look` are fields of `Series`.
    """
    marks: list[Mark] = []
    for name, line in line_styles([*order] or data[by]):
        mine = data[data[by] == name].sort_values(over)
        if mine.empty:
            continue
        if ends:
            line["told"] = mine[list(ends)].to_numpy().tolist()
            if data[by].nunique() <= FEW:
                marks.append(Band(name, mine[over], mine[ends[0]], mine[ends[1]], line["colour"]))
        marks.append(Series(name, mine[over], mine[shown], **line | look))
    return marks


def is_wide(low: float, high: float) -> bool:
    """Whether values from `low` to `high` need a logarithmic axis."""
    return high > WIDE * low
