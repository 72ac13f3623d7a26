"""Iterations to a target over seeds: the typical number and its interval, by a bootstrap."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist

import numpy as np

from simulator.errors import InputError, Problem
from simulator.models.groups import group_by
from simulator.models.widths import student_95
from simulator.records import Record
from simulator.studies.quality.observations import Observation
from simulator.trainings.settings import Setting

RESAMPLES = 2000
_NORMAL = NormalDist()
_ROUNDS = 40
"""Rounds in which the mean of censored values settles."""


class Typical(Record):
    """The logarithm of the typical iterations of a setting: the mean over seeds, and the ends of its 90 % interval.

    `reached` of `trained` seeds reached the target, the others not within `iterations`; where none did, `log` is None.
    """

    log: float | None
    low: float
    high: float
    reached: int
    trained: int
    iterations: int


class Noise(Record):
    """How much ln(iterations) differs between seeds: `residuals` from the settings' means, each widened by
    sqrt(n / (n - 1)) for its n seeds, and `freedom`, their degrees of freedom."""

    residuals: tuple[float, ...]
    freedom: int

    @property
    def deviation(self) -> float:
        """Standard deviation."""
        return math.sqrt(math.fsum(value * value for value in self.residuals) / len(self.residuals))

    @property
    def tail(self) -> float:
        """The share of resamples beyond each end of a 90 % interval: the normal tail at Student's quantile.

        With few seeds the deviation itself is uncertain (Hesterberg, The American Statistician 69, 2015: the expanded
        percentile interval).
        """
        return _NORMAL.cdf(-student_95(self.freedom))


def by_setting(observations: Sequence[Observation]) -> dict[Setting, list[Observation]]:
    """The observations of each setting, in order."""
    return dict(sorted(group_by(observations, lambda item: item.setting).items()))


def noise_of(groups: Mapping[Setting, Sequence[Observation]], where: str) -> Noise:
    """The noise between seeds, from all settings that every one of several seeds has reached.

    It is pooled, since two or three seeds say little about their own spread. Raises InputError where no setting has
    two seeds that reached the target.
    """
    residuals: list[float] = []
    freedom = 0
    for items in groups.values():
        logs = [math.log(item.steps) for item in items if item.steps is not None]
        if len(logs) < 2 or len(logs) < len(items):
            continue
        mean, widened = math.fsum(logs) / len(logs), math.sqrt(len(logs) / (len(logs) - 1))
        residuals += [widened * (value - mean) for value in logs]
        freedom += len(logs) - 1
    if not freedom:
        wanted = "two or more seeds of one setting that reach the target, since the noise between seeds is measured"
        raise InputError(Problem(where, wanted, "none", "train with other seeds, or choose an easier target"))
    return Noise(tuple(residuals), freedom)


def typical_steps(items: Sequence[Observation], noise: Noise) -> Typical:
    """The typical iterations of one setting with a 90 % interval.

    The interval is a percentile bootstrap (Efron, Annals of Statistics 7, 1979) that resamples the pooled residuals
    (Davison and Hinkley, Bootstrap Methods and their Application, 1997, section 6.2). A seed that did not reach the
    target is censored: it counts as more than its iterations, by a normal distribution of the logarithm (Tobin,
    Econometrica 26, 1958). It is neither a number nor left out.
    """
    reached = [item for item in items if item.steps is not None]
    limits = [math.log(item.iterations) for item in items if item.steps is None]
    most = max(item.iterations for item in items)
    counts = (len(reached), len(items), most)
    if not reached:
        return Typical(None, min(limits), math.inf, *counts)
    logs = [math.log(item.steps) for item in reached if item.steps is not None]
    log = _censored_mean(logs, limits, noise.deviation)
    ends = [math.log(item.iterations) for item in items]
    drawn = np.random.default_rng(0).integers(len(noise.residuals), size=(RESAMPLES, len(items))).tolist()
    means = []
    for row in drawn:
        values = [log + noise.residuals[place] for place in row]
        # Resamples are censored as the trainings were.
        over = [end for value, end in zip(values, ends, strict=True) if value > end]
        kept = [value for value, end in zip(values, ends, strict=True) if value <= end]
        means.append(_censored_mean(kept, over, noise.deviation))
    means.sort()
    place = math.floor(noise.tail * RESAMPLES)
    return Typical(log, means[place], means[-1 - place], *counts)


def _censored_mean(values: Sequence[float], limits: Sequence[float], deviation: float) -> float:
    """The most likely mean of normal values with a known deviation, some of which are only known to exceed a limit.

    Each of those is replaced by what is expected of it, until nothing changes (Dempster, Laird and Rubin 1977).
    """
    count = len(values) + len(limits)
    mean = math.fsum([*values, *limits]) / count
    for _ in range(_ROUNDS if limits and deviation else 0):
        mean = math.fsum([*values, *(_expected_beyond(limit, mean, deviation) for limit in limits)]) / count
    return mean


def _expected_beyond(limit: float, mean: float, deviation: float) -> float:
    """The mean of what exceeds a limit; far above the mean it is little more than the limit itself."""
    distance = (limit - mean) / deviation
    beyond = math.erfc(distance / math.sqrt(2)) / 2
    if beyond < 1e-12:
        return limit
    return mean + deviation * math.exp(-distance * distance / 2) / math.sqrt(2 * math.pi) / beyond
