"""Carrying out the parts of a paper: each writes a folder that figures can be drawn from, and gives tidy rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.engine.build_up import build_up
from simulator.errors import InputError, Problem, suggest_nearest
from simulator.files import write_text
from simulator.records import Record
from simulator.studies.papers.document import ComputedFigure, PaperDocument, PaperPart, Statement
from simulator.studies.papers.found import value_of
from simulator.studies.papers.trainings import Observe, time_to_quality, train_all, training_rows
from simulator.studies.sweep.sweep import run_sweep
from simulator.studies.traces.distribution import distributions
from simulator.studies.traces.trace_study import folder_of

if TYPE_CHECKING:
    import pandas as pd


class ComparedStatement(Record):
    """What a paper states, and the figures that are set beside it: each with its text and value."""

    statement: Statement
    values: tuple[tuple[ComputedFigure, float | str], ...]


@dataclass(frozen=True, slots=True)
class PartResult:
    """A part that was carried out: the folder of its results, its rows, and its answers."""

    part: PaperPart
    folder: Path
    rows: pd.DataFrame
    answers: tuple[ComparedStatement, ...]


def carry_out(
    document: PaperDocument, out: Path, parts: Sequence[str] = (), workers: int | None = None, observe: Observe = None
) -> Iterator[PartResult]:
    """Carry out the parts of a paper into subfolders of `out` with their names; without `parts`, all of them.

    `workers`: processes for the points of a sweep or for trainings. Raises InputError for an unknown part, and where a
    part cannot be carried out or a figure that it asks for is not in its rows.
    """
    known = [part.name for part in document.paper.parts]
    for name in parts:
        if name not in known:
            raise InputError(Problem("--part", "a part of the paper", repr(name), suggest_nearest(name, known)))
    for number, part in enumerate(document.paper.parts):
        if not parts or part.name in parts:
            folder = out / part.name
            rows = _STUDIES[part.study](document, number, folder, workers, observe)
            yield PartResult(part, folder, rows, _answers(document, number, rows))


def _answers(document: PaperDocument, number: int, rows: pd.DataFrame) -> tuple[ComparedStatement, ...]:
    answers = []
    for place, statement in enumerate(document.paper.parts[number].states):
        values = []
        for which, found in enumerate(statement.found):
            where = document.document.where(("parts", number, "states", place, "found", which))
            values.append((found, value_of(found, rows, where)))
        answers.append(ComparedStatement(statement, tuple(values)))
    return tuple(answers)


def _sweep(document: PaperDocument, number: int, folder: Path, workers: int | None, observe: Observe) -> pd.DataFrame:
    swept = run_sweep(document.part_document(number, "sweep"), folder, workers=workers, observe=observe)
    if errors := swept.errors:
        where = document.document.where(("parts", number, "sweep"))
        raise InputError(Problem(where, "a sweep without points that fail", f"{len(errors)} that fail", errors[0]))
    return swept.table


def _build_up(document: PaperDocument, number: int, folder: Path, _: int | None, __: Observe) -> pd.DataFrame:
    study: Any = document.paper.parts[number].build_up
    return _kept(folder / "build_up.json", build_up(folder_of(study.trace), study.methods, study.workers))


def _distribution(document: PaperDocument, number: int, folder: Path, _: int | None, __: Observe) -> pd.DataFrame:
    study: Any = document.paper.parts[number].distribution
    return _kept(folder / "distribution.json", distributions(folder_of(study.trace), study.method, study.iterations))


def _training(
    document: PaperDocument, number: int, folder: Path, workers: int | None, observe: Observe
) -> pd.DataFrame:
    import pandas as pd

    train_all(document.part_document(number, "training"), folder, workers, observe)
    return pd.DataFrame(training_rows(folder))


def _quality(document: PaperDocument, number: int, folder: Path, _: int | None, __: Observe) -> pd.DataFrame:
    import pandas as pd

    study: Any = document.paper.parts[number].quality
    place = document.part_document(number, "quality")
    found = time_to_quality(study, place, folder.parent / study.trainings).to_dict()
    write_text(folder / "quality.json", json.dumps(found, indent=1, allow_nan=False) + "\n")
    return pd.DataFrame(found["methods"])


def _kept(path: Path, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The rows as a table; they are also written, as figures read them."""
    import pandas as pd

    write_text(path, json.dumps(rows, indent=1, allow_nan=False) + "\n")
    return pd.DataFrame(rows)


_STUDIES: dict[str, Callable[[PaperDocument, int, Path, int | None, Observe], pd.DataFrame]] = {
    "sweep": _sweep,
    "build_up": _build_up,
    "distribution": _distribution,
    "training": _training,
    "quality": _quality,
}
