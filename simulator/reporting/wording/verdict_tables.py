"""What decides a comparison, as a table for the terminal and for pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simulator.reporting.wording.tables import Column, Table

SHOWN = 3
"""Measurements that the terminal lists."""
_COLUMNS = (
    Column("input", "to measure"),
    Column("level", "level"),
    Column("width", "within", "factor", "the factor by which it may be wrong either way in nine of ten cases"),
    Column("share", "doubt", "percent", "its share of the variance of the speed-up's logarithm"),
    Column("decided", "decided", "probability", "the probability that yes or no is sure once it is measured"),
    Column("command", "command"),
)


def value_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """What each measurement is worth, most valuable first, from the entries of `value_of_information`."""
    note = (
        "Within: the factor by which the input may be wrong either way in nine of ten cases. Doubt: its share of the "
        "variance of the speed-up's logarithm. Decided: the probability that the answer is a sure yes or no once the "
        "input is measured."
    )
    return Table.of("What decides it", _COLUMNS, rows, note=note)
