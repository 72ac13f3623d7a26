"""Choosing rows of a sweep by the values of varied keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.records import replace
from simulator.reporting.figures.data.sources import Source


def select_rows(source: Source, conditions: Mapping[str, Any]) -> Source:
    """The source with only the rows that have the given values, by column; only a sweep has rows.

    The name of a column may be without its unit; a quantity may have a unit (`10 Gbit/s`). Raises InputError for an
    unknown column, or where no row is left.
    """
    if not conditions:
        return source
    table = source.table
    if source.kind != "sweep":
        raise InputError(Problem("--where", "a sweep", f"{source.place}, which is no sweep"))
    for key, value in conditions.items():
        column = find_column(table, key)
        if column not in table:
            nearest = suggest_nearest(key, map(str, table.columns))
            raise InputError(Problem("--where", "a column of the sweep", repr(key), nearest))
        kept = _equal_rows(table[column], value)
        if not kept.any():
            known = ", ".join(str(item) for item in table[column].drop_duplicates().head(12))
            raise InputError(
                Problem(f"--where {key}", "a value that is in the sweep", format_value(value), f"there are {known}")
            )
        table = table[kept]
    return replace(source, table=table.reset_index(drop=True))


def find_column(table: pd.DataFrame, key: str) -> str:
    """The column of this name, which may be without its unit; the name itself where there is none."""
    return next((key + unit for unit in ("", "_bytes_per_s", "_bytes", "_s") if key + unit in table), key)


def _equal_rows(values: pd.Series[Any], wanted: Any) -> pd.Series[bool]:
    if not pd.api.types.is_numeric_dtype(values):
        return values.astype("string").eq(str(wanted)).fillna(False).astype(bool)
    from simulator.units import TABLES, parse

    for dimension in ("", *TABLES):
        try:
            number = float(wanted) if not dimension else parse(str(wanted), dimension)
        except (TypeError, ValueError):
            continue
        return pd.Series(np.isclose(values.astype(float), number, rtol=1e-6), index=values.index)
    return pd.Series(False, index=values.index)
