"""What trainings took to reach a target, by setting: method, density, workers and batch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from simulator.component import discover
from simulator.errors import InputError, Problem, format_value
from simulator.loading.csv_tables import Row, read_rows, write_rows
from simulator.loading.documents import Document
from simulator.loading.finding import find_shipped
from simulator.loading.problems import problems_of
from simulator.records import Record
from simulator.sparsifiers.base import Sparsifier
from simulator.sparsifiers.dense import Dense
from simulator.studies.quality.targets import Target, parse_target, reach
from simulator.training.runs import TrainingRun, TrainingSpec, read_runs

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
Tuning = tuple[float, float, float, float]
"""Learning rate and momentum, and those of the outer optimiser where there are local steps."""
_NOT_LEARNT = ("kind", "density", "implementation")
"""What a method's parameters are besides the recipe: whose code carries it out changes no weight."""


class Recipe(Record, order=True):
    """What is trained and how, but for the density, the workers and the batch, over which a law is fitted."""

    task: str
    elements: int
    kind: str
    parameters: str
    error_feedback: bool
    local_steps: int
    precision: str

    @property
    def name(self) -> str:
        """The method in words: its kind, the parameters that are not its defaults, and how else it was trained."""
        parts = [self.kind, *(f"{key}={value}" for key, value in json.loads(self.parameters).items())]
        parts += [] if self.error_feedback else ["without error feedback"]
        parts += [f"with {self.local_steps} local steps"] if self.local_steps > 1 else []
        parts += [f"in {self.precision}"] if self.precision != "fp32" else []
        return " ".join(parts)


class Setting(Record, order=True):
    """One point at which trainings were made. `density`: 1 for a method that has none."""

    recipe: Recipe
    density: float
    workers: int
    batch_size: int

    @property
    def method(self) -> str:
        """The method with its density: `topk 0.01`."""
        kind, _, rest = self.recipe.name.partition(" ")
        density = f"{self.density:.4g}" if self.has_density else ""
        return " ".join(part for part in (kind, density, rest) if part)

    @property
    def has_density(self) -> bool:
        """Whether the method has a density."""
        return "density" in discover(Sparsifier)[self.recipe.kind].model_fields

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the method that are not its defaults, with its density."""
        return dict(json.loads(self.recipe.parameters)) | ({"density": self.density} if self.has_density else {})


class Observation(Record):
    """One training: the iterations that it took to `target`, None where it did not reach it within `iterations`.

    `tuning`: its learning rates and momenta.
    """

    setting: Setting
    tuning: Tuning
    seed: int
    target: Target
    steps: float | None
    iterations: int
    at_once: bool = False


def recipe_of(spec: TrainingSpec) -> Recipe:
    """The recipe of a training; parameters of its task make it another task."""
    member = spec.sparsifier
    task = " ".join([spec.task, *(f"{key}={value}" for key, value in sorted(spec.parameters.items()))])
    # Dense sends everything, so that error feedback has nothing to keep.
    fed_back = spec.error_feedback or member.kind == Dense.kind
    return Recipe(
        task, spec.elements, member.kind, changed_parameters(member), fed_back, spec.local_steps, spec.precision
    )


def setting_of(spec: TrainingSpec) -> Setting:
    """The setting of a training."""
    density = float(getattr(spec.sparsifier, "density", 1.0))
    return Setting(recipe_of(spec), density, spec.workers, spec.batch_size)


def tuning_of(spec: TrainingSpec) -> Tuning:
    """Learning rate and momentum of a training, inner and outer."""
    return spec.learning_rate, spec.momentum, spec.outer_learning_rate, spec.outer_momentum


def changed_parameters(member: Sparsifier) -> str:
    """The parameters of a method that are not its defaults and change what is learnt, as JSON."""
    given = member.model_dump(mode="json", exclude_defaults=True)
    return json.dumps({key: given[key] for key in sorted(given) if key not in _NOT_LEARNT})


def read_observations(place: str, target: Target) -> tuple[Observation, ...]:
    """What every training in a folder, or in a table of iterations (`*.csv`), took to a target.

    A table is a file, or one that comes with the package by its name. Where a setting was trained at several learning
    rates or momenta, the pair that reaches the target first counts (Shallue et al., JMLR 20, 2019: each setting is
    tuned by itself). Raises InputError with every problem.
    """
    path = Path(place)
    table = path if path.is_file() else find_shipped(f"{HOME}/{place}.csv")
    if path.is_dir() or table is None:
        found = [_observed(run, target) for run in read_runs(path)]
    else:
        found = read_table(table, target)
    return tuple(_at_best_tuning(found))


def _observed(run: TrainingRun, target: Target) -> Observation:
    made, spec = reach(run, target), run.spec
    taken = (made.steps, made.iterations, made.at_once)
    return Observation(setting_of(spec), tuning_of(spec), spec.seed, target, *taken)


def _at_best_tuning(found: Sequence[Observation]) -> Iterable[Observation]:
    """The observations of each setting at the learning rate and momentum with the fewest iterations in the middle."""
    groups: dict[Setting, dict[Tuning, list[Observation]]] = {}
    for item in found:
        groups.setdefault(item.setting, {}).setdefault(item.tuning, []).append(item)
    for setting in sorted(groups):
        yield from min(groups[setting].items(), key=lambda pair: (_middle(pair[1]), pair[0]))[1]


def _middle(items: Sequence[Observation]) -> float:
    steps = sorted(float("inf") if item.steps is None else item.steps for item in items)
    return steps[len(steps) // 2]


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
    """An observation from a row of a table; None where a cell is wrong, with its problem."""
    steps = row.convert(
        "iterations_to_target", lambda text: float(text) if text else -1.0, "iterations, or nothing", _is_steps
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


def _steps_or_nothing(text: str) -> float:
    return float(text) if text else -1.0


def _is_steps(value: float) -> bool:
    return value == -1 or 0 < value <= 1e12
