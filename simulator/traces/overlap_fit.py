"""Fits of the laws of gradient build-up to measured unions: from few workers to many."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.optimize import brentq, least_squares

from simulator.errors import SparsimError
from simulator.models.curves import Floats
from simulator.models.gradients import Block, largest
from simulator.models.overlap import INDEPENDENT, union_density

Points = Mapping[int, float]
"""Union density (share of coordinates that at least one of n workers selects) by n."""

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(201)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_LOG_CONCENTRATION = (-7.0, 16.0)
_SPREAD = (1e-3, 8.0)
_CORE = (0.0, 0.999)


def fit_concentration(points: Points, density: float | None = None) -> float:
    """The beta-binomial concentration c that fits unions best, by least squares on relative errors.

    `density`: share that one worker selects (default: the point at n = 1). Unions at or above independence give
    infinity, those of identical choices the lower bound of the search, 1e-3. Raises SparsimError without a point at
    n >= 2 or a density.
    """
    rho, measured = _measured(points, density)

    def errors(x: Floats) -> Floats:
        return np.array([union_density(rho, n, math.exp(x[0])) / value - 1 for n, value in measured.items()])

    c = math.exp(_least(errors, [(start,) for start in (0.0, 3.0, 6.0)], [_LOG_CONCENTRATION])[0])
    return INDEPENDENT if c > math.exp(_LOG_CONCENTRATION[1] - 1) else c


@dataclass(frozen=True, slots=True)
class ScaleMixture:
    """Build-up where coordinates differ in scale by a log-normal factor and a core is always selected.

    K(n)/d = h rho + (1 - h rho) (1 - E[(1 - q)^n]), where q = exp(-t e^(-s z)) is the chance that a Laplace-tailed
    value of scale e^(s z), z standard normal, exceeds the threshold t, and t is such that K(1)/d = rho. `spread` s: log
    standard deviation of the scales, between layers and within them; 0 is independence. `core` h: the share of one
    worker's selection that every worker selects (persistently large coordinates); 1 is identical choices.
    """

    density: float
    spread: float
    core: float

    def union_density(self, workers: int) -> float:
        """Expected share of coordinates that at least one of `workers` selects."""
        return _mixture(self.density, workers, self.spread, self.core)


def fit_mixture(points: Points, density: float | None = None) -> ScaleMixture:
    """The scale mixture that fits unions best, by least squares on relative errors; needs points at two n >= 2.

    Two parameters pass through two points, so what it says about larger n is an extrapolation by shape: fitted on
    n <= 4 to the two shipped traces phase by phase, it meets n = 16 within 5 % for layer-wise Top-k and 8 % for
    whole-model (the beta-binomial law: 9 % and 11 %).
    """
    rho, measured = _measured(points, density)
    if len(measured) < 2:
        raise SparsimError(f"a mixture needs unions at two worker counts above 1, got {len(measured)}")

    def errors(x: Floats) -> Floats:
        return np.array([_mixture(rho, n, x[0], x[1]) / value - 1 for n, value in measured.items()])

    starts = [(0.3, 0.01), (1.0, 0.1), (0.3, 0.6)]
    spread, core = _least(errors, starts, [_SPREAD, _CORE])
    return ScaleMixture(rho, spread, core)


def measured_unions(
    blocks: Iterable[Block],
    density: float,
    granularity: str = "layer",
    workers: Sequence[int] = (1, 2, 4),
    subsets: int = 8,
    error_feedback: bool = False,
    seed: int = 0,
) -> dict[int, dict[int, float]]:
    """Unions of Top-k selections among random subsets of the workers, by unit and n, averaged over iterations.

    Units are tensors (`granularity: layer`) or the whole block (unit -1 adds all up either way). Densities are shares
    of the true elements, by the sampling weights: on a sample, a union of few coordinates is a rough one. k =
    max(1, round(density * elements)), of which a sample holds its share. With `error_feedback` own selections are
    cleared from a residual that starts empty.
    """
    rng = np.random.default_rng(seed)
    totals: dict[int, dict[int, float]] = {}
    residual: Floats | float = 0.0
    iterations = 0
    for block in blocks:
        iterations += 1
        u = (residual + block.values).astype(np.float32)
        chosen = np.zeros(u.shape, dtype=bool)
        units = block.units(granularity)
        for unit, numel in units:
            m = unit.stop - unit.start
            k = max(1, round(density * numel))
            chosen[:, unit] = largest(np.abs(u[:, unit]), min(m, max(1, round(k * m / numel))))
        if error_feedback:
            residual = np.where(chosen, 0, u)
        for n in workers:
            share = _union_share(chosen, n, subsets, rng) * block.weight
            totals.setdefault(-1, {}).setdefault(n, 0.0)
            totals[-1][n] += float(share.sum()) / block.numel
            for unit, numel in units if granularity == "layer" else []:
                layer = totals.setdefault(int(block.piece[unit.start]), {})
                layer[n] = layer.get(n, 0.0) + float(share[unit].sum()) / numel
    return {unit: {n: total / iterations for n, total in sums.items()} for unit, sums in totals.items()}


def _union_share(chosen: np.ndarray, n: int, subsets: int, rng: np.random.Generator) -> Floats:
    """How often each coordinate is in the union of n workers, over random subsets; exact for 1 and for all."""
    if not 1 <= n <= len(chosen):
        raise SparsimError(f"expected unions of 1 to {len(chosen)} workers, got {n}")
    if n == 1:
        share: Floats = chosen.mean(axis=0)
        return share
    draws = 1 if n == len(chosen) else subsets
    unions = [chosen[rng.choice(len(chosen), n, replace=False)].any(axis=0) for _ in range(draws)]
    mean: Floats = np.mean(unions, axis=0)
    return mean


def _measured(points: Points, density: float | None) -> tuple[float, dict[int, float]]:
    rho = points.get(1) if density is None else density
    measured = {n: value for n, value in sorted(points.items()) if n >= 2}
    if rho is None or not 0 < rho <= 1 or not measured:
        raise SparsimError("a fit needs the share that one worker selects and a union of at least two workers")
    values = [rho, *measured.values()]
    if any(not 0 < value <= 1 for value in values) or any(b < a * (1 - 0.01) for a, b in pairwise(values)):
        raise SparsimError("unions must lie in (0, 1] and must not shrink as workers are added")
    return rho, measured


def _least(
    errors: Callable[[Floats], Floats], starts: Sequence[tuple[float, ...]], bounds: Sequence[tuple[float, float]]
) -> tuple[float, ...]:
    """The best of several starts."""
    low, high = zip(*bounds, strict=True)
    fits = [least_squares(errors, start, bounds=(low, high), xtol=1e-10, ftol=1e-12) for start in starts]
    best = min(fits, key=lambda fit: float(fit.cost))
    return tuple(float(x) for x in best.x)


def _mixture(rho: float, workers: int, spread: float, core: float) -> float:
    sure = core * rho
    rest = (rho - sure) / (1 - sure) if sure < 1 else 0.0
    if rest <= 0 or rest >= 1:
        return min(1.0, rho)

    def chance(log_threshold: float) -> Floats:
        q: Floats = np.exp(-np.exp(np.minimum(log_threshold - spread * _NODES, 50.0)))
        return q

    span = 50.0 + 25.0 * spread
    threshold = float(brentq(lambda t: float(_WEIGHTS @ chance(t)) - rest, -span, span, xtol=1e-12))
    missed = np.exp(workers * np.log1p(-np.minimum(chance(threshold), 1 - 1e-15)))
    return sure + (1 - sure) * float(1 - _WEIGHTS @ missed)
