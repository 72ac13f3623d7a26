"""Measuring kernels over a grid of sizes, into a table that stays valid when interrupted."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from simulator.errors import InputError, Problem
from simulator.record.environment import Environment, cache_bytes, check_names, free_bytes
from simulator.record.kernels import INDEX_KERNELS, KERNELS, Inputs, Point
from simulator.record.rows import RowFile, TimePercentiles
from simulator.record.timing import clock_of
from simulator.records import Record, asdict

COLUMNS = (
    *("device", "driver", "cuda", "pytorch", "clock_policy", "date", "kernel", "dtype", "elements", "k"),
    *("contributions", "order", "median_s", "p5_s", "p95_s", "repeats", "checked"),
)
SMALLEST, LARGEST = 10, 28
"""Exponents of two: the range of sizes."""
QUICK_SIZES = (2**10, 2**14, 2**18)
BYTES_PER_ELEMENT = 128
"""Memory that a point needs at most per element: pools of inputs of each type, and float64 arrays of the check."""
UNABLE = ("out of memory", "allocate memory", "not implemented")
"""Parts of PyTorch's messages when a device can't run a point."""
BATCH = 8


class Effort(Record):
    """How long to measure: seconds per point, and the least and most repeats after the warm-up."""

    budget: float = 0.2
    least: int = 5
    most: int = 400
    warm_up: int = 3


QUICK = Effort(budget=0.02, least=3, most=50, warm_up=1)


def largest_elements(device: str) -> int:
    """The largest power of two, at most 2**28, whose measurement fits into half of the free memory."""
    most = free_bytes(device) // 2 // BYTES_PER_ELEMENT
    return int(2 ** min(LARGEST, max(SMALLEST, int(math.log2(max(most, 1))))))


def sizes_up_to(largest: int, quick: bool = False) -> tuple[int, ...]:
    """Powers of two from 2**10 to `largest`; three of them for a quick look."""
    sizes = QUICK_SIZES if quick else tuple(2**i for i in range(SMALLEST, LARGEST + 1))
    return tuple(n for n in sizes if n <= largest)


def grid(
    sizes: Sequence[int], dtypes: Sequence[str], kernels: Sequence[str] = tuple(KERNELS), quick: bool = False
) -> list[Point]:
    """Every point to measure, small sizes first. Raises InputError for a kernel that is not known."""
    points = (
        Point(kernel, dtype, n, *rest)
        for n in sizes
        for kernel in check_names("--kernels", kernels, KERNELS)
        for dtype in (("int64",) if kernel in INDEX_KERNELS else dtypes)
        for rest in _parameters(kernel, n, quick)
    )
    return list(dict.fromkeys(points))


_SHARES = {
    **dict.fromkeys(("topk", "topk_by_sort"), (1e-4, 1e-3, 1e-2, 0.1, 0.5)),
    **dict.fromkeys(("threshold_scan", "nonzero", "masked_select"), (1e-3, 1e-2, 0.1)),
    **dict.fromkeys(("gather", "residual_clear", "random_indices"), (1e-3, 1e-2, 0.1)),
    "scatter_add": (1e-3, 1e-2),
}
"""Shares of the elements that are selected, of kernels that select."""


def _parameters(kernel: str, n: int, quick: bool) -> Iterator[tuple[int | None, int | None, str]]:
    """k, contributions and order of a kernel's points at one size."""
    shares = _SHARES.get(kernel, ())
    shares = (0.01,) if quick and shares else shares
    counts = [max(1, round(share * n)) for share in shares] if shares else [None]
    lists = ((1, 8) if quick else (1, 2, 4, 8, 16, 32, 64)) if kernel == "scatter_add" else (None,)
    orders = ("sorted", "random") if kernel in ("gather", "residual_clear", "scatter_add") else ("",)
    return itertools.product(counts, lists, orders)


def measure(point: Point, source: Inputs, effort: Effort) -> TimePercentiles:
    """Seconds of one call, by the clock of the device, on inputs that are not in the cache.

    On a GPU, calls are queued behind a wait, so that launches by the host are not included (unless the kernel itself
    waits for the device, as `nonzero` does).
    """
    kernel, clock = KERNELS[point.kernel], clock_of(source.device)
    for _ in range(effort.warm_up):
        kernel.call(*kernel.inputs(source, point))
    clock.settle()
    seconds: list[float] = []
    begin = time.perf_counter()
    while len(seconds) < effort.least or (len(seconds) < effort.most and time.perf_counter() - begin < effort.budget):
        batch = [kernel.inputs(source, point) for _ in range(min(BATCH, effort.most - len(seconds)))]
        if time.perf_counter() - begin > effort.budget:
            batch = batch[: effort.least - len(seconds)]
        clock.settle()
        clock.head_start()
        moments = []
        for arguments in batch:
            before = clock.mark()
            kernel.call(*arguments)
            moments.append((before, clock.mark()))
        clock.settle()
        seconds += [clock.seconds(*pair) for pair in moments]
    return TimePercentiles.of(seconds)


def record_kernels(
    path: Path,
    points: Sequence[Point],
    device: str,
    place: Environment,
    *,
    effort: Effort,
    rotate: int | None = None,
    seed: int = 0,
    resume: bool = False,
    report: Callable[[str], None] = lambda text: None,
) -> Counter[str]:
    """Measure and check every point, and write one row each; rows of an existing table are kept.

    Returns how many rows were `written` and `kept`, and how many points failed their check (`wrong`) or could not run
    (`skipped`).

    `rotate`: bytes of inputs that are used in turn (default: twice the last-level cache, at most a sixteenth of the
    free memory). Points that the device can't run, because memory or an implementation is missing, are skipped.

    Raises InputError where the table can't be continued because its columns, device or PyTorch differ.
    """
    if rotate is None:
        rotate = min(2 * cache_bytes(device), free_bytes(device) // 16)
    source = Inputs(device, rotate, seed)
    with RowFile(path, COLUMNS, resume) as table:
        done = Counter(kept=len(table.done))
        for row, name in itertools.product(table.done, ("device", "pytorch")):
            if row[name] != getattr(place, name):
                what, got = f"{name} {getattr(place, name)!r}", f"rows from {row[name]!r}"
                raise InputError(Problem(str(table.path), what, got, "use another file"))
        known = {tuple(row[name] for name in Point("", "", 0).cells()) for row in table.done}
        left = [point for point in points if tuple(point.cells().values()) not in known]
        for number, point in enumerate(left, 1):
            try:
                right = KERNELS[point.kernel].checked(source, point)
                spread = measure(point, source, effort)
            except RuntimeError as error:  # includes PyTorch's out-of-memory errors
                if not any(text in str(error) for text in UNABLE):
                    raise
                done["skipped"] += 1
                report(f"{_point_text(point)}: skipped, {str(error).splitlines()[0]}")
                continue
            row = asdict(place) | point.cells() | spread.cells() | {"checked": str(right).lower()}
            table.append(row)
            done["written"] += 1
            done["wrong"] += not right
            verdict = "" if right else ", WRONG OUTPUT"
            report(f"[{number}/{len(left)}] {_point_text(point)}: {spread.median:.3g} s x {spread.repeats}{verdict}")
        return done


def _point_text(point: Point) -> str:
    return " ".join(f"{name}={cell}" for name, cell in point.cells().items() if cell)
