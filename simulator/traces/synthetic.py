"""Synthetic gradients of every worker, generated iteration by iteration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal

import numpy as np
from pydantic import Field

from simulator.bounds import BOUNDS, Seed
from simulator.component import Spec
from simulator.models.exchange import Ints
from simulator.models.gradients import Block, Values
from simulator.units import Fraction


class SyntheticLayer(Spec):
    """One tensor of `numel` elements whose ordinary coordinates have standard deviation `scale`.

    `tail`: gaussian, laplace, or student_t with `degrees_of_freedom` (above 2, so that the variance exists).
    `hot_share` of the coordinates, drawn once and the same on every worker, are `hot_strength` times as large.
    """

    numel: int = Field(ge=1, le=10**10)
    scale: float = Field(default=1e-3, ge=BOUNDS["magnitude"].smallest, le=1e15)
    tail: Literal["gaussian", "laplace", "student_t"] = "gaussian"
    degrees_of_freedom: float = Field(default=3.0, gt=2, le=1e6)
    hot_share: Fraction = 0.0
    hot_strength: float = Field(default=10.0, ge=1, le=1e6)


class Synthetic(Spec):
    """A gradient trace that is generated; equal specs give equal gradients.

    g_i = s a (sqrt(c) x_0 + sqrt(1 - c) x_i) for worker i, where x_0 and x_i are draws of unit variance with the
    layer's tail, new in every iteration, a the coordinate's amplitude (scale, times strength if it is hot),
    s = drift^(t/1000), and c = `correlation` the correlation of any two workers: 0 makes them independent, 1 identical.
    Between the two, a coordinate is a sum of two draws: for tails other than Gaussian its excess kurtosis is
    c^2 + (1 - c)^2 times the tail's.
    """

    layers: tuple[SyntheticLayer, ...] = Field(min_length=1)
    workers: int = Field(ge=1, le=4096)
    iterations: int = Field(ge=1, le=100_000)
    correlation: Fraction = 0.0
    drift: float = Field(default=1.0, ge=1e-6, le=1e6)
    seed: Seed = 0


def blocks(spec: Synthetic, kept: Ints | None = None) -> Iterator[Block]:
    """The iterations of the trace, each with all layers; one is in memory at a time, n * m float32 values.

    `kept` (m,): positions in the flat vector, increasing, some of every layer and each with the same chance in it; only
    their values are drawn, and they stand for their layer. None: all elements, m = d.
    """
    numels = tuple(layer.numel for layer in spec.layers)
    coordinate = np.arange(sum(numels), dtype=np.int64) if kept is None else kept
    piece = np.searchsorted(np.cumsum(numels), coordinate, side="right")
    counts = np.bincount(piece, minlength=len(numels))
    weight = (np.array(numels) / counts)[piece]
    amplitude = _amplitude(spec)[coordinate]
    draws = partial(_draws, spec, counts.tolist())
    together, apart = np.float32(math.sqrt(spec.correlation)), np.float32(math.sqrt(1.0 - spec.correlation))
    for iteration in range(spec.iterations):
        scale = amplitude * np.float32(spec.drift ** (iteration / 1000.0))
        values = np.empty((spec.workers, len(coordinate)), dtype=np.float32)
        shared = together * draws(iteration, 0) if together else None
        for worker in range(spec.workers):
            if apart:
                draws(iteration, worker + 1, values[worker])
                values[worker] *= apart
                if shared is not None:
                    values[worker] += shared
            else:
                values[worker] = 0 if shared is None else shared
            values[worker] *= scale
        yield Block(values, piece, coordinate, weight, numels, iteration)


def _amplitude(spec: Synthetic) -> Values:
    """Standard deviation of each coordinate at iteration 0, (d,)."""
    parts = []
    for index, layer in enumerate(spec.layers):
        part = np.full(layer.numel, layer.scale, dtype=np.float32)
        hot = round(layer.hot_share * layer.numel)
        rng = np.random.default_rng([spec.seed, 1, index])
        part[rng.choice(layer.numel, size=hot, replace=False)] *= np.float32(layer.hot_strength)
        parts.append(part)
    return np.concatenate(parts)


def _draws(spec: Synthetic, counts: Sequence[int], iteration: int, stream: int, out: Values | None = None) -> Values:
    """Draws of unit variance (m,), float32, so many of each layer; stream 0 is shared by all workers."""
    rng = np.random.default_rng([spec.seed, 2, iteration, stream])
    values: Values = np.empty(sum(counts), dtype=np.float32) if out is None else out
    start = 0
    for layer, count in zip(spec.layers, counts, strict=True):
        part = values[start : start + count]
        start += count
        if layer.tail == "laplace":
            rng.standard_exponential(dtype=np.float32, out=part)
            part -= rng.standard_exponential(count, dtype=np.float32)
            part *= np.float32(math.sqrt(0.5))
            continue
        rng.standard_normal(dtype=np.float32, out=part)
        if layer.tail == "student_t":
            # t = z / sqrt(chi2 / df) with variance df / (df - 2), and chi2 = 2 Gamma(df / 2)
            half = layer.degrees_of_freedom / 2.0
            part *= np.sqrt(np.float32(half - 1.0) / rng.standard_gamma(half, count, dtype=np.float32))
    return values
