"""Blocks on the terminal: texts, facts and tables in the width of a console."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from textwrap import wrap
from typing import Any

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.padding import Padding
from rich.text import Text as Line

from simulator.records import replace
from simulator.reporting.wording.blocks import BarColumn, Block, Column, Table, Text
from simulator.reporting.wording.values import LEFT, format_value

_CUT = " ..."
"""What stands for the rest of a line."""
_GAP = 2
"""Characters between columns."""
_COMMAND = "command"
"""Key of a column of commands, which are printed below the table, to be copied."""
_MEASURED_ROWS = 100
"""Rows by which the widths of columns are chosen."""
_STYLES = {"title": "bold", "dim": "dim", "note": "dim", "missing": "yellow"}
_PLAIN: Mapping[int, str] = {}


def print_blocks(blocks: Iterable[Block], console: Console) -> None:
    """Print what an answer says."""
    for block in blocks:
        if isinstance(block, Table):
            _print_table(block, console)
        else:
            _print_text(block if isinstance(block, Text) else Text(block), console)


def _print_text(block: Text, console: Console) -> None:
    text, style = block.text, block.style
    if style == "command":  # never wrapped
        console.print(Line(f"  {text}"), soft_wrap=True)
    elif style == "item":
        console.print(Padding(Line(f"- {text}"), (0, 0, 0, 2), expand=False))
    elif style == "warning":
        console.print(Line.assemble(("warning", "yellow"), " ", text))
    elif style == "first line":
        room = console.width - len("warning ")
        whole, (first, *_) = Line(text), Line(text).wrap(console, room - len(_CUT), overflow="fold") or [Line()]
        shown = whole if whole.cell_len <= room else f"{first.plain.rstrip()}{_CUT}"
        console.print(Line.assemble(("warning", "yellow"), " ", shown))
    else:
        console.print(Line(f"note {text}" if style == "note" else text, _STYLES.get(style, "")))


def _print_table(table: Table, console: Console) -> None:
    """The first rows of a table, without bars.

    A `choose` column, and the first one where it is text, is left empty where it is as in the row above.
    """
    columns = [
        (place, column)
        for place, column in enumerate(table.columns)
        if column.kind != "bars" and column.key != _COMMAND
    ]
    shown = table.rows[: table.most]
    scales = {place: _scale(column, [row[place] for row in shown], console) for place, column in columns}
    cut = f" (the first {table.most} of {len(table.rows)})" if len(shown) < len(table.rows) else ""
    named = {*table.choose, *(column.key for place, column in columns if place == 0 and column.kind == "text")}
    rows: list[list[str]] = []
    above: Sequence[Any] = ()
    for row in shown:
        cells = [
            "" if above and column.key in named and row[place] == above[place]
            else "█" * round(scale * max(0.0, row[place] or 0.0)) if (scale := scales[place])
            else format_value(column.kind, row[place], "-")
            for place, column in columns
        ]  # fmt: skip
        rows.append(cells)
        above = row
    shown_columns = [column for _, column in columns]
    print_rows(replace(table, title=table.title + cut, columns=shown_columns, rows=rows), console)
    for place, column in enumerate(table.columns):
        if column.key == _COMMAND:
            commands = dict.fromkeys(row[place] for row in shown if row[place])
            print_blocks((Text(command, "command") for command in commands), console)


def _scale(column: Column, shares: Sequence[float | None], console: Console) -> int | None:
    """The characters of a bar of 1; None where a column has no bars."""
    if not isinstance(column, BarColumn):
        return None
    largest = max(filter(None, shares), default=1.0)
    return min(column.longest, int((console.width - column.beside) / largest))


def print_rows(table: Table, console: Console) -> None:
    """A table of plain text in the width of the console, without broken words.

    Columns of text wrap between words, the widest first; columns of numbers only where that is not enough. Where not
    even the longest words fit next to each other, each row becomes a block of lines, a heading and a value in each; in
    a `listing`, words of the widest columns are broken.
    """
    widths = fit_columns(table, console.width)
    if widths is None:
        _print_rows_as_blocks(table, console)
        return
    sides: list[JustifyMethod] = ["left" if column.kind in LEFT else "right" for column in table.columns]
    if table.title:
        whole = sum(widths) + _GAP * (len(widths) - 1)
        _print_lines([[table.title]], ["left"], [whole], console, styles={0: "bold"})
    heads = [column.label for column in table.columns]
    if any(heads):
        _print_lines([heads], sides, widths, console, styles={0: "bold"}, order=-1)
    _print_lines(table.rows, sides, widths, console, styles=table.styles, dim=table.dim)


def _print_lines(
    rows: Sequence[Sequence[str]],
    sides: Sequence[JustifyMethod],
    widths: Sequence[int],
    console: Console,
    *,
    styles: Mapping[int, str] = _PLAIN,
    dim: int | None = None,
    order: int = 1,
) -> None:
    """Rows in columns of these widths, whose cells all begin on the first line, or by an `order` of -1 end on the last.

    Rich takes half a second for some hundred rows, so that it is only asked for cells that wrap or are dim.
    """
    gap = " " * _GAP
    for number, row in enumerate(rows):
        cells = [_cell_lines(*each, console)[::order] for each in zip(row, sides, widths, strict=True)]
        for lines in [*zip_longest(*cells)][::order]:
            padded = [cell or " " * width for cell, width in zip(lines, widths, strict=True)]
            if dim is None:
                console.out(gap.join(padded), style=styles.get(number), highlight=False)
            else:
                styled = (Line(cell, "dim" if place == dim else "") for place, cell in enumerate(padded))
                console.print(Line(gap).join(styled), soft_wrap=True)


def _print_rows_as_blocks(table: Table, console: Console) -> None:
    """The title, or else the heading of the first column; then each row as a block: its first cell, and below it lines
    of a heading and a value."""
    heads = [" ".join(column.label.split()) for column in table.columns]
    if above := table.title or table.columns[0].label:
        _print_text(Text(above, "title"), console)
    for first, *cells in table.rows:
        _print_text(Text(first, "" if above else "title"), console)
        facts = [
            (f"  {head}" if above else head, cell) for head, cell in zip(heads[1:], cells, strict=True) if cell.strip()
        ]
        label, value = (max(map(_width, texts)) for texts in zip(*facts, strict=True)) if facts else (0, 0)
        label = min(label, (console.width - _GAP) // 2)
        room = console.width - label - _GAP  # words that are longer are broken
        _print_lines(facts, ("left", "left"), (label, min(value, room)), console, dim=0)


def fit_columns(table: Table, available: int) -> list[int] | None:
    """Widths of the columns with which rows of text fit; None where whole words do not fit and it is no `listing`.

    From the widths of whole cells, one character after the other is taken from the column where that adds the fewest
    lines to the table, of several the widest one.
    """
    listing, least = table.listing, list[int]()
    texts = [[column.label, *(row[place] for row in table.rows)] for place, column in enumerate(table.columns)]
    widths = [max((_width(line) for text in cells for line in text.splitlines()), default=0) for cells in texts]
    for column, cells, whole in zip(table.columns, texts, widths, strict=True):
        words = whole if column.kind == "unbroken" else min(whole, max(1, *map(_longest_word, cells)))
        beside_unit = [] if listing or column.kind in LEFT else map(_width, cells[1:])
        least.append(max([words, *beside_unit]))
    room = available - _GAP * (len(widths) - 1)
    letters = [max((_width(each) for text in cells for each in text), default=1) for cells in texts] if listing else []
    while sum(least) > room:
        if not listing or room < sum(letters):
            return None
        widest = max((place for place in range(len(least)) if least[place] > letters[place]), key=least.__getitem__)
        least[widest] -= 1

    @cache
    def height(place: int, width: int) -> list[int]:
        return [_count_lines(text, width) for text in texts[place][:_MEASURED_ROWS]]

    while sum(widths) > room:
        now = [height(place, width) for place, width in enumerate(widths)]

        def added(place: int, now: list[list[int]] = now) -> tuple[int, int]:
            others = [column for number, column in enumerate(now) if number != place]
            changed = height(place, widths[place] - 1)
            return sum(max(row) for row in zip(changed, *others, strict=True)), -widths[place]

        widths[min((i for i in range(len(widths)) if widths[i] > least[i]), key=added)] -= 1
    return widths


def _width(text: str) -> int:
    """Columns of the terminal that a text takes: letters of some scripts take two."""
    return len(text) if text.isascii() else cell_len(text)


def _longest_word(text: str) -> int:
    """Characters of the longest word of a cell; the first one stands behind what the cell is indented by."""
    indent = len(text) - len(text.lstrip())
    return max((_width(word) + (indent if place == 0 else 0) for place, word in enumerate(text.split())), default=0)


def _count_lines(text: str, width: int) -> int:
    """Lines of a cell of a width; at least one."""
    lines = text.splitlines()
    return max(1, sum(1 if len(line) <= width else len(wrap(line, width, break_on_hyphens=False)) for line in lines))


def _cell_lines(text: str, side: JustifyMethod, width: int, console: Console) -> list[str]:
    """The lines of a cell, each as wide as its column."""
    if len(text) <= width and text.isascii() and text.isprintable():
        return [text.rjust(width) if side == "right" else text.ljust(width)]
    wrapped = Line(text).wrap(console, width, justify=side, overflow="fold")
    return [f"{line.plain}{' ' * (width - line.cell_len)}" for line in wrapped]
