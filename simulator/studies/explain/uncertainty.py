"""How sure a prediction is: what each uncertain input does to the iteration, and what would settle it."""

from __future__ import annotations

import math
from typing import Any

from simulator.prediction.run import Prediction
from simulator.prediction.uncertainty.inputs import UncertainInput
from simulator.prediction.uncertainty.responses import Response
from simulator.prediction.uncertainty.spread import Spread
from simulator.prediction.uncertainty.verdict import command_of, least_known, measurements_of
from simulator.records import asdict


def uncertainty(prediction: Prediction) -> dict[str, Any]:
    """What the interval of a prediction with its responses consists of.

    `groups`, those with the largest effect first: inputs that are wrong the same way, and together. `low_s`, `high_s`:
    by how many seconds the iteration changes where they have the ends of their widths. `share`: of the interval's
    squared width on a logarithmic scale, to which the groups add. `command`: what would settle them, None where no
    command does. `single_iterations_s`: the seconds by which the 5th and the 95th percentile of single iterations
    differ from their mean.
    """
    spread = prediction.spread
    total = math.fsum(_square(item.low, item.high) for item in spread.responses) + _square(*spread.iterations)
    groups = [_group(item, spread, total) for item in spread.responses if item.low or item.high]
    return {
        "interval_s": list(spread.interval()),
        "groups": sorted(groups, key=lambda row: -max(abs(row["low_s"]), abs(row["high_s"]))),
        "single_iterations_s": [spread.time * math.expm1(end) for end in spread.iterations],
    }


def _group(response: Response, spread: Spread, total: float) -> dict[str, Any]:
    measurements = measurements_of(response)
    inputs = sorted(response.inputs, key=lambda item: -item.more)
    return {
        "level": least_known(inputs),
        "low_s": spread.time * math.expm1(response.low),
        "high_s": spread.time * math.expm1(response.high),
        "share": _square(response.low, response.high) / total if total else 0.0,
        "inputs": [_input(item) for item in inputs],
        "command": command_of(measurements) if measurements else None,
        "minutes": math.fsum(item.minutes for item in measurements) if measurements else None,
    }


def _input(item: UncertainInput) -> dict[str, Any]:
    """One input; its seconds are those of first order."""
    return asdict(item.as_row()) | {"less_s": item.less, "more_s": item.more, "source": item.source}


def _square(low: float, high: float) -> float:
    """The square of half of what an effect adds to the interval of the logarithm."""
    return ((max(low, high, 0.0) - min(low, high, 0.0)) / 2) ** 2
