"""CSV tables of bounded size, rows with line numbers and cells converted one by one; tensors of layers.csv."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from simulator.errors import InputError, Problem, format_value
from simulator.files import replace_file
from simulator.loading.documents import Document, problems_of, read_text
from simulator.models.exchange import MAX_WIDTH, Rows
from simulator.models.layers import Layer
from simulator.models.limits import MAX_LAYERS
from simulator.models.small_cache import MOST, LatestResults
from simulator.records import Record

Model = TypeVar("Model", bound=BaseModel)
Made = TypeVar("Made")
MAX_CSV_BYTES = 2**26
MAX_PROBLEMS = 20
"""Problems of one table that are reported."""


class Row(Record):
    """One row of a table: its place, its cells by column, and the list that takes its problems."""

    where: str
    cells: dict[str, str]
    problems: list[Problem]

    def convert(
        self, column: str, convert: Callable[[str], Any], what: str, valid: Callable[[Any], bool] = lambda _: True
    ) -> Any:
        """The converted cell of a column; None, and a problem that says `what` is expected, where that fails."""
        try:
            value = convert(self.cells[column])
            if valid(value):
                return value
        except (ValueError, KeyError):
            pass
        self.note(column, what, format_value(self.cells[column]))
        return None

    def note(self, column: str, expected: str, got: str) -> None:
        """Add a problem of one cell, unless the table has too many of them."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(f"{self.where}: {column}", expected, got))


def read_rows(path: Path, needed: Sequence[str], problems: list[Problem]) -> Iterator[Row]:
    """The rows of a table, blank lines left out; `needed` are the columns that it must have.

    Rows with other numbers of cells and what is not CSV are added to `problems`. Raises InputError for a file that
    can't be read.
    """
    reader = csv.reader(io.StringIO(read_text(path, MAX_CSV_BYTES), newline=""))
    try:
        header = next(reader, [])
        if not set(needed) <= set(header):
            got = format_value(", ".join(header)) if header else "an empty file"
            problems.append(Problem(f"{path}:1", f"the columns {', '.join(needed)}", got))
            return
        for cells in filter(None, reader):
            if len(problems) >= MAX_PROBLEMS:
                return
            where = f"{path}:{reader.line_num}"
            if len(cells) == len(header):
                yield Row(where, dict(zip(header, cells, strict=True)), problems)
            else:
                problems.append(Problem(where, f"{len(header)} cells", f"{len(cells)}"))
    except csv.Error as error:
        problems.append(Problem(f"{path}:{reader.line_num}", "well-formed CSV", str(error)))


TRUTH = {"true": True, "false": False}.__getitem__, "true or false"


def read_records(path: Path, kind: Callable[..., Made], columns: Mapping[str, Sequence[Any]]) -> list[Made]:
    """The rows of a table as records of these columns, of each of which stands how `Row.convert` takes it.

    Raises InputError with every problem.
    """
    problems: list[Problem] = []
    rows = read_rows(path, list(columns), problems)
    made = [[row.convert(name, *how) for name, how in columns.items()] for row in rows]
    if problems:
        raise InputError(problems)
    return [kind(*values) for values in made]


def read_models(
    path: Path, kind: type[Model], check: Callable[[Model, Row], None] = lambda model, row: None
) -> list[Model]:
    """The rows of a table as models, whose required fields are columns that it must have; an empty cell states nothing.

    `check` adds to the problems of a row. Raises InputError with every refused cell, by its line and column, and
    for a table without rows.
    """
    problems: list[Problem] = []
    made = []
    needed = [name for name, field in kind.model_fields.items() if field.is_required()]
    for row in read_rows(path, needed, problems):
        cells = {name: cell for name, cell in row.cells.items() if cell}
        try:
            made.append(kind.model_validate(cells))
            check(made[-1], row)
        except ValidationError as error:
            problems.extend(problems_of(error, Document(row.where, cells, {})))
    if problems or not made:
        raise InputError(problems or Problem(str(path), "at least one row", "none"))
    return made


def write_rows(path: Path, heading: Sequence[str], rows: Iterable[Sequence[object]]) -> int:
    """Write a table, whole or not at all; returns the number of rows. Raises InputError where it cannot be written."""
    count = 0

    def fill(name: str) -> None:
        nonlocal count
        with open(name, "w", newline="", encoding="utf-8") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(heading)
            for row in rows:
                out.writerow(row)
                count += 1

    replace_file(path, fill)
    return count


TIMES = ("forward_s", "backward_s")
HOST_TIMES = ("forward_host_s", "backward_host_s")
_MAX_DIMENSIONS = 64


def read_layers(path: Path, times_needed: bool = False) -> tuple[Layer, ...]:
    """The tensors of a layers.csv in forward order.

    Columns: name, numel, forward_s, backward_s (0 where they may be left out and are), forward_host_s, backward_host_s
    (0 where they are left out), shape, and of embeddings whose gradient consists of rows: rows (how many a batch looks
    up) and row_width. Raises InputError with file, line and column of everything that is wrong.

    The latest tables are remembered as long as their files are the same.
    """
    try:
        state = os.stat(path)
    except OSError:
        return _read_layers(path, times_needed)
    key = os.path.abspath(path), state.st_mtime_ns, state.st_size, state.st_ino, times_needed
    return _LATEST.get(key, lambda: _read_layers(path, times_needed))


_LATEST: LatestResults[tuple[Layer, ...]] = LatestResults(8, lambda layers: len(layers) <= MOST)


def _read_layers(path: Path, times_needed: bool) -> tuple[Layer, ...]:
    layers: list[Layer] = []
    problems: list[Problem] = []
    names = set[str]()
    for row in read_rows(path, ("name", "numel", *(TIMES if times_needed else ())), problems):
        if len(layers) == MAX_LAYERS:
            problems.append(Problem(row.where, f"at most {MAX_LAYERS} layers", "more"))
            break
        name, text = row.cells["name"], row.cells.get("shape", "")
        numel = row.convert("numel", int, "a whole number from 1 up", lambda n: 1 <= n <= 10**12)
        times = [
            row.convert(column, float, "seconds, 0 or more", lambda t: 0 <= t < 1e9)
            if (times_needed and column in TIMES) or row.cells.get(column)
            else 0.0
            for column in (*TIMES, *HOST_TIMES)
        ]
        shape = row.convert("shape", _parse_shape, "a shape such as 64x3x7x7") if text else ()
        if shape and numel and (min(shape) < 1 or math.prod(shape) != numel):
            row.note("shape", f"a shape of {numel} elements", text)
        rows = _parse_rows(row, numel)
        if name in names:
            row.note("name", "a name of its own", format_value(name))
        names.add(name)
        if None not in (numel, *times, shape):
            forward, backward, forward_host, backward_host = times
            layers.append(Layer(name, numel, forward, backward, forward_host, backward_host, rows, shape=shape))
    if problems or not layers:
        raise InputError(problems or Problem(str(path), "at least one layer", "none"))
    return tuple(layers)


def _parse_rows(row: Row, numel: int | None) -> Rows | None:
    """The rows of an embedding; None where both cells are empty, or wrong."""
    missing = [column for column in ("rows", "row_width") if not row.cells.get(column)]
    if missing:
        if len(missing) == 1:
            row.note(missing[0], "both rows and row_width, or neither", "nothing")
        return None
    count = row.convert("rows", float, "a number of rows above 0", lambda n: 0 < n <= 10**12)
    width = row.convert(
        "row_width", int, "elements of a row, a whole number that divides numel", lambda n: 1 <= n <= MAX_WIDTH
    )
    if numel and width and numel % width:
        row.note("row_width", f"a width that divides {numel}", str(width))
        return None
    return Rows(count=count, width=width) if count and width else None


def _parse_shape(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("x", maxsplit=_MAX_DIMENSIONS))
