"""Random numbers that are the same anywhere, and coordinates that stand for several elements each."""

from __future__ import annotations

import math
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.models.largest import Values

Hashes = npt.NDArray[np.uint64]


def splitmix64(values: Hashes) -> Hashes:
    """SplitMix64's finaliser (Steele, Lea and Flood 2014), one-to-one: different values stay different."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


class Purpose(IntEnum):
    """What a draw is for; each purpose has draws of its own."""

    COMPUTE = 0
    SELECTION = 1
    FAILURES = 2


def random_stream(seed: int, purpose: Purpose, iteration: int) -> np.random.Generator:
    """The draws of one purpose in one iteration (Philox, Salmon et al. 2011), worker by worker from the start.

    More workers or iterations leave the draws of the others alone.

    >>> [round(float(random_stream(0, Purpose.COMPUTE, 3).standard_normal(n)[0]), 6) for n in (1, 1000)]
    [-1.744531, -1.744531]
    """
    return np.random.Generator(np.random.Philox(key=[seed, purpose], counter=[0, 0, iteration, 0]))


_CHUNK = 2**16
"""Elements whose squares are added up at once, few enough for the processor's cache."""
_STEP = 0x9E3779B97F4A7C15
"""The increment of SplitMix64: counters that differ by it give independent numbers."""


def draw_uniformly(seed: int, iteration: int, worker: Ints, coordinate: Ints) -> Floats:
    """A number from [0, 1) for each pair of a worker and a coordinate, by counter: without state, in any order.

    Different seeds, iterations, workers and coordinates give independent numbers (SplitMix64 of the counters).
    """
    counter = np.zeros(1, dtype=np.uint64)
    for part in (np.array([seed]), np.array([iteration]), worker, coordinate):
        counter = splitmix64(counter + (part.astype(np.uint64) + np.uint64(1)) * np.uint64(_STEP))
    draws: Floats = (counter >> np.uint64(11)).astype(float) * 2.0**-53
    return draws


def count_at(places: Ints, weight: Floats | None) -> float:
    """The elements that the coordinates at these indices stand for; without weights, the coordinates."""
    return float(len(places)) if weight is None else math.fsum(weight[places].tolist())


def sums_of_squares(rows: Values | Floats, weight: Floats | None) -> Floats:
    """Of each row of (n, m), the sum of squares over all elements that its values stand for, in float64; in chunks."""
    if rows.shape[1] > _CHUNK:
        parts = [slice(start, start + _CHUNK) for start in range(0, rows.shape[1], _CHUNK)]
        each = [sums_of_squares(rows[:, part], None if weight is None else weight[part]) for part in parts]
        return np.array([math.fsum(own) for own in zip(*each, strict=True)])
    squares: Floats = np.square(rows, dtype=float, order="C")
    if weight is not None:
        squares *= weight
    return np.asarray(squares.sum(axis=1))


def mean_of(values: Values | Floats, weight: Floats | None) -> float:
    """The mean over all elements that the values (m,) stand for: sum(w x) / sum(w) (Hajek 1971); 0 of no values."""
    if not len(values):
        return 0.0
    if weight is None:
        return float(np.mean(values, dtype=float))
    return math.fsum((weight * values).tolist()) / math.fsum(weight.tolist())


def moments_of(values: Values | Floats, weight: Floats | None, ddof: int = 0) -> tuple[float, float]:
    """The mean, and the variance over all elements that the values (m,) stand for, with sum(w) - `ddof` as divisor."""
    mean = mean_of(values, weight)
    if weight is None:
        return mean, float(np.var(values, dtype=float, ddof=ddof))
    squares = np.square(values - mean, dtype=float)
    return mean, math.fsum((weight * squares).tolist()) / (math.fsum(weight.tolist()) - ddof)


def draw_elements(weight: Floats, count: int, rng: np.random.Generator) -> Ints:
    """The coordinates of `count` elements drawn with replacement: with chances in proportion to their weights (m,)."""
    ends = np.cumsum(weight)
    drawn = np.searchsorted(ends, rng.random(count) * ends[-1], side="right")
    return np.asarray(np.minimum(drawn, len(ends) - 1))


def quantile_of(values: Values | Floats, weight: Floats | None, shares: Floats) -> Floats:
    """The values below which these shares of the elements are, (q,).

    Without weights as `numpy.quantile`: the j-th of m sorted values is at share j / (m - 1). With weights its place is
    the middle of the elements that it stands for, and the first and last value are at 0 and 1.
    """
    if weight is None or len(values) < 2:
        return np.asarray(np.quantile(values, shares), dtype=float)
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(weight[order])
    middles = ends - weight[order] / 2
    places = (middles - middles[0]) / (middles[-1] - middles[0])
    return np.asarray(np.interp(shares, places, np.asarray(values, dtype=float)[order]))
