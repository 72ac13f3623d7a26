"""Files of recordings: tables written row by row, and the percentiles of repeats in them."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np

from simulator.errors import InputError, Problem, format_value
from simulator.files import write_bytes
from simulator.loading.csv_tables import read_rows
from simulator.records import Record


class TimePercentiles(Record):
    """Median, 5th and 95th percentile in seconds, of so many repeats."""

    median: float
    p5: float
    p95: float
    repeats: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> TimePercentiles:
        """The summary of one or more repeats."""
        p5, median, p95 = np.percentile(np.asarray(seconds, dtype=float), (5, 50, 95)).tolist()
        return cls(median, p5, p95, len(seconds))

    def cells(self) -> dict[str, str]:
        """The columns of a recorded table that state it."""
        times = {"median_s": self.median, "p5_s": self.p5, "p95_s": self.p95}
        return {name: f"{seconds:.6g}" for name, seconds in times.items()} | {"repeats": str(self.repeats)}


COLLECTIVE_COLUMNS = (
    *("backend", "world_size", "nodes", "collective", "nbytes", "median_s", "p5_s", "p95_s", "repeats"),
    *("device", "pytorch", "date"),
)
"""Of a table of timed collectives, as `sparsim calibrate network` reads it."""


class RowFile:
    """A CSV table that is on disk up to its last row at any moment; a context manager.

    With `resume` an existing table is read into `done` and continued; a last row that was cut short is dropped.
    Raises InputError where the file exists (without `resume`), has other columns, or can't be written.
    """

    def __init__(self, path: Path, columns: Sequence[str], resume: bool = False) -> None:
        self.path, self.columns = path, tuple(columns)
        self.done: list[dict[str, str]] = []
        if path.exists() and not path.is_file():
            raise InputError(Problem(str(path), "a CSV file that can be written", "a folder, a device or a pipe"))
        known = path.exists() and path.stat().st_size > 0
        if known and not resume:
            raise InputError(Problem(str(path), "a new file", "one that exists", "continue it with --resume"))
        try:
            if known:
                self._read()
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a" if known else "w", newline="", encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(Problem(str(path), "a CSV file that can be written", format_value(str(error)))) from None
        self._out = csv.DictWriter(self._file, self.columns, lineterminator="\n")
        if not known:
            self._out.writeheader()
            self._file.flush()

    def append(self, row: Mapping[str, str]) -> None:
        """Write one row, with a cell for every column, to disk."""
        self._out.writerow(dict(row))
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._file.close()

    def _read(self) -> None:
        text = self.path.read_text(encoding="utf-8")
        whole, header = text[: text.rfind("\n") + 1], text.partition("\n")[0]
        if header != ",".join(self.columns):
            what = f"the columns {', '.join(self.columns)}"
            got = format_value(", ".join(header.split(",")))
            raise InputError(Problem(f"{self.path}:1", what, got, "is it another table?"))
        if whole != text:
            write_bytes(self.path, whole.encode())
        problems: list[Problem] = []
        self.done = [row.cells for row in read_rows(self.path, self.columns, problems)]
        if problems:
            raise InputError(problems)
