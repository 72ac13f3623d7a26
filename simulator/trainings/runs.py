"""The folder of a training: what was trained, its setting, and its curve, also as the middle over seeds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from simulator.answers import Answer, says
from simulator.bounds import Count, LearningRate
from simulator.component import discover
from simulator.errors import InputError, Problem, format_value
from simulator.files import write_yaml
from simulator.loading.csv_tables import read_records, write_rows
from simulator.loading.documents import read_document, validate_document
from simulator.models.groups import group_by
from simulator.models.layers import MAX_BATCH
from simulator.records import Record, astuple
from simulator.sparsifiers.base import Sparsifier
from simulator.sparsifiers.dense import Dense
from simulator.trainings.options import TrainingOptions
from simulator.units import count_of

TRAINING_FILE, CURVE_FILE = "training.yaml", "curve.csv"


class TrainingSpec(TrainingOptions):
    """What was trained: training.yaml of a training's folder.

    - `format`: of the folder, 1.
    - `batch_size`, `learning_rate`: those of the options, or what the task takes where they give none.
    - `metric`, `better`: what is measured on held-out samples, and which direction is better.
    - `elements`: trainable parameters of the model.
    - `versions`, `source`: of the software, and how the training was made.
    - `weights`: SHA-256 of the final weights, empty until the training has ended.
    - `stopped`: why it ended before its last iteration.
    """

    format: Literal[1] = 1
    batch_size: int = Field(ge=1, le=MAX_BATCH)
    learning_rate: LearningRate
    metric: str
    better: Literal["higher", "lower"]
    elements: Count
    versions: dict[str, str] = Field(default_factory=dict)
    source: str = ""
    weights: str = ""
    stopped: str = ""


class CurvePoint(Record):
    """One iteration of a training.

    `loss`: of this iteration's batches, mean over workers. `metric`: on held-out samples, NaN where it was not measured
    in this iteration. `selected`: share of the elements that a worker selected, mean over workers; `aggregated`: share
    that reached the sum. `energy_kept` = 1 - ||u - C(u)||^2 / ||u||^2 and `residual_norm` as in a replay.
    """

    iteration: int
    loss: float
    metric: float
    selected: float
    aggregated: float
    energy_kept: float
    residual_norm: float


COLUMNS = CurvePoint.__struct_fields__
_CURVE: dict[str, tuple[Any, ...]] = {
    "iteration": (int, "a whole number from 0 up", lambda n: n >= 0),
    **dict.fromkeys(COLUMNS[1:], (lambda text: float(text or "nan"), "a number")),
}


class TrainingRun(Record):
    """A training that was read from its folder."""

    folder: Path
    spec: TrainingSpec
    curve: tuple[CurvePoint, ...]


def write_run(folder: Path, spec: TrainingSpec, points: Iterable[CurvePoint]) -> None:
    """Write the curve, and then training.yaml, with which the folder is that of a training.

    A metric that was not measured is an empty cell.
    """
    rows = (["" if math.isnan(value) else value for value in astuple(point)] for point in points)
    write_rows(folder / CURVE_FILE, COLUMNS, rows)
    write_yaml(folder / TRAINING_FILE, spec.model_dump(mode="json"))


def finished_run(folder: Path, options: TrainingOptions) -> bool:
    """Whether the folder holds a finished training of these options. Raises InputError where it holds another one."""
    place = folder / TRAINING_FILE
    if not place.is_file():
        return False
    known = validate_document(TrainingSpec.model_validate, read_document(place))
    asked = options.model_dump(mode="json", exclude_none=True)
    there = known.model_dump(mode="json")
    hint = "use another folder, or remove this one"
    other = [name for name in asked if asked[name] != there[name]]
    if other:
        raise InputError(Problem(f"{place}: {name}", str(asked[name]), str(there[name]), hint) for name in other)
    return bool(known.weights)


def read_run(folder: Path) -> TrainingRun:
    """The training in a folder. Raises InputError with every problem and its place."""
    place = folder / TRAINING_FILE
    if not place.is_file():
        raise InputError(Problem(str(folder), f"the folder of a training, with {TRAINING_FILE}", "none"))
    spec = validate_document(TrainingSpec.model_validate, read_document(place))
    points = read_records(folder / CURVE_FILE, CurvePoint, _CURVE)
    if not points:
        raise InputError(Problem(str(folder / CURVE_FILE), "at least one iteration", "none"))
    return TrainingRun(folder, spec, tuple(points))


def read_runs(folder: Path) -> tuple[TrainingRun, ...]:
    """The trainings in a folder and below it, in the order of their paths. Raises InputError where there are none."""
    places = sorted(place.parent for place in folder.rglob(TRAINING_FILE))
    if not places:
        raise InputError(Problem(str(folder), f"a folder with trainings, each with {TRAINING_FILE}", "none"))
    return tuple(read_run(place) for place in places)


def describe_method(method: Mapping[str, Any]) -> str:
    """A method in a few words: its kind, its density, and what else was set.

    >>> describe_method({"kind": "topk", "density": 0.01})
    'topk 0.01'
    """
    density = method.get("density", "")
    rest = (f"{name}={value}" for name, value in method.items() if name not in ("kind", "density"))
    words = (str(method.get("kind", "dense")), density if isinstance(density, str) else f"{density:g}", *rest)
    return " ".join(filter(None, words))


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
    def words(self) -> str:
        """The setting in words: `topk 0.01 with 8 workers and batch 32`."""
        return f"{self.method} with {count_of(self.workers, 'worker')} and batch {self.batch_size}"

    @property
    def has_density(self) -> bool:
        """Whether the method has a density."""
        return "density" in discover(Sparsifier)[self.recipe.kind].model_fields

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of the method that are not its defaults, with its density."""
        return dict(json.loads(self.recipe.parameters)) | ({"density": self.density} if self.has_density else {})


def setting_of(spec: TrainingSpec) -> Setting:
    """The setting of a training; parameters of its task make it another task."""
    member = spec.sparsifier
    task = " ".join([spec.task, *(f"{key}={value}" for key, value in sorted(spec.parameters.items()))])
    # Dense sends everything, so that error feedback has nothing to keep.
    fed_back = spec.error_feedback or member.kind == Dense.kind
    parameters, density = changed_parameters(member), float(getattr(member, "density", 1.0))
    recipe = Recipe(task, spec.elements, member.kind, parameters, fed_back, spec.local_steps, spec.precision)
    return Setting(recipe, density, spec.workers, spec.batch_size)


def tuning_of(spec: TrainingSpec) -> Tuning:
    """Learning rate and momentum of a training, inner and outer."""
    return spec.learning_rate, spec.momentum, spec.outer_learning_rate, spec.outer_momentum


def changed_parameters(member: Sparsifier) -> str:
    """The parameters of a method that are not its defaults and change what is learnt, as JSON."""
    given = member.model_dump(mode="json", exclude_defaults=True)
    return json.dumps({key: given[key] for key in sorted(given) if key not in _NOT_LEARNT})


LOSS = "loss"
LEAST = 2
"""Points on either side of a point that its median takes at least; those nearer to an end have no median."""
REACH, MOST = 0.1, 250
"""The median takes as many points on either side as this share of those before, and no more than `MOST`."""
MOST_POINTS = 100
"""Points of a curve; longer ones are thinned."""


class MethodCurve(Answer):
    """A curve of the trainings of one setting: with few seeds, lowest and highest are all that there is to say."""

    task: Annotated[str, says("the task of a curve")]
    method: Annotated[str, says("method with its density")]
    workers: Annotated[int, says("workers", "1")]
    batch_size: Annotated[int, says("samples of each worker in an iteration", "1")]
    learning_rate: Annotated[float, says("learning rate", "1")]
    quantity: Annotated[str, says("loss, or the name of the metric")]
    seeds: Annotated[int, says("trainings of it", "1")]
    iteration: Annotated[list[int], says("iterations that were carried out, and all seeds have", "1")]
    middle: Annotated[list[float], says("median over seeds of the smoothed curves there", "1")]
    low: Annotated[list[float], says("lowest of the seeds", "1")]
    high: Annotated[list[float], says("highest of the seeds", "1")]


def method_curves(runs: Iterable[TrainingRun], quantity: str) -> list[MethodCurve]:
    """A curve for each setting and tuning: the quantity, smoothed, over iterations.

    Raises InputError for a quantity that was not measured.
    """
    made = []
    groups = group_by(runs, lambda run: (setting_of(run.spec), tuning_of(run.spec)))
    for (setting, tuning), alike in sorted(groups.items()):
        curves = [dict(smooth(measured_points(run, quantity))) for run in alike]
        shared = sorted(set.intersection(*(set(curve) for curve in curves)))
        if not shared:
            continue
        kept = shared[::-1][:: -(-len(shared) // MOST_POINTS)][::-1]
        values = [[curve[iteration] for curve in curves] for iteration in kept]
        made.append(
            MethodCurve(
                setting.recipe.task,
                setting.method,
                setting.workers,
                setting.batch_size,
                tuning[0],
                quantity,
                len(curves),
                kept,
                *([choose(each) for each in values] for choose in (median, min, max)),
            )
        )
    return made


def measured_points(run: TrainingRun, quantity: str) -> list[tuple[int, float]]:
    """Iterations that were carried out, and the loss or the metric after them, where it was measured.

    Raises InputError for a quantity that the training did not measure.
    """
    if quantity not in (LOSS, run.spec.metric):
        raise InputError(Problem(str(run.folder), f"{LOSS} or {run.spec.metric} as the target", format_value(quantity)))
    name = "loss" if quantity == LOSS else "metric"
    points = ((point.iteration + 1, float(getattr(point, name))) for point in run.curve)
    return [(iteration, value) for iteration, value in points if not math.isnan(value)]


def smooth(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """The running median of a curve (Tukey, Exploratory Data Analysis, 1977, ch. 7), without its ends.

    Each point is the median of itself and of as many points before as after it: 10 % of those before, at least 2. Near
    the end fewer follow; where they are fewer than half of that, there is no median, so that the last batches, which
    are noise, reach no target. A curve that only rises, or only falls, is not changed by it, however fast it does: the
    median takes the noise of single batches away and does not move the iteration at which a target is reached, as a
    mean would.
    """
    values = np.array([value for _, value in points])
    made = []
    for place in range(LEAST, len(points) - LEAST):
        wanted = min(max(LEAST, round(REACH * (place + 1))), MOST)
        half = min(wanted, len(points) - 1 - place)
        if 2 * half < wanted:
            break
        made.append((points[place][0], float(np.median(values[place - half : place + half + 1]))))
    return made
