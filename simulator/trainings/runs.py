"""The folder of a training: what was trained, and its curve over the iterations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from simulator.bounds import Count, LearningRate
from simulator.errors import InputError, Problem
from simulator.files import write_yaml
from simulator.loading.csv_tables import read_rows, write_rows
from simulator.loading.documents import read_document, validate_document
from simulator.models.layers import MAX_BATCH
from simulator.records import Record, astuple
from simulator.trainings.options import TrainingOptions

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


class TrainingRun(Record):
    """A training that was read from its folder."""

    folder: Path
    spec: TrainingSpec
    curve: tuple[CurvePoint, ...]


def write_run(folder: Path, spec: TrainingSpec, points: Iterable[CurvePoint]) -> None:
    """Write the curve, and then training.yaml, with which the folder is that of a training.

    A metric that was not measured is an empty cell.
    """
    folder.mkdir(parents=True, exist_ok=True)
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
    there = known.model_dump(mode="json", include=set(asked))
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
    problems: list[Problem] = []
    points = []
    for row in read_rows(folder / CURVE_FILE, COLUMNS, problems):
        iteration = row.convert("iteration", int, "a whole number from 0 up", lambda n: n >= 0)
        values = [row.convert(name, _number_or_nothing, "a number") for name in COLUMNS[1:]]
        if iteration is not None and None not in values:
            points.append(CurvePoint(iteration, *values))
    if problems:
        raise InputError(problems)
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
    rest = [f"{name}={value}" for name, value in method.items() if name not in ("kind", "density")]
    words = [str(method.get("kind", "dense")), *([f"{method['density']:g}"] if "density" in method else []), *rest]
    return " ".join(words)


def _number_or_nothing(text: str) -> float:
    return math.nan if text == "" else float(text)
