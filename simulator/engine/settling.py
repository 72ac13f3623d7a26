"""From which iteration on a replayed method has settled, and how well its mean is known from there on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from simulator.engine.replay import ReplayedStep
from simulator.records import Record, replace

UNKNOWN_WIDTH = 2.0
"""Width of a mean over fewer than four iterations: the first ones of a threshold are off by such factors."""
_FEWEST = 4
_BATCHES = 10
"""Batches of consecutive iterations whose means stand for independent ones (Schmeiser 1982: 10 to 30)."""
_T_MEAN, _T_SLOPE = 1.833, 2.306
"""Student's t: 95 % quantile for 9 degrees of freedom, and 97.5 % for 8 (ten means less one and two parameters)."""
_LEAST = 2 * _BATCHES
"""Iterations with which a method can be called settled: batches of at least two."""
_MATERIAL = 0.05
"""A change over all priced iterations that is no movement: the mean is off by half of it, which its width holds."""
_LAST = 5
"""The share of the iterations, one in so many, that is priced of a method that still moves."""
_MSER_BATCH, _MSER_BATCHES = 5, 20
"""MSER-5; of short series single iterations, so that there is something to choose from."""


class Settled(Record):
    """The part of a replay that is priced, and whether the method has settled in it.

    `first`: the recorded iteration with which it begins; `iterations`: how many there are from there on. Of the count
    that is known worst, all relative to its mean: `error` is the standard error of the mean, `change` the change in 100
    iterations, and `change_error` its standard error; None where there are fewer than four iterations. `moved`: what it
    changes over the priced iterations. `reason`: why it has not settled; empty if it has.
    """

    first: int
    iterations: int
    error: float | None = None
    change: float | None = None
    change_error: float | None = None
    moved: float = 0.0
    reason: str = ""

    @property
    def width(self) -> float:
        """The factor by which the mean may be off in nine of ten cases.

        The end of the priced iterations is off the mean by half of what the method moved over them. While it still
        moves, as much again may follow.
        """
        if self.error is None:
            return UNKNOWN_WIDTH
        return 1.0 + _T_MEAN * self.error + abs(self.moved) * (1.5 if self.reason else 0.5)


def settle(steps: Sequence[ReplayedStep], since: int | None = None) -> Settled:
    """The part of a replay (one step per iteration, all buckets together) that is priced.

    The series that decide are those that traffic follows: aggregated elements, and the largest selection. Where `since`
    is not given, each is truncated by MSER-5 in its first half, at the start that makes the squared standard error of
    the mean of what follows smallest (White 1997, Simulation 69(6)), and the later of both starts holds. A method has
    settled if neither series moves in what follows: if the slope of a line through the means of ten batches, by its
    standard error, is not significant at 95 %, or the line changes by less than 5 %. Batches hold the autocorrelation
    of iterations (Schmeiser 1982, Operations Research 30(3)). Of a method that still moves, the last fifth of the
    iterations is priced, at least 20 of them, since it is nearest to what would follow.
    """
    numbers = [step.iteration for step in steps]
    series = [[step.selection.aggregated for step in steps], [step.selection.largest for step in steps]]
    if since is None:
        start = max(map(truncation, series))
    else:
        start = next(place for place, number in enumerate(numbers) if number >= since)
    kept = numbers[start:]
    few = f"{len(kept)} iterations are too few to tell" if len(kept) < _LEAST else ""
    if len(kept) < _FEWEST:
        return Settled(kept[0], len(kept), reason=few)
    part = _worst(kept, [values[start:] for values in series])
    if part.reason and since is None and not few:
        last = max(_LEAST, len(steps) // _LAST)
        end = _worst(numbers[-last:], [values[-last:] for values in series])
        return replace(end, change=part.change, change_error=part.change_error, reason=part.reason)
    return replace(part, reason=", and ".join(text for text in (few, part.reason) if text))


def truncation(values: Sequence[float]) -> int:
    """How many values at the start MSER-5 leaves out, at most half of them.

    Of the batch means z from the d-th on, k in all, sum (z - mean)^2 / k^2 is smallest; of equal ones the first.

    >>> truncation([9.0, 5.0, 2.0] + 20 * [1.0])
    3
    """
    size = _MSER_BATCH if len(values) >= _MSER_BATCH * _MSER_BATCHES else 1
    left = len(values) % size  # the first values, which belong to no whole batch
    means = [math.fsum(values[i : i + size]) / size for i in range(left, len(values), size)]
    best, place = math.inf, 0
    for start in range(len(means) // 2 + 1):
        rest = means[start:]
        mean = fmean(rest)
        found = math.fsum((value - mean) ** 2 for value in rest) / len(rest) ** 2
        if found < best:
            best, place = found, start
    return left + size * place if place else 0


def _worst(numbers: Sequence[int], series: Sequence[Sequence[float]]) -> Settled:
    """The movement of the series whose mean may be off most; of one that moves, where one does."""
    return max((_movement(numbers, values) for values in series), key=lambda part: (bool(part.reason), part.width))


def _movement(numbers: Sequence[int], values: Sequence[float]) -> Settled:
    """The mean of a series with its error, and its slope over the iterations' numbers with its error."""
    batches = [(fmean(at), fmean(of)) for at, of in zip(_batches(numbers), _batches(values), strict=True)]
    mean, time = fmean([y for _, y in batches]), fmean([t for t, _ in batches])
    if not mean:
        return Settled(numbers[0], len(numbers), 0.0, 0.0, 0.0)
    spread = math.fsum((t - time) ** 2 for t, _ in batches)
    slope = math.fsum((t - time) * (y - mean) for t, y in batches) / spread
    around = math.fsum((y - mean) ** 2 for _, y in batches)
    rest = math.fsum((y - mean - slope * (t - time)) ** 2 for t, y in batches)
    error = math.sqrt(around / (len(batches) - 1) / len(batches)) / mean
    slope_error = math.sqrt(rest / (len(batches) - 2) / spread)
    moved = slope * (numbers[-1] - numbers[0]) / mean
    moves = abs(slope) > _T_SLOPE * slope_error and abs(moved) > _MATERIAL
    change, change_error = 100 * slope / mean, 100 * slope_error / mean
    text = f"what it sends still changes by {100 * change:.3g} % per 100 iterations"
    text += f" (standard error {100 * change_error:.2g} %)"
    return Settled(numbers[0], len(numbers), error, change, change_error, moved, text if moves else "")


def _batches(values: Sequence[float]) -> list[list[float]]:
    return [part.tolist() for part in np.array_split(np.array(values, dtype=float), min(_BATCHES, len(values)))]
