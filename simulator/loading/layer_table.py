"""layers.csv: the tensors of a workload or of a trace."""

from __future__ import annotations

import math
import os
from pathlib import Path

from simulator.errors import InputError, Problem, format_value
from simulator.loading.csv_tables import Row, read_rows
from simulator.models.exchange import MAX_WIDTH, Rows
from simulator.models.layers import Layer
from simulator.models.limits import MAX_LAYERS
from simulator.models.small_cache import MOST, LatestResults

TIMES = ("forward_s", "backward_s")
HOST_TIMES = ("forward_host_s", "backward_host_s")
_MAX_DIMENSIONS = 64


Table = tuple[tuple[Layer, ...], tuple[tuple[int, ...], ...]]
"""The tensors in forward order, and their shapes where all are given."""


def read_layers(path: Path, times_needed: bool = False) -> Table:
    """The tensors of a layers.csv in forward order, and their shapes where all are given.

    Columns: name, numel, forward_s, backward_s (0 where they may be left out and are), forward_host_s, backward_host_s
    (0 where they are left out), shape, and of embeddings whose gradient consists of rows: rows (how many a batch looks
    up) and row_width. Raises InputError with file, line and column of everything that is wrong.

    The latest tables are remembered as long as their files are the same.
    """
    try:
        state = os.stat(path)
    except OSError:
        return _read_layers(path, times_needed)
    key = os.path.abspath(path), state.st_mtime_ns, state.st_size, state.st_ino, times_needed
    return _LATEST.get(key, lambda: _read_layers(path, times_needed))


_LATEST: LatestResults[Table] = LatestResults(8, lambda table: len(table[0]) <= MOST)


def _read_layers(path: Path, times_needed: bool) -> Table:
    layers: list[Layer] = []
    shapes: list[tuple[int, ...]] = []
    problems: list[Problem] = []
    names = set[str]()
    for row in read_rows(path, ("name", "numel", *(TIMES if times_needed else ())), problems):
        if len(layers) == MAX_LAYERS:
            problems.append(Problem(row.where, f"at most {MAX_LAYERS} layers", "more"))
            break
        name, text = row.cells["name"], row.cells.get("shape", "")
        numel = row.convert("numel", int, "a whole number from 1 up", lambda n: 1 <= n <= 10**12)
        times = [
            row.convert(column, float, "seconds, 0 or more", lambda t: 0 <= t < 1e9)
            if (times_needed and column in TIMES) or row.cells.get(column)
            else 0.0
            for column in (*TIMES, *HOST_TIMES)
        ]
        shape = row.convert("shape", _parse_shape, "a shape such as 64x3x7x7") if text else ()
        if shape and numel and (min(shape) < 1 or math.prod(shape) != numel):
            row.note("shape", f"a shape of {numel} elements", text)
        rows = _parse_rows(row, numel)
        if name in names:
            row.note("name", "a name of its own", format_value(name))
        names.add(name)
        if None not in (numel, *times, shape):
            forward, backward, forward_host, backward_host = times
            layer = Layer(
                name=name,
                numel=numel,
                forward=forward,
                backward=backward,
                forward_host=forward_host,
                backward_host=backward_host,
                rows=rows,
            )
            layers.append(layer)
            shapes.append(shape)
    if problems or not layers:
        raise InputError(problems or Problem(str(path), "at least one layer", "none"))
    return tuple(layers), tuple(shapes) if all(shapes) else ()


def _parse_rows(row: Row, numel: int | None) -> Rows | None:
    """The rows of an embedding; None where both cells are empty, or wrong."""
    missing = [column for column in ("rows", "row_width") if not row.cells.get(column)]
    if missing:
        if len(missing) == 1:
            row.note(missing[0], "both rows and row_width, or neither", "nothing")
        return None
    count = row.convert("rows", float, "a number of rows above 0", lambda n: 0 < n <= 10**12)
    width = row.convert(
        "row_width", int, "elements of a row, a whole number that divides numel", lambda n: 1 <= n <= MAX_WIDTH
    )
    if numel and width and numel % width:
        row.note("row_width", f"a width that divides {numel}", str(width))
        return None
    return Rows(count=count, width=width) if count and width else None


def _parse_shape(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("x", maxsplit=_MAX_DIMENSIONS))
