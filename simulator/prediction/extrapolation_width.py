"""How wrong extrapolated selections may be: by what smaller replays miss all recorded workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter

import numpy as np

from simulator.models.exchange import Bucket, Selection
from simulator.prediction.replay_by_workers import Observed
from simulator.records import replace

LEAST_ERROR = 0.05
"""ln of the factor that no extrapolation over four times the workers is taken to be better than, in nine of ten cases.

Nine in ten unions of five small networks, extrapolated from 4 workers to 16, are within it (a test computes it).
"""
_TIMES = 4


def first_quarter(observed: Sequence[Observed]) -> tuple[Observed, ...]:
    """What at most a quarter of the recorded workers selected; empty where that is less than two worker counts."""
    few = tuple(item for item in observed if _TIMES * item.workers <= observed[-1].workers)
    return few if len(few) > 1 else ()


def selections_within(
    made: Sequence[Selection],
    missed: Sequence[Selection],
    observed: Sequence[Observed],
    buckets: Sequence[Bucket],
    workers: int,
) -> tuple[tuple[Selection, ...], ...]:
    """The selections `made` for `workers` at the lower and the upper end of what the extrapolation may miss.

    Its error over four times the workers is what `missed`, the extrapolation from a quarter of the recorded workers,
    misses all of them by, but at least `LEAST_ERROR`; it grows with the logarithm of the workers. The selection of a
    worker, the largest one and the union each have an error of their own, and all are wrong the same way.
    """
    steps = math.log(workers / observed[-1].workers) / math.log(_TIMES)

    def error(quantity: Callable[[Selection], float]) -> float:
        totals = [math.fsum(map(quantity, item.selections)) for item in observed]
        if len(totals) > 1 and max(totals) - min(totals) <= 1e-9 * max(totals):
            return 0.0  # no number of workers changes it
        found = math.fsum(map(quantity, missed))
        apart = abs(math.log(found / totals[-1])) if min(found, totals[-1]) > 0 else 0.0
        return max(apart, LEAST_ERROR) * steps

    by = [error(quantity) for quantity in (_mean, attrgetter("largest"), attrgetter("aggregated"))]
    return tuple(
        tuple(_scaled(one, bucket, [end * item for item in by]) for one, bucket in zip(made, buckets, strict=True))
        for end in (-1.0, 1.0)
    )


def _mean(one: Selection) -> float:
    return float(one.selected.mean())


def _scaled(one: Selection, bucket: Bucket, logs: Sequence[float]) -> Selection:
    """The selection with its mean, its largest and its union times e to these logarithms, none above the bucket."""
    means, largest, union = (math.exp(item) for item in logs)
    d, mean = float(bucket.numel), _mean(one)
    most = min(d, one.largest * largest)
    apart = (most / mean / means - 1) / (one.largest / mean - 1) if one.largest > mean > 0 else 1.0
    selected = mean * means * (1 + max(0.0, apart) * (one.selected / mean - 1)) if mean else one.selected
    return replace(
        one,
        selected=np.clip(selected, 0.0, d),
        largest=max(most, min(d, mean * means)),
        aggregated=min(d, one.aggregated * union),
    )
