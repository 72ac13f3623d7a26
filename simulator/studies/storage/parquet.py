"""A table as a Parquet file that pandas reads as the data frame of that table.

Written by PyArrow from buffers of each column, since its own conversion of lists imports pandas.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from simulator.studies.storage.row_table import ColumnValues, Table

_TYPES = {
    "bool": pa.bool_(), "boolean": pa.bool_(), "int64": pa.int64(), "float64": pa.float64(), "string": pa.string(),
}  # fmt: skip
_IN_PANDAS = {"boolean": "bool", "string": "unicode"}
"""What the values of a column are called where that is not the name of the column's type."""


def write_parquet(table: Table, path: str) -> None:
    """Write a table as one row group; missing values are null."""
    fields = [(name, _TYPES[column.kind]) for name, column in table.items()]
    schema = pa.schema(fields, metadata={"pandas": json.dumps(_for_pandas(table))})
    made = pa.Table.from_arrays([_array_of(column) for column in table.values()], schema=schema)
    with open(path, "wb") as file:  # PyArrow itself opens only names in UTF-8
        pq.write_table(made, file)


def _array_of(column: ColumnValues) -> pa.Array:
    values = column.values
    if column.kind == "string":
        builder = pa.lib.StringBuilder()
        builder.append_values(values)
        return builder.finish()
    present = np.array([value is not None for value in values], dtype=bool)
    data = np.array([value or 0 for value in values], dtype=column.kind.replace("boolean", "bool"))
    buffers = [None if present.all() else _bits(present), _bits(data) if data.dtype == bool else pa.py_buffer(data)]
    return pa.Array.from_buffers(_TYPES[column.kind], len(values), buffers)


def _bits(values: Any) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))


def _for_pandas(table: Table) -> Mapping[str, Any]:
    """What pandas stores beside a data frame of these columns, so that it restores their types."""
    columns = [
        {"name": name, "field_name": name, "pandas_type": _IN_PANDAS.get(column.kind, column.kind),
         "numpy_type": column.kind, "metadata": None}
        for name, column in table.items()
    ]  # fmt: skip
    creator = {"library": "pyarrow", "version": pa.__version__}
    return {"index_columns": [], "column_indexes": [], "columns": columns, "attributes": {}, "creator": creator}
