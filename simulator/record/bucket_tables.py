"""Tables of a recorded job: buckets, iterations, and its all-reduces as `sparsim calibrate network` reads them.

Every rank writes its own; together they say how long an all-reduce takes without waiting for a rank, for which no two
clocks need to agree: the rank that is ready last does not wait, and takes the shortest time.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from simulator.errors import InputError, Problem
from simulator.files import write_bytes, write_yaml
from simulator.loading.csv_tables import Row, read_rows, write_rows
from simulator.loading.documents import read_document
from simulator.models.groups import group_by
from simulator.record.rows import COLLECTIVE_COLUMNS, TimePercentiles

BUCKETS, TIMES, ITERATIONS = "buckets.csv", "bucket_times.csv", "iterations.csv"
COLLECTIVES, JOB = "collectives.csv", "job.yaml"
ALL_REDUCE = "all_reduce"
_LARGEST = 10**15


class BucketTimes(NamedTuple):
    """One bucket of one iteration: seconds from the start of the backward pass until it was ready, and averaged."""

    iteration: int
    bucket: int
    nbytes: int
    ready_s: float
    finished_s: float


class IterationTime(NamedTuple):
    """Seconds of one iteration; `disturbed`: recording took part in it."""

    iteration: int
    seconds: float
    disturbed: bool


def write_tables(
    folder: Path,
    buckets: Mapping[int, tuple[int, Sequence[str]]],
    times: Sequence[BucketTimes],
    iterations: Sequence[IterationTime],
    job: Mapping[str, Any],
) -> None:
    """Write what one rank saw. `buckets`: bytes and tensors by number; `job`: workers, nodes, device and software."""
    rows = ((number, nbytes, " ".join(tensors)) for number, (nbytes, tensors) in sorted(buckets.items()))
    write_rows(folder / BUCKETS, ("bucket", "nbytes", "tensors"), rows)
    _write_ranks(folder / TIMES, BucketTimes._fields, [times])
    _write_ranks(folder / ITERATIONS, IterationTime._fields, [iterations])
    write_yaml(folder / JOB, {**job, **_describe_iterations(iterations)})


def merge_tables(folders: Sequence[Path], out: Path) -> None:
    """Write the tables of all ranks to `out`, and `collectives.csv` where gradients were averaged by all-reduce.

    Raises InputError for damaged tables.
    """
    problems: list[Problem] = []
    times = [list(map(_bucket_times, read_rows(path / TIMES, BucketTimes._fields, problems))) for path in folders]
    iterations = [
        list(map(_iteration_time, read_rows(path / ITERATIONS, IterationTime._fields, problems))) for path in folders
    ]
    if problems:
        raise InputError(problems)
    job = read_document(folders[0] / JOB).data
    absent = [name for name in ("workers", "nodes", "backend", "averaged_by") if name not in (job or {})]
    if absent:
        raise InputError(Problem(str(folders[0] / JOB), "what describes the job", f"no {', '.join(absent)}"))
    write_bytes(out / BUCKETS, (folders[0] / BUCKETS).read_bytes())
    _write_ranks(out / TIMES, BucketTimes._fields, times)
    _write_ranks(out / ITERATIONS, IterationTime._fields, iterations)
    write_yaml(out / JOB, {**job, **_describe_iterations([item for rank in iterations for item in rank])})
    if job["averaged_by"] == ALL_REDUCE and len(folders) > 1:
        # The table that `sparsim record collectives` writes, with the all-reduces of the job.
        common = {"backend": job["backend"], "world_size": job["workers"], "nodes": job["nodes"]}
        common |= {"collective": ALL_REDUCE} | {name: job.get(name, "") for name in ("device", "pytorch", "date")}
        durations = find_durations(times).items()
        rows = [common | {"nbytes": size, **TimePercentiles.of(seconds).cells()} for size, seconds in durations]
        write_rows(out / COLLECTIVES, COLLECTIVE_COLUMNS, ([row[name] for name in COLLECTIVE_COLUMNS] for row in rows))


def find_durations(ranks: Sequence[Sequence[BucketTimes]]) -> dict[int, list[float]]:
    """Seconds of every all-reduce by its bytes: of the rank that did not wait, neither for a rank nor for a bucket."""
    shortest: dict[tuple[int, int], tuple[int, float]] = {}
    for times in ranks:
        busy = defaultdict[int, float](float)
        for item in times:
            before = busy[item.iteration]
            begin = max(item.ready_s, before) if before < item.finished_s else item.ready_s
            key, seconds = (item.iteration, item.bucket), item.finished_s - begin
            shortest[key] = item.nbytes, min(seconds, shortest[key][1] if key in shortest else seconds)
            busy[item.iteration] = max(before, item.finished_s)
    sizes = group_by((pair for pair in shortest.values() if pair[1] > 0), itemgetter(0))
    return {nbytes: [seconds for _, seconds in pairs] for nbytes, pairs in sorted(sizes.items())}


def _write_ranks(path: Path, columns: Sequence[str], ranks: Iterable[Iterable[tuple[object, ...]]]) -> None:
    def cell(value: object) -> str:
        return f"{value:.9g}" if isinstance(value, float) else str(value).lower()

    write_rows(path, ("rank", *columns), ((rank, *map(cell, row)) for rank, rows in enumerate(ranks) for row in rows))


def _describe_iterations(iterations: Iterable[IterationTime]) -> Mapping[str, Any]:
    """The median of the iterations that recording did not disturb, or of all where there are no others."""
    every = list(iterations)
    calm = [item.seconds for item in every if not item.disturbed]
    seconds = calm or [item.seconds for item in every]
    if not seconds:
        return {}
    return {"iteration_time": f"{statistics.median(seconds):.6g} s", "timed_without_recording": bool(calm)}


def _bucket_times(row: Row) -> BucketTimes:
    whole = [row.convert(name, int, "a whole number", lambda n: 0 <= n <= _LARGEST) for name in BucketTimes._fields[:3]]
    seconds = [row.convert(name, float, "seconds", lambda s: abs(s) < 1e9) for name in BucketTimes._fields[3:]]
    return BucketTimes(*(item or 0 for item in whole), *(item or 0.0 for item in seconds))


def _iteration_time(row: Row) -> IterationTime:
    number = row.convert("iteration", int, "a whole number", lambda n: 0 <= n <= _LARGEST)
    seconds = row.convert("seconds", float, "seconds, 0 or more", lambda s: 0 <= s < 1e9)
    disturbed = row.convert("disturbed", {"true": True, "false": False}.__getitem__, "true or false")
    return IterationTime(number or 0, seconds or 0.0, bool(disturbed))
