"""What trainings took to reach a target, by setting: method, density, workers and batch."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median_high

from pydantic import ValidationError

from simulator.errors import InputError, Problem, format_value
from simulator.loading.csv_tables import Row, read_rows, write_rows
from simulator.loading.documents import Document, problems_of
from simulator.loading.finding import find_shipped
from simulator.models.groups import group_by
from simulator.records import Record
from simulator.trainings.runs import (
    LEAST,
    LOSS,
    Setting,
    TrainingRun,
    TrainingSpec,
    Tuning,
    measured_points,
    read_runs,
    setting_of,
    smooth,
    tuning_of,
)


class Target(Record):
    """What a training is to reach: a value of its loss, or of the metric on held-out samples."""

    quantity: str
    value: float

    def __str__(self) -> str:
        return f"{self.quantity} {self.value:g}"


def parse_target(text: str, where: str = "--target") -> Target:
    """A target such as `loss 0.5` or `accuracy 0.95`. Raises InputError for anything else."""
    quantity, _, number = text.strip().rpartition(" ")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not quantity.strip() or not math.isfinite(value):
        raise InputError(Problem(where, "a quantity and its value, such as 'accuracy 0.95'", format_value(text)))
    return Target(quantity.strip(), value)


def reach(run: TrainingRun, target: Target) -> Observation:
    """The first iteration at which the smoothed curve of a training reaches a target.

    It is read off the straight line to the point before, since a metric is measured every few iterations only. Raises
    InputError for too few points.
    """
    points = measured_points(run, target.quantity)
    curve = smooth(points)
    if not curve:
        what = f"at least {2 * LEAST + 1} points of {target.quantity}"
        raise InputError(Problem(str(run.folder), what, str(len(points))))
    observed = partial(Observation, setting_of(run.spec), tuning_of(run.spec), run.spec.seed, target)
    sign = 1.0 if target.quantity != LOSS and run.spec.better == "higher" else -1.0
    for place, (iteration, value) in enumerate(curve):
        left = sign * (target.value - value)
        if left > 0:
            continue
        if not place:
            return observed(float(iteration), iteration, at_once=True)
        before, earlier = curve[place - 1]
        missing = sign * (target.value - earlier)
        return observed(before + (iteration - before) * missing / (missing - left), curve[-1][0])
    return observed(None, curve[-1][0])


HOME = "configs/trainings"
_COLUMNS = (
    *("task", "elements", "method", "error_feedback", "workers", "batch_size", "learning_rate", "momentum"),
    *(
        "outer_learning_rate",
        "outer_momentum",
        "local_steps",
        "precision",
        "seed",
        "target",
        "iterations_to_target",
        "iterations_run",
    ),
)
_OBSERVED = ("target", "iterations_to_target", "iterations_run")
"""The columns that are not keys of a training."""


class Observation(Record):
    """One training: the iterations that it took to `target`, None where it did not reach it within `iterations`.

    `tuning`: its learning rates and momenta. `at_once`: it was there at the first point, and may have been earlier.
    """

    setting: Setting
    tuning: Tuning
    seed: int
    target: Target
    steps: float | None
    iterations: int
    at_once: bool = False


def read_observations(place: str, target: Target) -> dict[Setting, list[Observation]]:
    """What every training in a folder, or in a table of iterations (`*.csv`), took to a target, by setting.

    A table is a file, or one that comes with the package by its name. Where a setting was trained at several learning
    rates or momenta, the pair that reaches the target first counts (Shallue et al., JMLR 20, 2019: each setting is
    tuned by itself). Raises InputError with every problem.
    """
    path = Path(place)
    table = path if path.is_file() else find_shipped(f"{HOME}/{place}.csv")
    if path.is_dir() or table is None:
        found = [reach(run, target) for run in read_runs(path)]
    else:
        found = read_table(table, target)
    best = {}
    for setting, items in sorted(group_by(found, lambda item: item.setting).items()):
        by_tuning = group_by(items, lambda item: item.tuning)
        steps = {
            tuning: median_high(math.inf if item.steps is None else item.steps for item in alike)
            for tuning, alike in by_tuning.items()
        }
        best[setting] = by_tuning[min(steps, key=lambda tuning: (steps[tuning], tuning))]
    return best


def write_table(path: Path, observations: Sequence[Observation]) -> int:
    """Write a table of iterations, which `read_observations` reads again; returns the number of rows.

    What the table already says of other targets is kept.
    """
    targets = {item.target for item in observations}
    kept = [item for item in read_table(path) if item.target not in targets] if path.is_file() else []
    return write_rows(path, _COLUMNS, map(_as_row, [*kept, *observations]))


def _as_row(item: Observation) -> list[object]:
    of, recipe = item.setting, item.setting.recipe
    method = json.dumps({"kind": recipe.kind, **of.parameters})
    return [
        *(recipe.task, recipe.elements, method, str(recipe.error_feedback).lower(), of.workers, of.batch_size),
        *(*item.tuning, recipe.local_steps, recipe.precision, item.seed, item.target),
        *("" if item.steps is None else round(item.steps, 2), item.iterations),
    ]


def read_table(path: Path, target: Target | None = None) -> list[Observation]:
    """The rows of a table of iterations, with one target or all. Raises InputError with every problem."""
    problems: list[Problem] = []
    made, targets = [], set[str]()
    for row in read_rows(path, _COLUMNS, problems):
        targets.add(row.cells["target"])
        if target is None or row.cells["target"] == str(target):
            made.append(_observation_of(row))
    if not problems and not made:
        got = ", ".join(sorted(targets)) or "an empty table"
        problems = [Problem(str(path), f"rows with the target {target}", format_value(got, 200))]
    if problems:
        raise InputError(problems)
    return [item for item in made if item is not None]


def _observation_of(row: Row) -> Observation | None:
    steps = row.convert(
        "iterations_to_target",
        lambda text: float(text) if text else -1.0,
        "iterations, or nothing",
        lambda value: value == -1 or 0 < value <= 1e12,
    )
    iterations = row.convert("iterations_run", int, "a whole number above 0", lambda value: value > 0)
    method = row.convert("method", json.loads, "a method as JSON", lambda value: isinstance(value, dict))
    target = row.convert("target", lambda text: parse_target(text, row.where), "a quantity and its value")
    if steps is None or method is None or iterations is None or target is None:
        return None
    # The name of a metric and its direction matter for curves only.
    data = {name: row.cells[name] for name in _COLUMNS if name not in _OBSERVED} | {"metric": "-", "better": "higher"}
    try:
        spec = TrainingSpec.model_validate({**data, "method": method, "iterations": iterations})
    except ValidationError as error:
        row.problems.extend(problems_of(error, Document(row.where, data, {})))
        return None
    steps = None if steps < 0 else steps
    return Observation(setting_of(spec), tuning_of(spec), spec.seed, target, steps, iterations)
