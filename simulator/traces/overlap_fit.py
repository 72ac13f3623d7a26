"""Fits of overlap laws to measured unions, to predict the build-up on more workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise

import numpy as np
from scipy.optimize import minimize_scalar

from simulator.errors import SparsimError
from simulator.models.curves import Floats
from simulator.models.linear_algebra import least_squares
from simulator.models.overlap import INDEPENDENT, FittedOverlap, ScaleMixture, mixture_density, union_density

Points = Mapping[int, float]
"""Union density (share of coordinates that at least one of n workers selects) by n."""

LAW_ERROR = 1e-3
"""Relative error of unions that a law is not expected to do better than; errors of measurement come on top."""
_CORE_PRIOR, _SILENT_PRIOR, _SPREAD_PRIOR = 0.15, 0.3, 1.0
"""Standard deviations of what a mixture is expected to be before any union is seen: of core, silent and ln spread."""
_CORRECTION_ERROR = 0.3
"""Relative error of what is corrected where selections of other iterations stand for more workers.

Chosen on a perceptron, a transformer and an autoencoder, on which 0.1 and 1 are as good.
"""
_LOG_CONCENTRATION = (-7.0, 13.0)
_SPREAD = (1e-3, 8.0)
_CORE = (0.0, 0.999)


def fit_law(points: Points, errors: Points | None = None, together: Points | None = None) -> FittedOverlap:
    """The overlap law that unions ask for: beta-binomial, or the scale mixture where they tell the two apart.

    `errors`: relative standard errors of the unions (none: only `LAW_ERROR`). A law costs the sum of
    ((law / union - 1) / error)^2, and the mixture what its two parameters are away from their priors, ln spread 0 +- 1
    and core 0 +- 0.15 or silent 0 +- 0.3, in squares; the cheapest law is taken. Inexact unions, or a single one, are
    explained as well by one parameter as by two, of which one would be noise. The priors and the least error were
    chosen on two networks and judged on three others (a test computes it). Raises SparsimError as `fit_concentration`.

    `together`: unions of n selections of any of the N recorded workers in any of some successive iterations, among them
    n = 1, N and more. A coordinate's chance to be selected changes slowly, so that further iterations stand for further
    workers. From 4 workers and 16 iterations, unions of 8 to 64 workers of four tasks that were left out are within
    2 % in the median and 6 % in nine of ten cases; without the other iterations, 3 % and 15 % (a test computes it).
    """
    rho, known = _check_points(points)
    more = _of_other_iterations({1: rho, **known}, together or {})
    measured = known | {n: union for n, (union, _) in more.items()}
    errors = dict(errors or {}) | {n: error for n, (_, error) in more.items()}
    weights = {n: 1 / math.hypot(LAW_ERROR, errors.get(n, 0.0)) for n in measured}
    concentration, cost = _cheapest_concentration(rho, measured, weights)
    if len(measured) < 2:
        return concentration

    found = [_penalised_mixture(rho, measured, weights, silent) for silent in (False, True)]
    mixture, least = min(found, key=lambda each: each[1])
    return mixture if least < cost else concentration


def _of_other_iterations(points: Points, together: Points) -> dict[int, tuple[float, float]]:
    """Unions of more workers than N, the most of `points`, and their relative errors.

    In one iteration workers agree on more than over several, in which the weights and so the mean gradients differ:
    concentrations of `together` are multiplied by the ratio that makes the union of N as in `points`. What this changes
    is taken to be wrong by a third of it.
    """
    most = max(points)
    if not 0 < together.get(1, 0.0) < 1:
        return {}
    apart = {n: fit_concentration({1: together[1], n: union}) for n, union in together.items() if n >= most}
    ratio = fit_concentration({1: points[1], most: points[most]}) / apart[most]
    if not 0 < ratio < math.inf:  # one of them is independent
        return {}
    more = {n: union_density(points[1], n, ratio * c) for n, c in sorted(apart.items()) if n > most}
    rising = zip(more, accumulate(more.values(), max), strict=True)
    return {n: (union, _CORRECTION_ERROR * abs(1 - together[n] / union)) for n, union in rising}


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


def fit_concentration(points: Points) -> float:
    """The beta-binomial concentration c that fits unions best, by least squares on relative errors.

    Unions at or above independence give infinity, those of identical selections the lower bound of the search, 1e-3.
    Raises SparsimError without points at n = 1, the share that one worker selects, and n >= 2.
    """
    rho, measured = _check_points(points)
    return _cheapest_concentration(rho, measured, dict.fromkeys(measured, 1.0))[0]


def fit_mixture(points: Points) -> ScaleMixture:
    """The scale mixture that fits unions best, by least squares on relative errors; needs points at two n >= 2.

    Two parameters fit two points exactly, so the value at larger n follows from the shape of the law alone. Fitted on
    n <= 4 to each phase of the two shipped traces, it is within 5 % at n = 16 for layer-wise Top-k and within 8 % for
    whole-model selection (the beta-binomial law: 9 % and 11 %).
    """
    rho, measured = _check_points(points)
    if len(measured) < 2:
        raise SparsimError(f"a mixture needs unions at two worker counts above 1, got {len(measured)}")

    def errors(x: Floats) -> Floats:
        return np.array([mixture_density(rho, n, ScaleMixture(*x)) / value - 1 for n, value in measured.items()])

    starts = [(0.3, 0.01), (1.0, 0.1), (0.3, 0.6)]
    spread, core = _best_fit(errors, starts, [_SPREAD, _CORE])
    return ScaleMixture(spread, core)


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


def _check_points(points: Points) -> tuple[float, dict[int, float]]:
    rho = points.get(1)
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
    low, high = (np.array(ends) for ends in zip(*bounds, strict=True))
    fits = [least_squares(errors, np.array(start), (low, high)) for start in starts]
    best, _ = min(fits, key=lambda fit: fit[1])
    return tuple(best.tolist())
