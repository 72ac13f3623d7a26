"""The distribution of what a method selects from, u = gradient + residual, at some iterations of a replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from simulator.component import build
from simulator.errors import InputError, Problem, suggest_nearest
from simulator.models.gradients import Values
from simulator.sparsifiers.base import Sparsifier
from simulator.studies.traces.trace_study import BINS, WIDTH
from simulator.traces.format.trace import Trace


def distributions(
    folder: str | Path, method: Mapping[str, Any] | str, iterations: Sequence[int], layers: Sequence[str] = ()
) -> list[dict[str, float | int | str]]:
    """Histograms of u over all workers while `method` is replayed; one row per iteration, layer and bin.

    They are those of each of `layers`, or without any of the whole model (`layer` is then empty). u is divided by its
    standard deviation of that iteration. `middle`: of the bin, in standard deviations; `share`: of the elements in it;
    `normal`: the share in a normal distribution of the same mean and deviation; `excess_kurtosis`: E[(u - mean)^4] /
    deviation^4 - 3, 0 for a normal distribution and 3 for a Laplace. On a sampled trace every coordinate counts as many
    elements as it stands for. Raises InputError for a damaged trace, and for an iteration that was not recorded or a
    layer that is not in it.
    """
    trace = Trace.open(Path(folder))
    recorded = trace.spec.iterations
    absent = [iteration for iteration in iterations if iteration not in recorded]
    if absent:
        known = f"{recorded[0]} to {recorded[-1]}, {len(recorded)} in all"
        raise InputError(Problem(str(folder), "iterations that were recorded", str(absent[0]), known))
    names = [layer.name for layer in trace.layers]
    for layer in layers:
        if layer not in names:
            raise InputError(Problem(str(folder), "a layer of the trace", repr(layer), suggest_nearest(layer, names)))
    sparsifier = build(Sparsifier, method)
    rows: list[dict[str, float | int | str]] = []
    for number, (first, _) in enumerate(trace.spec.runs()):
        left = trace.residuals(number)
        state: dict[str, Any] | None = None if left is None else {"residual": left}
        for iteration, block in enumerate(trace.blocks(block=number), start=first):
            start = sparsifier.start(block)
            state = start if state is None else {**start, **state}
            now = sparsifier.at(block.iteration)
            u = now.collect(state, block)
            if iteration in iterations:
                for layer in layers or ("",):
                    held = block.piece == names.index(layer) if layer else slice(None)
                    made = _histogram(u[:, held], block.weight[held])
                    rows += [{"iteration": iteration, "layer": layer, **row} for row in made]
            now.send(state, u, block)
    return rows


def _histogram(u: Values, weight: np.ndarray) -> Iterable[dict[str, float]]:
    """Rows of one iteration: u (n, m) with the weight of each coordinate (m,)."""
    total = float(weight.sum()) * len(u)
    mean = float((u.astype(float) * weight).sum()) / total
    centred = u.astype(float) - mean
    deviation = (float((np.square(centred) * weight).sum()) / total) ** 0.5
    if not deviation:
        return []
    scaled = centred / deviation
    kurtosis = float((np.square(np.square(scaled)) * weight).sum()) / total - 3
    counts, edges = np.histogram(scaled, bins=BINS, range=(-WIDTH, WIDTH), weights=np.tile(weight, (len(u), 1)))
    below = [NormalDist().cdf(edge) for edge in edges.tolist()]
    return [
        {
            "middle": (low + high) / 2,
            "share": count / total,
            "normal": below[place + 1] - below[place],
            "standard_deviation": deviation,
            "excess_kurtosis": kurtosis,
        }
        for place, (low, high, count) in enumerate(
            zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
        )
    ]
