"""How what a method selects changes with the number of workers: exponents of n, fitted to replays of fewer of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from simulator.models.exchange import Selection
from simulator.prediction.replay_by_workers import Observed
from simulator.records import Record
from simulator.sparsifiers.base import Sparsifier

_LATEST = 3
"""Exponents are fitted to so many counts, the largest ones: the last factor of four."""


class Growth(Record):
    """How the observed quantities of a method change with the number of workers: exponents of n.

    `selected`: of a worker's selection; `aggregated`: of K, where it follows no overlap law; `padding`, `scanned` of
    methods that select in disjoint parts; `detail`: of the method's other figures. `grows`: K follows the overlap law.
    """

    selected: float
    aggregated: float
    padding: float
    scanned: float
    detail: Mapping[str, float]
    grows: bool


def growth_of(sparsifier: Sparsifier, observed: Sequence[Observed]) -> Growth:
    """The exponents of what was observed, of all buckets together."""

    def exponent(quantity: Callable[[Selection, int], float], least: int = 1) -> float:
        sums = {
            item.workers: math.fsum(quantity(one, item.workers) for one in item.selections)
            for item in observed
            if item.workers >= least
        }
        return fit_exponent(sums)

    def aggregated(one: Selection, workers: int) -> float:
        return one.aggregated

    def of_detail(key: str) -> float:
        # Groups of workers who select alone have no figure of all together: 0, which no power of n is fitted to.
        return exponent(lambda one, _: one.detail.get(key, 0.0))

    last = observed[-1].selections
    total = math.fsum(_mean(one, 0) for one in last)
    overlapping = not sparsifier.exclusive and not sparsifier.drops_globally
    return Growth(
        selected=exponent(_mean),
        aggregated=exponent(aggregated),
        padding=exponent(_padded, 2) - exponent(aggregated, 2),
        scanned=exponent(lambda one, _: one.scanned),
        detail={key: of_detail(key) for key in (last[0].detail if last else ())},
        grows=overlapping and total > 0 and math.fsum(one.aggregated for one in last) > total * (1 + 1e-9),
    )


def fit_exponent(points: Mapping[int, float]) -> float:
    """b of a power law c n^b by least squares on logarithms, drawn towards 0 as far as it is uncertain.

    The factor is b^2 / (b^2 + v), v being the variance of b by the scatter of the points. 0 where fewer than two
    points are above 0.

    >>> round(fit_exponent({1: 8.0, 2: 4.0, 4: 2.0}), 6), fit_exponent({1: 5.0, 2: 5.0, 4: 5.0}), fit_exponent({4: 2.0})
    (-1.0, 0.0, 0.0)
    """
    latest = sorted(points.items())[-_LATEST:]
    if len(latest) < 2 or min(value for _, value in latest) <= 0:
        return 0.0
    x, y = ([math.log(pair[axis]) for pair in latest] for axis in (0, 1))
    middle, level = fmean(x), fmean(y)
    width = math.fsum((a - middle) ** 2 for a in x)
    slope = math.fsum((a - middle) * (b - level) for a, b in zip(x, y, strict=True)) / width
    if not slope or len(x) < 3:
        return slope
    scatter = math.fsum((b - level - slope * (a - middle)) ** 2 for a, b in zip(x, y, strict=True))
    return slope**3 / (slope**2 + scatter / (len(x) - 2) / width)


def common_elements(one: Selection, workers: int) -> float:
    """Elements that every worker selects: sum k_i = K + (n - 1) C."""
    return max(0.0, float(one.selected.sum()) - one.aggregated) / (workers - 1) if workers > 1 else 0.0


def own_padding(one: Selection, workers: int) -> float:
    """Largest over mean of what workers select without the common elements."""
    common = common_elements(one, workers)
    own = float(one.selected.mean()) - common
    return (one.largest - common) / own if own > 0 else 1.0


def _padded(one: Selection, workers: int) -> float:
    """K times the padding, so that the padding of large buckets counts most."""
    return own_padding(one, workers) * one.aggregated


def _mean(one: Selection, workers: int) -> float:
    return float(one.selected.mean())
