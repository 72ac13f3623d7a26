"""What decides a comparison, as a table for the terminal and for pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from simulator.prediction.comparison import Comparison, Worth
from simulator.records import replace
from simulator.reporting.wording.tables import Column, Table
from simulator.units import join_words

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


_NOTE = (
    "Within: the factor by which the input may be wrong either way in nine of ten cases. Doubt: its share of the "
    "variance of the speed-up's logarithm."
)
_DECIDED = " Decided: the probability that the answer is a sure yes or no once the input is measured."


def decisive_table(comparison: Comparison | None) -> Table | None:
    """The few measurements that would decide an open comparison; None where it is decided, or there is none."""
    if comparison is None or comparison.word != "undecided":
        return None
    return value_table(comparison.word, comparison.value_of_information, SHOWN)


def value_table(word: str | None, rows: Sequence[Worth] | None, most: int | None = None) -> Table | None:
    """What each measurement is worth to a verdict; None where there is nothing to measure.

    Where the answer is open, those that are likeliest to decide it come first; where it is sure, those that hold most
    of the doubt that is left.
    """
    if not rows:
        return None
    times = Counter(row.input for row in rows)
    rows = [row if times[row.input] == 1 else replace(row, input=_parts(row)) for row in rows]
    if word == "undecided":
        return Table.of("What decides it", _COLUMNS, rows[:most], note=_NOTE + _DECIDED)
    columns = [column for column in _COLUMNS if column.key != "decided"]
    by_share = sorted(rows, key=lambda row: -row.share)
    return Table.of("What the doubt that is left rests on", columns, by_share[:most], note=_NOTE)


def _parts(row: Worth) -> str:
    """What of an input a row is about, such as `start-up between nodes`."""
    return join_words([each.rpartition("/")[2] for each in row.id])
