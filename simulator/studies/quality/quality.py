"""What trainings took to a target, as a document: every setting, the law of each method, and how well it predicts."""

from __future__ import annotations

import math
from typing import Any

from simulator.studies.quality.settings import Recipe
from simulator.studies.quality.study import Study, describe_setting, leave_out
from simulator.units import count_of


def describe_study(study: Study) -> dict[str, Any]:
    """The study as keys of a document, which are described in `quality_keys`."""
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
                "steps": None if made.log is None else math.exp(made.log),
                "steps_interval": None if made.log is None else [math.exp(made.low), math.exp(made.high)],
                "reached": made.reached,
                "trained": made.trained,
                "iterations": made.iterations,
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
    for setting, known in study.typical.items():
        missing = known.trained - known.reached
        if missing:
            where = f"{setting.method} on {setting.recipe.task}, {count_of(setting.workers, 'worker')}"
            made.append(
                f"{missing} of {count_of(known.trained, 'training')} of {where}, batch {setting.batch_size}, did not "
                f"reach the target within {known.iterations} iterations."
            )
    early = sum(item.at_once for items in study.groups.values() for item in items)
    if early:
        made.append(
            f"{count_of(early, 'training')} had reached the target when the smoothed curve begins, and may have "
            "reached it before: choose a harder target, or measure more often."
        )
    return made
