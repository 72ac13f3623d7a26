"""The model's own error: what remains beyond the widths of all inputs, from set-ups that are left out."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from simulator.errors import InputError, Problem
from simulator.prediction.run import Prediction
from simulator.prediction.uncertainty.own_error import PARTS, ModelError
from simulator.prediction.uncertainty.spread import Spread

_HEAD = """# Written by `sparsim validate --model-error`, checked by a test. What measured iterations differ by
# beyond the widths of all inputs, by part of an iteration: the factor that holds nine of ten of them; from all
# set-ups, and from all but one.
"""
_GRID = (0.0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6)
"""Logarithms of widths that are tried, part by part."""
_PENALTY = 20.0
"""2 / alpha of the interval score, alpha being the share of rows outside."""

Row = Mapping[str, Any]


def parts_of(prediction: Prediction, stated: Spread) -> dict[str, Any]:
    """What the fit of the model's own error needs of a predicted row: the share of each part of the iteration, and how
    far the logarithm of its time may be below and above by the widths of its inputs."""
    breakdown, time = prediction.document["breakdown_s"], stated.time
    low, high = stated.interval()
    shares = {part: math.fsum(breakdown[term] for term in terms) / time for part, terms in PARTS.items()}
    return {"shares": shares, "below": math.log(time / low), "above": math.log(high / time)}


def fit_model_error(rows: Sequence[Row]) -> ModelError:
    """The widths of the parts of an iteration that give the best 90 % intervals, from all set-ups and from all but one.

    Best is the smallest mean interval score, width + 2 / alpha times what a measured value is outside (Gneiting and
    Raftery, Journal of the American Statistical Association 102, 2007), on logarithms. `rows`: rows of `validate` that
    no constant was fitted to, with their `parts`, from two set-ups (`group`) or more. All set-ups have the same weight,
    however many rows they have.
    """
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[str(row["group"])].append(row)
    without = {name: _fit({key: each for key, each in groups.items() if key != name}) for name in sorted(groups)}
    return ModelError(len(rows), _fit(groups), without)


def model_error_yaml(rows: Sequence[Row]) -> str:
    """The text of `configs/model_error.yaml`. Raises InputError for fewer than two set-ups."""
    counted = [row for row in rows if row.get("parts") and not row["used_in_fit"]]
    groups = {row["group"] for row in counted}
    if len(groups) < 2:
        hint = "the error is tested on set-ups that it was not fitted to; a folder of scenarios is one set-up"
        raise InputError(Problem("validate --model-error", "whole iterations from two set-ups", str(len(groups)), hint))
    found = fit_model_error(counted)
    without = "".join(f"  {name}: {_as_text(each)}\n" for name, each in found.without.items())
    return f"{_HEAD}rows: {found.rows}\nwidths: {_as_text(found.widths)}\nwithout:\n{without}"


def _as_text(widths: Mapping[str, float]) -> str:
    return "{" + ", ".join(f"{part}: {width:.4f}" for part, width in widths.items()) + "}"


def _fit(groups: Mapping[str, Sequence[Row]]) -> dict[str, float]:
    """The widths with the smallest score, one part after the other until none changes."""
    found = dict.fromkeys(PARTS, 0.05)
    while True:
        before = dict(found)
        for part in PARTS:
            found[part] = min(_GRID, key=lambda value: (_score(groups, {**found, part: value}), value))
        if found == before:
            return {part: math.exp(value) for part, value in found.items()}


def _score(groups: Mapping[str, Sequence[Row]], logs: Mapping[str, float]) -> float:
    """Mean interval score, every set-up with the same weight."""
    return math.fsum(math.fsum(_row_score(row, logs) for row in rows) / len(rows) for rows in groups.values())


def _row_score(row: Row, logs: Mapping[str, float]) -> float:
    parts = row["parts"]
    off = math.log(float(row["measured"]) / float(row["predicted"]))
    # To first order, as the model's own error enters an interval.
    more = [math.log1p(parts["shares"][part] * math.expm1(value)) for part, value in logs.items()]
    less = [math.log1p(parts["shares"][part] * math.expm1(-value)) for part, value in logs.items()]
    above, below = math.hypot(parts["above"], *more), math.hypot(parts["below"], *less)
    return above + below + _PENALTY * max(0.0, off - above, -off - below)
