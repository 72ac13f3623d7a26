"""The parts of a page: plain values, without HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from simulator.records import Record
from simulator.reporting.wording.blocks import Column, Table

Plot = dict[str, Any]
"""A plotly figure as JSON, `data` (traces) and `layout`, or a piece of one: a trace, an axis, a shape."""


class View(Record):
    """A drawing of a chart for one combination of its choices."""

    chosen: tuple[str, ...]
    plot: Plot


class Chart(Record):
    """A drawing; with `choices` (what is chosen, in words) there is a view for each combination.

    `first` is the view that is shown before the reader chooses. A drawing that is not interactive has no views, but
    `markup`: SVG in HTML, which stands in the page as it is.
    """

    kind: str
    title: str
    question: str
    views: Sequence[View] = ()
    choices: Sequence[str] = ()
    note: str = ""
    first: int = 0
    markup: Markup | None = None


class Points(Record):
    """Rows of a sweep for the reader to filter, sort and plot: `columns`, and the values of each by its key.

    The first `varied` columns were varied, the others are results. `palette` holds the colours of the methods,
    `phases` the breakdown's terms with their classes, `constant` the terms (s) that are the same in all rows.
    `x` and `y` are the columns that are plotted first, empty where no result differs; `references` are values of
    columns that a line marks, with what they are. `look` is what all axes of the plot have, `layout` the rest of it.
    """

    columns: Sequence[Column]
    values: dict[str, dict[str, Any]]
    count: int
    varied: int
    palette: dict[str, dict[str, str]]
    phases: Sequence[dict[str, str]]
    constant: dict[str, float]
    x: str
    y: str
    references: dict[str, dict[str, Any]]
    look: Plot
    layout: Plot


def provenance(versions: Mapping[str, str], **more: Any) -> list[tuple[str, str]]:
    """What a page says of where its figures come from; versions last, where they are stated."""
    rows = [(name, str(value)) for name, value in more.items()]
    stated = ", ".join(f"{name} {version}" for name, version in versions.items())
    return [*rows, ("versions", stated)] if stated else rows


class Page(Record):
    """A page: title and subtitle, the answer in a sentence, further facts, figures at a glance, and the parts below.

    `texts` are longer texts that are shown when the reader opens them: name and content.
    """

    title: str
    subtitle: str
    answer: str = ""
    facts: Sequence[str] = ()
    glance: Sequence[tuple[str, str]] = ()
    warnings: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    points: Points | None = None
    tables: Sequence[Table] = ()
    provenance: Sequence[tuple[str, str]] = ()
    texts: Sequence[tuple[str, str]] = ()
