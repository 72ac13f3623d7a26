"""What trainings took to a target: every setting, the law of each method, and how well it predicts."""

from __future__ import annotations

import math

from simulator.records import replace
from simulator.reporting.answers.trained import (
    LeftOutErrors,
    SettingSteps,
    TrainedPlace,
    TrainedTask,
    TrainingLaw,
    TrainingQuality,
)
from simulator.scenario.scenario import Scenario
from simulator.studies.quality.iterations import find_iterations, find_place
from simulator.studies.quality.study import Study, describe_setting, leave_out
from simulator.studies.quality.time_to_target import time_to_target
from simulator.trainings.curves import curves_in
from simulator.trainings.settings import Recipe
from simulator.units import count_of


def describe_quality(
    study: Study,
    scenario: Scenario | None = None,
    *,
    task: str = "",
    workers: int = 0,
    batch_size: int = 0,
    dense_iterations: float | None = None,
    price: float | None = None,
) -> TrainingQuality:
    """The whole answer of `sparsim quality`: the study, and with a scenario the time to the target on its cluster.

    `task`, `workers` and `batch_size` say where iterations are looked up, `price` is that of one GPU for an hour.
    Raises InputError where the target was not reached or lies outside of what was run.
    """
    described = _describe_study(study)
    if scenario is None:
        return described
    place = find_place(study, scenario, task, workers, batch_size)
    timed = time_to_target(described, scenario, find_iterations(study, scenario, place, dense_iterations), price)
    curves = curves_in(study.place, study.target.quantity)
    return replace(
        timed, curves=[each for each in curves if TrainedPlace(each.task, each.workers, each.batch_size) == place]
    )


def _describe_study(study: Study) -> TrainingQuality:
    laws = [_describe_law(study, recipe) for recipe in study.laws]
    return TrainingQuality(
        trainings=study.place,
        target=str(study.target),
        tasks=[TrainedTask(*task) for task in sorted({(each.task, each.elements) for each in study.laws})],
        seed_deviation=study.noise.deviation,
        settings=[
            SettingSteps(
                *describe_setting(setting),
                None if made.log is None else math.exp(made.log),
                None if made.log is None else (math.exp(made.low), math.exp(made.high)),
                made.reached,
                made.trained,
                made.iterations,
            )
            for setting, made in study.typical.items()
        ],
        laws=[law for law in laws if law is not None],
        notes=_notes(study),
    )


def _describe_law(study: Study, recipe: Recipe) -> TrainingLaw | None:
    """A law, and what it says of settings that were left out; None where there are too few settings for one."""
    law = study.laws[recipe]
    if law is None:
        return None
    rows = leave_out(study, recipe)
    factors = sorted(math.exp(abs(math.log(row.factor))) for row in rows)
    middle = factors[len(factors) // 2] if factors else None
    return TrainingLaw(
        task=recipe.task,
        method=recipe.name,
        form=str(law.form),
        factors={"S": math.exp(law.scale), **law.factors},
        range=dict(law.range),
        width=math.exp(law.half_width),
        left_out=LeftOutErrors(len(rows), middle, sum(row.inside for row in rows), rows),
    )


def _notes(study: Study) -> list[str]:
    made = []
    missing = {setting: known for setting, known in study.typical.items() if known.reached < known.trained}
    if missing:
        count = sum(known.trained - known.reached for known in missing.values())
        trained = sum(known.trained for known in study.typical.values())
        where = "; ".join(
            f"{setting.words} ({known.trained - known.reached} of {known.trained})"
            for setting, known in missing.items()
        )
        made.append(
            f"{count} of {count_of(trained, 'training')} did not reach the target. They count as more than the "
            f"iterations that were run: {where}."
        )
    early = sum(item.at_once for items in study.groups.values() for item in items)
    if early:
        made.append(
            f"{count_of(early, 'training')} had reached the target when the smoothed curve begins, and may have "
            "reached it before: choose a harder target, or measure more often."
        )
    return made
