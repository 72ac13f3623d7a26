"""Measured scenarios from files, folders and tables, for fits: every problem at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from simulator.calibration.tables import digest
from simulator.errors import InputError, Problem, format_value
from simulator.loading.csv_tables import MAX_PROBLEMS, read_rows
from simulator.scenario.reading import load
from simulator.scenario.scenario import Scenario
from simulator.studies.validate.measured_rows import QUANTITIES
from simulator.studies.validate.validation import scenario_files

_WORDS = {"scenario", "name", "source", "used_in_fit"}


@dataclass(slots=True)
class MeasuredInput:
    """Scenarios with `measured:`, the SHA-256 of each file by its name, and what is wrong with the input."""

    scenarios: list[Scenario] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def read_measured(places: Sequence[str | Path]) -> MeasuredInput:
    """The measured scenarios of files, folders and tables (`.csv`).

    A file that is named must have `measured:`; in folders, files without it are passed over. A table has a column
    `scenario` (a scenario file or name), columns with dotted keys that its rows set, and measured times with units in
    columns called as under `measured:`. Its rows are fitted unless a column `used_in_fit` says false.
    """
    made = MeasuredInput()
    for place in map(Path, places):
        try:
            if place.suffix == ".csv":
                _read_table(place, made)
                continue
            for path in scenario_files([place]):
                _read_scenario(path, place.is_dir(), made)
        except InputError as error:
            made.problems.extend(error.problems)
        except OSError as error:
            made.problems.append(Problem(str(place), "a file that can be read", error.strerror or "an error"))
    if not made.scenarios and not made.problems:
        names = ", ".join(map(str, places))
        made.problems.append(Problem(names, "at least one scenario with `measured:`", "none"))
    return made


def _read_scenario(path: Path, in_folder: bool, made: MeasuredInput) -> None:
    try:
        scenario = load(path)
    except InputError as error:
        made.problems.extend(error.problems)
        return
    if scenario.measured is not None:
        made.scenarios.append(scenario)
        made.digests[path.name] = digest(path)
    elif not in_folder:
        hint = "state what was measured: `measured: {iteration_time: 351 ms, source: ...}`"
        made.problems.append(Problem(str(path), "a scenario with `measured:`", "none", hint))


def _read_table(path: Path, made: MeasuredInput) -> None:
    problems: list[Problem] = []
    for row in read_rows(path, ("scenario",), problems):
        cells = {key.strip(): text.strip() for key, text in row.cells.items() if text.strip()}
        if not set(cells) & set(QUANTITIES):
            problems.append(Problem(row.where, f"a time in a column {' or '.join(QUANTITIES)}", "none"))
            continue
        near = path.parent / cells.get("scenario", "")
        base = near if near.is_file() else cells.get("scenario", "")
        try:
            made.scenarios.append(load(base, tuple(_overrides(cells, row.where))))
        except InputError as error:
            problems += [Problem(f"{row.where}: {p.where}", p.expected, p.got, p.hint) for p in error.problems]
        if len(problems) >= MAX_PROBLEMS:
            break
    made.problems.extend(problems)
    made.digests[path.name] = digest(path)


def _overrides(cells: Mapping[str, str], where: str) -> Iterator[str]:
    """What a row of a table sets in its scenario, as `key=value`."""
    mark = cells.get("used_in_fit", "true").lower()
    if mark not in ("true", "false"):
        raise InputError(Problem("used_in_fit", "true or false", format_value(mark)))
    measured = {key: cells[key] for key in QUANTITIES if key in cells}
    about = {"source": cells.get("source", where), "used_in_fit": mark == "true"}
    yield f"name={json.dumps(cells.get('name', where))}"
    for key, text in cells.items():
        if key not in _WORDS and key not in QUANTITIES:
            yield f"{key}={text}"
    yield f"measured={json.dumps(measured | about)}"
