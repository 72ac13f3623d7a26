"""Sensitivities on the terminal: by how much a result changes when an input does."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console

from simulator.reporting.answers.explained import Sensitivity
from simulator.reporting.terminal.printing import add_rows, plain_table, print_lines, print_plain

_ROWS = 8


def print_sensitivity(study: Sensitivity, console: Console, format_number: Callable[[float], str]) -> None:
    """The answer, then the first inputs: change in percent per percent, and the result at half and twice of each."""

    def text(value: float | None) -> str:
        return "-" if value is None else format_number(value)

    print_plain(study.answer, console)
    rows = [
        (
            row.input,
            "-" if row.elasticity is None else f"{row.elasticity:+.2f}",
            *(text(value) for value in (row.at_half, row.base, row.at_double)),
        )
        for row in study.inputs[:_ROWS]
        if row.input not in study.without_effect
    ]
    table = plain_table(("input",), ("% per %", "at half", "unchanged", "at double"))
    print_lines(add_rows(table, rows), console)
    for note in study.notes:
        print_plain(note, console, "dim")
