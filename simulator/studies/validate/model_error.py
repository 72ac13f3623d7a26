"""The model's own error: what remains beyond the stated errors of curves, laws and terms."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from simulator.errors import InputError, Problem
from simulator.models.widths import DEVIATION, NORMAL_95
from simulator.prediction.evidence import ModelError

_HEAD = """# Written by `sparsim validate --model-error`, checked by a test. Mean absolute relative error of whole
# iterations beyond the stated errors of curves, laws and terms: from all set-ups, and from all but one.
"""
INSIDE = 0.90
"""Share of measured iterations that the intervals are to hold."""


def fit_model_error(rows: Sequence[Mapping[str, Any]]) -> ModelError:
    """The error that puts 90 % of measured iterations into their 90 % intervals.

    `rows`: rows of `validate` that no constant was fitted to, with `stated_interval`, the interval from stated errors
    alone, from two set-ups (`group`) or more. All set-ups have the same weight, however many rows they have. Errors
    have more outliers than a normal distribution, so that an error from the middle of the rows would make the intervals
    too narrow.
    """
    needed: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        needed[str(row["group"])].append(_needed(row))
    without = {name: _scale({key: each for key, each in needed.items() if key != name}) for name in sorted(needed)}
    return ModelError(sum(map(len, needed.values())), _scale(needed), without)


def model_error_yaml(rows: Sequence[Mapping[str, Any]]) -> str:
    """The text of `configs/model_error.yaml`. Raises InputError for fewer than two set-ups."""
    counted = [row for row in rows if row["stated_interval"] is not None and not row["used_in_fit"]]
    groups = {row["group"] for row in counted}
    if len(groups) < 2:
        hint = "the error is tested on set-ups that it was not fitted to; a folder of scenarios is one set-up"
        raise InputError(Problem("validate --model-error", "whole iterations from two set-ups", str(len(groups)), hint))
    found = fit_model_error(counted)
    without = "".join(f"  {name}: {value:.5f}\n" for name, value in found.without.items())
    return f"{_HEAD}rows: {found.rows}\nerror: {found.error:.5f}\nwithout:\n{without}"


def _needed(row: Mapping[str, Any]) -> float:
    """The error at which the measured value is at the end of the interval; 0 where the stated errors are enough."""
    predicted, (low, high) = float(row["predicted"]), row["stated_interval"]
    off = float(row["measured"]) - predicted
    stated = high - predicted if off > 0 else predicted - low
    return math.sqrt(max(0.0, off**2 - stated**2)) / (NORMAL_95 * DEVIATION * predicted)


def _scale(needed: Mapping[str, Sequence[float]]) -> float:
    """Smallest error that is enough for INSIDE of the rows; the rows of a set-up share one weight."""
    values = np.array([value for each in needed.values() for value in each])
    weights = np.array([1 / (len(each) * len(needed)) for each in needed.values() for _ in each])
    order = np.argsort(values, kind="stable")
    enough = np.cumsum(weights[order]) >= INSIDE - 1e-12
    return float(values[order][np.argmax(enough)])
