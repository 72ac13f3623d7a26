"""The figures that are set beside what a paper states: computed from the rows of a part, never typed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.reporting.wording.blocks import method_name
from simulator.scenario.conditions import matches, part_of
from simulator.studies.papers.document import ComputedFigure
from simulator.units import COLUMN_SUFFIXES


def value_of(
    found: ComputedFigure, rows: pd.DataFrame, where: str, kernel: Mapping[str, Any] | None = None
) -> float | str:
    """A figure from the rows of a part; text where `show` is `text`.

    `show: text` lists the different values. `kernel`: conditions that rows meet as well. Raises InputError, whose
    place is `where`, for an unknown column, where no row is left, and where the result is no number.
    """
    near = {**found.where, **(kernel or {})}
    own = _reduced(found, _chosen(rows, near, where), where)
    if found.over is None or isinstance(own, str):
        return own
    other = _reduced(found, _chosen(rows, {**near, **found.over}, where), where)
    if isinstance(other, str) or not other or not math.isfinite(own / other):
        raise InputError(Problem(where, "a number above 0 to divide by", format_value(other)))
    return own / other


def _chosen(rows: pd.DataFrame, conditions: Mapping[str, Any], where: str) -> pd.DataFrame:
    met = [True] * len(rows)
    for name, condition in conditions.items():
        values = _values(rows, name, where, compared=True)
        met = [so_far and matches(value, condition) for so_far, value in zip(met, values, strict=True)]
    if not any(met):
        known = ", ".join(f"{name} {format_value(_known(_values(rows, name, where, True)))}" for name in conditions)
        raise InputError(Problem(where, "rows that meet the conditions", format_value(dict(conditions)), known))
    return rows.loc[met]


def _known(values: list[Any]) -> list[Any]:
    """The first different values, for a message."""
    return [value for place, value in enumerate(values) if value not in values[:place]][:12]


def _values(rows: pd.DataFrame, name: str, where: str, compared: bool = False) -> list[Any]:
    """The values of a column by its name, which may be without its unit, or by a key of the mappings in a column.

    `compared`: quantities carry their unit, as those do that they are compared with.
    """
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        for unit, suffix in {"": "", **COLUMN_SUFFIXES}.items():
            column = ".".join(parts[:cut]) + suffix
            if column in rows:
                values = [part_of(_plain(value), parts[cut:], Path()) for value in rows[column]]
                return [f"{value!r} {unit}" if unit and compared else value for value in values]
    raise InputError(Problem(where, "a column of the rows", repr(name), suggest_nearest(name, map(str, rows.columns))))


def _plain(value: Any) -> Any:
    """A cell as plain data: mappings are JSON in a table."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value.item() if hasattr(value, "item") else value


def has_settled(found: ComputedFigure, rows: pd.DataFrame, where: str, kernel: Mapping[str, Any] | None = None) -> bool:
    """Whether no row that a figure is taken from, or is compared with, is of a replay that has not settled."""
    near = {**found.where, **(kernel or {})}
    both = [near] if found.over is None else [near, {**near, **found.over}]
    return "unsettled" not in rows or not any(_chosen(rows, each, where)["unsettled"].any() for each in both)


def _reduced(found: ComputedFigure, rows: pd.DataFrame, where: str) -> float | str:
    if found.lowest:
        numbers = _numbers(_values(rows, found.lowest, where))
        if not numbers.notna().any():
            raise InputError(Problem(where, f"numbers in the column {found.lowest}", "none"))
        rows = rows.iloc[[int(numbers.argmin())]]
    values = _values(rows, found.column, where)
    if found.show == "text":
        return ", ".join(
            method_name(json.dumps(each)) if isinstance(each, dict) else str(each) for each in _known(values)
        )
    numbers = _numbers(values)
    if found.per:
        numbers = numbers / _numbers(_values(rows, found.per, where)).replace(0, math.nan)
    kept = numbers[numbers.abs() < math.inf]
    if kept.empty:
        raise InputError(Problem(where, f"numbers in the column {found.column}", format_value(_known(values))))
    place = {"first": 0, "last": -1}.get(found.take)
    return float(getattr(kept, found.take)() if place is None else kept.iloc[place])


def _numbers(values: list[Any]) -> pd.Series[float]:
    """The values that are numbers; NaN stands for the others."""
    known = (isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return pd.Series([value if number else math.nan for value, number in zip(values, known, strict=True)], dtype=float)
