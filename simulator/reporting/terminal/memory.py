"""The GPU memory of a worker on the terminal, as a table of its parts."""

from __future__ import annotations

from rich.console import Console

from simulator.prediction.result_parts import MemoryUse
from simulator.reporting.terminal.printing import add_rows, plain_table, print_plain
from simulator.reporting.wording.memory_tables import memory_table


def print_memory(memory: MemoryUse, console: Console) -> None:
    """Every part with its size, the range that it may be in, and how it is computed; then the sum."""
    made = memory_table(memory)
    first, *numbers, last = (column.label for column in made.columns)
    table = plain_table((first,), tuple(numbers))
    table.add_column(last, overflow="fold")
    console.print(add_rows(table, list(made.rows)), highlight=False)
    print_plain(made.note, console)
