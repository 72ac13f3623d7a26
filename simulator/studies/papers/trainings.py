"""Parts that train: every combination of a grid into a folder of its own, and the time to a target that follows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from simulator.component import Spec
from simulator.loading.documents import Document
from simulator.loading.problems import validate_document
from simulator.scenario.reading import load, scenario_of
from simulator.studies.quality.quality import describe_quality
from simulator.studies.quality.study import read_study
from simulator.studies.quality.targets import parse_target
from simulator.training.options import TrainingOptions
from simulator.training.runs import TrainingRun, describe_method, read_runs

Count = Callable[[int, int], None]


class TrainingStudy(Spec):
    """Trainings in a grid: `base` has the keys that all share, `vary` a list of values for each key that differs."""

    base: dict[str, Any]
    vary: dict[str, tuple[Any, ...]] = Field(min_length=1)


class QualityStudy(Spec):
    """Time to a target: iterations of the trainings of a part, times the predicted time of one iteration.

    - `trainings`: the part that trains.
    - `target`: a value of the loss or of the metric, such as `accuracy 0.9`.
    - `scenario`: the model and the cluster of the predicted iteration, in place or by name.
    """

    trainings: str
    target: str
    scenario: dict[str, Any] | str


def options_of(study: TrainingStudy, document: Document) -> list[TrainingOptions]:
    """Every training of a study, the last key changing fastest. Raises InputError with every problem."""
    made = []
    for values in itertools.product(*study.vary.values()):
        data = {**study.base, **dict(zip(study.vary, values, strict=True))}
        marks = {path[1:]: mark for path, mark in document.marks.items() if path[:1] == ("base",)}
        made.append(validate_document(TrainingOptions.model_validate, Document(document.path, data, marks)))
    return made


def train_all(study: TrainingStudy, document: Document, folder: Path, count: Count | None = None) -> None:
    """Train every combination into subfolders 0000, 0001, ...; those that are finished are kept.

    `count` is called with the iterations that are done and their number in all. Raises InputError as `train` does.
    """
    from simulator.record.environment import need_torch

    need_torch("reproduce")
    from simulator.training.loop import train

    every = options_of(study, document)
    total, before = sum(options.iterations for options in every), 0
    for number, options in enumerate(every):

        def observe(done: int, before: int = before) -> None:
            if count is not None:
                count(before + done, total)

        train(options, folder / f"{number:04d}", observe=observe)
        before += options.iterations


def training_rows(folder: Path) -> list[dict[str, Any]]:
    """One row per training and iteration; the metric is missing where it was not measured."""
    return [row for run in read_runs(folder) for row in _rows(run)]


def _rows(run: TrainingRun) -> Iterator[dict[str, Any]]:
    about = {"method": describe_method(run.spec.method), "workers": run.spec.workers, "seed": run.spec.seed}
    for point in run.curve:
        metric = None if math.isnan(point.metric) else point.metric
        shares = {"selected": point.selected, "aggregated": point.aggregated, "energy_kept": point.energy_kept}
        yield {**about, "iteration": point.iteration, "loss": point.loss, "metric": metric, **shares}


def time_to_quality(study: QualityStudy, document: Document, trainings: Path) -> dict[str, Any]:
    """What `sparsim quality` says about the trainings in a folder. Raises InputError as it does."""
    near = Path(document.path).parent
    given = study.scenario
    scenario = load(given) if isinstance(given, str) else scenario_of(given, document, near)
    runs = read_runs(trainings)
    workers = max(run.spec.workers for run in runs)
    return describe_quality(read_study(str(trainings), parse_target(study.target)), scenario, workers=workers)
