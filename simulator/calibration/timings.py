"""Timings of kernels from CSV files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from simulator.calibration.tables import MeasuredTable, RowFilter, TimedRow, digest, read_timed_rows
from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.hardware.kernels import INDEX_SIZED, KERNEL_TRAFFIC
from simulator.models.precision import format_named
from simulator.records import Record, field

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

    `k`: elements that are selected (0: no such parameter). `slices`: how many slices of `size` elements one call
    handles. `elements`: of the tensor. `spread`: (p95 - p5) / 3.29 / median, a relative standard deviation; 0: unknown.
    """

    device: str
    software: str
    kernel: str
    size: float
    k: float
    slices: float
    elements: float
    seconds: float
    spread: float
    where: str


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

    wanted: RowFilter = field(default_factory=RowFilter)
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
    elements, slices = row.whole(ELEMENTS, 0), row.whole(_SLICES, 1)
    k, lists = (row.whole((name,), 0) if row.text((name,)) else 0 for name in ("k", "contributions"))
    size = k * max(1, lists) if kernel in INDEX_SIZED else elements
    if size < 1 or slices < 1:
        raise ValueError(f"{size} elements, {slices} slices")
    versions = [f"{name} {row.cells[column]}" for column, name in _VERSIONS.items() if row.cells.get(column)]
    device, software = row.text(_DEVICE), row.text(_SOFTWARE) or ", ".join(versions)
    if size < how.smallest or (how.largest and size > how.largest):
        return
    for seconds in row.seconds:
        spread = _spread(row, seconds)
        yield Timing(device, software, kernel, size, k, slices, elements, seconds, spread, row.where)


def _spread(row: TimedRow, seconds: float) -> float:
    try:
        width = float(row.cells["p95_s"]) - float(row.cells["p5_s"])
    except (KeyError, ValueError):
        return 0.0
    return max(0.0, width / 3.29 / seconds)
