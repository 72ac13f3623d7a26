"""The table of a sweep, in memory and on disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from simulator.studies.storage.files import replace_file

_WHOLE = ("workers", "seed")


def table_of(varied: Mapping[str, list[Any]], rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per point: varied keys, then the outcome, last `error` (missing where the point succeeded).

    Numbers are floats, except varied whole numbers, `workers` and `seed`; the rest is text. Values are kept by column
    and equal texts once, so that memory holds no row as a mapping.
    """
    columns: dict[str, Any] = {name: _column(values, whole=True) for name, values in varied.items()}
    cells: dict[str, list[Any]] = {}
    texts: dict[str, str] = {}
    count = 0
    for row in rows:
        for name, value in row.items():
            column = cells.setdefault(name, [])
            if len(column) < count:
                column.extend([None] * (count - len(column)))
            column.append(texts.setdefault(value, value) if isinstance(value, str) else value)
        count += 1
    for name in [name for name in cells if name != "error"] + ["error"]:
        column = cells.pop(name, [])
        if name not in columns:
            column += [None] * (count - len(column))
            columns[name] = _column(column, whole=name in _WHOLE, text=name == "error")
    return pd.DataFrame(columns)


def _column(values: list[Any], *, whole: bool, text: bool = False) -> pd.Series:
    present = [value for value in values if value is not None]
    if not text and present and all(isinstance(value, bool) for value in present):
        return pd.Series(values, dtype="bool" if len(present) == len(values) else "boolean")
    if not text and present and all(isinstance(v, int | float) and not isinstance(v, bool) for v in present):
        exact = whole and len(present) == len(values) and all(isinstance(v, int) and abs(v) < 2**63 for v in present)
        return pd.Series(values, dtype="int64" if exact else "float64")
    return pd.Series([None if value is None else str(value) for value in values], dtype="string")


def write_table(folder: Path, name: str, frame: pd.DataFrame) -> None:
    """Write `name`.parquet and `name`.csv atomically. Raises InputError where they cannot be written."""
    replace_file(folder / f"{name}.parquet", lambda path: frame.to_parquet(path, engine="pyarrow", index=False))
    replace_file(folder / f"{name}.csv", lambda path: frame.to_csv(path, index=False, lineterminator="\n"))
