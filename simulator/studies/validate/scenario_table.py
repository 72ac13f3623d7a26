"""Tables of measured iterations: each row is a template scenario with some of its keys replaced."""

from __future__ import annotations

from pathlib import Path

from simulator.errors import InputError, Problem, format_value
from simulator.loading.csv_tables import Row
from simulator.loading.documents import parse_document, read_document
from simulator.loading.replacing import replace_key
from simulator.records import replace
from simulator.scenario.reading import scenario_of
from simulator.scenario.scenario import Scenario
from simulator.studies.validate.measured_rows import refuse_contradiction

NAME = "rows.csv"
TEMPLATE, _NOTE = "template", "note"
"""The column that names a scenario file, and the one that is for people."""


def scenario_of_row(row: Row, folder: Path) -> Scenario:
    """The scenario of a row.

    The column `template` names a scenario file in the same folder, and `note` is for people; every other column is a
    dotted key of a scenario, such as `cluster.nodes` or `measured.iteration_time`. Cells are values as in YAML; an
    empty one leaves what the template says. Raises InputError with every problem and the place of the row.
    """
    try:
        return _scenario(row, folder)
    except InputError as error:
        raise InputError(replace(item, where=f"{row.where}: {item.where}") for item in error.problems) from None


def _scenario(row: Row, folder: Path) -> Scenario:
    """The template with one row's changes."""
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
