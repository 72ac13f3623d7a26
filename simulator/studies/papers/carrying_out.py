"""Carrying out the parts of a paper: each writes a folder that figures can be drawn from, and gives tidy rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
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
            rows = _carry_out_part(document, number, folder, workers, observe)
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


def _carry_out_part(
    document: PaperDocument, number: int, folder: Path, workers: int | None, observe: Observe
) -> pd.DataFrame:
    """The rows of a part, whose results are written as figures read them."""
    import pandas as pd

    part = document.paper.parts[number]
    study = document.part_document(number, part.study)
    if part.sweep is not None:
        swept = run_sweep(study, folder, workers=workers, observe=observe)
        if errors := swept.errors:
            where = document.document.where(("parts", number, "sweep"))
            raise InputError(Problem(where, "a sweep without points that fail", f"{len(errors)} that fail", errors[0]))
        return swept.table
    if part.training is not None:
        train_all(study, folder, workers, observe)
        return pd.DataFrame(training_rows(folder))
    made: Any
    if part.quality is not None:
        made = time_to_quality(part.quality, study, folder.parent / part.quality.trainings).to_dict()
    elif part.build_up is not None:
        made = build_up(folder_of(part.build_up.trace), part.build_up.methods, part.build_up.workers)
    elif part.distribution is not None:
        asked = part.distribution
        made = distributions(folder_of(asked.trace), asked.method, asked.iterations)
    write_text(folder / f"{part.study}.json", json.dumps(made, indent=1, allow_nan=False) + "\n")
    return pd.DataFrame(made if part.quality is None else made["methods"])
