"""Comparisons on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from simulator.reporting.terminal.printing import print_plain, print_table, print_title, print_warnings
from simulator.reporting.wording.comparison import Differences, describe_side, fact_lines, warning_lines
from simulator.reporting.wording.comparison_tables import comparison_tables


def print_comparison(found: Differences, console: Console) -> None:
    """What is compared, the answer, then what differs in the inputs and in the results."""
    for name, side in (("A", found.a), ("B", found.b)):
        console.print(f"[bold]{name}[/bold]  {escape(describe_side(side))}", highlight=False)
    print_title(f"\n{found.answer}", console)
    for line in fact_lines(found):
        print_plain(line, console)
    for table in comparison_tables(found, brief=True):
        console.print()
        print_table(table, console)
    print_warnings(warning_lines(found), console)
