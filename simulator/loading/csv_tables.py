"""CSV tables of bounded size: rows with their line numbers, cells converted one by one."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from simulator.errors import Problem, format_value
from simulator.files import replace_file
from simulator.loading.documents import Document, problems_of, read_text
from simulator.records import Record

Model = TypeVar("Model", bound=BaseModel)
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


def read_models(path: Path, kind: type[Model], problems: list[Problem]) -> Iterator[tuple[Row, Model]]:
    """The rows of a table with what they say as a model, whose required fields are columns that it must have.

    An empty cell states nothing. Cells that the model refuses are added to `problems` with their lines and columns.
    Raises InputError for a file that can't be read.
    """
    needed = [name for name, field in kind.model_fields.items() if field.is_required()]
    for row in read_rows(path, needed, problems):
        cells = {name: cell for name, cell in row.cells.items() if cell}
        try:
            yield row, kind.model_validate(cells)
        except ValidationError as error:
            problems.extend(problems_of(error, Document(row.where, cells, {})))


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
