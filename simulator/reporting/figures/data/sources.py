"""The sources of figures: results that other commands write, recognised by their content."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from simulator.answers import read_answer
from simulator.errors import InputError, Problem, format_value
from simulator.hardware.runtime import Runtime
from simulator.loading.documents import parse_document, read_document
from simulator.loading.finding import TRACE_FILE, find_file
from simulator.prediction.run_files import check_numbers, check_table, read_json, read_result
from simulator.records import Record, field, replace
from simulator.reporting.answers.trained import TrainingQuality
from simulator.reporting.answers.validated import ValidatedModel
from simulator.scenario.named_parts import read_part
from simulator.trainings.runs import TRAINING_FILE, read_runs

KINDS = {
    "run": "a run (`sparsim run --out DIR` or `--json`)",
    "sweep": "a sweep (`sparsim sweep --out DIR`)",
    "validation": "a validation (`sparsim validate --json`)",
    "build_up": "a build-up study (`sparsim trace build-up --out DIR` or `--json`)",
    "distribution": "the distribution of gradients over a replay (a part of `sparsim reproduce`)",
    "trace": "a gradient trace (a folder with trace.yaml)",
    "gpu": "a GPU with its cost curves (`gpus/NAME` or a YAML file with `kernels`)",
    "network": "a network (`networks/NAME` or a YAML file with `bandwidth`)",
    "runtime": "a runtime (`runtimes/NAME` or a YAML file with its terms)",
    "trainings": "a folder of trainings (`sparsim record training`)",
    "quality": "times to quality (`sparsim quality TRAININGS --scenario SCENARIO --json`)",
    "timings": "a table of kernel timings (`sparsim record kernels --out FILE`)",
}
"""The kinds of source and where each comes from."""


class Source(Record):
    """Results as they were read.

    `place` is what the user typed; `document` holds the result of a run, a validation or times to quality, the JSON of
    a build-up study or a distribution, or trainings, or a GPU, a network or a runtime; `table` the points of a sweep
    that did not fail, or timings; `folder` is their folder, if they are in one; `others` are further sources.
    """

    place: str
    kind: str
    document: Any = None
    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    folder: Path | None = None
    others: tuple[Source, ...] = ()

    def all_sources(self) -> Iterator[Source]:
        """This source and the others."""
        yield self
        yield from self.others

    def read_table(self, name: str) -> pd.DataFrame | None:
        """A CSV table in the folder of a run's result, or None."""
        path = self.folder / name if self.folder is not None else None
        return read_csv(path) if path is not None and path.is_file() else None

    def read_scenario(self) -> Mapping[str, Any]:
        """The resolved scenario in the folder of a run's result; empty where there is none."""
        path = self.folder / "scenario.yaml" if self.folder is not None else None
        data = read_document(path).data if path is not None and path.is_file() else None
        return data if isinstance(data, dict) else {}


def open_sources(places: Sequence[str]) -> Source:
    """Several sources as one, the first one leading. Raises InputError where one of them is of no known kind."""
    first, *rest = [open_source(place) for place in places]
    return replace(first, others=tuple(rest))


def open_source(place: str) -> Source:
    """Results given by a folder, a file, a name, or `-` for JSON on standard input.

    Raises InputError where nothing is found, or no figure can be drawn from it.
    """
    path = Path(place)
    if place == "-":
        return of_document(_parse_json(sys.stdin.read(), "standard input"), "standard input")
    if path.is_dir():
        return _of_folder(path, place)
    if path.is_file() and path.suffix == ".json":
        return of_document(_parse_json(_read_text(path), place), place)
    if path.is_file() and path.suffix in (".parquet", ".csv", ".gz"):
        return _of_table(path, place)
    found = find_file(place, None)
    if found is not None and found.name == TRACE_FILE:
        return Source(place, "trace", folder=found.parent)
    if found is not None:
        return _of_yaml(found, place)
    raise _unknown_source(place, "nothing of that name")


def of_document(document: Any, place: str, folder: Path | None = None) -> Source:
    """Results as a JSON document: of a run, a validation, a build-up study or `sparsim quality`.

    Raises InputError for anything else.
    """
    if isinstance(document, dict) and "breakdown_s" in document:
        return Source(place, "run", read_result(document, place), folder=folder)
    check_numbers(document, place)
    if isinstance(document, dict) and {"rows", "groups", "overall"} <= document.keys():
        return Source(place, "validation", read_answer(document, ValidatedModel, place), folder=folder)
    if isinstance(document, dict) and {"methods", "target", "curves"} <= document.keys():
        return Source(place, "quality", read_answer(document, TrainingQuality, place), folder=folder)
    rows = document.get("rows") if isinstance(document, dict) else document
    if isinstance(rows, list) and rows and all(isinstance(row, dict) and "build_up" in row for row in rows):
        return Source(place, "build_up", rows, folder=folder)
    if isinstance(rows, list) and rows and all(isinstance(row, dict) and "middle" in row for row in rows):
        return Source(place, "distribution", rows, folder=folder)
    raise _unknown_source(place, "another JSON document")


def of_table(table: pd.DataFrame, place: str) -> Source:
    """A sweep's table, without the points that failed; or kernel timings. Raises InputError for anything else."""
    if "iteration_time_s" in table or {"kernel", "elements", "median_s"} <= set(table.columns):
        table = check_table(table, place)
    if "iteration_time_s" in table:
        failed = table["error"].notna() if "error" in table else pd.Series(False, index=table.index)
        return Source(place, "sweep", table=table[~failed & table["iteration_time_s"].notna()].reset_index(drop=True))
    if {"kernel", "elements", "median_s"} <= set(table.columns):
        return Source(place, "timings", table=table)
    raise _unknown_source(place, f"a table with other columns: {format_value(', '.join(map(str, table.columns)))}")


def read_csv(path: Path) -> pd.DataFrame:
    """A CSV file as a table; only an empty cell is a missing one. Raises InputError for any other file."""
    try:
        return pd.read_csv(path, keep_default_na=False, na_values=[""])
    except (OSError, ValueError) as error:
        raise InputError(Problem(str(path), "a CSV table", format_value(str(error)))) from None


def _of_folder(folder: Path, place: str) -> Source:
    for name in ("results.parquet", "results.csv"):
        if (folder / name).is_file():
            return replace(_of_table(folder / name, place), folder=folder)
    for name in ("result.json", "build_up.json", "distribution.json", "quality.json"):
        if (folder / name).is_file():
            return of_document(_parse_json(_read_text(folder / name), str(folder / name)), place, folder)
    if (folder / TRACE_FILE).is_file():
        return Source(place, "trace", folder=folder)
    if next(folder.rglob(TRAINING_FILE), None) is not None:
        return Source(place, "trainings", read_runs(folder), folder=folder)
    if (folder / "points.jsonl").is_file():
        raise _unknown_source(place, "a sweep that is not finished", "the same `sparsim sweep` command finishes it")
    raise _unknown_source(place, "a folder without results")


def _of_table(path: Path, place: str) -> Source:
    if path.suffix != ".parquet":
        return of_table(read_csv(path), place)
    try:
        with path.open("rb") as file:  # PyArrow itself opens only names in UTF-8
            return of_table(pd.read_parquet(file), place)
    except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
        raise InputError(Problem(place, "a Parquet table", format_value(str(error)))) from None


def _of_yaml(path: Path, place: str) -> Source:
    data = read_document(path).data
    data = data if isinstance(data, dict) else {}
    part = _part_of(data)
    if part:
        return Source(place, part, read_part(str(path), f"{part}s"))
    command = "sweep" if "vary" in data or "zip" in data else "run"
    hint = f"make results first: sparsim {command} {place} --out DIR" if {"base", "workload"} & data.keys() else ""
    raise _unknown_source(place, "a YAML file without a GPU, a network or a runtime", hint)


def _part_of(data: Mapping[str, Any]) -> str:
    """Which calibrated part a document describes; empty for anything else."""
    if {"kernels", "ideal", "memory_bandwidth"} & data.keys():
        return "gpu"
    if {"kind", "bandwidth"} <= data.keys():
        return "network"
    return "runtime" if "name" in data and set(data) <= set(Runtime.model_fields) else ""


def _parse_json(text: str, place: str) -> Any:
    try:
        return read_json(text)
    except (ValueError, RecursionError) as error:
        raise InputError(Problem(place, "a JSON document", format_value(str(error)))) from None


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(Problem(str(path), "a readable file", format_value(str(error)))) from None


def _unknown_source(place: str, got: str, hint: str = "") -> InputError:
    return InputError(
        Problem(place, "results that a figure can be drawn from", got, hint or "see `sparsim list figures`")
    )


def parse_settings(texts: Sequence[str]) -> Mapping[str, Any]:
    """Texts `key=value` as a mapping, values read as YAML. Raises InputError where there is no `=`."""
    settings: dict[str, Any] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not key or not separator:
            raise InputError(Problem("--set", "KEY=VALUE", format_value(text)))
        settings[key] = parse_document(value, "--set").data
    return settings
