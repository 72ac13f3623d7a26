"""Choice of a curve family for a series of timings, by cross-validation, and its error on held-out sizes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from simulator.calibration.fits.accuracy import relative_errors
from simulator.calibration.fits.families import Fitted, Fitter, families
from simulator.models.curves import Floats
from simulator.models.groups import group_by
from simulator.records import Record

FOLDS = 5
NEARLY = 1.05
"""The simplest family is chosen whose cross-validated error is at most this factor above the lowest."""
ERROR_CAP = 0.5
_ROUNDING = 1e-4
OUTER = 0.25


class Repeats(Record):
    """Distinct sizes, increasing (m,), the median of each one's repeats (the lower one of two), and their spread.

    `spread` is the median over sizes of (largest - smallest) / median; None where nothing was repeated.
    """

    sizes: Floats
    seconds: Floats
    spread: float | None

    @classmethod
    def of(cls, sizes: Sequence[float] | Floats, seconds: Sequence[float] | Floats) -> Repeats:
        """Gather timings of the same size. Disturbances only make a run slower, hence the lower median."""
        pairs = group_by(zip(map(float, sizes), map(float, seconds), strict=True), itemgetter(0))
        order = sorted(pairs)
        repeats = [[time for _, time in pairs[size]] for size in order]
        medians = [statistics.median_low(times) for times in repeats]
        spreads = [
            (max(times) - min(times)) / middle for times, middle in zip(repeats, medians, strict=True) if len(times) > 1
        ]
        return cls(np.array(order), np.array(medians), float(np.median(spreads)) if spreads else None)

    def at(self, places: slice | npt.NDArray[np.bool_]) -> Repeats:
        """Some of the sizes."""
        return Repeats(self.sizes[places], self.seconds[places], self.spread)


class CurveFit(Record):
    """The chosen curve of a series, fitted to all of it, and its signed relative errors.

    `held_errors`: at every second size (`held_sizes`), of a curve chosen and fitted on the others. `beyond`: in the
    upper quarter of the range (on a log axis), of a curve chosen and fitted on the rest. `fitted`: on the timings that
    the curve was fitted to.
    """

    measured: Repeats
    chosen: Fitted
    held_sizes: Floats
    held_errors: Floats
    beyond: Floats
    fitted: Floats


Allowed = Callable[[str], bool]
"""Whether a family of this name may be chosen."""


def fit_curve(measured: Repeats, allowed: Allowed = lambda name: True) -> CurveFit:
    """Choose a family by cross-validation, fit it, and find its error on held-out sizes."""
    sizes, seconds = measured.sizes, measured.seconds
    chosen = choose_curve(sizes, seconds, allowed)
    odd = np.arange(len(sizes)) % 2 == 1
    held_errors = _held_out_errors(sizes, seconds, odd, allowed)
    logs = np.log(sizes)
    upper = logs > logs[-1] - OUTER * (logs[-1] - logs[0])
    return CurveFit(
        measured,
        chosen,
        sizes[odd] if len(held_errors) else np.zeros(0),
        held_errors,
        _held_out_errors(sizes, seconds, upper, allowed),
        relative_errors(chosen.predict(sizes), seconds),
    )


def choose_curve(sizes: Floats, seconds: Floats, allowed: Allowed = lambda name: True) -> Fitted:
    """The simplest family whose cross-validated error is close to the lowest, fitted to all sizes."""
    known = families(len(sizes), allowed)
    if not known:
        return Fitted("constant", lambda at: np.full(np.shape(at), float(seconds.mean())))
    scores = _validation_scores(known, sizes, seconds)
    limit = NEARLY * min(scores.values()) + _ROUNDING
    name = next(name for name in known if scores[name] <= limit)
    return known[name](sizes, seconds)


def _validation_scores(known: Mapping[str, Fitter], sizes: Floats, seconds: Floats) -> dict[str, float]:
    """Mean absolute log error of each family over folds that take turns along the sizes.

    The two ends are never held out, because the others say nothing about them; they count with the error of a fit to
    all sizes. No error counts for more than 0.5, so that one outlier does not decide between families.
    """
    places, folds = np.arange(len(sizes)), min(FOLDS, len(sizes) - 2)
    ends = np.isin(places, (0, len(sizes) - 1))
    scores = {}
    for name, fit in known.items():
        errors = [_log_errors(fit(sizes, seconds), sizes[ends], seconds[ends])]
        for number in range(folds):
            held = (places % folds == number) & ~ends
            errors.append(_log_errors(fit(sizes[~held], seconds[~held]), sizes[held], seconds[held]))
        scores[name] = float(np.concatenate(errors).mean())
    return scores


def _log_errors(fitted: Fitted, sizes: Floats, seconds: Floats) -> Floats:
    errors: Floats = np.minimum(np.abs(np.log(np.maximum(fitted.predict(sizes), 1e-300) / seconds)), ERROR_CAP)
    return errors


def _held_out_errors(sizes: Floats, seconds: Floats, held: np.ndarray, allowed: Allowed) -> Floats:
    """Signed errors at the held sizes of a curve fitted to the others; none where too few are left."""
    if held.sum() < 1 or (~held).sum() < 3:
        return np.zeros(0)
    return relative_errors(choose_curve(sizes[~held], seconds[~held], allowed).predict(sizes[held]), seconds[held])
