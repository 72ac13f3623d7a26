"""What trainings took to a target, as a document: every setting, the law of each method, and how well it predicts."""

from __future__ import annotations

import math
from typing import Any

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
) -> dict[str, Any]:
    """The whole answer of `sparsim quality`: the study, and with a scenario the time to the target on its cluster.

    `task`, `workers` and `batch_size` say where iterations are looked up, `price` is that of one GPU for an hour. The
    keys are described in `quality_keys`. Raises InputError where the target was not reached or lies outside of what was
    run.
    """
    document = _describe_study(study)
    if scenario is None:
        return document
    place = find_place(study, scenario, task, workers, batch_size)
    made = time_to_target(scenario, find_iterations(study, scenario, place, dense_iterations), price)
    curves = [
        curve
        for curve in curves_in(study.place, study.target.quantity)
        if (curve["task"], curve["workers"], curve["batch_size"]) == place
    ]
    return {**document, **made, "curves": curves}


def _describe_study(study: Study) -> dict[str, Any]:
    laws = [_describe_law(study, recipe) for recipe in study.laws]
    return {
        "trainings": study.place,
        "target": str(study.target),
        "tasks": [
            {"name": name, "elements": elements}
            for name, elements in sorted({(each.task, each.elements) for each in study.laws})
        ],
        "seed_deviation": study.noise.deviation,
        "settings": [
            {
                **describe_setting(setting),
                "iterations_to_target": None if made.log is None else math.exp(made.log),
                "iterations_to_target_interval": None
                if made.log is None
                else [math.exp(made.low), math.exp(made.high)],
                "reached": made.reached,
                "trained": made.trained,
                "iterations_run": made.iterations,
            }
            for setting, made in study.typical.items()
        ],
        "laws": [law for law in laws if law is not None],
        "notes": _notes(study),
    }


def _describe_law(study: Study, recipe: Recipe) -> dict[str, Any] | None:
    """A law, and what it says of settings that were left out; None where there are too few settings for one."""
    law = study.laws[recipe]
    if law is None:
        return None
    rows = leave_out(study, recipe)
    factors = sorted(math.exp(abs(math.log(row["factor"]))) for row in rows)
    return {
        "task": recipe.task,
        "method": recipe.name,
        "form": str(law.form),
        "factors": {"S": math.exp(law.scale), **law.factors},
        "range": {name: list(ends) for name, ends in law.range.items()},
        "width": math.exp(law.half_width),
        "left_out": {
            "settings": len(rows),
            "median_factor": factors[len(factors) // 2] if factors else None,
            "inside": sum(row["inside"] for row in rows),
            "rows": rows,
        },
    }


def _notes(study: Study) -> list[str]:
    made = []
    missing = {setting: known for setting, known in study.typical.items() if known.reached < known.trained}
    if missing:
        count = sum(known.trained - known.reached for known in missing.values())
        trained = sum(known.trained for known in study.typical.values())
        where = "; ".join(
            f"{setting.method} with {count_of(setting.workers, 'worker')} and batch {setting.batch_size} "
            f"({known.trained - known.reached} of {known.trained})"
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
