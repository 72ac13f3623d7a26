"""What a method selects in each bucket, and by which steps it exchanges that: before anything has a price."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from simulator.engine.plan.setup import Setup
from simulator.engine.plan.work.casts import steps_with_casts
from simulator.engine.plan.work.division import Division
from simulator.models.exchange import Bucket, Ints, Selection
from simulator.models.small_cache import ResultsOfObjects
from simulator.records import Record
from simulator.sparsifiers.base import Sparsifier
from simulator.sparsifiers.implementation import Steps


class Exchanges(Record):
    """The exchanges of a division's buckets among workers, on any GPU.

    `selections`: one per bucket. `steps` (n,): the different exchanges, each with the first bucket that has it; empty
    for one worker, who exchanges nothing. `number` (b,): which of them each bucket has. `density`: the densities of a
    result, as shares of all elements, with build-up and padding.
    """

    selections: tuple[Selection, ...]
    steps: tuple[tuple[Bucket, Steps], ...]
    number: Ints
    density: dict[str, float]


_known: ResultsOfObjects[Exchanges] = ResultsOfObjects(64)


def exchanges_of(setup: Setup, workers: int, division: Division) -> Exchanges:
    """The exchanges of a job's buckets; remembered, since what changes with the GPU are their prices."""
    if setup.selections is not None:
        return _exchanges(setup, workers, division)
    style, precision = setup.topology.style, setup.workload.precision
    method = type(setup.sparsifier), setup.sparsifier.fingerprint
    also = (*method, workers, style, precision, setup.concentration, setup.runtime.fills_buckets)
    return _known.get((division,), lambda: _exchanges(setup, workers, division), *also)


def _exchanges(setup: Setup, workers: int, division: Division) -> Exchanges:
    methods = [setup.sparsifier.at_density(bucket.density) for bucket in division.buckets]
    selections = setup.selections or _expected_selections(setup, methods, division.buckets, workers)
    buckets = division.filled if setup.runtime.fills_buckets else division.buckets
    style, precision = setup.topology.style, setup.workload.precision
    steps: list[tuple[Bucket, Steps]] = []
    different: dict[object, int] = {}
    number: list[int] = []
    for method, bucket, selection in zip(methods, buckets, selections, strict=True):
        # Buckets of the same sizes have the same steps and prices.
        number.append(different.setdefault((bucket.pieces, bucket.density, bucket.rows, id(selection)), len(steps)))
        if number[-1] == len(steps):
            made: Steps = ([], [])
            if workers > 1:
                made = steps_with_casts(method, selection, bucket, workers, style, precision=precision)
            steps.append((bucket, made))
    return Exchanges(selections, tuple(steps), np.array(number), _density(buckets, selections))


def _expected_selections(
    setup: Setup, methods: Sequence[Sparsifier], buckets: Sequence[Bucket], workers: int
) -> tuple[Selection, ...]:
    """The closed form of each bucket's selection; buckets of the same pieces share one."""
    known: dict[object, Selection] = {}
    for method, bucket in zip(methods, buckets, strict=True):
        alike = bucket.pieces, bucket.density
        if alike not in known:
            known[alike] = method.expect(bucket, workers, setup.concentration)
    return tuple(known[bucket.pieces, bucket.density] for bucket in buckets)


def _density(buckets: Sequence[Bucket], selections: Sequence[Selection]) -> dict[str, float]:
    d = sum(bucket.numel for bucket in buckets)
    different = {id(item): item for item in selections}
    mean = {key: float(item.selected.sum()) / len(item.selected) for key, item in different.items()}
    independent = {k: item.without_overlap if item.exclusive else mean[k] for k, item in different.items()}
    selected = math.fsum(mean[id(item)] for item in selections)
    aggregated = math.fsum(item.aggregated for item in selections)
    return {
        "target": math.fsum(item.target for item in selections) / d,
        "selected": selected / d,
        "aggregated": aggregated / d,
        "build_up": aggregated / math.fsum(independent[id(item)] for item in selections) if selected else 1.0,
        "padding": math.fsum(item.largest for item in selections) / selected if selected else 1.0,
    }
