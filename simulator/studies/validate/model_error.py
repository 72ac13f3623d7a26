"""The model's own error, and how errors are distributed: from measured iterations of set-ups that are left out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from simulator.errors import InputError, Problem
from simulator.models.curves import Floats
from simulator.models.groups import group_by, leave_out
from simulator.prediction.doubts.own_error import MODEL, PARTS, Errors, ModelError, model_error
from simulator.prediction.doubts.spread import Spread, half_widths
from simulator.prediction.doubts.verdict import least_known
from simulator.prediction.result import SHARES
from simulator.prediction.run import Prediction
from simulator.reporting.answers.validated import JudgedSign

_HEAD = """\
# Written by `sparsim validate --model-error`, checked by a test. `width`: the factor by which each part of an
# iteration may be off beyond the widths of all inputs. `stretch`: half-widths of intervals over what all inputs
# give, by the per cent of iterations that they hold; `speed_ups`: how many times as far speed-ups are off. From all
# set-ups, and from all but one.
"""
_MOST = math.log(10.0)
_DIGITS = 4
_CLOSE = 1e-9
_KNOWN = 0.2
"""Half-widths below which inputs count as known, as logarithms."""
_LEAST = 4
"""Rows from which on a set-up tells how errors are distributed: of fewer the largest is not that of nine in ten."""
_FAR = 1e6  # of a row that is off although nothing is uncertain

Row = Mapping[str, Any]


def _stretches(rows: Sequence[Row], least: int = 1) -> Callable[[float], dict[int, float]]:
    """The half-widths that hold c per cent of the rows of a set-up that is yet to come, in units of what inputs and a
    width of every part, whose logarithm is given, say to first order, as in an interval.

    By hierarchical conformal prediction (Lee, Barber and Willett, arXiv 2306.06342, 2023): the c-quantile of all
    set-ups of at least so many rows (of all, if none has so many), each with the same weight, and of one more whose
    errors have no bounds; of few set-ups the largest.
    """
    groups = list(group_by(rows, lambda row: row["group"]).values())
    groups = [alike for alike in groups if len(alike) >= least] or groups
    rows = [row for alike in groups for row in alike]
    weights = np.concatenate([np.full(len(alike), 1 / len(alike)) for alike in groups])
    off = np.array([math.log(float(row["measured"]) / float(row["predicted"])) for row in rows])
    inputs = np.array([row["parts"]["above" if way > 0 else "below"] for row, way in zip(rows, off, strict=True)])
    shares = np.array([[row["parts"]["shares"][part] for part in PARTS] for row in rows])

    def stretch(log: float) -> dict[int, float]:
        ends = np.expm1(np.where(off > 0, log, -log))[:, None]
        half = np.sqrt(inputs**2 + np.sum(np.log1p(shares * ends) ** 2, axis=1))
        units = np.divide(np.abs(off), half, out=np.where(off == 0, 0.0, _FAR), where=half > 0)
        return {percent: _quantile(units, weights, percent / 100 * (len(groups) + 1)) for percent in SHARES}

    return stretch


def _quantile(values: Floats, weights: Floats, share: float) -> float:
    """The least of the values up to which the weights add up to a share; the largest where all of them do not."""
    order = np.argsort(values, kind="stable")
    place = np.searchsorted(np.cumsum(weights[order]), share - _CLOSE)
    return float(values[order[min(int(place), len(order) - 1)]])


def parts_of(prediction: Prediction, stated: Spread) -> Mapping[str, Any]:
    """What the fit of the model's own error needs of a predicted row: the share of each part of the iteration, and how
    far the logarithm of its time is below and above at the ends of all inputs."""
    breakdown, time = prediction.simulated.figures.timed, stated.time
    below, above = half_widths([(item.low, item.high) for item in stated.responses])
    shares = {part: math.fsum(breakdown[term] for term in terms) / time for part, terms in PARTS.items()}
    return {"shares": shares, "below": below, "above": above}


def measured_share(judged: Spread) -> float:
    """The share of the squares of all responses that measured inputs and the model's own error have in a spread."""
    squares = [(max(item.low**2, item.high**2), item) for item in judged.responses]
    known = [square for square, item in squares if item.key[0] == MODEL or least_known(item.doubts) == "measured"]
    total = math.fsum(square for square, _ in squares)
    return math.fsum(known) / total if total else 1.0


def fit_model_error(rows: Sequence[Row], signs: Sequence[JudgedSign] = ()) -> ModelError:
    """The model's own error and the distribution of errors, from all set-ups and from all but one.

    `rows`: rows of `validate` that no constant was fitted to, with their `parts`, from two set-ups (`group`) or more;
    `signs`: pairs of them. All set-ups have the same weight, however many rows they have.
    """
    parts = sorted(leave_out(rows, lambda row: row["group"]), key=itemgetter(0))
    without = {name: _fit(others, [item for item in signs if item.group != name]) for name, _, others in parts}
    return ModelError(len(rows), _fit(rows, signs), without)


def model_error_yaml(rows: Sequence[Row], signs: Sequence[JudgedSign]) -> str:
    """The text of `configs/model_error.yaml`. Raises InputError for fewer than two set-ups."""
    counted = [row for row in rows if row.get("parts") and not row["used_in_fit"]]
    groups = {row["group"] for row in counted}
    if len(groups) < 2:
        hint = "the error is tested on set-ups that it was not fitted to; a folder of scenarios is one set-up"
        raise InputError(Problem("validate --model-error", "whole iterations from two set-ups", str(len(groups)), hint))
    found = fit_model_error(counted, [item for item in signs if not item.used_in_fit])
    without = "".join(f"  {name}: {_as_text(each)}\n" for name, each in found.without.items())
    return f"{_HEAD}rows: {found.rows}\nerrors: {_as_text(found.errors)}\nwithout:\n{without}"


def _as_text(errors: Errors) -> str:
    stretch = ", ".join(f"{percent}: {errors.stretch[percent]:.{_DIGITS}f}" for percent in SHARES)
    further = f"{errors.speed_ups:.{_DIGITS}f}"
    return f"{{width: {errors.width:.{_DIGITS}f}, stretch: {{{stretch}}}, speed_ups: {further}}}"


def _fit(rows: Sequence[Row], signs: Sequence[JudgedSign]) -> Errors:
    """The width of the parts, and the stretch of all intervals with it.

    Rows whose inputs are known show what the model itself does: the width is the smallest with which they are right
    about themselves, with a stretch of 1 at 90 %. The stretch of all rows then says how right widths of inputs are.
    """
    known = _stretches([row for row in rows if max(row["parts"]["below"], row["parts"]["above"]) < _KNOWN] or rows)
    low, high = 0.0, _MOST if known(0.0)[90] > 1 else 0.0
    while high - low > _CLOSE:
        middle = (low + high) / 2
        low, high = (low, middle) if known(middle)[90] <= 1 else (middle, high)
    return Errors(width=math.exp(high), stretch=_stretches(rows, _LEAST)(high), speed_ups=_further(signs))


def _further(signs: Sequence[JudgedSign]) -> float:
    """How many times as wide the 90 % intervals of speed-ups have to be to hold nine in ten, at least 1.

    Every set-up has the same weight. They are too few for more than that: the conformal quantile is the largest error.
    """
    groups, own = group_by(signs, lambda item: item.group), model_error()
    units, weights = list[float](), list[float]()
    for name, alike in groups.items():
        used = own.of(name).speed_ups if own is not None else 1.0
        for item in alike:
            off = math.log(item.measured_speed_up / item.predicted_speed_up)
            end = math.log((item.speed_up_interval or (1.0, 1.0))[off > 0] / item.predicted_speed_up)
            units.append(used * off / end if end else 0.0)
            weights.append(1 / len(alike))
    return max(1.0, _quantile(np.array(units), np.array(weights), 0.9 * len(groups))) if units else 1.0
