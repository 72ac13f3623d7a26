"""A sweep's rows as figures use them: the method of each, what else was varied, and those that are chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.records import replace
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.wording.blocks import format_varied, last_word, method_name

_METHOD = "sparsifier"
DENSITY = "sparsifier.density"
BANDWIDTH = "cluster.network.bandwidth_bytes_per_s"
_UNNAMED = ("density", "bandwidth")
"""Varied keys whose values are understood without the name."""


def varied(table: pd.DataFrame) -> list[str]:
    """The columns that were varied: those before the columns of the result, which begin with the digest."""
    columns = list(map(str, table.columns))
    return columns[: columns.index("digest")] if "digest" in columns else []


def varied_keys(table: pd.DataFrame) -> list[str]:
    """The varied columns that take more than one value in these rows."""
    return [name for name in varied(table) if table[name].nunique(dropna=False) > 1]


def methods(table: pd.DataFrame, by: str = _METHOD) -> pd.Series[str]:
    """The method of each row, or its value of the varied key `by`; one name for all where the sweep did not vary it."""
    if by in table:
        return table[by].map(method_name)
    return pd.Series("as in the base", index=table.index)


def intervals(table: pd.DataFrame) -> pd.DataFrame:
    """The ends of the 90 % intervals of the iteration time, `p5_s` and `p95_s`; missing where the sweep has none."""
    names = {"p5_s": "iteration_time_interval_s.p5", "p95_s": "iteration_time_interval_s.p95"}
    return pd.DataFrame(
        {name: table.get(column, pd.Series(float("nan"), table.index)) for name, column in names.items()}
    )


def keys_of(column: str) -> list[str]:
    """The varied keys that an axis with this column shows; the number of workers is that of nodes and GPUs."""
    return ["cluster.nodes", "cluster.gpus_per_node"] if column == "workers" else [column]


def combinations(table: pd.DataFrame, without: Sequence[str] = ()) -> list[str]:
    """Each row in words, by what varies apart from the keys in `without`."""
    rest = table.drop(columns=[name for name in without if name in varied(table)])
    return point_labels(rest) if varied(rest) else methods(rest).tolist()


def point_labels(table: pd.DataFrame) -> list[str]:
    """Each row in words: its method, then whatever else takes more than one value in these rows."""
    parts = [methods(table)] if _METHOD in table else []
    others = [name for name in varied_keys(table) if name != _METHOD]
    parts += [table[name].map(lambda value, column=name: _format_named(column, value)) for name in others]
    if not parts:
        return [str(number) for number in range(len(table))]
    nothing = "no " + " or ".join(map(last_word, others))  # keys that vary, and are not set in this row
    return [", ".join(item for item in each if item) or nothing for each in zip(*parts, strict=True)]


def _format_named(column: str, value: Any) -> str:
    """A varied value with the last word of its key, unless the value is clear without it."""
    if pd.isna(value):
        return ""
    name = last_word(column)
    named = pd.api.types.is_number(value) and name not in _UNNAMED
    return f"{name} {format_varied(column, value)}" if named else format_varied(column, value)


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
