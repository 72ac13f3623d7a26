"""The table of a sweep, in memory and on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from simulator.studies.storage.files import replace_file

_WHOLE = ("workers", "seed")
_BLOCK = 1000


def table_of(varied: Mapping[str, list[Any]], rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per point: varied keys, then the outcome, last `error` (missing where the point succeeded).

    Numbers are floats, except varied whole numbers, `workers` and `seed`; the rest is text. Values are kept by column
    and equal texts once, so that memory holds no row as a mapping.
    """
    columns: dict[str, Any] = {name: _column(values, whole=True) for name, values in varied.items()}
    cells: dict[str, list[Any]] = {}
    count = 0
    for names, block in _blocks(rows):
        for name, values in zip(names, zip(*block, strict=True), strict=True):
            column = cells.setdefault(name, [])
            column += [None] * (count - len(column))
            column += values
        count += len(block)
    for name in [name for name in cells if name != "error"] + ["error"]:
        column = cells.pop(name, [])
        if name not in columns:
            column += [None] * (count - len(column))
            columns[name] = _column(column, whole=name in _WHOLE, text=name == "error")
    return pd.DataFrame(columns)


def _blocks(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[tuple[str, ...], list[list[Any]]]]:
    """Rows that follow each other with the same names: the names, and the values of each row."""
    texts: dict[str, str] = {}
    names: tuple[str, ...] = ()
    block: list[list[Any]] = []
    for row in rows:
        if block and (tuple(row) != names or len(block) >= _BLOCK):
            yield names, block
            block = []
        names = tuple(row)
        block.append([texts.setdefault(value, value) if type(value) is str else value for value in row.values()])
    if block:
        yield names, block


def _column(values: list[Any], *, whole: bool, text: bool = False) -> pd.Series:
    """Values as a column: booleans, whole numbers where they are asked for, floats, else text."""
    types = set(map(type, values)) - {type(None)}
    missing = None in values
    if not text and types == {bool}:
        return pd.Series(values, dtype="boolean" if missing else "bool")
    if not text and types and all(issubclass(kind, int | float) and kind is not bool for kind in types):
        exact = whole and not missing and all(issubclass(kind, int) for kind in types)
        exact = exact and all(abs(value) < 2**63 for value in values)
        return pd.Series(values, dtype="int64" if exact else "float64")
    return pd.Series([None if value is None else str(value) for value in values], dtype="string")


def write_table(folder: Path, name: str, frame: pd.DataFrame) -> None:
    """Write `name`.parquet and `name`.csv atomically. Raises InputError where they cannot be written."""
    replace_file(folder / f"{name}.parquet", lambda path: frame.to_parquet(path, engine="pyarrow", index=False))
    replace_file(folder / f"{name}.csv", lambda path: frame.to_csv(path, index=False, lineterminator="\n"))
