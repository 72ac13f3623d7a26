"""CSV files of timings, plain or gzip, whose columns may have the names of other tools; and the kernels in them."""

from __future__ import annotations

import csv
import hashlib
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.hardware.kernels import INDEX_SIZED, KERNEL_TRAFFIC
from simulator.models.precision import format_named
from simulator.records import Record, Struct, field
from simulator.traces.readers.streams import number_or_nan, numbered_lines

_TIME = re.compile(r"seconds|(?:time|median|mean|latency|avg_latency)\w*?_(s|ms|us|ns)")
_UNITS = {None: 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_SEPARATORS = re.compile(r"[,;\t]")
MOST_TIME = 3600.0
"""Seconds: no call of a kernel or collective takes longer than an hour."""
LEAST_TIME = 1e-12
"""Seconds: shorter times would give rates that are not finite."""
_MOST = 10**15


class MeasuredTable(Struct):
    """What was read from files of measurements: samples, what could not be read, notes, and the files' digests."""

    samples: list[Any] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)

    def require(self, paths: Sequence[Path], what: str) -> None:
        """Raises InputError with every problem where no sample was read from the files."""
        if not self.samples:
            raise InputError(self.problems or Problem(", ".join(map(str, paths)), what, "none"))

    def as_dict(self) -> dict[str, Any]:
        """The part of a result document that states it."""
        return {"problems": list(map(str, self.problems)), "notes": self.notes, "digests": self.digests}


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


def parse_filter(texts: Sequence[str]) -> dict[str, str]:
    """Cells that rows must have, by column, from `column=value` texts. Raises InputError where there is no `=`."""
    pairs = [text.partition("=") for text in texts]
    wrong = [Problem("--where", "COLUMN=VALUE", format_value(text[0])) for text in pairs if not text[1] or not text[0]]
    if wrong:
        raise InputError(wrong)
    return {column.strip(): value.strip() for column, _, value in pairs}


def has_cells(cells: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether a row has all cells that are wanted."""
    return all(cells.get(column, "").strip() == value for column, value in wanted.items())


def read_timed_rows(
    path: Path, needed: Sequence[Sequence[str]], wanted: Mapping[str, str], problems: list[Problem]
) -> Iterator[TimedRow]:
    """Rows of a CSV file that has one column of each group in `needed`, and at least one of times.

    A time column is `seconds`, or starts with time, median, mean, latency or avg_latency and ends in _s, _ms, _us or
    _ns. Rows with other numbers of cells or with times out of range are problems with file, line and column.
    Raises InputError for a missing column, or for `wanted` columns that the file does not have.
    """
    reader = csv.reader(line for _, line in numbered_lines(path, problems))
    try:
        header = [name.strip() for name in next(reader, [])]
        times = [(place, _TIME.fullmatch(name)) for place, name in enumerate(header)]
        units = {place: _UNITS[match[1]] for place, match in times if match}
        _check_header(path, header, needed, wanted, bool(units))
        for cells in filter(any, reader):
            where, named = f"{path}:{reader.line_num}", dict(zip(header, cells, strict=False))
            if len(cells) != len(header):
                problems.append(Problem(where, f"{len(header)} cells", str(len(cells))))
            elif has_cells(named, wanted):
                seconds = []
                for place, unit in units.items():
                    value = number_or_nan(cells[place]) * unit
                    if LEAST_TIME <= value <= MOST_TIME:
                        seconds.append(value)
                    elif cells[place].strip():
                        what = f"a time above 0, up to {MOST_TIME:g} s"
                        problems.append(Problem(f"{where}: {header[place]}", what, format_value(cells[place])))
                if seconds:
                    yield TimedRow(named, tuple(seconds), where)
    except csv.Error as error:
        problems.append(Problem(f"{path}:{reader.line_num}", "well-formed CSV", str(error)))


def is_header(line: str, names: Collection[str]) -> bool:
    """Whether a line is the header of a table with one of these columns, or one of times, whatever separates them."""
    columns = {name.strip() for name in _SEPARATORS.split(line)}
    return len(columns) > 1 and any(name in names or _TIME.fullmatch(name) for name in columns)


def _check_header(
    path: Path, header: list[str], needed: Sequence[Sequence[str]], wanted: Mapping[str, str], timed: bool
) -> None:
    first, got = f"{path}:1", format_value(", ".join(header))
    if len(header) == 1 and _SEPARATORS.search(header[0]):
        raise InputError(Problem(first, "columns separated by commas", got))
    missing = [f"a column {' or '.join(names)}" for names in needed if not set(names) & set(header)]
    problems = [Problem(first, what, got) for what in missing]
    for column in (name for name in wanted if name not in header):
        hint = suggest_nearest(column, header)
        problems.append(Problem(f"--where {column}", f"a column of {path}", format_value(column), hint))
    if not timed:
        problems.append(Problem(first, "a column of times, such as seconds or time_ms", got))
    if problems:
        raise InputError(problems)


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


ELEMENTS = ("elements", "elements_per_row", "num_elements", "num_elements_fp32")
KERNEL = ("kernel", "operation", "op")
_SLICES = ("slices", "rows_batch")
_DEVICE = ("device", "gpu")
_SOFTWARE = ("software", "algorithm")
_VERSIONS = {"pytorch": "PyTorch", "cuda": "CUDA", "driver": "driver"}
UNPRICED = ("nonzero", "masked_select", "pack")
"""Kernels that `sparsim record` times and predictions do not use separately."""


class Timing(Record):
    """One timing of a kernel: its size as the simulator counts it, seconds, and what else was varied.

    `slices`: how many slices of `size` elements one call handles. `share`: of the elements, the k that are selected or
    the indices; 0 where the row does not state it. `spread`: (p95 - p5) / 3.29 / median, a relative standard deviation;
    0: unknown.
    """

    device: str
    software: str
    kernel: str
    size: float
    slices: float
    share: float
    seconds: float
    spread: float


class Timings(MeasuredTable):
    """All timings of some files, with their dates."""

    samples: list[Timing] = field(default_factory=list)
    dates: list[str] = field(default_factory=list)

    def device_and_software(self) -> tuple[str, str]:
        """The device and software of all timings. Raises InputError where there are several: a config describes one."""
        found = list(dict.fromkeys((item.device, item.software) for item in self.samples))
        if len(found) > 1:
            names = "; ".join(", ".join(part for part in pair if part) for pair in found)
            hint = "choose one with --where COLUMN=VALUE"
            raise InputError(Problem("calibrate kernels", "one device and software", f"{len(found)}: {names}", hint))
        return found[0]


class TimingRows(Record):
    """Which rows to use: by their cells, type of numbers, order of indices, and sizes.

    `kernel`: the simulator's name for the kernel of all rows, where the file has another.
    """

    wanted: Mapping[str, str] = field(default_factory=dict)
    dtype: str = "fp32"
    order: str = "random"
    kernel: str | None = None
    smallest: int = 1
    largest: int | None = None


def read_timings(paths: Sequence[Path], how: TimingRows) -> Timings:
    """Read timings of kernels; columns as in `sparsim calibrate kernels --help`.

    Rows of another dtype (kernels of indices have only one) or another order of indices are skipped. A row that failed
    its check is a problem, and so is an unknown kernel. Raises InputError where a column is missing or no row is left.
    """
    timings, unpriced = Timings(), Counter[str]()
    for path in paths:
        for row in read_timed_rows(path, (ELEMENTS, *(() if how.kernel else (KERNEL,))), how.wanted, timings.problems):
            try:
                timings.samples.extend(_row_timings(row, how, timings.problems, unpriced))
            except ValueError as error:
                what = "whole numbers of elements, k, slices and contributions"
                timings.problems.append(Problem(row.where, what, format_value(str(error))))
            date = row.text(("date",))
            if date and date not in timings.dates:
                timings.dates.append(date)
        timings.digests[path.name] = digest(path)
    timings.notes += [
        f"{count} timings of {kernel} are left out: predictions do not use it" for kernel, count in unpriced.items()
    ]
    timings.require(paths, "timings of kernels")
    return timings


def _row_timings(row: TimedRow, how: TimingRows, problems: list[Problem], unpriced: Counter[str]) -> Iterator[Timing]:
    dtype, order = row.text(("dtype",), how.dtype), row.text(("order",))
    if (format_named(dtype) or dtype) not in (how.dtype, "int64") or order not in ("", how.order):
        return
    kernel = how.kernel or row.text(KERNEL)
    if kernel in UNPRICED:
        unpriced[kernel] += 1
        return
    if row.text(("checked",), "yes").lower() in ("false", "no", "0"):
        problems.append(Problem(row.where, "a result that passed its check", "one that failed"))
        return
    if kernel not in KERNEL_TRAFFIC:
        problems.append(
            Problem(row.where, "a known kernel", format_value(kernel), suggest_nearest(kernel, KERNEL_TRAFFIC))
        )
        return
    if kernel in INDEX_SIZED and "k" not in row.cells:
        first, what = f"{row.where.rpartition(':')[0]}:1", f"a column k, the indices of {kernel}"
        missing = Problem(first, what, format_value(", ".join(row.cells)))
        problems += [missing] if missing not in problems else []
        return
    elements, slices = row.whole(ELEMENTS, 0), row.whole(_SLICES, 1)
    k, lists = (row.whole((name,), 0) if row.text((name,)) else 0 for name in ("k", "contributions"))
    size = k * max(1, lists) if kernel in INDEX_SIZED else elements
    if size < 1 or slices < 1:
        raise ValueError(f"{size} {'indices (k)' if kernel in INDEX_SIZED else 'elements'}, {slices} slices")
    share = (size if kernel in INDEX_SIZED else k) / elements if elements else 0.0
    versions = [f"{name} {row.cells[column]}" for column, name in _VERSIONS.items() if row.cells.get(column)]
    device, software = row.text(_DEVICE), row.text(_SOFTWARE) or ", ".join(versions)
    if how.smallest <= size <= (how.largest or math.inf):
        width = number_or_nan(row.text(("p95_s",))) - number_or_nan(row.text(("p5_s",)))
        for seconds in row.seconds:
            spread = max(0.0, width / 3.29 / seconds)  # 0 of what is no number
            yield Timing(device, software, kernel, size, slices, share, seconds, spread)
