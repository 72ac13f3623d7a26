"""Families of curves, each fitted robustly on relative error."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise, repeat
from operator import itemgetter

import numpy as np
import numpy.typing as npt
from scipy.interpolate import PchipInterpolator
from scipy.sparse import csr_array, eye_array

from simulator.models.curves import Affine, Floats, NLogN, Piecewise, Points
from simulator.models.groups import group_by
from simulator.models.linear_algebra import least_squares, solve_symmetric, weigh
from simulator.records import Record, field

ROUNDS = 30
"""Rounds of reweighting, at most."""
_SMALLEST_SCALE = 1e-4
_RIDGE = 1e-12


def robust_linear(design: Floats, target: Floats, ridge: Floats) -> Floats:
    """Coefficients of a linear model under the soft-L1 loss, by reweighted least squares.

    rho(z) = 2 (sqrt(1 + z) - 1) with z = (r / s)^2 is least squares for small residuals r and counts outliers linearly
    (Charbonnier et al. 1994). The scale s is 1.35 times the median absolute deviation, as a standard deviation.
    `ridge`: further rows of the design whose target is 0.
    """
    # Of many hat functions, few are above 0 in a row; and no sum of sparse matrices is left to BLAS.
    rows, bends = csr_array(design), csr_array(ridge)
    gentle = bends.T @ bends + _RIDGE * eye_array(design.shape[1])
    weights, coefficients = np.ones(len(target)), np.zeros(design.shape[1])
    for _ in range(ROUNDS):
        found = solve_symmetric(((rows.T * weights) @ rows + gentle).toarray(), rows.T @ (weights * target))
        done = np.allclose(found, coefficients, rtol=0, atol=1e-5)
        coefficients = found
        if done:
            break
        residuals = (design * coefficients).sum(axis=1) - target
        weights = (1 + (residuals / robust_scale(residuals)) ** 2) ** -0.5
    return coefficients


def robust_scale(residuals: Floats) -> float:
    """1.35 standard deviations, by the median absolute residual."""
    return max(1.35 * 1.4826 * float(np.median(np.abs(residuals))), _SMALLEST_SCALE)


def robust_log_fit(residuals: Callable[[Floats], Floats], start: Floats) -> Floats:
    """Parameters that minimise log residuals under the soft-L1 loss, the scale taken from two fits before."""
    scale = 0.05
    for _ in range(2):
        start, _ = least_squares(residuals, start, soft=scale)
        scale = robust_scale(residuals(start))
    return least_squares(residuals, start, soft=scale)[0]


KNOTS = (2, 3, 4, 6, 8, 10, 12, 16, 24)
MOST_SMOOTH = 64
_TINY = 1e-300
_STEEPEST = 1.25
_BEND = 1e-4  # pull of knots to the line through their neighbours: it matters only where nothing was measured

# A floor in s, or a slope in s per element, below which the search for a factor was on its way to 0. No clock sees it,
# and configs refuse seconds as small as it can become.
_NEGLIGIBLE = 1e-24


class Repeats(Record):
    """Distinct sizes, increasing (m,), the median of each one's repeats (the lower one of two), and their spread.

    `spread` is the median over sizes of (largest - smallest) / median; None where nothing was repeated. `second`: the
    value (m,) of a second variable, by which the sizes are then sorted first; empty where there is none.
    """

    sizes: Floats
    seconds: Floats
    spread: float | None
    second: Floats = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, sizes: Iterable[float], seconds: Iterable[float], second: Sequence[float] = ()) -> Repeats:
        """Gather timings of the same size. Disturbances only make a run slower, hence the lower median."""
        places = zip(second or repeat(0.0), map(float, sizes), strict=False)
        found = sorted(group_by(zip(places, map(float, seconds), strict=True), itemgetter(0)).items())
        repeats = [[time for _, time in pairs] for _, pairs in found]
        medians = [statistics.median_low(times) for times in repeats]
        spreads = [
            (max(times) - min(times)) / middle for times, middle in zip(repeats, medians, strict=True) if len(times) > 1
        ]
        others, distinct = np.array([place for place, _ in found]).T
        spread = float(np.median(spreads)) if spreads else None
        return cls(distinct, np.array(medians), spread, others if second else np.zeros(0))

    def at(self, places: slice | npt.NDArray[np.bool_]) -> Repeats:
        """Some of the sizes."""
        second = self.second[places] if len(self.second) else self.second
        return Repeats(self.sizes[places], self.seconds[places], self.spread, second)


class Fitted(Record):
    """A fitted curve: seconds at sizes (m,), and the curve itself where configs have its family.

    `predict` takes the sizes, and of a surface the values of the second variable too.
    """

    family: str
    predict: Callable[..., Floats]
    curve: Affine | NLogN | None = None

    def at(self, measured: Repeats) -> Floats:
        """Seconds (m,) where something was measured."""
        return self.predict(measured.sizes, *([measured.second] if len(measured.second) else []))


Fitter = Callable[[Repeats], Fitted]


def families(count: int, allowed: Callable[[str], bool] = lambda name: True) -> dict[str, Fitter]:
    """The families of allowed names that `count` distinct sizes can distinguish, the simplest first."""
    found: dict[str, Fitter] = {"affine": fit_affine, "n_log_n": fit_n_log_n} if count >= 2 else {}
    for knots in KNOTS:
        if count >= max(knots, 2 * knots - 4):
            found[f"piecewise {knots}"] = partial(fit_piecewise, knots=knots)
    if 4 <= count <= MOST_SMOOTH:
        found["smooth"] = fit_smooth
    return {name: fit for name, fit in found.items() if allowed(name)}


def fit_affine(measured: Repeats) -> Fitted:
    """t(n) = intercept + slope n, neither below 0."""
    intercept, slope = _fit_floor_and_slope(measured.sizes, measured.seconds)
    curve = Affine(intercept=intercept, slope=slope)
    return Fitted("affine", curve.time, curve)


def fit_n_log_n(measured: Repeats) -> Fitted:
    """t(n) = intercept + coefficient n log2 n, neither below 0."""
    terms = measured.sizes * np.log2(np.maximum(measured.sizes, 1.0))
    intercept, coefficient = _fit_floor_and_slope(terms, measured.seconds)
    curve = NLogN(intercept=intercept, coefficient=coefficient)
    return Fitted("n_log_n", curve.time, curve)


def fit_smooth(measured: Repeats) -> Fitted:
    """Monotone cubics through every size on log-log axes (Fritsch and Carlson 1980)."""
    inside = PchipInterpolator(np.log(measured.sizes), np.log(measured.seconds))
    return Fitted("smooth", _extend_beyond_ends(lambda at: np.exp(inside(np.log(at))), measured.sizes))


def fit_piecewise(measured: Repeats, knots: int) -> Fitted:
    """Straight lines on log-log axes between `knots` sizes, evenly apart on the log axis."""
    x, y = np.log(measured.sizes), np.log(measured.seconds)
    wanted = np.linspace(x[0], x[-1], knots)
    places = np.unique(x[np.abs(x[:, None] - wanted).argmin(axis=0)])
    heights = robust_linear(hat_functions(x, places), y, ridge=_BEND * bend_penalty(places))
    curve = Piecewise(points=tuple(zip(np.exp(places), np.exp(heights), strict=True)))
    return Fitted(f"piecewise {len(places)}", _extend_beyond_ends(curve.time, measured.sizes))


def _extend_beyond_ends(inside: Callable[[Floats], Floats], sizes: Floats) -> Callable[[Floats], Floats]:
    """The curve with straight lines on log-log axes beyond its ends, by the slope over the last octave.

    Times neither fall with the size nor grow much faster than it, so the slope is limited to 0 to 1.25. Two noisy
    points at an end then do not decide the times of far larger sizes.
    """
    low, high = sizes[0], sizes[-1]
    inner = np.clip(np.array([low, 2 * low, high / 2, high]), low, high)
    x, y = np.log(inner), np.log(inside(inner))
    first, last = (np.clip((y[i + 1] - y[i]) / max(x[i + 1] - x[i], _TINY), 0, _STEEPEST) for i in (0, 2))

    def predict(at: Floats) -> Floats:
        n = np.asarray(at, dtype=float)
        within = np.clip(n, low, high)
        beyond = np.log(np.maximum(n, _TINY) / within)
        made: Floats = inside(within) * np.exp(beyond * np.where(n < low, first, last))
        return made

    return predict


def piecewise_points(predict: Callable[[Floats], Floats], sizes: Floats, tolerance: float) -> Points:
    """Points of a log-log piecewise curve that stays within `tolerance` of `predict` over the range of `sizes`.

    Points are added where the error is largest until it is within the tolerance (Ramer 1972, Douglas and Peucker
    1973), and at least eight of them are kept where there are as many sizes.
    """
    # Configs have whole sizes: there are only eight of them from 1 to 8 bytes.
    grid = np.unique(np.concatenate([sizes, np.geomspace(sizes[0], sizes[-1], 129)[1:-1].round()]))
    x, y = np.log(grid), np.log(predict(grid))
    kept = {int(np.abs(x - at).argmin()) for at in np.linspace(x[0], x[-1], min(8, len(sizes)))}
    while True:
        places = np.array(sorted(kept))
        off = np.abs(np.interp(x, x[places], y[places]) - y)
        worst = {
            a + int(off[a : b + 1].argmax()) for a, b in pairwise(places.tolist()) if off[a : b + 1].max() > tolerance
        }
        if not worst:
            return tuple(zip(grid[places].tolist(), np.exp(y[places]).tolist(), strict=True))
        kept |= worst


def hat_functions(x: Floats, knots: Floats) -> Floats:
    """Hat functions over `knots` (k,) at x (m,): (m, k); extended in straight lines beyond the ends."""
    if len(knots) == 1:
        return np.ones((len(x), 1))
    at = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
    share = (x - knots[at]) / (knots[at + 1] - knots[at])
    made = np.zeros((len(x), len(knots)))
    rows = np.arange(len(x))
    made[rows, at], made[rows, at + 1] = 1 - share, share
    return made


def _fit_floor_and_slope(terms: Floats, seconds: Floats) -> tuple[float, float]:
    """Non-negative factors with which the sum of a constant and the terms fits the seconds best.

    Reweighted least squares on predicted / measured, which is linear, gives the starting point of a robust fit on log
    residuals.
    """
    design = np.stack([1 / seconds, terms / seconds], axis=1)
    weights, factors = np.ones(len(seconds)), np.zeros(2)
    for _ in range(ROUNDS):
        found = _non_negative(design * weights[:, None], weights)
        done = np.allclose(found, factors, rtol=1e-9, atol=0)
        factors = found
        residuals = (design * factors).sum(axis=1) - 1
        if done or not factors.any():
            break
        weights = (1 + (residuals / robust_scale(residuals)) ** 2) ** -0.25
    used = np.flatnonzero(factors)
    columns, scale = design[:, used] * factors[used], robust_scale(residuals)
    logs, _ = least_squares(lambda logs: np.log((columns * np.exp(logs)).sum(axis=1)), np.zeros(len(used)), soft=scale)
    factors[used] *= np.exp(logs)
    first_factor, second_factor = np.where(factors < _NEGLIGIBLE, 0.0, factors)
    return float(first_factor), float(second_factor)


def _non_negative(design: Floats, target: Floats) -> Floats:
    """The factors of two columns, none below 0, with the least sum of squared errors."""
    lengths = np.sqrt([weigh(column, column) for column in design.T])
    first, second = columns = (design / lengths).T
    along, cosine = np.array([weigh(column, target) for column in columns]), weigh(first, second)
    if cosine < 1:
        both = solve_symmetric(np.array([[1.0, cosine], [cosine, 1.0]]), along)
        if (both >= 0).all():
            return both / lengths
    alone = np.zeros(2)
    better = int(along[1] > along[0])
    alone[better] = max(0.0, along[better])
    return alone / lengths


def bend_penalty(knots: Floats) -> Floats:
    """Rows whose product with heights at the knots is the distance of each from the line through its neighbours."""
    rows = np.zeros((max(0, len(knots) - 2), len(knots)))
    for place, row in enumerate(rows):
        share = (knots[place + 1] - knots[place]) / (knots[place + 2] - knots[place])
        row[place : place + 3] = 1 - share, -1, share
    return rows
