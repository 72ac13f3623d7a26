"""The model's own error, and how errors are distributed: from measured iterations of set-ups that are left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from simulator.errors import InputError, Problem
from simulator.models.groups import group_by, leave_out
from simulator.prediction.doubts.own_error import MODEL, PARTS, Errors, ModelError
from simulator.prediction.doubts.spread import Spread, Tails, half_widths
from simulator.prediction.doubts.verdict import least_known
from simulator.prediction.result import SHARES
from simulator.prediction.run import Prediction

_HEAD = """\
# Written by `sparsim validate --model-error`, checked by a test. `width`: the factor by which each part of an
# iteration may be off beyond the widths of all inputs. `stretch`: half-widths of intervals over what all inputs
# give, by the per cent of iterations that they hold. From all set-ups, and from all but one.
"""
_MOST = math.log(10.0)
_DIGITS = 4
_CLOSE = 1e-9
_FAR = 1e6  # of a row that is off although nothing is uncertain

Row = Mapping[str, Any]


class _Judged(NamedTuple):
    """A measured row: how far its logarithm is off, how far to that side it may be by its inputs, and the shares of the
    parts."""

    off: float
    half: float
    shares: tuple[float, ...]

    def units(self, log: float) -> float:
        """How far it is off over what it may be with a width of every part, to first order, as in an interval."""
        ends = math.expm1(log if self.off > 0 else -log)
        half = math.hypot(self.half, *(math.log1p(share * ends) for share in self.shares))
        return abs(self.off) / half if half else _FAR if self.off else 0.0


def _judged(row: Row) -> _Judged:
    parts, off = row["parts"], math.log(float(row["measured"]) / float(row["predicted"]))
    return _Judged(off, parts["above" if off > 0 else "below"], tuple(parts["shares"][part] for part in PARTS))


def parts_of(prediction: Prediction, stated: Spread) -> Mapping[str, Any]:
    """What the fit of the model's own error needs of a predicted row: the share of each part of the iteration, and how
    far the logarithm of its time is below and above at the ends of all inputs."""
    breakdown, time = prediction.simulated.figures.timed, stated.time
    below, above = half_widths([*((item.low, item.high) for item in stated.responses), stated.iterations])
    shares = {part: math.fsum(breakdown[term] for term in terms) / time for part, terms in PARTS.items()}
    return {"shares": shares, "below": below, "above": above}


def measured_share(judged: Spread) -> float:
    """The share of the squares of all responses that measured inputs and the model's own error have in a spread."""
    squares = [(max(item.low**2, item.high**2), item) for item in judged.responses]
    known = [square for square, item in squares if item.key[0] == MODEL or least_known(item.doubts) == "measured"]
    total = math.fsum(square for square, _ in squares)
    return math.fsum(known) / total if total else 1.0


def fit_model_error(rows: Sequence[Row]) -> ModelError:
    """The model's own error and the distribution of errors, from all set-ups and from all but one.

    `rows`: rows of `validate` that no constant was fitted to, with their `parts`, from two set-ups (`group`) or more.
    All set-ups have the same weight, however many rows they have.
    """
    parts = sorted(leave_out(rows, lambda row: row["group"]), key=itemgetter(0))
    return ModelError(len(rows), _fit(rows), {str(name): _fit(others) for name, _, others in parts})


def model_error_yaml(rows: Sequence[Row]) -> str:
    """The text of `configs/model_error.yaml`. Raises InputError for fewer than two set-ups."""
    counted = [row for row in rows if row.get("parts") and not row["used_in_fit"]]
    groups = {row["group"] for row in counted}
    if len(groups) < 2:
        hint = "the error is tested on set-ups that it was not fitted to; a folder of scenarios is one set-up"
        raise InputError(Problem("validate --model-error", "whole iterations from two set-ups", str(len(groups)), hint))
    found = fit_model_error(counted)
    without = "".join(f"  {name}: {_as_text(each)}\n" for name, each in found.without.items())
    return f"{_HEAD}rows: {found.rows}\nerrors: {_as_text(found.errors)}\nwithout:\n{without}"


def _as_text(errors: Errors) -> str:
    stretch = ", ".join(f"{percent}: {errors.tails.stretch[percent]:.{_DIGITS}f}" for percent in SHARES)
    return f"{{width: {errors.width:.{_DIGITS}f}, stretch: {{{stretch}}}}}"


def _fit(rows: Sequence[Row]) -> Errors:
    """The smallest width of the parts with which the ends of all inputs are right about themselves, and the stretch.

    The stretch of the 90 % interval is 1 then, unless the inputs say more than that by themselves; those of the others
    say how many errors are small.
    """
    set_ups = [list(map(_judged, alike)) for alike in group_by(rows, lambda row: row["group"]).values()]
    low, high = 0.0, _MOST
    while high - low > _CLOSE:
        middle = (low + high) / 2
        low, high = (low, middle) if _stretch(set_ups, middle)[90] <= 1 else (middle, high)
    log = 0.0 if _stretch(set_ups, 0.0)[90] <= 1 else high
    return Errors(math.exp(log), Tails(_stretch(set_ups, log)))


def _stretch(set_ups: Sequence[Sequence[_Judged]], log: float) -> dict[int, float]:
    """The half-widths that hold c per cent of the rows in c per cent of set-ups, in units of what the inputs give.

    Of the rows of each set-up the c-quantile, then of the set-ups. A set-up that is yet to come lies below the k-th
    smallest of n with probability k / (n + 1), whatever the distribution (conformal prediction: Vovk, Gammerman and
    Shafer, Algorithmic Learning in a Random World, 2005); between them by straight lines.
    """
    shares = [percent / 100 for percent in SHARES]
    each = np.array([np.quantile([row.units(log) for row in rows], shares) for rows in set_ups])
    made = (float(np.quantile(each[:, place], share, method="weibull")) for place, share in enumerate(shares))
    return dict(zip(SHARES, made, strict=True))
