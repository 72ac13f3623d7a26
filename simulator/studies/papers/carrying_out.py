"""Carrying out the parts of a paper: each writes a folder that figures can be drawn from, and gives tidy rows."""

from __future__ import annotations

import json
import math
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from simulator.engine.build_up import build_up
from simulator.errors import InputError, Problem, suggest_nearest
from simulator.files import write_text
from simulator.loading.documents import Document
from simulator.progress import Progress
from simulator.scenario.reading import load, scenario_of
from simulator.studies.papers.claims import Claim, Finding, has_settled, value_of
from simulator.studies.papers.document import PaperDocument, PaperPart
from simulator.studies.quality.observations import parse_target
from simulator.studies.quality.quality import describe_quality
from simulator.studies.quality.study import read_study
from simulator.studies.quality.trainings import read_study as read_trainings
from simulator.studies.quality.trainings import train_study
from simulator.studies.sweep.sweep import run_sweep
from simulator.studies.traces.trace_study import distributions, folder_of
from simulator.trainings.runs import describe_method, finished_run, read_runs

if TYPE_CHECKING:
    import pandas as pd


Observe = Callable[[Progress], None] | None
"""What is called with the progress of a part."""


def unpack_shipped(study: Document, shipped: Path, folder: Path) -> None:
    """Put trainings that come with a document into a folder without any, if they are those of the study.

    `shipped`: a ZIP file with the folders of the trainings. Raises InputError for a bad study or file.
    """
    read_trainings(study)
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
            same = all_trained(study, name)
        except InputError:
            return  # those of other options, as with --quick
        if same:
            shutil.copytree(name, folder)


def all_trained(study: Document, folder: Path) -> bool:
    """Whether every training of a study is finished in a folder, so that nothing is left to train.

    Raises InputError for a bad study, and for a folder with other trainings.
    """
    return all(finished_run(folder / f"{number:04}", each) for number, each in read_trainings(study).items())


def training_rows(folder: Path) -> Iterator[Mapping[str, Any]]:
    """One row per training and iteration; the metric is missing where it was not measured.

    `done`: the share of the training that is done after the iteration, by which rows of its end can be chosen.
    """
    for run in read_runs(folder):
        about = {"method": describe_method(run.spec.method), "workers": run.spec.workers, "seed": run.spec.seed}
        for point in run.curve:
            metric = None if math.isnan(point.metric) else point.metric
            shares = {"selected": point.selected, "aggregated": point.aggregated, "energy_kept": point.energy_kept}
            done = (point.iteration + 1) / run.spec.iterations
            yield {**about, "iteration": point.iteration, "done": done, "loss": point.loss, "metric": metric, **shares}


TRAINING_MODULES = {"torch": "PyTorch", "sklearn": "scikit-learn"}
"""What trainings need, by the name of its module: the extra `train`."""


@dataclass(frozen=True, slots=True)
class PartResult:
    """A part: the folder of its results, its rows, and its claims.

    Without rows, `missing` says what it needs if it was not run, and `problems` why it failed if it was.
    """

    part: PaperPart
    folder: Path
    rows: pd.DataFrame | None
    claims: tuple[Claim, ...]
    missing: str = ""
    problems: tuple[Problem, ...] = ()


def carry_out(
    document: PaperDocument, out: Path, parts: Sequence[str] = (), workers: int | None = None, observe: Observe = None
) -> Iterator[PartResult]:
    """Carry out the parts of a paper into subfolders of `out` with their names; without `parts`, all of them.

    Parts that train without PyTorch come first, and say what they need, before anything is run. `workers`: processes
    for the points of a sweep or for trainings. A part that cannot be carried out, or whose rows lack a figure that it
    asks for, has `problems`, and the others are carried out. Raises InputError for an unknown part, and where a part
    that is named needs what is not installed.
    """
    known = [part.name for part in document.paper.parts]
    for name in parts:
        if name not in known:
            raise InputError(Problem("--part", "a part of the paper", repr(name), suggest_nearest(name, known)))
    asked = [number for number, name in enumerate(known) if not parts or name in parts]
    lacking = {number: text for number in asked if (text := _missing_for(document, number, out))}
    if parts and lacking:
        raise InputError(Problem(f"--part {known[number]}", "", text) for number, text in lacking.items())
    for number, text in lacking.items():
        part = document.paper.parts[number]
        yield PartResult(part, out / part.name, None, tuple(Claim(each, ()) for each in part.states), text)
    done: dict[str, pd.DataFrame] = {}

    def rows_of(name: str) -> pd.DataFrame:
        """The rows of a part, after those of the parts whose figures stand in it."""
        if name not in done:
            number, measured = known.index(name), dict[str, float]()
            part = document.paper.parts[number]
            for key, figure in part.measured.items():
                where = document.document.where(("parts", number, "measured", key))
                found = value_of(figure, rows_of(figure.part), where)
                if isinstance(found, str):
                    raise InputError(Problem(where, "a number", repr(found)))
                measured[key] = found
            study = document.part_document(number, part.study, measured)
            done[name] = _carry_out_part(part, study, out / name, workers, observe)
        return done[name]

    for number in asked:
        if number not in lacking:
            part = document.paper.parts[number]
            try:
                rows = rows_of(part.name)
                yield PartResult(part, out / part.name, rows, _claims(document, number, rows))
            except InputError as error:
                claims = tuple(Claim(each, (), failed=True) for each in part.states)
                yield PartResult(part, out / part.name, None, claims, problems=error.problems)


def _claims(document: PaperDocument, number: int, rows: pd.DataFrame) -> tuple[Claim, ...]:
    paper, claims = document.paper, []
    for place, statement in enumerate(paper.parts[number].states):
        findings = []
        for kernel, conditions in (paper.kernels if statement.by_kernel else {"": {}}).items():
            values, settled = [], True
            for which, found in enumerate(statement.found):
                where = document.document.where(("parts", number, "states", place, "found", which))
                values.append((found, value_of(found, rows, where, conditions)))
                settled &= has_settled(found, rows, where, conditions)
            findings.append(Finding(kernel, tuple(values), settled))
        claims.append(Claim(statement, tuple(findings)))
    return tuple(claims)


def _missing_for(document: PaperDocument, number: int, out: Path) -> str:
    """What a part needs that is not installed, and how to install it; empty if there is nothing."""
    part = document.paper.parts[number]
    if part.quality is not None:
        names = [each.name for each in document.paper.parts]
        return _missing_for(document, names.index(part.quality.trainings), out)
    if part.training is None:
        return ""
    study, folder = document.part_document(number, "training"), out / part.name
    if part.shipped:
        unpack_shipped(study, Path(document.document.path).parent / part.shipped, folder)
    absent = [name for module, name in TRAINING_MODULES.items() if find_spec(module) is None]
    if not absent or all_trained(study, folder):
        return ""
    return f'it trains, which needs {" and ".join(absent)}: pip install "sparsim[train]"'


def _carry_out_part(
    part: PaperPart, study: Document, folder: Path, workers: int | None, observe: Observe
) -> pd.DataFrame:
    import pandas as pd

    if part.sweep is not None:
        swept = run_sweep(study, folder, workers=workers, observe=observe)
        if errors := swept.errors:
            where = study.where(())
            raise InputError(Problem(where, "a sweep without points that fail", f"{len(errors)} that fail", errors[0]))
        return swept.table
    if part.training is not None:
        done = train_study(study, folder, processes=workers, observe=observe)
        for place, message in done.failed.items():
            raise InputError(Problem(str(place), "a training that succeeds", "one that fails", message))
        return pd.DataFrame(training_rows(folder))
    made: Any
    if part.quality is not None:
        given, trainings = part.quality.scenario, folder.parent / part.quality.trainings
        scenario = load(given) if isinstance(given, str) else scenario_of(given, study, Path(study.path).parent)
        workers = max(run.spec.workers for run in read_runs(trainings))
        trained = read_study(str(trainings), parse_target(part.quality.target))
        made = describe_quality(trained, scenario, workers=workers).to_dict()
    elif part.build_up is not None:
        made = build_up(folder_of(part.build_up.trace), part.build_up.methods, part.build_up.workers)
    elif part.distribution is not None:
        asked = part.distribution
        made = distributions(folder_of(asked.trace), asked.method, asked.iterations, asked.layers)
    write_text(folder / f"{part.study}.json", json.dumps(made, indent=1, allow_nan=False) + "\n")
    return pd.DataFrame(made if part.quality is None else made["methods"])
