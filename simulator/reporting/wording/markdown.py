"""Tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from simulator.reporting.wording.tables import Table


def markdown_table(table: Table, rule: str = "---") -> str:
    """The rows of a table below its headings, which `rule` stands under."""
    rows = [[column.label for column in table.columns], *table.text_rows()]
    head, *lines = (f"| {' | '.join(map(_cell, row))} |" for row in rows)
    return "\n".join([head, f"|{f'{rule}|' * len(table.columns)}", *lines])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def as_markdown(tables: Iterable[Table]) -> str:
    """Tables as Markdown, each with its title and its note."""
    parts = ((f"**{table.title}**", markdown_table(table, " --- "), table.note) for table in tables)
    return "\n\n".join(part for each in parts for part in each if part)
