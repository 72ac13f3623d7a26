"""What the printers share: tables, bars, warnings and intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from textwrap import wrap
from typing import Any, Literal

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Column
from rich.table import Table as Lines
from rich.text import Text

from simulator.reporting.wording.tables import Table
from simulator.reporting.wording.values import format_value
from simulator.units import count_of, show_time

_MOST = 40
_GAP = 2
"""Characters between columns."""
_COMMAND = "command"
"""Key of a column of commands, which are printed below the table, to be copied."""
_MEASURED_ROWS = 100
"""Rows by which the widths of columns are chosen."""


def plain_table(left: Sequence[str], right: Sequence[str] = (), title: str | None = None) -> Lines:
    """A table without lines, its `left` columns aligned to the left, the others to the right."""
    table = Lines(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), title=title, title_justify="left")
    sides: tuple[tuple[Sequence[str], Literal["left", "right"]], ...] = ((left, "left"), (right, "right"))
    for names, justify in sides:
        for name in names:
            table.add_column(escape(name), justify=justify, overflow="fold")
    return table


def facts_grid(rows: Iterable[tuple[str, str]]) -> Lines:
    """Names and values in two columns."""
    grid = Lines.grid(padding=(0, _GAP, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
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


def print_lines(table: Lines, console: Console) -> None:
    """A table in the width of the console, without broken words.

    Columns of text wrap between words, the widest first; columns of numbers only where that is not enough. Where not
    even the longest words fit next to each other, each row becomes a block of lines, a label and a value in each.
    """
    widths = fit_columns(table, console)
    if widths is None:
        _print_blocks(table, console)
        return
    for column, width in zip(table.columns, widths, strict=True):
        column.width, column.overflow = width, "fold"
    console.print(table, highlight=False)


def fit_columns(table: Lines, console: Console) -> list[int] | None:
    """Widths of the columns with which a table fits the console; None where whole words do not fit.

    From the widths of whole cells, one character after the other is taken from the column where that adds the fewest
    lines to the table, of several the widest one.
    """
    texts = [_texts(column, console) for column in table.columns]
    return _fit_texts(texts, [column.no_wrap for column in table.columns], console.width)


def _fit_texts(texts: Sequence[Sequence[str]], whole: Sequence[bool], available: int) -> list[int] | None:
    """Widths of columns by heading and cells, and whether these stay whole; None where they do not fit."""
    widths = [max((len(line) for text in cells for line in text.splitlines()), default=0) for cells in texts]
    words = [max((_longest_word(text) for text in cells), default=0) for cells in texts]
    least = [widths[place] if whole[place] else min(widths[place], words[place]) for place in range(len(texts))]
    room = available - _GAP * (len(widths) - 1)
    if sum(least) > room:
        return None
    heights: dict[tuple[int, int], list[int]] = {}

    def height(place: int, width: int) -> list[int]:
        if (place, width) not in heights:
            heights[place, width] = [_count_lines(text, width) for text in texts[place][:_MEASURED_ROWS]]
        return heights[place, width]

    while sum(widths) > room:
        now = [height(place, width) for place, width in enumerate(widths)]

        def added(place: int, now: list[list[int]] = now) -> tuple[int, int]:
            others = [column for number, column in enumerate(now) if number != place]
            changed = height(place, widths[place] - 1)
            return sum(max(row) for row in zip(changed, *others, strict=True)), -widths[place]

        widths[min((i for i in range(len(widths)) if widths[i] > least[i]), key=added)] -= 1
    return widths


def _longest_word(text: str) -> int:
    """Characters of the longest word of a cell; the first one stands behind what the cell is indented by."""
    indent = len(text) - len(text.lstrip())
    return max((len(word) + (indent if place == 0 else 0) for place, word in enumerate(text.split())), default=0)


def _count_lines(text: str, width: int) -> int:
    """Lines of a cell of a width; at least one."""
    lines = text.splitlines()
    return max(1, sum(1 if len(line) <= width else len(wrap(line, width, break_on_hyphens=False)) for line in lines))


def _texts(column: Column, console: Console) -> list[str]:
    """The heading and the cells of a column without markup."""
    return [_plain(cell, console) for cell in (column.header, *column.cells)]


def _plain(cell: RenderableType, console: Console) -> str:
    return console.render_str(cell).plain if isinstance(cell, str) else str(cell)


def _print_blocks(table: Lines, console: Console) -> None:
    """Each row as lines of a heading and a value; the first column is the heading of its block."""
    texts = [_texts(column, console) for column in table.columns]
    for cells in zip(*(column[1:] for column in texts), strict=True):
        print_title(cells[0], console)
        rows = [(column[0], cell) for column, cell in zip(texts[1:], cells[1:], strict=True) if cell.strip()]
        print_lines(facts_grid(rows), console)


def print_facts(rows: Iterable[tuple[str, str]], console: Console) -> None:
    """Names and values in two columns."""
    print_lines(facts_grid(rows), console)


def print_list(lines: Iterable[str], console: Console) -> None:
    """A line with a hyphen for each text, those that follow indented."""
    for line in lines:
        console.print(Padding(f"- {escape(line)}", (0, 0, 0, 2), expand=False), highlight=False)


def print_command(line: str, console: Console) -> None:
    """A line that is to be copied: never wrapped."""
    console.print(f"  {escape(line)}", highlight=False, soft_wrap=True)


def print_table(table: Table, console: Console, most: int = _MOST) -> None:
    """The first rows of a table of results, without bars.

    A `choose` column, and the first one where it is text, is left empty where it is as in the row above.
    """
    columns = [
        (place, column)
        for place, column in enumerate(table.columns)
        if column.kind != "bars" and column.key != _COMMAND
    ]
    cut = f" (the first {most} of {len(table.rows)})" if len(table.rows) > most else ""
    named = {*table.choose, *(column.key for place, column in columns if place == 0 and column.kind == "text")}
    rows: list[list[str]] = []
    above: Sequence[Any] = ()
    for row in table.rows[:most]:
        cells = [
            "" if above and column.key in named and row[place] == above[place]
            else format_value(column.kind, row[place], "-")
            for place, column in columns
        ]  # fmt: skip
        rows.append(cells)
        above = row
    lines = plain_table((), title=table.title + cut)
    lines.title_style = "bold"
    for _, column in columns:
        side: Literal["left", "right"] = "left" if column.kind in ("text", "yes") else "right"
        lines.add_column(escape(column.label), justify=side, overflow="fold")
    _print_rows(lines, rows, console)
    for place, column in enumerate(table.columns):
        if column.key == _COMMAND:
            _print_commands([row[place] for row in table.rows[:most]], console)


def _print_rows(heading: Lines, rows: Sequence[Sequence[str]], console: Console) -> None:
    """A table from its title and headings and from rows of plain text, as `print_lines` prints it.

    Rich takes half a second for some hundred rows, so that it is only asked for the heading and for cells that wrap.
    """
    columns = heading.columns
    texts = [[_plain(column.header, console), *cells] for column, *cells in zip(columns, *rows, strict=True)]
    widths = _fit_texts(texts, [column.no_wrap for column in columns], console.width)
    if widths is None:
        print_lines(add_rows(heading, rows), console)
        return
    for column, width in zip(columns, widths, strict=True):
        column.width = width
    console.print(heading, highlight=False)
    for row in rows:
        cells = [_cell_lines(*each, console) for each in zip(row, columns, widths, strict=True)]
        for line in zip_longest(*cells):
            padded = (cell or " " * width for cell, width in zip(line, widths, strict=True))
            console.out((" " * _GAP).join(padded), highlight=False)


def _cell_lines(text: str, column: Column, width: int, console: Console) -> list[str]:
    """The lines of a cell, each as wide as its column."""
    if len(text) <= width and text.isascii() and "\n" not in text:
        return [text.rjust(width) if column.justify == "right" else text.ljust(width)]
    wrapped = Text(text).wrap(console, width, justify=column.justify, overflow="fold")
    return [f"{line.plain}{' ' * (width - line.cell_len)}" for line in wrapped]


def _print_commands(commands: Iterable[str | None], console: Console) -> None:
    """Each command in a line of its own, to be copied."""
    for command in dict.fromkeys(commands):
        if command:
            print_command(command, console)


def add_rows(table: Lines, rows: Iterable[Sequence[Any]]) -> Lines:
    """The table with rows of plain text."""
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    return table
