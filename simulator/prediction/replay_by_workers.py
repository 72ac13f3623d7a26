"""What a trace's methods select on 1, 2, 4, ... and all of its workers, for predictions on more of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from simulator.engine.replay import mean_selection, replay_trace
from simulator.models.exchange import Bucket, Selection
from simulator.sparsifiers.base import Sparsifier

if TYPE_CHECKING:
    from simulator.traces.format.trace import Trace  # brings pyarrow, which a scenario without a trace does not need


@dataclass(frozen=True, slots=True)
class Observed:
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


def replay_by_workers(sparsifier: Sparsifier, buckets: Sequence[Bucket], trace: Trace) -> tuple[Observed, ...]:
    """Replays of 1, 2, 4, ... and all recorded workers: as many disjoint groups as there are, each over the trace."""
    recorded = trace.spec.workers
    counts = sorted({2**i for i in range(recorded.bit_length())} | {recorded})
    return tuple(_observe(sparsifier, buckets, trace, count) for count in counts if _can_work(sparsifier, count))


def _can_work(sparsifier: Sparsifier, workers: int) -> bool:
    """Whether the method has a form for so many workers; gTop-k merges them in pairs."""
    return sparsifier.kind != "gtopk" or not workers & (workers - 1)


def _observe(sparsifier: Sparsifier, buckets: Sequence[Bucket], trace: Trace, count: int) -> Observed:
    numel = sum(bucket.numel for bucket in buckets)
    groups, unions, errors, passes = [], [], [], 0.0
    for first in range(0, trace.spec.workers - count + 1, count):
        steps = list(replay_trace(sparsifier, buckets, trace, range(first, first + count)))
        means = [mean_selection([step.selection for step in one]) for one in zip(*steps, strict=True)]
        passes = max(passes, *(step.selection.passes for each in steps for step in each))
        unions.append(math.fsum(item.aggregated for item in means) / numel)
        errors.append(math.hypot(*(item.aggregated_error for item in means)) / numel)
        groups.append(means)
    union = fmean(unions)
    between = stdev(unions) / math.sqrt(len(unions)) if len(unions) > 1 else 0.0
    error = math.hypot(between, fmean(errors)) / union if union else 0.0
    selections = tuple(mean_selection(one) for one in zip(*groups, strict=True))
    return Observed(count, selections, union, error, passes)
