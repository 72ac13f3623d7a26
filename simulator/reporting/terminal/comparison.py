"""Comparisons on the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape

from simulator.reporting.terminal.printing import print_plain, print_table, print_title, print_warnings
from simulator.reporting.wording.comparison import describe_side, fact_lines, warning_lines
from simulator.reporting.wording.comparison_tables import comparison_tables


def print_comparison(document: dict[str, Any], console: Console) -> None:
    """What is compared, the answer, then what differs in the inputs and in the results."""
    for side in "ab":
        text = escape(describe_side(document[side]))
        console.print(f"[bold]{side.upper()}[/bold]  {text}", highlight=False)
    print_title(f"\n{document['answer']}", console)
    for line in fact_lines(document):
        print_plain(line, console)
    for table in comparison_tables(document, brief=True):
        console.print()
        print_table(table, console)
    print_warnings(warning_lines(document), console)
