"""Tables of results, which the terminal prints and pages show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from simulator.records import Record
from simulator.reporting.wording.quantities import describe


class Column(Record):
    """A column of a table: `kind` says how its values are shown (`values.KINDS`, or `bars`), `about` what it means.

    The cells of `bars` are the values of A and B as fractions of the longest bar.
    """

    key: str
    label: str
    kind: str = "text"
    about: str = ""


def column_of(key: str) -> Column:
    """The column of a result key or a varied key."""
    return Column(key, *describe(key))


class Table(Record):
    """A sortable table with all its rows; `choose` names the columns that it can be filtered by.

    A `folded` table is shown when the reader opens it.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    choose: Sequence[str] = ()
    folded: bool = False

    @classmethod
    def of(cls, title: str, columns: Sequence[Column], items: Iterable[Any], **more: Any) -> Table:
        """A table of records or mappings, whose fields or keys are those of the columns; cells may be missing."""
        return cls(title, columns, [[_cell(item, column.key) for column in columns] for item in items], **more)


def _cell(item: Any, key: str) -> Any:
    return item.get(key) if isinstance(item, Mapping) else getattr(item, key)
