"""Replays of a recorded trace: what is read of it serves all methods and groups of workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from simulator.engine.replay import Replay, ReplayedStep
from simulator.errors import InputError, Problem
from simulator.models.exchange import Bucket
from simulator.models.gradients import ALL, Block, Cut, Values
from simulator.progress import OBSERVED, Watch
from simulator.records import replace
from simulator.sparsifiers.base import Sparsifier

if TYPE_CHECKING:
    from simulator.traces.format.trace import Trace  # brings pyarrow, which a scenario without a trace does not need

_HELD = 2**28
"""Bytes of residuals that replays hold together; those that do not fit beside others read the trace again."""
Steps = list[list[ReplayedStep]]
"""The steps of a replay: those of all buckets, in order, for each iteration."""


class _Shared(NamedTuple):
    """A method on some recorded workers in a row, of which several replays are made: of each of `groups` of them."""

    sparsifier: Sparsifier
    workers: range
    groups: tuple[slice, ...]


def replay_trace(
    sparsifier: Sparsifier, buckets: Sequence[Bucket], trace: Trace, workers: int, error_feedback: bool = True
) -> Iterator[list[ReplayedStep]]:
    """Run `sparsifier` bucket by bucket over a recorded trace; one list of steps, in bucket order, per iteration.

    The state of the method lives through all recorded iterations, across gaps in the recording as well. Where residuals
    were recorded at the start of a run of iterations, they take the place of the method's own; where none were, its own
    is kept. Recorded residuals are those of the method of the recorded training, and so only a guess for any other.

    Raises InputError where the trace is a sample that does not resolve the method's density or parts.
    """
    for (steps,) in _advance([_Shared(sparsifier, range(workers), (ALL,))], buckets, trace, error_feedback):
        yield steps


def replay_methods(
    asked: Sequence[tuple[Sparsifier, range]], buckets: Sequence[Bucket], trace: Trace, watch: Watch | None = None
) -> Iterator[Steps]:
    """The steps of several replays, each of a method on some recorded workers in a row, as `replay_trace` has them.

    A method whose workers select alone is replayed once, on all workers that are asked for in a row, and the steps of
    fewer are taken from it. An iteration is read once for as many replays as hold their residuals in 256 MiB together.
    `watch` counts the iterations that are read; with it, an interruption (Ctrl-C) ends the replays with those that are
    done, once there is one, and leaves out replays that were not begun.
    """
    batches: list[list[_Shared]] = []
    held = 0
    for one in _shared(asked):
        more = 4 * len(one.workers) * len(trace.keys.layer)
        if not batches or held + more > _HELD:
            batches.append([])
            held = 0
        batches[-1].append(one)
        held += more
    kept, watch = watch is not None, watch or Watch(OBSERVED.get())
    watch.expect(len(batches) * len(trace.spec.iterations))
    for batch in batches:
        each: list[list[list[ReplayedStep]]] = []
        with watch.part("the replays"):
            for steps in _advance(batch, buckets, trace):
                each.append(steps)
                watch.step()
        if watch.interrupted and not (kept and each):
            raise KeyboardInterrupt
        yield from map(list, zip(*each, strict=True))
        if watch.interrupted:
            return


def _shared(asked: Sequence[tuple[Sparsifier, range]]) -> Iterator[_Shared]:
    """The replays that give all that are asked for, in order."""
    for sparsifier, same in groupby(asked, lambda one: one[0]):
        each = [workers for _, workers in same]
        for workers in [each] if sparsifier.selects_alone else [[one] for one in each]:
            whole = range(min(one.start for one in workers), max(one.stop for one in workers))
            groups = [slice(one.start - whole.start, one.stop - whole.start) for one in workers]
            everyone = slice(0, len(whole))
            yield _Shared(sparsifier, whole, tuple(ALL if one == everyone else one for one in groups))


def _advance(
    batch: Sequence[_Shared], buckets: Sequence[Bucket], trace: Trace, error_feedback: bool = True
) -> Iterator[Steps]:
    """For each iteration, the steps of every group of every replay in the batch."""
    for one in batch:
        check_resolution(one.sparsifier, trace, len(one.workers))
    first = min(one.workers.start for one in batch)
    read = range(first, max(one.workers.stop for one in batch))
    replays = [
        (
            slice(one.workers.start - first, one.workers.stop - first),
            [Replay(one.sparsifier.at_density(bucket.density), error_feedback, one.groups) for bucket in buckets],
        )
        for one in batch
    ]
    cuts: list[Cut] = []
    for block, residual in blocks_with_residuals(trace, read):
        cuts = cuts or [block.cut(bucket.layers, bucket.offset, bucket.pieces) for bucket in buckets]
        parts = [(cut.of(block), None if residual is None else cut.values(residual)) for cut in cuts]
        made: Steps = []
        for rows, each in replays:
            of_buckets = [
                one.advance_groups(replace(part, values=part.values[rows]), None if left is None else left[rows])
                for one, (part, left) in zip(each, parts, strict=True)
            ]
            made += map(list, zip(*of_buckets, strict=True))
        yield made


def blocks_with_residuals(trace: Trace, workers: int | Sequence[int]) -> Iterator[tuple[Block, Values | None]]:
    """The iterations of a trace, each with the residuals (n, m) that were recorded before it; None where none were."""
    starts = {first: number for number, (first, _) in enumerate(trace.spec.runs())}
    for block in trace.blocks(workers):
        number = starts.get(block.iteration)
        yield block, None if number is None else trace.residuals(number, workers)


def check_resolution(sparsifier: Sparsifier, trace: Trace, workers: int) -> None:
    """Raise an InputError where a sampled trace does not resolve what the method selects.

    A method without a density of its own is not checked. The smallest density that it has during a warm-up, or later,
    counts.
    """
    density = getattr(sparsifier, "density", None)
    if density is None:
        return
    granularity = getattr(sparsifier, "granularity", "model")
    where, floor = f"{trace.folder}: sparsifier {sparsifier.kind}", trace.floor(granularity)
    hint = "the trace is a sample of coordinates, of which `sparsim trace check` says what it resolves"
    if min((density, *getattr(sparsifier, "warmup", ()))) < floor:
        by = f"a density of at least {floor:g} by {'layer' if granularity == 'layer' else 'model'}"
        raise InputError(Problem(where, by, f"{density:g}", hint))
    parts = sparsifier.parts_used(workers)
    if parts > 1 and parts > trace.pieces():
        raise InputError(Problem(where, f"at most {trace.pieces()} parts of the model", f"{parts}", hint))
