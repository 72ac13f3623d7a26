"""Time to quality on the terminal."""

from __future__ import annotations

from rich.console import Console

from simulator.reporting.answers.trained import TrainingQuality
from simulator.reporting.terminal.printing import print_notes, print_plain, print_table, print_title, print_warnings
from simulator.reporting.wording.quality_tables import quality_tables


def print_quality(found: TrainingQuality, console: Console) -> None:
    """The answer, where there is a scenario; the tables; warnings and notes."""
    if found.scenario is not None:
        print_title(found.scenario, console)
        print_plain(found.answer or "", console)
        print_plain(f"The opponent is {found.opponent}.\n", console)
    for table in quality_tables(found):
        print_table(table, console)
        if table.note:
            print_plain(table.note, console, "dim")
        console.print()
    for item in found.refused or ():
        print_plain(f"left out {item.method}: {item.reason}", console, "dim")
    print_warnings(found.warnings or (), console)
    print_notes(found.notes, console)
