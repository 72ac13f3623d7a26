"""Measured scenarios from files, folders and tables, for fits: every problem at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simulator.calibration.tables import digest
from simulator.errors import InputError, Problem, collect_problems
from simulator.prediction.measured import measured_values
from simulator.records import Struct, field
from simulator.scenario.scenario import Scenario
from simulator.studies.validate.tasks import ValidationTask, find_tasks, scenario_of_task


class MeasuredInput(Struct):
    """Scenarios with `measured:`, the SHA-256 of each file by its name, and what is wrong with the input."""

    scenarios: list[Scenario] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def read_measured(places: Sequence[str | Path]) -> MeasuredInput:
    """The measured scenarios of files, of tables (`.csv`, as `scenario_table` says), and of folders with either.

    A file that is named must have `measured:`; in folders, files without it are passed over, and tables are those
    called `rows.csv`.
    """
    made = MeasuredInput()
    for place in map(Path, places):
        with collect_problems(made.problems):
            for task in find_tasks([place], made.problems, collectives=False):
                with collect_problems(made.problems):
                    _read_task(task, place.is_dir(), made)
    if not made.scenarios and not made.problems:
        names = ", ".join(map(str, places))
        made.problems.append(Problem(names, "at least one scenario with `measured:`", "none"))
    return made


def _read_task(task: ValidationTask, in_folder: bool, made: MeasuredInput) -> None:
    scenario = scenario_of_task(task)
    if task.row is not None or measured_values(scenario):
        made.scenarios.append(scenario)
        made.digests[task.path.name] = made.digests.get(task.path.name) or digest(task.path)
    elif not in_folder:
        hint = "state what was measured: `measured: {iteration_time: 351 ms, source: ...}`"
        raise InputError(Problem(str(task.path), "a scenario with `measured:`", "none", hint))
