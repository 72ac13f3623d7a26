"""How sure a prediction is: what each uncertain input does to the iteration, and what would settle it."""

from __future__ import annotations

import math

from simulator.prediction.doubts.responses import Response
from simulator.prediction.doubts.spread import Spread, alone
from simulator.prediction.doubts.verdict import command_of, least_known, measurements_of
from simulator.prediction.run import Prediction
from simulator.records import asdict
from simulator.reporting.answers.explained import Doubts, Effect, UsedInput


def uncertainty(prediction: Prediction) -> Doubts:
    """What the interval of a prediction with its responses consists of."""
    spread = prediction.spread
    responses = [*map(alone, spread.responses)]
    total = math.fsum(_square(item.low, item.high) for item in responses) + _square(*spread.iterations)
    groups = [_group(item, spread, total) for item in responses if item.low or item.high]
    below, above = (spread.time * math.expm1(end) for end in spread.iterations)
    return Doubts(spread.interval(), sorted(groups, key=lambda effect: -effect.largest), (below, above))


def _group(response: Response, spread: Spread, total: float) -> Effect:
    measurements = measurements_of(response)
    inputs = sorted(response.doubts, key=lambda item: -item.more)
    return Effect(
        level=least_known(inputs),
        low=spread.time * math.expm1(response.low),
        high=spread.time * math.expm1(response.high),
        share=_square(response.low, response.high) / total if total else 0.0,
        inputs=[
            UsedInput(**asdict(item.as_row()), less=item.less, more=item.more, source=item.source) for item in inputs
        ],
        command=command_of(measurements) if measurements else None,
        minutes=math.fsum(item.minutes for item in measurements) if measurements else None,
    )


def _square(low: float, high: float) -> float:
    """The square of what an effect adds to the interval of the logarithm."""
    return (max(low, high, 0.0) - min(low, high, 0.0)) ** 2
