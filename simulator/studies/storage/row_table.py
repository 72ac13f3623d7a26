"""The table of a sweep, in memory and on disk. Pandas is imported only by who wants a data frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from simulator.records import Record

if TYPE_CHECKING:
    import pandas as pd

_WHOLE = ("workers", "seed")
_BLOCK = 1000
Kind = Literal["bool", "boolean", "int64", "float64", "string"]
"""What a column holds, as pandas calls it; only `boolean`, `float64` and `string` have missing values."""


class ColumnValues(Record):
    """The values of a column, of one type; None where one is missing."""

    kind: Kind
    values: list[Any]


Table = Mapping[str, ColumnValues]
"""Columns of equal length, by name."""


def table_of(varied: Mapping[str, list[Any]], rows: Iterable[Mapping[str, Any]]) -> Table:
    """One row per point: varied keys, then the outcome, last `error` (missing where the point succeeded).

    Numbers are floats, except varied whole numbers, `workers` and `seed`; the rest is text. Values are kept by column
    and equal texts once, so that memory holds no row as a mapping.
    """
    columns = {name: _column(values, whole=True) for name, values in varied.items()}
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
    return columns


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


def _column(values: list[Any], *, whole: bool, text: bool = False) -> ColumnValues:
    """Values as a column: booleans, whole numbers where they are asked for, floats, else text."""
    types = set(map(type, values)) - {type(None)}
    missing = None in values
    if not text and types == {bool}:
        return ColumnValues("boolean" if missing else "bool", values)
    if not text and types and all(issubclass(kind, int | float) and kind is not bool for kind in types):
        exact = whole and not missing and all(issubclass(kind, int) for kind in types)
        if exact and all(abs(value) < 2**63 for value in values):
            return ColumnValues("int64", values)
        return ColumnValues("float64", [None if value is None else float(value) for value in values])
    return ColumnValues("string", [None if value is None else str(value) for value in values])


def frame_of(table: Table) -> pd.DataFrame:
    """The table as a data frame."""
    import pandas as pd

    return pd.DataFrame({name: pd.Series(column.values, dtype=column.kind) for name, column in table.items()})
