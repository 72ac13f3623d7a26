"""Statistics of a gradient trace: the distribution of gradients, and the build-up of selections over workers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from simulator.component import build
from simulator.engine.build_up import DEFAULT_METHODS, one_bucket
from simulator.engine.replay_trace import blocks_with_residuals
from simulator.loading.documents import parse_document
from simulator.loading.finding import TRACE_FILE, find_file, missing_file_error
from simulator.models.curves import Floats
from simulator.models.gradients import Block, Values
from simulator.models.overlap import FittedOverlap, ScaleMixture, union_density
from simulator.models.sampling import mean_of, moments_of
from simulator.prediction.extrapolation import replay_by_workers
from simulator.records import asdict
from simulator.sparsifiers.base import Sparsifier
from simulator.traces.format.trace import Trace
from simulator.traces.overlap_fit import fit_concentration, fit_law, fit_mixture

BINS = 41
WIDTH = 5.0
"""Histograms cover this many standard deviations on either side."""


def info(folder: str | Path, density: float = 0.01) -> Mapping[str, Any]:
    """The contents of a trace, and per layer the distribution of u = gradient + residual under layer-wise Top-k.

    `held` of `elements` coordinates are in it. At the last iteration of every recorded run: standard deviation, excess
    kurtosis (0 for a Gaussian, 3 for a Laplace), Kolmogorov distance to the fitted Gaussian, which GaussianK relies on,
    and a histogram in standard deviations. Raises InputError for a damaged trace.
    """
    trace = Trace.open(Path(folder))
    method = build(Sparsifier, {"kind": "topk", "density": density})
    layers: list[dict[str, Any]] = []
    for u, block in _last_u(trace, method):
        for place, layer in enumerate(trace.layers):
            held = block.piece == place
            values = u[:, held].astype(float).ravel()
            weight = np.tile(block.weight[held], len(u)) if block.sampled else None
            about = {"iteration": block.iteration, "layer": layer.name, "numel": layer.numel}
            layers.append({**about, **_distribution(values, weight)})
    counts = {"held": len(trace.keys.layer), "elements": sum(trace.numels)}
    return {**trace.spec.model_dump(mode="json"), **counts, "density": density, "layers": layers}


def _last_u(trace: Trace, method: Sparsifier) -> Iterator[tuple[Values, Block]]:
    """u of every worker at the last iteration of each recorded run, with its block."""
    ends, state = {last for _, last in trace.spec.runs()}, None
    for block, residual in blocks_with_residuals(trace, trace.spec.workers):
        state = state or method.start(block)
        state |= {} if residual is None else {"residual": residual}
        u = method.collect(state, block)
        if block.iteration in ends:
            yield u, block
        method.send(state, u, block)


def _distribution(values: Floats, weight: Floats | None) -> Mapping[str, Any]:
    """Of values (m,) that stand for so many elements each; None: one each."""
    mean, variance = moments_of(values, weight)
    if not variance:
        return {"std": 0.0, "excess_kurtosis": None, "gaussian_distance": None, "histogram": []}
    scaled = (values - mean) / math.sqrt(variance)
    shares = np.full(len(values), 1.0) if weight is None else weight
    counts, _ = np.histogram(scaled, bins=BINS, range=(-WIDTH, WIDTH), weights=shares)
    order = np.argsort(scaled, kind="stable")
    ends = np.cumsum(shares[order])
    normal = np.array([NormalDist().cdf(value) for value in scaled[order].tolist()])
    above, below = ends / ends[-1] - normal, normal - (ends - shares[order]) / ends[-1]
    return {
        "std": math.sqrt(variance),
        "excess_kurtosis": mean_of(scaled**4, weight) - 3.0,
        "gaussian_distance": float(max(above.max(), below.max())),
        "histogram": (counts / ends[-1]).tolist(),
    }


def fit_overlap(folder: str | Path, density: float, granularity: str, fitted_on: int = 4) -> Mapping[str, Any]:
    """Laws of gradient build-up fitted on few workers and compared with more, for Top-k with error feedback.

    Unions are those that the trace measured on all coordinates, if it did at this density, and otherwise those of a
    replay on the sampled coordinates; both are means over iterations. A scenario takes one of `overlap_concentration`
    and `overlap_mixture`. `default` is the one that a prediction takes beyond the workers of a trace. `unsettled`: why
    the replay has not settled; empty if it has. `rows`: per number of workers the union, the value and signed error of
    each law, and whether the row was used in the fit.
    """
    trace = Trace.open(Path(folder))
    measured = trace.union_points(granularity, True, density)
    unsettled = ""
    if measured:
        counts = sorted(set.intersection(*(set(points) for points in measured.values())))
        points = {n: float(np.mean([each[n] for each in measured.values()])) for n in counts}
        errors = {n: trace.union_error(granularity, True, density, n) for n in counts}
    else:
        method = build(Sparsifier, {"kind": "topk", "density": density, "granularity": granularity})
        observed, settled = replay_by_workers(method, [one_bucket(trace)], trace, since=0)
        unsettled = settled.reason
        points = {item.workers: item.union for item in observed}
        errors = {item.workers: item.error for item in observed}
    known = {n: value for n, value in points.items() if n <= fitted_on}
    concentration, mixture = fit_concentration(known), fit_mixture(known)
    default = fit_law(known, errors)
    rows = []
    for n, value in points.items():
        laws = {
            "beta_binomial": union_density(points[1], n, concentration),
            "mixture": union_density(points[1], n, mixture),
            "default": union_density(points[1], n, default),
        }
        misses = {f"{name}_error": law / value - 1 for name, law in laws.items()}
        rows.append({"workers": n, "union": value, **laws, **misses, "used_in_fit": n <= fitted_on})
    return {
        "source": "union.csv" if measured else "replay",
        "unsettled": unsettled,
        "density": density,
        "granularity": granularity,
        "overlap_concentration": concentration if np.isfinite(concentration) else None,
        "overlap_mixture": {"spread": mixture.spread, "core": mixture.core},
        "default": _state_law(default),
        "rows": rows,
    }


def _state_law(law: FittedOverlap) -> Mapping[str, Any]:
    """The law as the key of a scenario, with its value."""
    if isinstance(law, ScaleMixture):
        return {"overlap_mixture": asdict(law)}
    return {"overlap_concentration": law if np.isfinite(law) else None}


def parse_methods(texts: Sequence[str]) -> list[Mapping[str, Any] | str]:
    """Methods given as YAML on the command line; Top-k by layer and over the whole model where none are."""
    return [parse_document(text, "--method").data for text in texts] or list(DEFAULT_METHODS)


def folder_of(name: str) -> Path:
    """The folder of a trace given by path or by name. Raises InputError where there is none."""
    found = find_file(name, None)
    if found is None or found.name != TRACE_FILE:
        raise missing_file_error(name, "traces")
    return found.parent
