"""Measured scenarios and tables in files and folders, their measured quantities, and what a prediction says of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simulator.calibration.timings import MeasuredTable, digest
from simulator.errors import InputError, Problem, collect_problems
from simulator.loading.csv_tables import Row, read_rows
from simulator.loading.documents import parse_document, read_document
from simulator.loading.finding import find_file, find_shipped
from simulator.loading.replacing import replace_key
from simulator.prediction.measured import (
    ITERATION,
    THROUGHPUT,
    WHOLE,
    is_used_in_fit,
    measured_values,
    seconds_of,
    simulated_seconds,
)
from simulator.prediction.run import Prediction
from simulator.records import Record, replace
from simulator.scenario.reading import load, scenario_of
from simulator.scenario.scenario import DENSITIES, NO_QUANTITIES, PERIODS, Measured, Scenario
from simulator.studies.validate.collective_table import NAME as TABLE
from simulator.units import count_of, show_time

TIMES = tuple(name for name in Measured.model_fields if name not in (THROUGHPUT, *DENSITIES, *NO_QUANTITIES))
"""Quantities that are seconds of an iteration or of a phase of it."""
TOLERANCE = 0.01
"""By how much a stated throughput and a stated iteration time may differ, relative to the time."""


class MeasuredRow(Record, eq=False):
    """One measured time of one scenario, in seconds. `fitted`: whether constants are fitted to it."""

    scenario: Scenario
    quantity: str
    seconds: float
    fitted: bool

    @property
    def set_up(self) -> str:
        """Model and cluster: rows of one set-up share what is wrong with either."""
        cluster = self.scenario.cluster
        return " on ".join((self.scenario.workload.name, f"{cluster.gpu.name}, {cluster.network.name}"))


def refuse_contradiction(scenario: Scenario, where: str) -> None:
    """Raise InputError where a throughput and an iteration time are stated that do not say the same."""
    stated = scenario.measured.stated if scenario.measured is not None else {}
    if not set(WHOLE) <= set(stated):
        return
    seconds = seconds_of(scenario, stated[THROUGHPUT])
    if abs(seconds / stated[ITERATION] - 1) > TOLERANCE:
        batch = scenario.workload.batch_size
        samples, workers = count_of(batch, "sample"), count_of(scenario.samples // batch, "worker")
        what = f"an iteration time within {100 * TOLERANCE:g} % of {show_time(seconds)}"
        hint = f"{stated[THROUGHPUT]:g} samples/s are {samples} on each of {workers} in that time"
        raise InputError(Problem(where, what, show_time(stated[ITERATION]), hint))


def measured_rows(scenarios: Sequence[Scenario], fit_to: Sequence[str] = ()) -> list[MeasuredRow]:
    """Every measured time above 0. Fitted are those marked `used_in_fit`, or the quantities of `fit_to` if given.

    A mark without names of quantities is for whole iterations, and for the phases where no whole one was measured. A
    throughput is a time of whole iterations like any other.
    """
    made = []
    for scenario in scenarios:
        values = measured_values(scenario)
        for name, value in values.items():
            if name not in DENSITIES and scenario.measured is not None:
                quantity, measured = ITERATION if name == THROUGHPUT else name, scenario.measured
                # A mark of the whole scenario is for its iteration, which is the sum of its phases.
                of_whole = measured.used_in_fit is True and not values.keys().isdisjoint(WHOLE) and name not in WHOLE
                chosen = quantity in fit_to if fit_to else not of_whole and is_used_in_fit(measured, name)
                made.append(MeasuredRow(scenario, quantity, value, chosen))
    return made


def predicted_value(quantity: str, prediction: Prediction) -> float:
    """What a prediction gives for a measured quantity: seconds, or a share."""
    if quantity in DENSITIES:
        return float(getattr(prediction.result.density, DENSITIES[quantity]))
    if quantity in PERIODS:
        value = getattr(prediction.result_without_lists.period, quantity, None)
        if value is None:
            what = f"a scenario whose result has period.{quantity}_s"
            hint = "the scheduler needs local steps, and the network a transport that states its `set_up`"
            raise InputError(Problem("measured", what, f"'{prediction.result.name}'", hint))
        return float(value)
    return simulated_seconds(quantity, prediction.simulated)


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
        data = document.mapping("a scenario: a mapping")
        for key, text in row.cells.items():
            if key not in (TEMPLATE, _NOTE) and text:
                data = replace_key(data, key, parse_document(text, key).data, folder)
        made = scenario_of(data, document, folder)
        refuse_contradiction(made, "measured")
        return made
    except InputError as error:
        raise InputError(replace(item, where=f"{row.where}: {item.where}") for item in error.problems) from None


DEFAULT = "validation"


class ValidationTask(Record):
    """What is predicted at once: a scenario, which may still have to be read, or a table of collectives."""

    group: str
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
    tasks, named = list[ValidationTask](), [*map(Path, places)]
    for path in measured_files(places):
        group = path.absolute().parent.name
        if path.suffix == ".csv" and (path.name == SCENARIO_TABLE or not (collectives or path not in named)):
            with collect_problems(problems):
                wrong: list[Problem] = []
                rows = list(read_rows(path, (TEMPLATE,), wrong))
                tasks += [ValidationTask(group, path=path, row=row) for row in rows]
                problems += wrong if rows or wrong else [Problem(str(path), "at least one row", "none")]
        elif path.suffix != ".csv" or collectives:
            tasks.append(ValidationTask(group, path=path))
    return tasks


def scenario_of_task(task: ValidationTask) -> Scenario:
    """The scenario of a task. Raises InputError where it cannot be read."""
    if task.row is not None:
        return scenario_of_row(task.row, task.path.parent)
    scenario = task.scenario or load(task.path)
    refuse_contradiction(scenario, f"{task.scenario.name if task.scenario else task.path}: measured")
    return scenario


def read_measured(places: Sequence[str | Path]) -> MeasuredTable:
    """The measured scenarios of files, of tables (`.csv`, as `scenario_of_row` says), and of folders with either.

    A file that is named must have `measured:`; in folders, files without it are passed over, and tables are those
    called `rows.csv`.
    """
    made = MeasuredTable()
    for place in map(Path, places):
        with collect_problems(made.problems):
            for task in find_tasks([place], made.problems, collectives=False):
                with collect_problems(made.problems):
                    scenario = scenario_of_task(task)
                    if task.row is not None or measured_values(scenario):
                        made.samples.append(scenario)
                        made.digests[task.path.name] = made.digests.get(task.path.name) or digest(task.path)
                    elif not place.is_dir():
                        hint = "state what was measured: `measured: {iteration_time: 351 ms, source: ...}`"
                        raise InputError(Problem(str(task.path), "a scenario with `measured:`", "none", hint))
    if not made.samples and not made.problems:
        made.problems.append(Problem(", ".join(map(str, places)), "at least one scenario with `measured:`", "none"))
    return made


def measured_files(places: Sequence[str | Path]) -> list[Path]:
    """Scenario files, then tables (`.csv`), among the given files and in the given folders (default: the shipped ones).

    Raises InputError for a file that does not exist.
    """
    files: list[Path] = []
    if not places:
        shipped = find_shipped(f"scenarios/{DEFAULT}", here=True)
        if shipped is None:
            what = "scenarios/validation here or in the package"
            raise InputError(Problem("validate", what, "none", "name a folder"))
        places = [shipped]
    for place in places:
        path = Path(place)
        if path.is_dir():
            files += sorted(path.rglob("*.yaml"), key=_natural)
            files += sorted(item for name in (TABLE, SCENARIO_TABLE) for item in path.rglob(name))
        elif path.suffix == ".csv" and path.is_file():
            files.append(path)
        elif found := find_file(str(place), None, "scenarios"):
            files.append(found)
        else:
            raise InputError(Problem(str(place), "a scenario file or a folder of them", "nothing there"))
    return sorted(files, key=lambda path: path.suffix == ".csv")


def _natural(path: Path) -> tuple[str, list[tuple[int, str]]]:
    parts = path.stem.split("-")
    return str(path.parent), [(int(part), "") if part.isdigit() else (0, part) for part in parts]
