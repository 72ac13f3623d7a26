"""The files of the table of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from simulator.files import replace_file
from simulator.loading.csv_tables import write_rows
from simulator.studies.storage.row_table import Table

FILES = ("parquet", "csv")
"""Endings of the files that a table is written to."""


def write_table(place: Path, table: Table, endings: Sequence[str] = FILES) -> list[None]:
    """Write the files of `place`, which has no ending, atomically; a None for each, as processes return results.

    Raises InputError where they cannot be written.
    """
    for ending in endings:
        path = place.with_name(f"{place.name}.{ending}")
        if ending == "csv":
            write_rows(path, list(table), zip(*[column.values for column in table.values()], strict=True))
        else:
            replace_file(path, partial(_write_parquet, table))
    return [None] * len(endings)


def _write_parquet(table: Table, path: str) -> None:
    from simulator.studies.storage.parquet import write_parquet  # brings PyArrow

    write_parquet(table, path)
