"""CSV files of timings, plain or gzip, whose columns may have the names that other tools use."""

from __future__ import annotations

import csv
import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.records import Record, Struct, field
from simulator.traces.readers.streams import numbered_lines

_TIME = re.compile(r"seconds|(?:time|median|mean|latency|avg_latency)\w*?_(s|ms|us|ns)")
_UNITS = {None: 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
MOST_TIME = 3600.0
"""Seconds: no call of a kernel or collective takes longer than an hour."""
LEAST_TIME = 1e-12
"""Seconds: shorter times would give rates that are not finite."""
_MOST = 10**15


class MeasuredTable(Struct):
    """What was read from files of timings: samples, lines that could not be read, notes, and the files' digests."""

    samples: list[Any] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)

    def require(self, paths: Sequence[Path], what: str) -> None:
        """Raises InputError with every problem where no sample was read from the files."""
        if not self.samples:
            raise InputError(self.problems or Problem(", ".join(map(str, paths)), what, "none"))


class TimedRow(Record):
    """One row: its cells by column, the seconds in each of its time columns, and its file and line."""

    cells: Mapping[str, str]
    seconds: tuple[float, ...]
    where: str

    def text(self, names: Sequence[str], default: str = "") -> str:
        """The cell of the first column in `names` that exists."""
        return next((self.cells[name].strip() for name in names if name in self.cells), default)

    def whole(self, names: Sequence[str], default: int) -> int:
        """The first of these cells as a whole number from 0 to 1e15. Raises ValueError for anything else."""
        text = self.text(names, str(default))
        value = float(text)
        if not (value.is_integer() and 0 <= value <= _MOST):
            raise ValueError(text)
        return int(value)


class RowFilter(Struct):
    """Which rows of a table are used: those with these cells, by column."""

    cells: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, texts: Sequence[str]) -> RowFilter:
        """From `column=value` texts. Raises InputError where there is no `=`."""
        pairs = [text.partition("=") for text in texts]
        wrong = [
            Problem("--where", "COLUMN=VALUE", format_value(text[0])) for text in pairs if not text[1] or not text[0]
        ]
        if wrong:
            raise InputError(wrong)
        return cls({column.strip(): value.strip() for column, _, value in pairs})

    def matches(self, cells: Mapping[str, str]) -> bool:
        """Whether a row has all of the cells."""
        return all(cells.get(column, "").strip() == value for column, value in self.cells.items())


def read_timed_rows(
    path: Path, needed: Sequence[Sequence[str]], wanted: RowFilter, problems: list[Problem]
) -> Iterator[TimedRow]:
    """Rows of a CSV file that has one column of each group in `needed`, and at least one of times.

    A time column is `seconds`, or starts with time, median, mean, latency or avg_latency and ends in _s, _ms, _us or
    _ns. Rows with other numbers of cells or with times out of range are problems with file, line and column.
    Raises InputError for a missing column, or for `wanted` columns that the file does not have.
    """
    lines = (line for _, line in numbered_lines(path, problems))
    reader = csv.reader(lines)
    try:
        header = [name.strip() for name in next(reader, [])]
        times = [(place, _TIME.fullmatch(name)) for place, name in enumerate(header)]
        units = {place: _UNITS[match[1]] for place, match in times if match}
        _check_header(path, header, needed, wanted, bool(units))
        for cells in reader:
            where = f"{path}:{reader.line_num}"
            if not any(cells):
                continue
            if len(cells) != len(header):
                problems.append(Problem(where, f"{len(header)} cells", str(len(cells))))
                continue
            named = dict(zip(header, cells, strict=True))
            if not wanted.matches(named):
                continue
            seconds = []
            for place, unit in units.items():
                value = _number(cells[place]) * unit
                if LEAST_TIME <= value <= MOST_TIME:
                    seconds.append(value)
                elif cells[place].strip():
                    what = f"a time above 0, up to {MOST_TIME:g} s"
                    problems.append(Problem(f"{where}: {header[place]}", what, format_value(cells[place])))
            if seconds:
                yield TimedRow(named, tuple(seconds), where)
    except csv.Error as error:
        problems.append(Problem(f"{path}:{reader.line_num}", "well-formed CSV", str(error)))


def _check_header(
    path: Path, header: list[str], needed: Sequence[Sequence[str]], wanted: RowFilter, timed: bool
) -> None:
    problems = [
        Problem(f"{path}:1", f"a column {' or '.join(names)}", format_value(", ".join(header)))
        for names in needed
        if not set(names) & set(header)
    ]
    problems += [
        Problem(f"--where {column}", f"a column of {path}", format_value(column), suggest_nearest(column, header))
        for column in wanted.cells
        if column not in header
    ]
    if not timed:
        problems.append(
            Problem(f"{path}:1", "a column of times, such as seconds or time_ms", format_value(", ".join(header)))
        )
    if problems:
        raise InputError(problems)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    made = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):
            made.update(block)
    return made.hexdigest()
