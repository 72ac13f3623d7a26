"""Sensitivities in blocks: by how much a result changes when an input does."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.reporting.answers.explained import Sensitivity
from simulator.reporting.wording.blocks import Block, texts
from simulator.reporting.wording.tables import Table, columns

_ROWS = 8


def sensitivity_blocks(study: Sensitivity, kind: str) -> Iterator[Block]:
    """The answer, then the first inputs: change in percent per percent, and the result at half and twice of each.

    `kind`: what quantity the result is (`values.KINDS`).
    """
    yield study.answer
    rows = [
        (
            row.input,
            None if row.elasticity is None else f"{row.elasticity:+.2f}",
            *(row.at_half, row.base, row.at_double),
        )
        for row in study.inputs[:_ROWS]
        if row.input not in study.without_effect
    ]
    heads = (
        *columns("words", "input"),
        *columns("figure", "% per %"),
        *columns(kind, "at half", "unchanged", "at double"),
    )
    yield Table("", heads, rows)
    yield from texts(study.notes, "dim")
