"""Parts that train with the methods in the loop, and the time to a target that follows from them."""

from __future__ import annotations

import math
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from simulator.component import Spec
from simulator.errors import InputError, Problem
from simulator.loading.documents import Document
from simulator.progress import Progress
from simulator.reporting.answers.trained import TrainingQuality
from simulator.scenario.reading import load, scenario_of
from simulator.studies.quality.observations import parse_target
from simulator.studies.quality.quality import describe_quality
from simulator.studies.quality.study import read_study
from simulator.studies.quality.trainings import read_study as read_trainings
from simulator.studies.quality.trainings import train_study
from simulator.trainings.runs import TrainingRun, describe_method, finished_run, read_runs

Observe = Callable[[Progress], None] | None
"""What is called with the progress of a part."""


class QualityStudy(Spec):
    """Time to a target: iterations of the trainings of a part, times the predicted time of one iteration.

    - `trainings`: the part that trains.
    - `target`: a value of the loss or of the metric, such as `accuracy 0.9`.
    - `scenario`: the model and the cluster of the predicted iteration, in place or by name.
    """

    trainings: str
    target: str
    scenario: dict[str, Any] | str


def unpack_shipped(study: Document, shipped: Path, folder: Path) -> None:
    """Put trainings that come with a document into a folder without any, if they are those of the study.

    `shipped`: a ZIP file with the folders of the trainings. Raises InputError for a bad study or file.
    """
    options = read_trainings(study)
    if folder.exists():
        return
    with TemporaryDirectory() as made:
        name = Path(made, "trainings")
        try:
            with zipfile.ZipFile(shipped) as packed:
                packed.extractall(name)
        except (OSError, zipfile.BadZipFile) as error:
            raise InputError(Problem(str(shipped), "a ZIP file of trainings", str(error))) from None
        try:
            same = all(finished_run(name / f"{number:04}", each) for number, each in options.items())
        except InputError:
            return  # those of other options, as with --quick
        if same:
            shutil.copytree(name, folder)


def all_trained(study: Document, folder: Path) -> bool:
    """Whether every training of a study is finished in a folder, so that nothing is left to train.

    Raises InputError for a bad study, and for a folder with other trainings.
    """
    return all(finished_run(folder / f"{number:04}", each) for number, each in read_trainings(study).items())


def train_all(document: Document, folder: Path, processes: int | None, observe: Observe) -> None:
    """Train every point of a study into subfolders 0000, 0001, ...; those that are finished are kept.

    Raises InputError for a bad study, and where a training fails.
    """
    done = train_study(document, folder, processes=processes, observe=observe)
    for place, message in done.failed.items():
        raise InputError(Problem(str(place), "a training that succeeds", "one that fails", message))


def training_rows(folder: Path) -> list[Mapping[str, Any]]:
    """One row per training and iteration; the metric is missing where it was not measured.

    `done`: the share of the training that is done after the iteration, by which rows of its end can be chosen.
    """
    return [row for run in read_runs(folder) for row in _rows(run)]


def _rows(run: TrainingRun) -> Iterator[dict[str, Any]]:
    about = {"method": describe_method(run.spec.method), "workers": run.spec.workers, "seed": run.spec.seed}
    for point in run.curve:
        metric = None if math.isnan(point.metric) else point.metric
        shares = {"selected": point.selected, "aggregated": point.aggregated, "energy_kept": point.energy_kept}
        done = (point.iteration + 1) / run.spec.iterations
        yield {**about, "iteration": point.iteration, "done": done, "loss": point.loss, "metric": metric, **shares}


def time_to_quality(study: QualityStudy, document: Document, trainings: Path) -> TrainingQuality:
    """What `sparsim quality` says about the trainings in a folder. Raises InputError as it does."""
    near = Path(document.path).parent
    given = study.scenario
    scenario = load(given) if isinstance(given, str) else scenario_of(given, document, near)
    runs = read_runs(trainings)
    workers = max(run.spec.workers for run in runs)
    return describe_quality(read_study(str(trainings), parse_target(study.target)), scenario, workers=workers)
