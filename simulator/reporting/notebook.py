"""Blocks as a notebook shows them: plain HTML without scripts, readable on light and on dark pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from markupsafe import Markup

from simulator.reporting.figures.style.panels import BLUE
from simulator.reporting.wording.blocks import BarColumn, Block, Column, Table, Text
from simulator.reporting.wording.values import LEFT, format_value

_DIM = "font-size:90%;opacity:.85"
_STYLES = {"title": "font-weight:bold", "dim": _DIM, "note": _DIM, "command": "font-family:monospace"}
_WORDS = {"item": "- ", "warning": "Warning: ", "first line": "Warning: ", "note": "Note: "}
"""What stands before a text of a style."""
_CELL = "padding:.1em .8em .1em 0;text-align:left;vertical-align:top"
_BOX = Markup('<div style="max-width:60em;line-height:1.45;overflow-x:auto">{}</div>')
_TEXT = Markup('<div style="{}">{}{}</div>')
_TABLE = Markup(
    '<table style="border-collapse:collapse;margin-top:.4em;color:inherit;font-size:inherit">'
    "<thead><tr>{}</tr></thead><tbody>{}</tbody></table>"
)
_HEAD = Markup('<th scope="col" style="{};font-weight:600">{}</th>')
_DATA = Markup('<td style="{}">{}</td>')
_BAR = Markup('<div style="min-width:12em"><div style="width:{:.3f}%;height:1em;background:{}"></div></div>')


def blocks_html(blocks: Iterable[Block]) -> str:
    """What an answer says as HTML."""
    return str(_BOX.format(Markup("").join(map(_block, blocks))))


def _block(block: Block) -> Markup:
    if isinstance(block, Table):
        return _table(block)
    text = block if isinstance(block, Text) else Text(block)
    return _TEXT.format(_STYLES.get(text.style, ""), _WORDS.get(text.style, ""), text.text)


def _table(table: Table) -> Markup:
    """The first rows of a table; figures stay on one line."""
    styles = [_CELL if column.kind in LEFT else f"{_CELL};white-space:nowrap" for column in table.columns]

    def cell(column: Column, value: Any) -> str:
        if isinstance(column, BarColumn):
            return _BAR.format(100 * max(0.0, value or 0.0), BLUE)
        return format_value(column.kind, value, "-")

    heads = [column.label for column in table.columns]
    head = Markup("").join(_HEAD.format(_CELL, label) for label in heads) if any(heads) else ""
    rows = (map(_DATA.format, styles, map(cell, table.columns, row)) for row in table.rows[: table.most])
    body = Markup("").join(Markup("<tr>{}</tr>").format(Markup("").join(row)) for row in rows)
    title = _TEXT.format(_STYLES["title"], "", table.title) if table.title else ""
    return Markup("{}{}").format(title, _TABLE.format(head, body))
