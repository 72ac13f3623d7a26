"""Studies of trainings: every point of a grid is trained into a folder of its own.

A study has the form of a sweep. Its base has the keys of `sparsim record training --set`:

    base: {task: resnet14-digits, workers: 8, iterations: 300}
    vary:
      method: [dense, topk 0.01, {kind: gaussiank, density: 0.01}]
      seed: [0, 1, 2]

The folders are OUT/0000, OUT/0001 and so on, in the order of the file; the last key changes fastest.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter

from simulator.errors import InputError, Problem, SparsimError, collect_problems
from simulator.loading.documents import Document, parse_document, read_document
from simulator.progress import Progress
from simulator.records import Struct, field
from simulator.studies.processes.executors import run_locally
from simulator.studies.sweep.grid import Axis, GridFile, read_grid
from simulator.trainings.options import TrainingOptions, change_options
from simulator.trainings.runs import finished_run


class StudyFile(GridFile):
    """A training and the keys that are varied."""

    model_config = ConfigDict(title="Study of trainings")
    base: dict[str, Any]


class StudyResult(Struct):
    """How many trainings there are, how many were there before, and what went wrong, by folder."""

    trainings: int
    reused: int
    failed: dict[Path, str] = field(default_factory=dict)


def train_study(
    source: Path | Document,
    out: Path,
    *,
    overrides: Sequence[str] = (),
    processes: int | None = None,
    device: str = "cpu",
    observe: Callable[[Progress], None] | None = None,
) -> StudyResult:
    """Train every point of a study; finished trainings are kept, and interrupted ones continue.

    `source`: a file, or a part of one that was read. `overrides`: `key=value` for keys of the base. `processes`:
    trainings at the same time, with one thread each (default: one per core). Raises InputError, before anything is
    trained, with every problem of the study.
    """
    options = read_study(source, overrides)
    folders = {number: out / f"{number:04}" for number in options}
    train = partial(_train, options=options, folders=folders, device=device)
    todo = [number for number in options if not finished_run(folders[number], options[number])]
    result = StudyResult(len(options), len(options) - len(todo))
    progress, began = Progress(result.trainings, result.reused), time.monotonic()
    count = max(1, min(processes or os.cpu_count() or 1, len(todo)))
    with closing(run_locally(train, [[number] for number in todo], count)) as outcomes:
        for number, wrong, lost in chain.from_iterable(outcomes):
            if wrong or lost:
                result.failed[folders[number]] = wrong or lost
            progress.evaluated += 1
            progress.failed, progress.seconds = len(result.failed), time.monotonic() - began
            if observe is not None:
                observe(progress)
    return result


def _train(
    numbers: Sequence[int], options: Mapping[int, TrainingOptions], folders: Mapping[int, Path], device: str
) -> list[str]:
    """Train points one after the other; of each, what went wrong."""
    from simulator.training.loop import train

    wrong = [""] * len(numbers)
    for place, number in enumerate(numbers):
        try:
            train(options[number], folders[number], device=device)
        except SparsimError as error:
            wrong[place] = str(error)
    return wrong


def read_study(source: Path | Document, overrides: Sequence[str] = ()) -> dict[int, TrainingOptions]:
    """The options of every training of a study, by number. Raises InputError with every problem and its place."""
    document = source if isinstance(source, Document) else read_document(source)
    grid = read_grid(document, Path(document.path).parent, StudyFile)
    given = [(key, parse_document(text, f"--set {key}").data) for key, _, text in (o.partition("=") for o in overrides)]
    varied = {axis.key for axis in grid.axes}
    problems = [Problem(f"--set {key}", "a key that does not vary", f"'{key}'") for key, _ in given if key in varied]
    if problems:
        raise InputError(problems)
    options = {}
    for number in grid.numbers():
        chosen = list(zip(grid.axes, grid.choice(number), strict=True))
        with collect_problems(problems):
            changes = [*given, *((axis.key, axis.values[place]) for axis, place in chosen)]
            options[number] = change_options(_point(document, chosen), changes)
    if problems:
        raise InputError(dict.fromkeys(problems))
    return options


def study_schema() -> Mapping[str, Any]:
    """The JSON Schema of a study."""
    base = TypeAdapter(TrainingOptions).json_schema()
    base["properties"]["method"] |= {"type": ["object", "string"]}
    del base["required"]  # what is required may vary
    return StudyFile.schema_with(base)


def _point(document: Document, chosen: Sequence[tuple[Axis, int]]) -> Document:
    """The base as a document, in which keys that vary have the places of their values."""
    marks = {path[1:]: mark for path, mark in document.marks.items() if path[:1] == ("base",)}
    for axis, place in chosen:
        mark = document.marks.get((*axis.place, place), document.marks.get(axis.place))
        marks |= {axis.parts: mark} if mark else {}
    return Document(document.path, dict(document.data["base"]), marks)
