"""Writing the files of a trace folder."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

WHOLE = 64  # layers of at most so many elements are kept whole, of larger ones at least so many


def sample(sizes: Sequence[int], total: int, rng: torch.Generator) -> tuple[float, list[Tensor]]:
    """Draw about ``total`` coordinates; return the fraction taken of large layers, and each layer's share."""
    fraction, counts = 0.0, [min(size, WHOLE) for size in sizes]
    while sum(counts) < total:
        fraction += 1e-4
        counts = [max(min(size, WHOLE), round(fraction * size)) for size in sizes]
    pairs = zip(sizes, counts, strict=True)
    return fraction, [torch.randperm(size, generator=rng)[:count].sort().values for size, count in pairs]


def as_float16(values: Tensor) -> tuple[float, Tensor]:
    """Return a power of two and the values times it as float16, the largest between 2**13 and 2**14."""
    scale = 2.0 ** (13 - int(values.abs().max().log2().floor()))
    return scale, (values * scale).half()


def write_parquet(path: Path, group: str, keys: Mapping[str, pa.Array], numbers: Sequence[int], values: Tensor) -> None:
    """Write one row group per entry of ``numbers`` and ``values`` (groups, workers, coordinates).

    The columns are ``group`` (the number), the keys, and w0, w1, ... with the values of the workers.
    """
    workers = [f"w{worker}" for worker in range(values.shape[1])]
    fields = [(group, pa.int32()), *((name, key.type) for name, key in keys.items())]
    schema = pa.schema([*fields, *((name, pa.float16()) for name in workers)])
    options = {
        "compression": "zstd",
        "compression_level": 19,
        "use_dictionary": [group, *(name for name in keys if name != "coordinate")],
        "column_encoding": {"coordinate": "DELTA_BINARY_PACKED"},  # three times smaller, as they are sorted
    }
    with pq.ParquetWriter(path, schema, **options) as out:
        for number, rows in zip(numbers, values.numpy(), strict=True):
            same = pa.array(np.full(rows.shape[1], number, dtype=np.int32))
            out.write_table(pa.Table.from_arrays([same, *keys.values(), *map(pa.array, rows)], schema=schema))


def write_csv(path: Path, columns: str, rows: Sequence[Sequence[object]]) -> None:
    """Write a table whose column names are given as one comma-separated text."""
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([columns.split(","), *rows])
