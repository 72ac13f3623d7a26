"""Gradients from numpy archives to the trace format."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from simulator.errors import InputError, Problem, shown
from simulator.models.gradients import Block
from simulator.models.layers import Layer
from simulator.traces.format import TraceSpec
from simulator.traces.writer import TraceWriter


def import_npz(file: Path, out: Path, batch_size: int = 1) -> None:
    """Write a trace from an .npz: one float array per tensor, in forward order, (iterations, workers, *shape).

    Raises InputError naming the file and the array for anything else.
    """
    try:
        with np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise InputError(Problem(str(file), "a numpy .npz archive without objects", shown(str(error)))) from None
    problems = []
    first: np.ndarray = next(iter(arrays.values()), np.zeros((0, 0)))
    for name, array in arrays.items():
        if array.dtype.kind != "f" or array.ndim < 3 or array.shape[:2] != first.shape[:2] or not array.size:
            wanted = "floats of shape (iterations, workers, ...), the first two as in the first array"
            problems.append(Problem(f"{file}: {name}", wanted, f"{array.dtype} {array.shape}"))
        elif not np.isfinite(array).all():
            problems.append(Problem(f"{file}: {name}", "finite values", "NaN or infinity"))
    if problems or not arrays:
        raise InputError(problems or Problem(str(file), "at least one array", "none"))
    iterations, workers = int(first.shape[0]), int(first.shape[1])
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
