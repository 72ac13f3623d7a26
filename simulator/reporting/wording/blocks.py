"""Blocks: what an answer says, in the order in which it is read. A printer shows them, without knowing the answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from simulator.records import Record
from simulator.reporting.wording.quantities import describe
from simulator.reporting.wording.values import format_value

PRINTED = 40
"""Rows that the terminal prints of a table that may be long, and of which the first ones matter most."""


class Column(Record):
    """A column of a table: `kind` says how its values are shown (`values.KINDS`, or `bars`), `about` what it means.

    The cells of `bars` are the values of A and B as fractions of the longest bar. Where the first column is `text`, the
    terminal leaves a cell empty that is as the one above it.
    """

    key: str
    label: str
    kind: str = "text"
    about: str = ""


class BarColumn(Column):
    """A column of shares that are bars on the terminal: `longest` characters for 1, or as many as have room in a line
    in which `beside` characters are those of other columns."""

    kind: str = "bar"
    longest: int = 24
    beside: int = 0


def column_of(key: str) -> Column:
    """The column of a result key or a varied key."""
    return Column(key, *describe(key))


def columns(kind: str, *labels: str, **named: str) -> tuple[Column, ...]:
    """Columns of one kind, whose keys are the words of their labels, or are given by name.

    >>> [column.key for column in columns("count", "points", "from iteration", n="rows")]
    ['points', 'from_iteration', 'n']
    """
    words = {label.replace(" ", "_").replace("-", "_"): label for label in labels}
    return tuple(Column(key, label, kind) for key, label in {**words, **named}.items())


class Table(Record):
    """A sortable table with all its rows; `choose` names the columns that it can be filtered by.

    A `folded` table is shown when the reader opens it. The terminal prints the first `most` rows, and those of
    `styles`, by their number, in bold or another style; a `listing` stays a table where words have to be broken for it.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    choose: Sequence[str] = ()
    folded: bool = False
    most: int | None = None
    styles: Mapping[int, str] = {}
    listing: bool = False

    @classmethod
    def of(cls, title: str, columns: Sequence[Column], items: Iterable[Any], **more: Any) -> Table:
        """A table of records or mappings, whose fields or keys are those of the columns; cells may be missing."""
        return cls(title, columns, [[_cell(item, column.key) for column in columns] for item in items], **more)

    def text_rows(self) -> list[list[str]]:
        """The cells as text."""
        kinds = [column.kind for column in self.columns]
        return [[format_value(kind, value, "-") for kind, value in zip(kinds, row, strict=True)] for row in self.rows]


def _cell(item: Any, key: str) -> Any:
    return item.get(key) if isinstance(item, Mapping) else getattr(item, key)


Style = Literal["", "title", "dim", "item", "missing", "warning", "first line", "note", "command"]
"""A sentence, a heading, an aside, an entry of a list, what is left out, a warning, one cut to a line, a note, a
command to be copied."""


class Text(Record):
    """A text and what it is."""

    text: str
    style: Style = ""


class Facts(Record):
    """Names and values in columns without headings; the column `dim` is less important than the others."""

    rows: Sequence[Sequence[str]]
    dim: int = 0


Block = str | Text | Facts | Table
"""A plain text is a sentence; an empty one is an empty line."""


def texts(lines: Iterable[str], style: Style) -> Iterator[Text]:
    """Each line as a text of one style."""
    return (Text(line, style) for line in lines)


def markdown_table(table: Table, rule: str = "---") -> str:
    """The rows of a table below its headings, which `rule` stands under."""
    rows = [[column.label for column in table.columns], *table.text_rows()]
    head, *lines = (f"| {' | '.join(map(_markdown_cell, row))} |" for row in rows)
    return "\n".join([head, f"|{f'{rule}|' * len(table.columns)}", *lines])


def _markdown_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def as_markdown(tables: Iterable[Table]) -> str:
    """Tables as Markdown, each with its title and its note."""
    parts = ((f"**{table.title}**", markdown_table(table, " --- "), table.note) for table in tables)
    return "\n\n".join(part for each in parts for part in each if part)
