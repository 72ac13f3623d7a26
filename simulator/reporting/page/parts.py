"""What a page is made of: plain values, with no HTML in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Plot = dict[str, Any]
"""A plotly figure as JSON: `data` (traces) and `layout`."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: `kind` says how its values are shown (`formats.KINDS`), `about` what it means."""

    key: str
    label: str
    kind: str = "text"
    about: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A sortable table with all its rows; `choose` names the columns that it can be filtered by."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    choose: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class View:
    """A drawing of a chart for one combination of its choices."""

    chosen: tuple[str, ...]
    plot: Plot


@dataclass(frozen=True, slots=True)
class Chart:
    """An interactive drawing; with `choices` (what is chosen, in words) there is a view for each combination."""

    kind: str
    title: str
    question: str
    views: Sequence[View]
    choices: Sequence[str] = ()
    note: str = ""
    first: int = 0
    """The view that is shown before the reader chooses."""


@dataclass(frozen=True, slots=True)
class Points:
    """Rows of a sweep for the reader to filter, sort and plot: `columns`, and the values of each by its key.

    The first `varied` columns are what was varied, the others what came out. `palette` are the colours of the methods,
    `phases` those of the breakdown's terms.
    """

    columns: Sequence[Column]
    values: dict[str, dict[str, Any]]
    count: int
    varied: int
    palette: dict[str, dict[str, str]]
    phases: Sequence[dict[str, str]]
    constant: dict[str, float]
    """Terms that are the same in all rows."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page: name, what it is of, a sentence that answers, figures at a glance, warnings, and the parts below."""

    title: str
    subtitle: str
    answer: str = ""
    glance: Sequence[tuple[str, str]] = ()
    warnings: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    points: Points | None = None
    tables: Sequence[Table] = ()
    provenance: Sequence[tuple[str, str]] = ()
    texts: Sequence[tuple[str, str]] = field(default=())
    """Longer texts that open on demand: name and content."""
