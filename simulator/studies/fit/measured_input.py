"""Measured scenarios from files, folders and tables, for fits: every problem at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simulator.calibration.tables import digest
from simulator.errors import InputError, Problem, collect_problems
from simulator.records import Struct, field
from simulator.scenario.reading import load
from simulator.scenario.scenario import Scenario
from simulator.studies.validate.measured_rows import measured_values, refuse_contradiction
from simulator.studies.validate.scenario_table import NAME as TABLE
from simulator.studies.validate.scenario_table import read_scenarios
from simulator.studies.validate.tasks import scenario_files, table_files


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
            for path in scenario_files([place]):
                _read_scenario(path, place.is_dir(), made)
            for path in table_files([place]):
                if path == place or path.name == TABLE:
                    _read_table(path, made)
    if not made.scenarios and not made.problems:
        names = ", ".join(map(str, places))
        made.problems.append(Problem(names, "at least one scenario with `measured:`", "none"))
    return made


def _read_scenario(path: Path, in_folder: bool, made: MeasuredInput) -> None:
    with collect_problems(made.problems):
        scenario = load(path)
        refuse_contradiction(scenario, f"{path}: measured")
        if measured_values(scenario):
            made.scenarios.append(scenario)
            made.digests[path.name] = digest(path)
        elif not in_folder:
            hint = "state what was measured: `measured: {iteration_time: 351 ms, source: ...}`"
            raise InputError(Problem(str(path), "a scenario with `measured:`", "none", hint))


def _read_table(path: Path, made: MeasuredInput) -> None:
    with collect_problems(made.problems):
        made.scenarios += read_scenarios(path)
        made.digests[path.name] = digest(path)
