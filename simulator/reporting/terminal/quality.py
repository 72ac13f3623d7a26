"""Time to quality on the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from simulator.reporting.terminal.printing import print_notes, print_plain, print_table, print_title, print_warnings
from simulator.reporting.wording.quality_tables import quality_tables


def print_quality(document: dict[str, Any], console: Console) -> None:
    """The answer, where there is a scenario; the tables; warnings and notes."""
    if "answer" in document:
        print_title(document["scenario"], console)
        print_plain(document["answer"], console)
        print_plain(f"The opponent is {document['opponent']}.\n", console)
    for table in quality_tables(document):
        print_table(table, console)
        if table.note:
            print_plain(table.note, console, "dim")
        console.print()
    for item in document.get("refused", ()):
        print_plain(f"left out {item['method']}: {item['reason']}", console, "dim")
    print_warnings(document.get("warnings", ()), console)
    print_notes(document["notes"], console)
