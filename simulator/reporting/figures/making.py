"""A figure on disk: the picture, and beside it the table that it shows."""

from __future__ import annotations

from pathlib import Path

from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.sources import Source
from simulator.reporting.figures.style import drawn, save
from simulator.studies.storage import write_text


def make(member: Figure, source: Source, path: Path) -> tuple[Path, Path]:
    """Draw a figure into `path`, and write its data to the same name with `.csv`; returns both.

    Raises InputError where the source lacks what is needed, the format is unknown or a file can't be written.
    """
    data = member.data(source)
    save(drawn(member, data), path)
    table = path.with_suffix(".csv")
    write_text(table, data.to_csv(index=False, lineterminator="\n"))
    return path, table
