"""Replays of a recorded trace: what is read of it serves all methods and groups of workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from simulator.engine.replay import Replay, ReplayedStep
from simulator.errors import InputError, Problem
from simulator.models.exchange import Bucket
from simulator.models.gradients import Block, Cut, Values
from simulator.records import replace
from simulator.sparsifiers.base import Sparsifier

if TYPE_CHECKING:
    from simulator.traces.format.trace import Trace  # brings pyarrow, which a scenario without a trace does not need

_HELD = 2**28
"""Bytes of residuals that replays hold together; those that do not fit beside others read the trace again."""
Steps = list[list[ReplayedStep]]
"""The steps of a replay: those of all buckets, in order, for each iteration."""


def replay_trace(
    sparsifier: Sparsifier, buckets: Sequence[Bucket], trace: Trace, workers: int, error_feedback: bool = True
) -> Iterator[list[ReplayedStep]]:
    """Run `sparsifier` bucket by bucket over a recorded trace; one list of steps, in bucket order, per iteration.

    The state of the method lives through all recorded iterations, across gaps in the recording as well. Where residuals
    were recorded at the start of a run of iterations, they take the place of the method's own; where none were, its own
    is kept. Recorded residuals are those of the method of the recorded training, and so only a guess for any other.

    Raises InputError where the trace is a sample that does not resolve the method's density or parts.
    """
    for (steps,) in _advance([(sparsifier, range(workers))], buckets, trace, error_feedback):
        yield steps


def replay_methods(
    asked: Sequence[tuple[Sparsifier, range]], buckets: Sequence[Bucket], trace: Trace
) -> Iterator[Steps]:
    """The steps of several replays, each of a method on some recorded workers in a row, as `replay_trace` has them.

    An iteration is read once for as many replays as hold their residuals in 256 MiB together.
    """
    batch: list[tuple[Sparsifier, range]] = []
    held = 0
    for one in asked:
        more = 4 * len(one[1]) * len(trace.keys.layer)
        if batch and held + more > _HELD:
            yield from _replay_batch(batch, buckets, trace)
            batch, held = [], 0
        batch.append(one)
        held += more
    if batch:
        yield from _replay_batch(batch, buckets, trace)


def _replay_batch(
    batch: Sequence[tuple[Sparsifier, range]], buckets: Sequence[Bucket], trace: Trace
) -> Iterator[Steps]:
    each = list(_advance(batch, buckets, trace))
    for place in range(len(batch)):
        yield [steps[place] for steps in each]


def _advance(
    batch: Sequence[tuple[Sparsifier, range]], buckets: Sequence[Bucket], trace: Trace, error_feedback: bool = True
) -> Iterator[Steps]:
    """For each iteration, the steps of every replay in the batch."""
    for sparsifier, workers in batch:
        check_resolution(sparsifier, trace, len(workers))
    first = min(workers.start for _, workers in batch)
    read = range(first, max(workers.stop for _, workers in batch))
    replays = [
        (
            slice(workers.start - first, workers.stop - first),
            [Replay(sparsifier.at_density(bucket.density), error_feedback) for bucket in buckets],
        )
        for sparsifier, workers in batch
    ]
    cuts: list[Cut] = []
    for block, residual in blocks_with_residuals(trace, read):
        cuts = cuts or [block.cut(bucket.layers, bucket.offset, bucket.pieces) for bucket in buckets]
        parts = [(cut.of(block), None if residual is None else cut.values(residual)) for cut in cuts]
        yield [
            [
                one.advance(replace(part, values=part.values[rows]), None if left is None else left[rows])
                for one, (part, left) in zip(each, parts, strict=True)
            ]
            for rows, each in replays
        ]


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
