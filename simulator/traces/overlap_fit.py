"""Fits of overlap laws to measured unions, to predict the build-up on more workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from scipy.optimize import minimize_scalar

from simulator.errors import SparsimError
from simulator.models.curves import Floats
from simulator.models.gradients import Block, Mask, top
from simulator.models.least_squares import least_squares
from simulator.models.overlap import INDEPENDENT, Overlap, ScaleMixture, mixture_density, union_density
from simulator.records import Record

Points = Mapping[int, float]
"""Union density (share of coordinates that at least one of n workers selects) by n."""

LAW_ERROR = 1e-3
"""Relative error of unions that a law is not expected to do better than; errors of measurement come on top."""
_CORE_PRIOR, _SILENT_PRIOR, _SPREAD_PRIOR = 0.15, 0.3, 1.0
"""Standard deviations of what a mixture is expected to be before any union is seen: of core, silent and ln spread."""
_LOG_CONCENTRATION = (-7.0, 13.0)
_SPREAD = (1e-3, 8.0)
_CORE = (0.0, 0.999)


def fit_law(points: Points, errors: Points | None = None, density: float | None = None) -> Overlap:
    """The overlap law that unions ask for: beta-binomial, or the scale mixture where they tell the two apart.

    `errors`: relative standard errors of the unions (none: only `LAW_ERROR`). A law costs the sum of
    ((law / union - 1) / error)^2, and the mixture what its two parameters are away from their priors, ln spread 0 +- 1
    and core 0 +- 0.15 or silent 0 +- 0.3, in squares; the cheapest law is taken. Inexact unions, or a single one, are
    explained as well by one parameter as by two, of which one would be noise. The priors and the least error were
    chosen on two networks and judged on three others (a test computes it). Raises SparsimError as `fit_concentration`.
    """
    rho, measured = _check_points(points, density)
    errors = errors or {}
    weights = {n: 1 / math.hypot(LAW_ERROR, errors.get(n, 0.0)) for n in measured}
    concentration, cost = _cheapest_concentration(rho, measured, weights)
    if len(measured) < 2:
        return concentration

    found = [_penalised_mixture(rho, measured, weights, silent) for silent in (False, True)]
    mixture, least = min(found, key=lambda each: each[1])
    return mixture if least < cost else concentration


def _penalised_mixture(rho: float, measured: Points, weights: Points, silent: bool) -> tuple[ScaleMixture, float]:
    """The cheapest mixture with a core, or with silent coordinates instead, and what it costs with its priors."""
    prior = _SILENT_PRIOR if silent else _CORE_PRIOR

    def made(x: Sequence[float]) -> ScaleMixture:
        spread, other = min(_SPREAD[1], math.exp(x[0])), float(x[1])
        return ScaleMixture(spread, 0.0, other) if silent else ScaleMixture(spread, other)

    def terms(x: Floats) -> Floats:
        law = made(x.tolist())
        misses = [weights[n] * (union_density(rho, n, law) / value - 1) for n, value in measured.items()]
        return np.array([*misses, x[0] / _SPREAD_PRIOR, x[1] / prior])

    bounds = [(math.log(_SPREAD[0]), math.log(_SPREAD[1])), _CORE]
    best = _best_fit(terms, [(-0.5, 0.02), (0.4, 0.1)], bounds)
    return made(best), math.fsum((terms(np.array(best)) ** 2).tolist())


def fit_concentration(points: Points, density: float | None = None) -> float:
    """The beta-binomial concentration c that fits unions best, by least squares on relative errors.

    `density`: share that one worker selects (default: the point at n = 1). Unions at or above independence give
    infinity, those of identical selections the lower bound of the search, 1e-3. Raises SparsimError without a point at
    n >= 2 or a density.
    """
    rho, measured = _check_points(points, density)
    return _cheapest_concentration(rho, measured, dict.fromkeys(measured, 1.0))[0]


def fit_mixture(points: Points, density: float | None = None) -> ScaleMixture:
    """The scale mixture that fits unions best, by least squares on relative errors; needs points at two n >= 2.

    Two parameters fit two points exactly, so the value at larger n follows from the shape of the law alone. Fitted on
    n <= 4 to each phase of the two shipped traces, it is within 5 % at n = 16 for layer-wise Top-k and within 8 % for
    whole-model selection (the beta-binomial law: 9 % and 11 %).
    """
    rho, measured = _check_points(points, density)
    if len(measured) < 2:
        raise SparsimError(f"a mixture needs unions at two worker counts above 1, got {len(measured)}")

    def errors(x: Floats) -> Floats:
        return np.array([mixture_density(rho, n, x[0], x[1]) / value - 1 for n, value in measured.items()])

    starts = [(0.3, 0.01), (1.0, 0.1), (0.3, 0.6)]
    spread, core = _best_fit(errors, starts, [_SPREAD, _CORE])
    return ScaleMixture(spread, core)


class LayerMixture(Record):
    """Build-up of a selection over layers that each have their own density rho_l and concentration c_l.

    K(n)/d = sum over layers of share_l K_l(n)/n_l, each by the beta-binomial law; `shares` are n_l / d. For whole-model
    selection, where workers concentrate on different layers.
    """

    shares: tuple[float, ...]
    densities: tuple[float, ...]
    concentrations: tuple[float, ...]

    def union_density(self, workers: int) -> float:
        """Expected share of coordinates that at least one of `workers` selects."""
        parts = zip(self.shares, self.densities, self.concentrations, strict=True)
        return math.fsum(share * union_density(rho, workers, c) for share, rho, c in parts)


def fit_layers(points: Mapping[int, Points], numels: Sequence[int]) -> LayerMixture:
    """The beta-binomial law by layer, from the result of `measured_unions`; layers without selected elements add 0."""
    held = [layer for layer in range(len(numels)) if layer in points and points[layer].get(1, 0.0) > 0]
    rows = [{n: min(1.0, value) for n, value in points[layer].items()} for layer in held]
    shares = tuple(numels[layer] / sum(numels) for layer in held)
    return LayerMixture(shares, tuple(row[1] for row in rows), tuple(fit_concentration(row) for row in rows))


def measured_unions(
    blocks: Iterable[Block],
    density: float,
    *,
    granularity: str = "layer",
    workers: Sequence[int] = (1, 2, 4),
    error_feedback: bool = False,
    seed: int = 0,
) -> dict[int, dict[int, float]]:
    """Unions of Top-k selections among n of the workers, by tensor and n, averaged over iterations.

    Selection is by tensor (`granularity: layer`) or from the whole block; the key -1 is for all tensors together.
    Densities are shares of the true elements, by the sampling weights, so that on a sample a union of few coordinates
    is inexact. k = max(1, round(density * elements)), which a sample has on average. With `error_feedback` the
    selection of a worker is cleared from its residual, which starts empty. The n workers are every run of n on a ring
    in random order, which changes in each iteration: each worker counts equally, and unions never shrink with n.
    """
    rng = np.random.default_rng(seed)
    totals: dict[int, dict[int, float]] = {}
    residual: Floats | float = 0.0
    iterations = 0
    for block in blocks:
        iterations += 1
        u = (residual + block.values).astype(np.float32)
        chosen = np.zeros(u.shape, dtype=bool)
        for mask, places in zip(chosen, top(u, block, granularity, lambda n: max(1, round(density * n))), strict=True):
            mask[places] = True
        if error_feedback:
            residual = np.where(chosen, 0, u)
        ring = rng.permutation(block.workers)
        for n in workers:
            share = _union_share(chosen[ring], n) * block.weight
            totals.setdefault(-1, {}).setdefault(n, 0.0)
            totals[-1][n] += float(share.sum()) / block.numel
            for unit, numel in block.units("layer"):
                layer = totals.setdefault(int(block.piece[unit.start]), {})
                layer[n] = layer.get(n, 0.0) + float(share[unit].sum()) / numel
    return {unit: {n: total / iterations for n, total in sums.items()} for unit, sums in totals.items()}


def _union_share(chosen: Mask, n: int) -> Floats:
    """The share of the runs of n workers on the ring that select each coordinate, (m,)."""
    workers = len(chosen)
    if not 1 <= n <= workers:
        raise SparsimError(f"expected unions of 1 to {workers} workers, got {n}")
    runs = workers if n < workers else 1
    share = np.zeros(chosen.shape[1])
    for first in range(runs):
        share += chosen[np.arange(first, first + n) % workers].any(axis=0)
    return share / runs


def _cheapest_concentration(rho: float, measured: Points, weights: Points) -> tuple[float, float]:
    """The concentration with the least sum of squared, weighted relative errors, and that sum."""

    def cost(log_c: float) -> float:
        return math.fsum(
            (weights[n] * (union_density(rho, n, math.exp(log_c)) / value - 1)) ** 2 for n, value in measured.items()
        )

    grid = np.linspace(*_LOG_CONCENTRATION, 24)
    best = int(np.argmin([cost(x) for x in grid]))
    bracket = (float(grid[max(0, best - 1)]), float(grid[min(len(grid) - 1, best + 1)]))
    found = minimize_scalar(cost, bounds=bracket, method="bounded", options={"xatol": 1e-7})
    least, apart = float(found.fun), cost(math.inf)
    # so close to independence that no measurement could distinguish them
    close = 1e-10 * max(weights.values()) ** 2
    return (INDEPENDENT, apart) if apart <= least + close else (math.exp(found.x), least)


def _check_points(points: Points, density: float | None) -> tuple[float, dict[int, float]]:
    rho = points.get(1) if density is None else density
    measured = {n: value for n, value in sorted(points.items()) if n >= 2}
    if rho is None or not 0 < rho <= 1 or not measured:
        raise SparsimError("a fit needs the share that one worker selects and a union of at least two workers")
    values = [rho, *measured.values()]
    if any(not 0 < value <= 1 for value in values) or any(b < a * (1 - 0.01) for a, b in pairwise(values)):
        raise SparsimError("unions must lie in (0, 1] and must not shrink as workers are added")
    return rho, measured


def _best_fit(
    errors: Callable[[Floats], Floats], starts: Sequence[tuple[float, ...]], bounds: Sequence[tuple[float, float]]
) -> tuple[float, ...]:
    """The best least-squares fit from several starting points."""
    low, high = (np.array(ends) for ends in zip(*bounds, strict=True))
    fits = [least_squares(errors, np.array(start), (low, high)) for start in starts]
    best, _ = min(fits, key=lambda fit: fit[1])
    return tuple(best.tolist())
