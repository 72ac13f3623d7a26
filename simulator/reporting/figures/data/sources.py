"""The sources of figures: results that other commands write, recognised by their content, and a sweep's rows."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from simulator.answers import read_answer
from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.hardware.runtime import Runtime
from simulator.loading.documents import read_document, read_text
from simulator.loading.finding import TRACE_FILE, find_file
from simulator.prediction.run_files import check_numbers, check_table, read_json, read_parquet, read_result
from simulator.records import Record, field, replace
from simulator.reporting.answers.trained import TrainingQuality
from simulator.reporting.answers.validated import ValidatedModel
from simulator.reporting.wording.blocks import format_varied, last_word, method_name
from simulator.scenario.conditions import number_of
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
_MOST_BYTES = 2**30
"""Of a result as JSON."""


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


@contextmanager
def refuse_edited(place: str, what: str = "results as this version of sparsim writes them") -> Iterator[None]:
    """Raise InputError where nothing can be made of results: they are files that somebody may have edited or cut."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        got = f"something else ({type(error).__name__}: {format_value(str(error))})"
        raise InputError(Problem(place, what, got)) from error


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
        return of_document(read_json(sys.stdin.read(), "standard input"), "standard input")
    if path.is_dir():
        return _of_folder(path, place)
    if path.is_file() and path.suffix == ".json":
        return of_document(read_json(read_text(path, _MOST_BYTES), place), place)
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
            return of_document(read_json(read_text(folder / name, _MOST_BYTES), str(folder / name)), place, folder)
    if (folder / TRACE_FILE).is_file():
        return Source(place, "trace", folder=folder)
    if next(folder.rglob(TRAINING_FILE), None) is not None:
        return Source(place, "trainings", read_runs(folder), folder=folder)
    if (folder / "points.jsonl").is_file():
        raise _unknown_source(place, "a sweep that is not finished", "the same `sparsim sweep` command finishes it")
    raise _unknown_source(place, "a folder without results")


def _of_table(path: Path, place: str) -> Source:
    return of_table(read_parquet(path) if path.suffix == ".parquet" else read_csv(path), place)


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


def _unknown_source(place: str, got: str, hint: str = "") -> InputError:
    return InputError(
        Problem(place, "results that a figure can be drawn from", got, hint or "see `sparsim list figures`")
    )


_METHOD = "sparsifier"
DENSITY = "sparsifier.density"
BANDWIDTH = "cluster.network.bandwidth_bytes_per_s"
_UNNAMED = ("density", "bandwidth")
"""Varied keys whose values are understood without the name."""


def varied(table: pd.DataFrame) -> list[str]:
    """The columns that were varied: those before the columns of the result, which begin with the digest."""
    columns = list(map(str, table.columns))
    return columns[: columns.index("digest")] if "digest" in columns else []


def varied_keys(table: pd.DataFrame) -> list[str]:
    """The varied columns that take more than one value in these rows."""
    return [name for name in varied(table) if table[name].nunique(dropna=False) > 1]


def methods(table: pd.DataFrame, by: str = _METHOD) -> pd.Series[str]:
    """The method of each row, or its value of the varied key `by`; one name for all where the sweep did not vary it."""
    if by in table:
        return table[by].map(method_name)
    return pd.Series("as in the base", index=table.index)


def intervals(table: pd.DataFrame) -> pd.DataFrame:
    """The ends of the 90 % intervals of the iteration time, `p5_s` and `p95_s`; missing where the sweep has none."""
    names = {"p5_s": "iteration_time_interval_s.p5", "p95_s": "iteration_time_interval_s.p95"}
    return pd.DataFrame(
        {name: table.get(column, pd.Series(float("nan"), table.index)) for name, column in names.items()}
    )


def keys_of(column: str) -> list[str]:
    """The varied keys that an axis with this column shows; the number of workers is that of nodes and GPUs."""
    return ["cluster.nodes", "cluster.gpus_per_node"] if column == "workers" else [column]


def combinations(table: pd.DataFrame, without: Sequence[str] = ()) -> list[str]:
    """Each row in words, by what varies apart from the keys in `without`."""
    rest = table.drop(columns=[name for name in without if name in varied(table)])
    return point_labels(rest) if varied(rest) else methods(rest).tolist()


def point_labels(table: pd.DataFrame) -> list[str]:
    """Each row in words: its method, then whatever else takes more than one value in these rows."""
    parts = [methods(table)] if _METHOD in table else []
    others = [name for name in varied_keys(table) if name != _METHOD]
    parts += [table[name].map(lambda value, column=name: _format_named(column, value)) for name in others]
    if not parts:
        return [str(number) for number in range(len(table))]
    nothing = "no " + " or ".join(map(last_word, others))  # keys that vary, and are not set in this row
    return [", ".join(item for item in each if item) or nothing for each in zip(*parts, strict=True)]


def _format_named(column: str, value: Any) -> str:
    """A varied value with the last word of its key, unless the value is clear without it."""
    if pd.isna(value):
        return ""
    name = last_word(column)
    named = pd.api.types.is_number(value) and name not in _UNNAMED
    return f"{name} {format_varied(column, value)}" if named else format_varied(column, value)


def select_rows(source: Source, conditions: Mapping[str, Any]) -> Source:
    """The source with only the rows that have the given values, by column; only a sweep has rows.

    The name of a column may be without its unit; a quantity may have a unit (`10 Gbit/s`). Raises InputError for an
    unknown column, or where no row is left.
    """
    if not conditions:
        return source
    table = source.table
    if source.kind != "sweep":
        raise InputError(Problem("--where", "a sweep", f"{source.place}, which is no sweep"))
    for key, value in conditions.items():
        column = find_column(table, key)
        if column not in table:
            nearest = suggest_nearest(key, map(str, table.columns))
            raise InputError(Problem("--where", "a column of the sweep", repr(key), nearest))
        kept = _equal_rows(table[column], value)
        if not kept.any():
            known = ", ".join(str(item) for item in table[column].drop_duplicates().head(12))
            raise InputError(
                Problem(f"--where {key}", "a value that is in the sweep", format_value(value), f"there are {known}")
            )
        table = table[kept]
    return replace(source, table=table.reset_index(drop=True))


def find_column(table: pd.DataFrame, key: str) -> str:
    """The column of this name, which may be without its unit; the name itself where there is none."""
    return next((key + unit for unit in ("", "_bytes_per_s", "_bytes", "_s") if key + unit in table), key)


def _equal_rows(values: pd.Series[Any], wanted: Any) -> pd.Series[bool]:
    if not pd.api.types.is_numeric_dtype(values):
        return values.astype("string").eq(str(wanted)).fillna(False).astype(bool)
    number = number_of(wanted)
    equal = False if number is None else np.isclose(values.astype(float), number[0], rtol=1e-6)
    return pd.Series(equal, index=values.index)
