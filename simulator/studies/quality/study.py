"""A study of trainings: typical iterations over seeds at what was run, a law in between, and nothing beyond."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist

import numpy as np

from simulator.errors import InputError, Problem
from simulator.models.widths import student_95
from simulator.records import Record
from simulator.reporting.answers.trained import LeftOutSetting
from simulator.sparsifiers.dense import Dense
from simulator.studies.quality.law import Law, LawPoints, fit_law
from simulator.studies.quality.observations import Observation, Target, read_observations
from simulator.trainings.runs import Recipe, Setting
from simulator.units import count_of

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
    deviation = noise.deviation
    log = _censored_mean(logs, limits, deviation)
    ends = [math.log(item.iterations) for item in items]
    drawn = np.random.default_rng(0).integers(len(noise.residuals), size=(RESAMPLES, len(items))).tolist()
    means = []
    for row in drawn:
        values = [log + noise.residuals[place] for place in row]
        # Resamples are censored as the trainings were.
        over = [end for value, end in zip(values, ends, strict=True) if value > end]
        kept = [value for value, end in zip(values, ends, strict=True) if value <= end]
        means.append(_censored_mean(kept, over, deviation))
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
        before, mean = mean, math.fsum([*values, *(_expected_beyond(each, mean, deviation) for each in limits)]) / count
        if mean == before:
            break
    return mean


def _expected_beyond(limit: float, mean: float, deviation: float) -> float:
    """The mean of what exceeds a limit; far above the mean it is little more than the limit itself."""
    distance = (limit - mean) / deviation
    beyond = math.erfc(distance / math.sqrt(2)) / 2
    if beyond < 1e-12:
        return limit
    return mean + deviation * math.exp(-distance * distance / 2) / math.sqrt(2 * math.pi) / beyond


class Steps(Record):
    """The typical iterations to the target at a setting, as logarithms, with the ends of the 90 % interval."""

    log: float
    low: float
    high: float


class Study(Record):
    """Trainings to one target: what each setting took, how much seeds differ, and the law of each recipe."""

    place: str
    target: Target
    groups: Mapping[Setting, list[Observation]]
    noise: Noise
    typical: Mapping[Setting, Typical]
    laws: Mapping[Recipe, Law | None]

    def steps(self, setting: Setting) -> Steps:
        """The typical iterations at a setting: measured, or by the law between the settings that were run.

        Raises InputError where the target was not reached there, where the law says more iterations than any training
        had, or outside of what was run, naming the range.
        """
        where = f"iterations of {setting.method} on {setting.recipe.task} to {self.target}"
        place = f"{count_of(setting.workers, 'worker')}, batch {setting.batch_size}"
        known = self.typical.get(setting)
        if known is not None and known.log is not None:
            return Steps(known.log, known.low, known.high)
        if known is not None:
            got = f"not within {known.iterations} iterations in any of {count_of(known.trained, 'training')}"
            raise InputError(Problem(where, f"the target to be reached with {place}", got))
        law, own = self.laws.get(setting.recipe), [each for each in self.groups if each.recipe == setting.recipe]
        if law is None:
            run = ", ".join(sorted({each.words for each in own})[:6])
            hint = "train at this setting, or at five settings around it for a law in between"
            wanted = f"a setting that was run: {run or 'none of this method'}"
            raise InputError(Problem(where, wanted, setting.words, hint))
        if outside := law.outside(setting):
            hint = "train there, too: a law holds only inside of what was run"
            raise InputError(Problem(where, f"{outside[0]}, the range that was run", outside[1], hint))
        log = law.log(setting)
        most = max(self.typical[each].iterations for each in own)
        if log > math.log(most):
            got = f"about {math.exp(log):,.0f} by the law between settings, which nobody has seen"
            raise InputError(Problem(where, f"at most {most} iterations, as many as were run", got, "train for longer"))
        return Steps(log, log - law.half_width, log + law.half_width)


def read_study(place: str, target: Target) -> Study:
    """Read trainings, or a table of iterations, and fit what lies between. Raises InputError with every problem."""
    groups = read_observations(place, target)
    noise = noise_of(groups, place)
    typical = {setting: typical_steps(items, noise) for setting, items in groups.items()}
    recipes = sorted({setting.recipe for setting in groups})
    return Study(place, target, groups, noise, typical, {each: fit_law(points_of(each, typical)) for each in recipes})


def points_of(recipe: Recipe, typical: Mapping[Setting, Typical]) -> LawPoints:
    """The points of a recipe's law: its own settings, and those of dense, which is the same method at density 1.

    Settings that a part of the seeds did not reach are in it with the mean of what is known; those that none reached
    only say that it takes longer there, and narrow the range of the law.
    """
    has_density = any(setting.density < 1 for setting in typical if setting.recipe == recipe)
    like_dense = recipe_of_dense(recipe) if has_density and recipe.error_feedback else recipe
    found = [
        (setting, made.log, setting.recipe == recipe)
        for setting, made in typical.items()
        if setting.recipe in (recipe, like_dense) and made.log is not None
    ]
    settings, logs, own = zip(*found, strict=True) if found else ((), (), ())
    return LawPoints(settings, logs, own)


def recipe_of_dense(recipe: Recipe) -> Recipe:
    """The recipe of dense that is otherwise the same."""
    return Recipe(recipe.task, recipe.elements, Dense.kind, "{}", True, recipe.local_steps, recipe.precision)


def leave_out(study: Study, recipe: Recipe) -> list[LeftOutSetting]:
    """What the law says of each setting of a recipe that lies inside of what remains when it is left out.

    The form of the law is chosen anew without the setting.
    """
    if study.laws[recipe] is None:
        return []
    points = points_of(recipe, study.typical)
    rows = []
    for place, (setting, log) in enumerate(zip(points.settings, points.logs, strict=True)):
        law = fit_law(points.without(place)) if points.own[place] else None
        if law is None or law.outside(setting):
            continue
        error = log - law.log(setting)
        inside = abs(error) <= law.half_width
        rows.append(LeftOutSetting(*describe_setting(setting), math.exp(error), inside))
    return rows


def describe_setting(setting: Setting) -> tuple[str, str, float, int, int]:
    """The fields of a `TrainedSetting`."""
    return setting.recipe.task, setting.method, setting.density, setting.workers, setting.batch_size
