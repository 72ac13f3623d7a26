"""Rows of the shipped tables of measured iterations, by set-up and name."""

from functools import cache

from places import ROOT

from simulator.files import as_yaml
from simulator.studies.validate.measured_rows import SCENARIO_TABLE, read_measured


@cache
def rows_of(group):
    """The scenarios of a set-up's table by their names."""
    table = ROOT / "scenarios" / "validation" / group / SCENARIO_TABLE
    return {item.name: item for item in read_measured([table]).samples}


def row_of(group, name):
    """The scenario of one row."""
    return rows_of(group)[name]


def write_row(path, group, name):
    """One row as a scenario file; returns its path."""
    path.write_text(as_yaml(row_of(group, name).resolved()))
    return path
