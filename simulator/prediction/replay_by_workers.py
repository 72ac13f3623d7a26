"""What a trace's methods select on 1, 2, 4, ... and all of its workers, for predictions on more of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from statistics import fmean, stdev
from typing import TYPE_CHECKING, NamedTuple

from simulator.engine.replay import Steps, add_steps, mean_selection, replay_methods
from simulator.engine.settling import Settled, settle
from simulator.models.exchange import Bucket, Selection
from simulator.records import Record
from simulator.sparsifiers.base import Sparsifier

if TYPE_CHECKING:
    from simulator.traces.format.trace import Trace  # brings pyarrow, which a scenario without a trace does not need


_GROUPS = 4
"""Groups of each size that are replayed where every one of them takes a replay of its own."""


class Observed(Record):
    """What some number of the recorded workers selected together.

    `selections`: of each bucket, the mean over iterations and over disjoint groups of workers. `union`: the share of
    all elements that a group aggregates. `error`: its relative standard error, from the differences between groups and
    from the sampling of coordinates. `most_passes`: of any bucket, the most in one iteration.
    """

    workers: int
    selections: tuple[Selection, ...]
    union: float
    error: float
    most_passes: float


class Seen(NamedTuple):
    """What some workers selected over a trace: `rows`, one per recorded iteration, `settled`, the part of them that is
    priced, and `selections`, the mean of every bucket over that part, with the `most_passes` of any in one iteration.
    """

    selections: tuple[Selection, ...]
    rows: tuple[dict[str, float], ...]
    settled: Settled
    most_passes: float


def replay_workers(
    sparsifier: Sparsifier,
    buckets: Sequence[Bucket],
    trace: Trace,
    workers: int,
    since: int | None = None,
) -> Seen:
    """The replay of the first workers; `since`: the iteration from which on it is priced, by default `settle`'s."""
    (steps,) = replay_methods([(sparsifier, range(workers))], buckets, trace)
    return _see(steps, since)


def _see(steps: Steps, since: int | None) -> Seen:
    together = [add_steps(each) for each in steps]
    settled = settle(together, since)
    priced = steps[-settled.iterations :]
    means = tuple(mean_selection([step.selection for step in one]) for one in zip(*priced, strict=True))
    passes = max(step.selection.passes for each in priced for step in each)
    return Seen(means, tuple(step.row() for step in together), settled, passes)


def replay_by_workers(
    sparsifier: Sparsifier, buckets: Sequence[Bucket], trace: Trace, since: int | None = None
) -> tuple[tuple[Observed, ...], Settled]:
    """Replays of 1, 2, 4, ... and all recorded workers: disjoint groups of them, each over the trace.

    Groups of workers who select alone are taken from one replay of all: as many as there are. Of others, up to four are
    replayed; how far their mean may be off for it is in the `error` of what was observed.
    All of them are priced over the same iterations, those in which all recorded workers have settled.
    """
    recorded = trace.spec.workers
    counts = sorted({2**i for i in range(recorded.bit_length())} - {recorded})
    most = recorded if sparsifier.selects_alone else _GROUPS
    groups = [_groups(count, recorded, most) for count in counts if _can_work(sparsifier, count)]
    asked = [range(recorded), *chain.from_iterable(groups)]
    replays = replay_methods([(sparsifier, workers) for workers in asked], buckets, trace)
    whole = _see(next(replays), since)
    fewer = ([_see(next(replays), whole.settled.first) for _ in each] for each in groups)
    numel = sum(bucket.numel for bucket in buckets)
    return tuple(_observe(groups, numel) for groups in (*fewer, [whole])), whole.settled


def _groups(count: int, recorded: int, most: int) -> list[range]:
    """Disjoint groups of so many workers, at most `most`, as far apart as can be."""
    every = [range(first, first + count) for first in range(0, recorded - count + 1, count)]
    return every[:: -(-len(every) // most)]


def _can_work(sparsifier: Sparsifier, workers: int) -> bool:
    """Whether the method has a form for so many workers; gTop-k merges them in pairs."""
    return sparsifier.kind != "gtopk" or not workers & (workers - 1)


def _observe(groups: Sequence[Seen], numel: int) -> Observed:
    unions = [math.fsum(item.aggregated for item in seen.selections) / numel for seen in groups]
    errors = [math.hypot(*(item.aggregated_error for item in seen.selections)) / numel for seen in groups]
    union = fmean(unions)
    between = stdev(unions) / math.sqrt(len(unions)) if len(unions) > 1 else 0.0
    error = math.hypot(between, fmean(errors)) / union if union else 0.0
    selections = tuple(mean_selection(one) for one in zip(*(seen.selections for seen in groups), strict=True))
    count = len(selections[0].selected)
    return Observed(count, selections, union, error, max(seen.most_passes for seen in groups))
