"""Results as rows of a table, in memory and as files; pandas and PyArrow are imported only where they are needed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from simulator.answers import plain
from simulator.files import replace_file
from simulator.loading.csv_tables import write_rows
from simulator.prediction.result import TIME_INTERVAL, RunResult
from simulator.prediction.result_parts import Basis
from simulator.records import Record

if TYPE_CHECKING:
    import pandas as pd


def row_of(result: RunResult) -> dict[str, Any]:
    """A result as one row: the keys of its JSON joined by dots (`breakdown_s.forward`), without lists.

    Warnings (without their sizes, so that they can be counted) and `calibration` become one text each. The scenario's
    name is left out: points with one digest share a row.
    """
    row: dict[str, Any] = {}
    for key, value in plain(result).items():
        if key == "scenario":
            continue
        if key == TIME_INTERVAL:
            row |= {f"{key}.p5": value[0], f"{key}.p95": value[1]}
        elif key == "warnings":
            row[key] = "; ".join(text.replace(";", ",") for text in result.warning_texts)
        elif key == "calibration":
            row[key] = "; ".join(map(_describe_basis, result.calibration))
        else:
            _flatten(key, value, row)
    return row


def _describe_basis(basis: Basis) -> str:
    error = basis.held_out_mape
    known = "held-out error not stated" if error is None else f"held-out error {100 * error:.3g} %"
    return f"{basis.what} {basis.id}: {known}".replace(";", ",")


def _flatten(name: str, value: Any, row: dict[str, Any]) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _flatten(f"{name}.{key}", inner, row)
    elif not isinstance(value, list | tuple):
        row[name] = value


_WHOLE = ("workers", "seed")
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
    texts: dict[str, str] = {}
    count = 0
    for count, row in enumerate(rows, 1):
        for name, value in row.items():
            column = cells.setdefault(name, [])
            if len(column) < count - 1:
                column += [None] * (count - 1 - len(column))
            column.append(texts.setdefault(value, value) if type(value) is str else value)
    for name in [name for name in cells if name != "error"] + ["error"]:
        column = cells.pop(name, [])
        if name not in columns:
            column += [None] * (count - len(column))
            columns[name] = _column(column, whole=name in _WHOLE, text=name == "error")
    return columns


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


_IN_PANDAS = {"boolean": "bool", "string": "unicode"}
"""What the values of a column are called where that is not the name of the column's type."""


def write_table(place: Path, table: Table) -> None:
    """Write the files of `place`, which has no ending, atomically. Raises InputError where they cannot be written."""
    replace_file(place.with_name(f"{place.name}.parquet"), partial(_write_parquet, table))
    rows = zip(*[column.values for column in table.values()], strict=True)
    write_rows(place.with_name(f"{place.name}.csv"), list(table), rows)


def _write_parquet(table: Table, path: str) -> None:
    """Write a table as one row group, which pandas reads as the data frame of that table; missing values are null.

    From buffers of each column, since PyArrow's own conversion of lists imports pandas.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    def bits(values: Any) -> pa.Buffer:
        return pa.py_buffer(np.packbits(values, bitorder="little"))

    def array_of(kind: Kind, values: list[Any]) -> pa.Array:
        if kind == "string":
            builder = pa.lib.StringBuilder()
            builder.append_values(values)
            return builder.finish()
        present = np.array([value is not None for value in values], dtype=bool)
        data = np.array([value or 0 for value in values], dtype=kind.replace("boolean", "bool"))
        buffers = [None if present.all() else bits(present), bits(data) if data.dtype == bool else pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.type_for_alias(kind), len(values), buffers)

    columns = [
        {"name": name, "field_name": name, "pandas_type": _IN_PANDAS.get(column.kind, column.kind),
         "numpy_type": column.kind, "metadata": None}
        for name, column in table.items()
    ]  # fmt: skip
    creator = {"library": "pyarrow", "version": pa.__version__}
    known = {"index_columns": [], "column_indexes": [], "columns": columns, "attributes": {}, "creator": creator}
    fields = [(name, pa.type_for_alias(column.kind)) for name, column in table.items()]
    schema = pa.schema(fields, metadata={"pandas": json.dumps(known)})
    made = pa.Table.from_arrays([array_of(column.kind, column.values) for column in table.values()], schema=schema)
    with open(path, "wb") as file:  # PyArrow itself opens only names in UTF-8
        pq.write_table(made, file)
