"""What is to be predicted: scenarios with `measured:`, and tables of measurements, in files and folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simulator.errors import InputError, Problem, collect_problems, format_value
from simulator.loading.csv_tables import Row, read_rows
from simulator.loading.documents import parse_document, read_document
from simulator.loading.finding import find_file, find_shipped
from simulator.loading.replacing import replace_key
from simulator.records import Record, replace
from simulator.scenario.reading import load, scenario_of
from simulator.scenario.scenario import Scenario
from simulator.studies.validate.collective_table import NAME as TABLE
from simulator.studies.validate.measured_rows import refuse_contradiction

SCENARIO_TABLE = "rows.csv"
TEMPLATE, _NOTE = "template", "note"
"""The column that names a scenario file, and the one that is for people."""


def scenario_of_row(row: Row, folder: Path) -> Scenario:
    """The scenario of a row.

    The column `template` names a scenario file in the same folder, and `note` is for people; every other column is a
    dotted key of a scenario, such as `cluster.nodes` or `measured.iteration_time`. Cells are values as in YAML; an
    empty one leaves what the template says. Raises InputError with every problem and the place of the row.
    """
    try:
        document = read_document(folder / row.cells[TEMPLATE])
        data = document.data
        if not isinstance(data, dict):
            raise InputError(Problem(document.where(()), "a scenario: a mapping", format_value(data)))
        for key, text in row.cells.items():
            if key not in (TEMPLATE, _NOTE) and text:
                data = replace_key(data, key, parse_document(text, key).data, folder)
        made = scenario_of(data, document, folder)
        refuse_contradiction(made)
        return made
    except InputError as error:
        raise InputError(replace(item, where=f"{row.where}: {item.where}") for item in error.problems) from None


DEFAULT = "validation"


class ValidationTask(Record):
    """What is predicted at once: a scenario, which may still have to be read, or a table of collectives."""

    group: str
    where: str
    scenario: Scenario | None = None
    path: Path = Path()
    row: Row | None = None

    @property
    def is_table(self) -> bool:
        """Whether it is a table of collectives."""
        return self.scenario is None and self.row is None and self.path.suffix == ".csv"


def find_tasks(places: Sequence[str | Path], problems: list[Problem], collectives: bool = True) -> list[ValidationTask]:
    """The tasks of all files and tables, and the problems of tables that cannot be read.

    Without `collectives` every table that is named has rows of scenarios, and in folders those called `rows.csv` have.
    """
    tasks = [
        ValidationTask(path.absolute().parent.name, f"{path}: measured", path=path) for path in scenario_files(places)
    ]
    for path in table_files(places):
        group = path.absolute().parent.name
        if path.name != SCENARIO_TABLE and (collectives or path not in map(Path, places)):
            tasks += [ValidationTask(group, "", path=path)] if collectives else []
            continue
        with collect_problems(problems):
            wrong: list[Problem] = []
            rows = list(read_rows(path, (TEMPLATE,), wrong))
            tasks += [ValidationTask(group, "", path=path, row=row) for row in rows]
            problems += wrong if rows or wrong else [Problem(str(path), "at least one row", "none")]
    return tasks


def scenario_of_task(task: ValidationTask) -> Scenario:
    """The scenario of a task. Raises InputError where it cannot be read."""
    if task.row is not None:
        return scenario_of_row(task.row, task.path.parent)
    scenario = task.scenario or load(task.path)
    if task.where:
        refuse_contradiction(scenario, task.where)
    return scenario


def scenario_files(places: Sequence[str | Path]) -> list[Path]:
    """Scenario files among the given files and in the given folders, in order (default: the shipped ones).

    Tables (`.csv`) are left out. Raises InputError for a file that does not exist.
    """
    files: list[Path] = []
    for place in places or [_shipped()]:
        path = Path(place)
        if path.is_dir():
            files.extend(sorted(path.rglob("*.yaml"), key=_natural))
            continue
        if path.suffix == ".csv" and path.is_file():
            continue
        found = find_file(str(place), None, "scenarios")
        if found is None:
            raise InputError(Problem(str(place), "a scenario file or a folder of them", "nothing there"))
        files.append(found)
    return files


def table_files(places: Sequence[str | Path]) -> list[Path]:
    """Tables of measurements among the given files and in the given folders, in order (default: the shipped ones)."""
    found: list[Path] = []
    for path in map(Path, places or [_shipped()]):
        if path.is_dir():
            found.extend(sorted(item for name in (TABLE, SCENARIO_TABLE) for item in path.rglob(name)))
        elif path.suffix == ".csv" and path.is_file():
            found.append(path)
    return found


def _shipped() -> Path:
    folder = find_shipped(f"scenarios/{DEFAULT}", here=True)
    if folder is None:
        raise InputError(Problem("validate", "scenarios/validation here or in the package", "none", "name a folder"))
    return folder


def _natural(path: Path) -> tuple[str, list[tuple[int, str]]]:
    parts = path.stem.split("-")
    return str(path.parent), [(int(part), "") if part.isdigit() else (0, part) for part in parts]
