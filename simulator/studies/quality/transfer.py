"""How far the iterations of a small task can be carried over to another model: measured between tasks."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from itertools import combinations
from statistics import fmean

from simulator.loading.finding import find_shipped
from simulator.models.groups import group_by
from simulator.models.widths import student_95
from simulator.sparsifiers.dense import Dense
from simulator.studies.quality.observations import HOME, Observation, read_table
from simulator.studies.quality.targets import Target
from simulator.trainings.settings import Setting

Method = tuple[str, str, bool, int, float]
"""A method by its kind, its parameters, whether it has error feedback, its local steps, and its density."""


@cache
def transfer_width() -> tuple[float, int]:
    """The factor within which ratios of iterations carry over to another task in nine of ten cases, and on how many
    pairs that rests; 1000 where nothing was measured. Tasks are those of the tables of iterations in the package.

    For each method and two tasks, each to each of its targets: ln of its iterations over those of dense on the one
    task, less that on the other. The
    width is e to Student's quantile of the root of their mean square.
    """
    home = find_shipped(HOME)
    tables = sorted(home.glob("*.csv")) if home is not None else []
    ratios = ratios_by_task(item for path in tables for item in read_table(path))
    gaps = [
        one - other
        for found in ratios.values()
        for ((task, _), one), ((task_of_other, _), other) in combinations(found.items(), 2)
        if task != task_of_other
    ]
    if not gaps:
        return 1000.0, 0
    deviation = math.sqrt(math.fsum(gap * gap for gap in gaps) / len(gaps))
    return math.exp(deviation * student_95(len(gaps))), len(gaps)


def ratios_by_task(observations: Iterable[Observation]) -> dict[Method, dict[tuple[str, Target], float]]:
    """ln(iterations over those of dense with the same workers and batch) of each method, by task and target: mean over
    workers and batches.

    Settings at which a training did not reach the target are left out: they have no ratio.
    """
    logs = {
        key: fmean(math.log(item.steps) for item in items if item.steps is not None)
        for key, items in group_by(observations, lambda item: (item.setting, item.target)).items()
        if all(item.steps is not None for item in items)
    }
    dense = {_place(*key): log for key, log in logs.items() if key[0].recipe.kind == Dense.kind}
    found: dict[Method, dict[tuple[str, Target], list[float]]] = defaultdict(lambda: defaultdict(list))
    for (setting, target), log in logs.items():
        recipe, place = setting.recipe, _place(setting, target)
        if recipe.kind != Dense.kind and place in dense:
            method = (recipe.kind, recipe.parameters, recipe.error_feedback, recipe.local_steps, setting.density)
            found[method][recipe.task, target].append(log - dense[place])
    return {method: {task: fmean(values) for task, values in tasks.items()} for method, tasks in found.items()}


def _place(setting: Setting, target: Target) -> tuple[str, Target, int, int, int, str]:
    recipe = setting.recipe
    return recipe.task, target, setting.workers, setting.batch_size, recipe.local_steps, recipe.precision
