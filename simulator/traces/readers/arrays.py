"""Gradients from numpy archives to the trace format."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from simulator.errors import InputError, Problem, format_value
from simulator.models.gradients import Block
from simulator.models.layers import Layer
from simulator.traces.format.trace import MAX_TRACE_WORKERS, TraceSpec
from simulator.traces.format.writer import TraceWriter

MAX_RATIO = 8
"""An archive may unpack to so many times its size, or to `FREE` bytes: random floats hardly compress."""
FREE = 2**28
_LARGEST = float(np.finfo(np.float32).max)
# All that the zip and numpy readers raise for a damaged archive.
_DAMAGED = (
    *(OSError, ValueError, ArithmeticError, MemoryError, EOFError, KeyError, TypeError, SyntaxError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError),
)


def import_npz(file: Path, out: Path, batch_size: int = 1) -> None:
    """Write a trace from an .npz: one float array per tensor, in forward order, (iterations, workers, *shape).

    Raises InputError naming the file and the array for anything else.
    """
    arrays = _read_arrays(file)
    problems = []
    first: np.ndarray = next(iter(arrays.values()), np.zeros((0, 0)))
    for name, array in arrays.items():
        if (
            not isinstance(array, np.ndarray)
            or array.dtype.kind != "f"
            or array.ndim < 3
            or array.shape[:2] != first.shape[:2]
            or not array.size
        ):
            wanted = "floats of shape (iterations, workers, ...), the first two as in the first array"
            got = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else "no array"
            problems.append(Problem(f"{file}: {name}", wanted, got))
        elif not _fits_float32(array):
            what = f"finite values up to {_LARGEST:.3g}"
            problems.append(Problem(f"{file}: {name}", what, "NaN, infinity or larger ones"))
    if problems or not arrays:
        raise InputError(problems or Problem(str(file), "at least one array", "none"))
    iterations, workers = int(first.shape[0]), int(first.shape[1])
    if workers > MAX_TRACE_WORKERS:
        raise InputError(Problem(str(file), f"at most {MAX_TRACE_WORKERS} workers", str(workers)))
    numels = tuple(int(np.prod(array.shape[2:])) for array in arrays.values())
    layers = [Layer(name=name, numel=numel) for name, numel in zip(arrays, numels, strict=True)]
    spec = TraceSpec(
        format=1, model=file.stem, workers=workers, iterations=(0,), batch_size=batch_size, source=f"from {file.name}"
    )
    d = sum(numels)
    piece, coordinate, weight = np.repeat(np.arange(len(numels)), numels), np.arange(d), np.ones(d)
    shapes = tuple(array.shape[2:] for array in arrays.values())
    with TraceWriter(out, spec, layers) as writer:
        for t in range(iterations):
            rows = [array[t].reshape(workers, -1).astype(np.float32) for array in arrays.values()]
            writer.append(Block(np.concatenate(rows, axis=1), piece, coordinate, weight, numels, t, shapes))


def _read_arrays(file: Path) -> Mapping[str, Any]:
    """The arrays of an archive by name, read without unpacking to files.

    Raises InputError for a file that is no such archive, holds objects, or unpacks to far more than its size.
    """
    what = "a numpy .npz archive without objects"
    if file.exists() and not file.is_file():
        raise InputError(Problem(str(file), what, "a folder, a device or a pipe"))
    try:
        with zipfile.ZipFile(file) as members:
            unpacked, packed = sum(item.file_size for item in members.infolist()), file.stat().st_size
        if unpacked > max(FREE, MAX_RATIO * packed):
            hint = "is it a decompression bomb? if not, save it with numpy.savez"
            raise InputError(Problem(str(file), f"at most {MAX_RATIO} times its bytes when unpacked", "more", hint))
        with np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except _DAMAGED as error:
        raise InputError(Problem(str(file), what, format_value(str(error) or type(error).__name__))) from None


def _fits_float32(array: np.ndarray) -> bool:
    """Whether float32 can hold every value; comparisons with NaN are false."""
    with np.errstate(invalid="ignore"):
        return float(array.min()) >= -_LARGEST and float(array.max()) <= _LARGEST
