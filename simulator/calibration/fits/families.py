"""Curve families: each fitted robustly on relative error, all with the same two questions to answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.optimize import least_squares, nnls

from simulator.calibration.fits.robust import ROUNDS, robust_linear, robust_scale
from simulator.models.curves import Affine, Floats, NLogN, Piecewise

KNOTS = (2, 3, 4, 6, 8, 10, 12, 16, 24)
MOST_SMOOTH = 64
_TINY = 1e-300
_STEEPEST = 1.25


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitted curve: seconds at sizes (m,), and the curve itself where its family is one that configs have."""

    family: str
    predict: Callable[[Floats], Floats]
    curve: Affine | NLogN | None = None


Fitter = Callable[[Floats, Floats], Fitted]
"""Distinct sizes, increasing (m,), and their seconds (m,) to a curve."""


def families(count: int) -> dict[str, Fitter]:
    """The families that `count` distinct sizes can tell apart, the simplest first."""
    if count < 2:
        return {}
    found: dict[str, Fitter] = {"affine": fit_affine, "n_log_n": fit_n_log_n}
    for knots in KNOTS:
        if count >= max(knots, 2 * knots - 4):
            found[f"piecewise {knots}"] = _with_knots(knots)
    if 4 <= count <= MOST_SMOOTH:
        found["smooth"] = fit_smooth
    return found


def transfers(count: int) -> dict[str, Fitter]:
    """The same without n log n, which nothing that moves bytes follows."""
    return {name: fit for name, fit in families(count).items() if name != "n_log_n"}


def floors(count: int) -> dict[str, Fitter]:
    """Affine alone: kernels whose floor and slope others are priced from."""
    return {"affine": fit_affine} if count >= 2 else {}


def fit_affine(sizes: Floats, seconds: Floats) -> Fitted:
    """t(n) = intercept + slope n, neither below 0."""
    intercept, slope = _two_terms(np.ones_like(sizes), sizes, seconds)
    curve = Affine(intercept=intercept, slope=slope)
    return Fitted("affine", curve.time, curve)


def fit_n_log_n(sizes: Floats, seconds: Floats) -> Fitted:
    """t(n) = intercept + coefficient n log2 n, neither below 0."""
    intercept, coefficient = _two_terms(np.ones_like(sizes), sizes * np.log2(np.maximum(sizes, 1.0)), seconds)
    curve = NLogN(intercept=intercept, coefficient=coefficient)
    return Fitted("n_log_n", curve.time, curve)


def fit_smooth(sizes: Floats, seconds: Floats) -> Fitted:
    """Monotone cubics through every size on log-log axes (Fritsch and Carlson 1980)."""
    x, y = np.log(sizes), np.log(seconds)
    inside = PchipInterpolator(x, y)
    return Fitted("smooth", _extended(lambda at: np.exp(inside(np.log(at))), sizes[0], sizes[-1]))


def fit_piecewise(sizes: Floats, seconds: Floats, knots: int) -> Fitted:
    """Straight lines on log-log axes between `knots` sizes, evenly apart on the log axis."""
    x, y = np.log(sizes), np.log(seconds)
    wanted = np.linspace(x[0], x[-1], knots)
    places = np.unique(x[np.abs(x[:, None] - wanted).argmin(axis=0)])
    heights = robust_linear(hats(x, places), y, ridge=_bends(places))
    curve = Piecewise(points=tuple(zip(np.exp(places), np.exp(heights), strict=True)))
    return Fitted(f"piecewise {len(places)}", _extended(curve.time, sizes[0], sizes[-1]))


def _extended(inside: Callable[[Floats], Floats], low: float, high: float) -> Callable[[Floats], Floats]:
    """Straight on beyond the ends, by the slope over the last octave.

    Times neither fall with the size nor grow much faster than it, so the slope is kept from 0 to 1.25: two noisy
    points at the end must not decide what is far away.
    """
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


def points_of(
    predict: Callable[[Floats], Floats], sizes: Floats, tolerance: float = 2e-3, least: int = 8
) -> tuple[tuple[float, float], ...]:
    """Points of a log-log piecewise curve that stays within `tolerance` of `predict` over the range of `sizes`.

    The fewest that splitting at the worst place finds (Ramer 1972, Douglas and Peucker 1973), and at least `least`
    where there are as many sizes.
    """
    # Whole sizes, as a config has them: between 1 and 8 bytes there are no more than eight.
    grid = np.unique(np.concatenate([sizes, np.geomspace(sizes[0], sizes[-1], 129)[1:-1].round()]))
    x, y = np.log(grid), np.log(predict(grid))
    kept = {0, len(grid) - 1}
    kept |= {int(np.abs(x - at).argmin()) for at in np.linspace(x[0], x[-1], min(least, len(sizes)))}
    while True:
        places = np.array(sorted(kept))
        off = np.abs(np.interp(x, x[places], y[places]) - y)
        worst = {
            a + int(off[a : b + 1].argmax()) for a, b in pairwise(places.tolist()) if off[a : b + 1].max() > tolerance
        }
        if not worst:
            return tuple(zip(grid[places].tolist(), np.exp(y[places]).tolist(), strict=True))
        kept |= worst


def hats(x: Floats, knots: Floats) -> Floats:
    """Hat functions over `knots` (k,) at x (m,): (m, k); straight beyond the ends."""
    if len(knots) == 1:
        return np.ones((len(x), 1))
    at = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
    share = (x - knots[at]) / (knots[at + 1] - knots[at])
    made = np.zeros((len(x), len(knots)))
    rows = np.arange(len(x))
    made[rows, at], made[rows, at + 1] = 1 - share, share
    return made


def _two_terms(first: Floats, second: Floats, seconds: Floats) -> tuple[float, float]:
    """Non-negative factors of two terms whose sum is to be the seconds.

    Reweighted least squares on predicted / measured, a linear problem, finds the start; log residuals decide.
    """
    design = np.stack([first / seconds, second / seconds], axis=1)
    weights, factors = np.ones(len(seconds)), np.zeros(2)
    for _ in range(ROUNDS):
        found, _ = nnls(design * weights[:, None], weights)
        done = np.allclose(found, factors, rtol=1e-9, atol=0)
        factors = found
        residuals = design @ factors - 1
        if done or not factors.any():
            break
        weights = (1 + (residuals / robust_scale(residuals)) ** 2) ** -0.25
    used = np.flatnonzero(factors)
    columns, scale = design[:, used] * factors[used], robust_scale(residuals)
    logs = least_squares(
        lambda parameters: np.log(columns @ np.exp(parameters)),
        np.zeros(len(used)),
        jac=lambda parameters: columns * np.exp(parameters) / (columns @ np.exp(parameters))[:, None],
        loss="soft_l1",
        f_scale=scale,
    ).x
    factors[used] *= np.exp(logs)
    return float(factors[0]), float(factors[1])


def _bends(knots: Floats) -> Floats:
    """Rows that pull bends to 0, so gently that they only decide where no measurement does."""
    if len(knots) < 3:
        return np.zeros((0, len(knots)))
    rows = np.zeros((len(knots) - 2, len(knots)))
    for place in range(1, len(knots) - 1):
        before, after = knots[place] - knots[place - 1], knots[place + 1] - knots[place]
        rows[place - 1, place - 1 : place + 2] = after, -(before + after), before
        rows[place - 1] /= before + after
    return 1e-4 * rows


def _with_knots(knots: int) -> Fitter:
    return lambda sizes, seconds: fit_piecewise(sizes, seconds, knots)
