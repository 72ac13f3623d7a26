"""Statistics of a gradient trace: distributions of what methods select from, and the build-up of selections."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from simulator.component import build
from simulator.engine.build_up import one_bucket
from simulator.engine.replay import blocks_with_residuals
from simulator.errors import InputError, Problem, suggest_nearest
from simulator.loading.finding import TRACE_FILE, find_file, missing_file_error
from simulator.models.curves import Floats
from simulator.models.gradients import Block, State, Values
from simulator.models.overlap import Overlap, ScaleMixture, union_density
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
    ends = {last for _, last in trace.spec.runs()}
    for u, block in _replayed(trace, method):
        if block.iteration not in ends:
            continue
        for place, layer in enumerate(trace.layers):
            held = block.piece == place
            values = u[:, held].astype(float).ravel()
            weight = np.tile(block.weight[held], len(u)) if block.sampled else None
            about = {"iteration": block.iteration, "layer": layer.name, "numel": layer.numel}
            layers.append({**about, **_distribution(values, weight)})
    counts = {"held": len(trace.keys.layer), "elements": sum(trace.numels)}
    return {**trace.spec.model_dump(mode="json"), **counts, "density": density, "layers": layers}


def _replayed(trace: Trace, method: Sparsifier, anew: bool = False) -> Iterator[tuple[Values, Block]]:
    """u of every worker at every iteration, with its block; `anew`: the method begins anew at each recorded run."""
    starts = {first for first, _ in trace.spec.runs()}
    state: State = {}
    for block, residual in blocks_with_residuals(trace, trace.spec.workers):
        if not state or (anew and block.iteration in starts):
            state = method.start(block)
        state |= {} if residual is None else {"residual": residual}
        now = method.at(block.iteration)
        u = now.collect(state, block)
        yield u, block
        now.send(state, u, block)


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
    together: Mapping[int, float] = {}
    unsettled = ""
    if measured:
        counts = sorted(set.intersection(*(set(points) for points in measured.values())))
        unions = {n: [each[n].union_density for each in measured.values()] for n in counts}
        points = {n: float(np.mean(shares)) for n, shares in unions.items()}
        off = {n: math.hypot(*(each[n].se for each in measured.values())) for n in counts}
        errors = {n: off[n] / math.fsum(unions[n]) if any(unions[n]) else 0.0 for n in counts}
    else:
        method = build(Sparsifier, {"kind": "topk", "density": density, "granularity": granularity})
        observed, settled = replay_by_workers(method, [one_bucket(trace)], trace, since=0)
        unsettled = settled.reason
        points = {item.workers: item.union for item in observed}
        errors = {item.workers: item.error for item in observed}
        together = [item.together for item in observed if item.workers <= fitted_on][-1]
    known = {n: value for n, value in points.items() if n <= fitted_on}
    concentration, mixture = fit_concentration(known), fit_mixture(known)
    default = fit_law(known, errors, together)
    stated: Mapping[str, Any]
    if isinstance(default, ScaleMixture):
        stated = {"overlap_mixture": asdict(default)}
    else:
        stated = {"overlap_concentration": default if np.isfinite(default) else None}
    fitted: dict[str, Overlap] = {"beta_binomial": concentration, "mixture": mixture, "default": default}
    rows = []
    for n, value in points.items():
        laws = {name: union_density(points[1], n, law) for name, law in fitted.items()}
        misses = {f"{name}_error": law / value - 1 for name, law in laws.items()}
        rows.append({"workers": n, "union": value, **laws, **misses, "used_in_fit": n <= fitted_on})
    return {
        "source": "union.csv" if measured else "replay",
        "unsettled": unsettled,
        "density": density,
        "granularity": granularity,
        "overlap_concentration": concentration if np.isfinite(concentration) else None,
        "overlap_mixture": {"spread": mixture.spread, "core": mixture.core},
        "default": stated,
        "rows": rows,
    }


def folder_of(name: str) -> Path:
    """The folder of a trace given by path or by name. Raises InputError where there is none."""
    found = find_file(name, None)
    if found is None or found.name != TRACE_FILE:
        raise missing_file_error(name, "traces")
    return found.parent


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
    rows: list[dict[str, float | int | str]] = []
    for u, block in _replayed(trace, build(Sparsifier, method), anew=True):
        if block.iteration not in iterations:
            continue
        for layer in layers or ("",):
            held = block.piece == names.index(layer) if layer else slice(None)
            made = _histogram(u[:, held], block.weight[held])
            rows += [{"iteration": block.iteration, "layer": layer, **row} for row in made]
    return rows


def _histogram(u: Values, weight: np.ndarray) -> list[dict[str, float]]:
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
    below = np.array([NormalDist().cdf(edge) for edge in edges.tolist()])
    columns = (edges[:-1] + edges[1:]) / 2, counts / total, np.diff(below)
    alike = {"standard_deviation": deviation, "excess_kurtosis": kurtosis}
    return [
        {"middle": middle, "share": share, "normal": normal, **alike}
        for middle, share, normal in zip(*(column.tolist() for column in columns), strict=True)
    ]
