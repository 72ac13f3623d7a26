"""Blocks: what an answer says, in the order in which it is read. A printer shows them, without knowing the answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from simulator.records import Record
from simulator.reporting.wording.tables import Table

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
