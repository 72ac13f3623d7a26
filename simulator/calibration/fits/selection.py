"""Which family describes a series of timings, and how well: cross-validation inside, held-out sizes outside."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.calibration.fits.accuracy import Errors, relative
from simulator.calibration.fits.families import Fitted, Fitter, families
from simulator.models.curves import Floats

FOLDS = 5
NEARLY = 1.05
"""A simpler family is taken while its cross-validated error is no more than this factor above the best."""
ERROR_CAP = 0.5
_ROUNDING = 1e-4
OUTER = 0.25


@dataclass(frozen=True, slots=True)
class Repeats:
    """Distinct sizes, increasing (m,), the median of each one's repeats (the lower one of two), and their spread.

    `spread` is the median over sizes of (largest - smallest) / median; None where nothing was repeated.
    """

    sizes: Floats
    seconds: Floats
    spread: float | None

    @classmethod
    def of(cls, sizes: Sequence[float] | Floats, seconds: Sequence[float] | Floats) -> Repeats:
        """Gather timings of the same size. What delays a run only adds to it, hence the lower median."""
        found = defaultdict[float, list[float]](list)
        for size, time in zip(sizes, seconds, strict=True):
            found[float(size)].append(float(time))
        order = sorted(found)
        medians = [statistics.median_low(found[size]) for size in order]
        spreads = [
            (max(found[size]) - min(found[size])) / middle
            for size, middle in zip(order, medians, strict=True)
            if len(found[size]) > 1
        ]
        return cls(np.array(order), np.array(medians), float(np.median(spreads)) if spreads else None)


@dataclass(frozen=True, slots=True)
class CurveFit:
    """The chosen curve of a series, fitted to all of it, and what is known of its error.

    `interpolation`: errors at every second size, fitted and chosen on the others; `held_sizes` and `held_errors` are
    the same one by one. `extrapolation`: errors in the upper quarter of the range (on a log axis), fitted and chosen
    below. `fitted`: errors on what the curve was fitted to.
    """

    measured: Repeats
    chosen: Fitted
    interpolation: Errors | None
    extrapolation: Errors | None
    fitted: Errors | None
    held_sizes: Floats
    held_errors: Floats


Among = Callable[[int], dict[str, Fitter]]
"""A number of distinct sizes to the families that compete."""


def fit_curve(measured: Repeats, among: Among = families) -> CurveFit:
    """Choose a family by cross-validation, fit it, and hold out sizes to see how far it is off."""
    sizes, seconds = measured.sizes, measured.seconds
    chosen = choose(sizes, seconds, among)
    odd = np.arange(len(sizes)) % 2 == 1
    held_errors = _held_out(sizes, seconds, odd, among)
    logs = np.log(sizes)
    upper = logs > logs[-1] - OUTER * (logs[-1] - logs[0])
    return CurveFit(
        measured,
        chosen,
        Errors.of(held_errors),
        Errors.of(_held_out(sizes, seconds, upper, among)),
        Errors.of(relative(chosen.predict(sizes), seconds)),
        sizes[odd] if len(held_errors) else np.zeros(0),
        held_errors,
    )


def choose(sizes: Floats, seconds: Floats, among: Among = families) -> Fitted:
    """The simplest family whose cross-validated error is close to the best one's, fitted to everything."""
    known = among(len(sizes))
    if not known:
        return Fitted("constant", lambda at: np.full(np.shape(at), float(seconds.mean())))
    scores = _scores(known, sizes, seconds)
    limit = NEARLY * min(scores.values()) + _ROUNDING
    name = next(name for name in known if scores[name] <= limit)
    return known[name](sizes, seconds)


def _scores(known: Mapping[str, Fitter], sizes: Floats, seconds: Floats) -> dict[str, float]:
    """Mean absolute log error of each family over folds that take turns along the sizes.

    The two ends are never held out, since beyond them nothing is known, but count with the error that the fit leaves
    there. One wild point must not decide between families, so no error counts for more than 0.5.
    """
    places, folds = np.arange(len(sizes)), min(FOLDS, len(sizes) - 2)
    ends = np.isin(places, (0, len(sizes) - 1))
    scores = {}
    for name, fit in known.items():
        errors = [_off(fit(sizes, seconds), sizes[ends], seconds[ends])]
        for number in range(folds):
            held = (places % folds == number) & ~ends
            errors.append(_off(fit(sizes[~held], seconds[~held]), sizes[held], seconds[held]))
        scores[name] = float(np.concatenate(errors).mean())
    return scores


def _off(fitted: Fitted, sizes: Floats, seconds: Floats) -> Floats:
    errors: Floats = np.minimum(np.abs(np.log(np.maximum(fitted.predict(sizes), 1e-300) / seconds)), ERROR_CAP)
    return errors


def _held_out(sizes: Floats, seconds: Floats, held: np.ndarray, among: Among) -> Floats:
    """Signed errors at the held sizes of what the others make of them; none where too few are left."""
    if held.sum() < 1 or (~held).sum() < 3:
        return np.zeros(0)
    return relative(choose(sizes[~held], seconds[~held], among).predict(sizes[held]), seconds[held])
