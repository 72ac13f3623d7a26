"""A study of trainings: typical iterations at what was run, a law in between, and nothing beyond."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from simulator.errors import InputError, Problem
from simulator.records import Record
from simulator.reporting.answers.trained import LeftOutSetting
from simulator.sparsifiers.dense import Dense
from simulator.studies.quality.law import Law, LawPoints, fit_law
from simulator.studies.quality.observations import Observation, read_observations
from simulator.studies.quality.seeds import Noise, Typical, by_setting, noise_of, typical_steps
from simulator.studies.quality.targets import Target
from simulator.trainings.settings import Recipe, Setting
from simulator.units import count_of

Source = Literal["trainings", "law"]
"""Whether iterations were measured at a setting, or follow from a law between settings."""


class Steps(Record):
    """The typical iterations to the target at a setting, as logarithms, with the ends of the 90 % interval."""

    setting: Setting
    log: float
    low: float
    high: float
    source: Source

    @property
    def value(self) -> float:
        """Iterations."""
        return math.exp(self.log)

    @property
    def interval(self) -> tuple[float, float]:
        """Between what they lie in nine of ten cases."""
        return math.exp(self.low), math.exp(self.high)


class Study(Record):
    """Trainings to one target: what each setting took, how much seeds differ, and the law of each recipe."""

    place: str
    target: Target
    groups: Mapping[Setting, list[Observation]]
    noise: Noise
    typical: Mapping[Setting, Typical]
    laws: Mapping[Recipe, Law | None]

    @property
    def tasks(self) -> list[str]:
        """The tasks that were trained, sorted."""
        return sorted({setting.recipe.task for setting in self.groups})

    def settings_of(self, recipe: Recipe) -> list[Setting]:
        """The settings that were run with a recipe."""
        return [setting for setting in self.groups if setting.recipe == recipe]

    def steps(self, setting: Setting) -> Steps:
        """The typical iterations at a setting: measured, or by the law between the settings that were run.

        Raises InputError where the target was not reached there, where the law says more iterations than any training
        had, or outside of what was run, naming the range.
        """
        where = f"iterations of {setting.method} on {setting.recipe.task} to {self.target}"
        place = f"{count_of(setting.workers, 'worker')}, batch {setting.batch_size}"
        known = self.typical.get(setting)
        if known is not None and known.log is not None:
            return Steps(setting, known.log, known.low, known.high, "trainings")
        if known is not None:
            got = f"not within {known.iterations} iterations in any of {count_of(known.trained, 'training')}"
            raise InputError(Problem(where, f"the target to be reached with {place}", got))
        law = self.laws.get(setting.recipe)
        if law is None:
            run = ", ".join(sorted({each.words for each in self.settings_of(setting.recipe)})[:6])
            hint = "train at this setting, or at five settings around it for a law in between"
            wanted = f"a setting that was run: {run or 'none of this method'}"
            raise InputError(Problem(where, wanted, setting.words, hint))
        if outside := law.outside(setting):
            hint = "train there, too: a law holds only inside of what was run"
            wanted, _, got = outside.rpartition(", got ")
            raise InputError(Problem(where, f"{wanted}, the range that was run", got, hint))
        log = law.log(setting)
        most = max(self.typical[each].iterations for each in self.settings_of(setting.recipe))
        if log > math.log(most):
            got = f"about {math.exp(log):,.0f} by the law between settings, which nobody has seen"
            raise InputError(Problem(where, f"at most {most} iterations, as many as were run", got, "train for longer"))
        return Steps(setting, log, log - law.half_width, log + law.half_width, "law")


def read_study(place: str, target: Target) -> Study:
    """Read trainings, or a table of iterations, and fit what lies between. Raises InputError with every problem."""
    groups = by_setting(read_observations(place, target))
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
