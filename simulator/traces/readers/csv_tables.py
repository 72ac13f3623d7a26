"""Plain CSV tables, as they are written everywhere."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path


def write_rows(path: Path, heading: Sequence[str], rows: Iterable[Sequence[object]]) -> int:
    """Write a table; how many rows it has."""
    count = 0
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(heading)
        for row in rows:
            out.writerow(row)
            count += 1
    return count
