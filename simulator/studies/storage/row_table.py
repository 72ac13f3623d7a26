"""Results as rows of a table, in memory and as files; PyArrow is imported only where it is needed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.answers import plain
from simulator.files import replace_file
from simulator.loading.csv_tables import write_rows
from simulator.prediction.result import TIME_INTERVAL, RunResult
from simulator.prediction.result_parts import Basis

if TYPE_CHECKING:
    import pyarrow as pa


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
_IN_PANDAS = {"boolean": "bool", "string": "unicode"}
"""What the values of a column are called where that is not the name of the column's type."""


def table_of(varied: Mapping[str, list[Any]], rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """One row per point: varied keys, then the outcome, last `error` (missing where the point succeeded).

    Numbers are floats, except varied whole numbers, `workers` and `seed`; the rest is text. Values are kept by column
    and equal texts once, so that memory holds no row as a mapping. The types of pandas are written beside the columns.
    """
    import pyarrow as pa

    columns = {name: _column(values, whole=True) for name, values in varied.items()}
    cells: dict[str, list[Any]] = {}
    texts: dict[str, str] = {}
    count = 0
    for count, row in enumerate(rows, 1):
        for name, value in row.items():
            column = cells.setdefault(name, [])
            column += [None] * (count - 1 - len(column))
            column.append(texts.setdefault(value, value) if type(value) is str else value)
    for name in [name for name in cells if name != "error"] + ["error"]:
        column = cells.pop(name, [])
        if name not in columns:
            column += [None] * (count - len(column))
            columns[name] = _column(column, whole=name in _WHOLE, text=name == "error")
    about = [
        {"name": name, "field_name": name, "pandas_type": _IN_PANDAS.get(kind, kind), "numpy_type": kind,
         "metadata": None}
        for name, (kind, _) in columns.items()
    ]  # fmt: skip
    creator = {"library": "pyarrow", "version": pa.__version__}
    known = {"index_columns": [], "column_indexes": [], "columns": about, "attributes": {}, "creator": creator}
    return pa.table({name: made for name, (_, made) in columns.items()}, metadata={"pandas": json.dumps(known)})


def _column(values: list[Any], *, whole: bool, text: bool = False) -> tuple[str, pa.Array]:
    """Values as a column, and its type in pandas: booleans, whole numbers where they are asked for, floats, else text.

    Missing values are null. From buffers, since PyArrow's own conversion of lists imports pandas.
    """
    import pyarrow as pa

    types = set(map(type, values)) - {type(None)}
    present = np.array([value is not None for value in values], dtype=bool)
    if not text and types == {bool}:
        kind = "bool" if present.all() else "boolean"
    elif not text and types and all(issubclass(each, int | float) and each is not bool for each in types):
        exact = whole and present.all() and all(issubclass(each, int) for each in types)
        kind = "int64" if exact and all(abs(value) < 2**63 for value in values) else "float64"
    else:
        builder = pa.lib.StringBuilder()
        builder.append_values([None if value is None else str(value) for value in values])
        return "string", builder.finish()
    data = np.array([0 if value is None else value for value in values], dtype=kind.replace("boolean", "bool"))
    bits = [np.packbits(flags, bitorder="little") if flags.dtype == bool else flags for flags in (present, data)]
    buffers = [None if present.all() else pa.py_buffer(bits[0]), pa.py_buffer(bits[1])]
    return kind, pa.Array.from_buffers(pa.type_for_alias(kind), len(values), buffers)


def write_table(place: Path, table: pa.Table) -> None:
    """Write the files of `place`, which has no ending, atomically. Raises InputError where they cannot be written."""
    import pyarrow.parquet as pq

    def fill(path: str) -> None:
        with open(path, "wb") as file:  # PyArrow itself opens only names in UTF-8
            pq.write_table(table, file)

    replace_file(place.with_name(f"{place.name}.parquet"), fill)
    rows = zip(*[column.to_pylist() for column in table.columns], strict=True)
    write_rows(place.with_name(f"{place.name}.csv"), table.column_names, rows)
