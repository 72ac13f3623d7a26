"""What the printers share: tables, bars, warnings and intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Lines

from simulator.reporting.wording.tables import Table
from simulator.reporting.wording.values import format_value
from simulator.units import count_of, show_time

_MOST = 40


def plain_table(left: Sequence[str], right: Sequence[str] = (), title: str | None = None) -> Lines:
    """A table without lines, its `left` columns aligned to the left, the others to the right."""
    table = Lines(box=None, pad_edge=False, title=title, title_justify="left")
    sides: tuple[tuple[Sequence[str], Literal["left", "right"]], ...] = ((left, "left"), (right, "right"))
    for names, justify in sides:
        for name in names:
            table.add_column(escape(name), justify=justify, overflow="fold")
    return table


def facts_grid(rows: Iterable[tuple[str, str]]) -> Lines:
    """Names and values in two columns."""
    grid = Lines.grid(padding=(0, 2))
    for name, value in rows:
        grid.add_row(f"[dim]{escape(name)}[/dim]", escape(value))
    return grid


def print_title(text: str, console: Console) -> None:
    """A line in bold."""
    console.print(f"[bold]{escape(text)}[/bold]", highlight=False)


def print_plain(text: str, console: Console, style: str | None = None) -> None:
    """A text as it is, without markup."""
    console.print(escape(text), style=style, highlight=False)


def print_warnings(warnings: Sequence[str], console: Console, most: int | None = None) -> None:
    """A line for each warning, for the first `most` of them where there are more."""
    shown = warnings[:most]
    for warning in shown:
        console.print(f"[yellow]warning[/yellow] {escape(warning)}", highlight=False)
    if left := len(warnings) - len(shown):
        print_plain(f"{count_of(left, 'more warning')}: `sparsim explain` prints all of them", console, "dim")


def print_notes(notes: Iterable[str], console: Console) -> None:
    """A line for each note, which changes nothing worth a warning."""
    for note in notes:
        print_plain(f"note {note}", console, "dim")


def bar(share: float, width: int = 28) -> str:
    """A bar whose length is a share of `width` characters."""
    return "█" * round(width * max(0.0, share))


def describe_interval(interval: Sequence[float]) -> str:
    """A 90 % interval in words; it has no width where no error is stated.

    >>> describe_interval([0.1, 0.2])
    '90 % interval 100 ms to 200 ms'
    """
    low, high = interval
    if low == high:
        return "no 90 % interval: no errors are known"
    return f"90 % interval {show_time(low)} to {show_time(high)}"


def print_table(table: Table, console: Console, most: int = _MOST) -> None:
    """The first rows of a table of results, without bars, and without what a `choose` column has in the row above."""
    columns = [(place, column) for place, column in enumerate(table.columns) if column.kind != "bars"]
    cut = f" (the first {most} of {len(table.rows)})" if len(table.rows) > most else ""
    lines = plain_table((), title=table.title + cut)
    lines.title_style = "bold"
    for _, column in columns:
        side: Literal["left", "right"] = "left" if column.kind in ("text", "yes") else "right"
        lines.add_column(escape(column.label), justify=side, overflow="fold")
    above: Sequence[Any] = ()
    for row in table.rows[:most]:
        cells = [
            "" if above and column.key in table.choose and row[place] == above[place]
            else escape(format_value(column.kind, row[place], "-"))
            for place, column in columns
        ]  # fmt: skip
        lines.add_row(*cells)
        above = row
    console.print(lines, highlight=False)


def add_rows(table: Lines, rows: Iterable[Sequence[Any]]) -> Lines:
    """The table with rows of plain text."""
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    return table
