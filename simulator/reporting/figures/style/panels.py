"""What a figure shows: panels with their axes and marks, drawn on paper by matplotlib and in a page by plotly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import pandas as pd

from simulator.records import Record
from simulator.reporting.figures.style.colours import GREY, line_styles

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
