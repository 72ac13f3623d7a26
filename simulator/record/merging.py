"""The processes of a job: the number of this one, where it writes, the tables of its buckets, and merging of them all.

Every rank writes its own tables: buckets, iterations, and times. Together they say how long an all-reduce takes without
waiting for a rank, for which no two clocks need to agree: the rank that is ready last does not wait, and takes the
shortest time.
"""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simulator.errors import InputError, Problem, collect_problems
from simulator.files import write_bytes, write_yaml
from simulator.loading.csv_tables import TRUTH, read_records, write_rows
from simulator.loading.documents import read_document
from simulator.models.groups import group_by
from simulator.record.rows import COLLECTIVE_COLUMNS, TimePercentiles
from simulator.records import astuple, replace
from simulator.traces.format.trace import Trace
from simulator.traces.format.writer import TraceWriter


def rank_folder(out: Path, rank: int) -> Path:
    """The folder of the trace of one rank."""
    return out / f"rank-{rank:05d}"


def rank_folders(out: Path) -> list[Path]:
    """The existing folders of ranks, in order."""
    return sorted(out.glob("rank-" + 5 * "[0-9]"))


def merge(folder: Path, out: Path | None = None) -> tuple[int, int]:
    """Write the trace of all ranks' workers from `folder`/rank-00000, ... to `out` (default: `folder` itself).

    Iterations that a rank lacks are left out. Tables of buckets and iterations are joined too. The traces of the ranks
    are kept. Memory: one iteration of all ranks.
    Returns the numbers of workers and iterations.

    Raises InputError where a rank is missing or damaged, or has other tensors or coordinates than the first.
    """
    folders = rank_folders(folder)
    expected = [rank_folder(folder, rank) for rank in range(len(folders))]
    if not folders or folders != expected:
        got = ", ".join(path.name for path in folders[:8]) or "none of them"
        raise InputError(Problem(str(folder), "folders rank-00000, rank-00001, ... without a gap", got))
    traces = [Trace.open(path) for path in folders]
    first = traces[0]
    for trace in traces[1:]:
        _check_same(first, trace)
    common = set(first.spec.iterations).intersection(*(trace.spec.iterations for trace in traces))
    if not common:
        raise InputError(Problem(str(folder), "an iteration that every rank recorded", "none"))
    losses = [trace.spec.loss for trace in traces]
    spec = first.spec.model_copy(
        update={
            "workers": sum(trace.spec.workers for trace in traces),
            "loss": {
                n: float(f"{np.mean([loss[n] for loss in losses]):.6g}") for n in sorted(common.intersection(*losses))
            },
            "gradient_scale": min(trace.spec.gradient_scale for trace in traces),
        }
    )
    with TraceWriter(out or folder, spec, first.layers) as writer:
        streams = [(block for block in trace.blocks() if block.iteration in common) for trace in traces]
        for blocks in zip(*streams, strict=True):
            writer.append(replace(blocks[0], values=np.concatenate([block.values for block in blocks])))
    if all((path / JOB).is_file() for path in folders):
        merge_tables(folders, out or folder)
    return spec.workers, len(common)


def _check_same(first: Trace, other: Trace) -> None:
    if [(layer.name, layer.numel) for layer in first.layers] != [(layer.name, layer.numel) for layer in other.layers]:
        raise InputError(Problem(str(other.folder), f"the tensors of {first.folder.name}", "other tensors"))
    if not all(map(np.array_equal, astuple(first.keys)[:2], astuple(other.keys)[:2])):
        what, hint = f"the coordinates of {first.folder.name}", "give every rank the same `sample` and `seed`"
        raise InputError(Problem(str(other.folder), what, "other coordinates", hint))


def find_rank(rank: int | None = None, world: int | None = None) -> tuple[int, int]:
    """The number of this process and of all: as given, from torch.distributed, or from torchrun.

    Raises InputError for a rank that is not below the number of ranks.
    """
    joined = joined_ranks() if rank is None and world is None else None
    if joined is not None:
        return int(joined.get_rank()), int(joined.get_world_size())
    rank = int(os.environ.get("RANK", "0")) if rank is None else rank
    world = int(os.environ.get("WORLD_SIZE", "1")) if world is None else world
    if not 0 <= rank < world:
        raise InputError(Problem("the recorder", f"a rank below {world}, the number of ranks", str(rank)))
    return rank, world


def find_nodes(world: int) -> int:
    """How many nodes the ranks are on, as torchrun says; one where it does not."""
    local = os.environ.get("LOCAL_WORLD_SIZE", "")
    each = int(local) if local.isdecimal() and int(local) else world
    return max(1, world // each)


def prepare_folder(out: Path, rank: int, world: int) -> Path:
    """Where this rank writes: `out` itself where it is alone. Raises InputError where `out` has more ranks already."""
    if world == 1:
        return out
    extra = [path for path in rank_folders(out) if path >= rank_folder(out, world)]
    if extra:
        got, hint = f"{extra[0].name}, too", "it is of another recording: remove it, or record elsewhere"
        raise InputError(Problem(str(out), f"room for {world} ranks", got, hint))
    return rank_folder(out, rank)


def merge_ranks(out: Path, rank: int, world: int, worked: bool = True) -> None:
    """Wait for the other ranks; rank 0 merges what they wrote if it `worked` and it can see all folders."""
    joined = joined_ranks() if world > 1 else None
    if joined is None:
        return
    joined.barrier()
    if worked and rank == 0 and len(rank_folders(out)) == world:
        merge(out)


def joined_ranks() -> Any:
    """torch.distributed, by which this process has joined others; None where it has not."""
    from torch import distributed

    return distributed if distributed.is_available() and distributed.is_initialized() else None


BUCKETS, TIMES, ITERATIONS = "buckets.csv", "bucket_times.csv", "iterations.csv"
COLLECTIVES, JOB = "collectives.csv", "job.yaml"
ALL_REDUCE = "all_reduce"
_WHOLE = int, "a whole number", lambda n: 0 <= n <= 10**15
_MOMENT = float, "seconds", lambda s: abs(s) < 1e9
_TIMES = {"iteration": _WHOLE, "bucket": _WHOLE, "nbytes": _WHOLE, "ready_s": _MOMENT, "finished_s": _MOMENT}
_ITERATIONS: dict[str, tuple[Any, ...]] = {
    "iteration": _WHOLE,
    "seconds": (float, "seconds, 0 or more", lambda s: 0 <= s < 1e9),
    "disturbed": TRUTH,
}


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
    _write_ranks(folder, [times], [iterations], job)


def merge_tables(folders: Sequence[Path], out: Path) -> None:
    """Write the tables of all ranks to `out`, and `collectives.csv` where gradients were averaged by all-reduce.

    Raises InputError for damaged tables.
    """
    problems: list[Problem] = []
    times, iterations = list[list[BucketTimes]](), list[list[IterationTime]]()
    for path in folders:
        with collect_problems(problems):
            times.append(read_records(path / TIMES, BucketTimes, _TIMES))
        with collect_problems(problems):
            iterations.append(read_records(path / ITERATIONS, IterationTime, _ITERATIONS))
    if problems:
        raise InputError(problems)
    job = read_document(folders[0] / JOB).data
    absent = [name for name in ("workers", "nodes", "backend", "averaged_by") if name not in (job or {})]
    if absent:
        raise InputError(Problem(str(folders[0] / JOB), "what describes the job", f"no {', '.join(absent)}"))
    write_bytes(out / BUCKETS, (folders[0] / BUCKETS).read_bytes())
    _write_ranks(out, times, iterations, job)
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


def _write_ranks(
    folder: Path,
    times: Sequence[Sequence[BucketTimes]],
    iterations: Sequence[Sequence[IterationTime]],
    job: Mapping[str, Any],
) -> None:
    """Write the times of ranks. An iteration takes the median of those that recording did not disturb, if there are."""

    def cell(value: object) -> str:
        return f"{value:.9g}" if isinstance(value, float) else str(value).lower()

    for name, kind, ranks in ((TIMES, BucketTimes, times), (ITERATIONS, IterationTime, iterations)):
        rows = ((rank, *map(cell, row)) for rank, rows in enumerate(ranks) for row in rows)
        write_rows(folder / name, ("rank", *kind._fields), rows)
    every = list(chain.from_iterable(iterations))
    calm = [item for item in every if not item.disturbed]
    described: dict[str, Any] = {}
    if every:
        seconds = statistics.median(item.seconds for item in calm or every)
        described = {"iteration_time": f"{seconds:.6g} s", "timed_without_recording": bool(calm)}
    write_yaml(folder / JOB, {**job, **described})
