"""What a speed-up rests on that was not measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

from simulator.prediction.doubts.doubt import Doubt
from simulator.prediction.doubts.own_error import MODEL
from simulator.prediction.doubts.spread import Ratio, Response
from simulator.reporting.answers.advised import Unmeasured
from simulator.units import join_words

SAME = 0.01
"""Differences up to this share are too small to matter."""
_LISTED = 5
_NAMED = 2
_WORTH = 0.01
"""Of inputs that are wrong the same way, those are named whose effect is at least this share of the largest one."""


def find_unmeasured(ratio: Ratio) -> list[Unmeasured]:
    """Inputs that were not measured here and may make a speed-up smaller by more than 1 %, the worst one first.

    The model's own error is no input that can be measured.
    """
    worst = [(min(item.low, item.high), item) for item in ratio.responses]
    rows = [
        _describe(item, math.exp(ratio.log + effect), turns=ratio.log > 0 > ratio.log + effect)
        for effect, item in sorted(worst, key=lambda pair: pair[0])
        if effect < -SAME and _not_measured(item)
    ]
    return rows[:_LISTED]


def describe_unmeasured(rows: Sequence[Unmeasured], than: str = "dense") -> str:
    """What a recommendation must say: kernels that were not measured, and all else that alone turns the answer.

    `than`: what the speed-ups of the rows are over.
    """
    named = sorted((row for row in rows if row.turns or row.is_kernel), key=lambda row: not row.is_kernel)[:_NAMED]
    if not named:
        return ""
    parts = [f"{row.input} (at the worst {row.speed_up_at_worst:.2f} times as fast as {than})" for row in named]
    kind = "kernels" if all(row.is_kernel for row in named) else "inputs"
    return f" This rests on {kind} that were not measured: {join_words(parts)}."


def _not_measured(item: Response) -> list[Doubt]:
    """The inputs of a response that were not measured, those that matter most first."""
    found = [each for each in item.doubts if each.level != "measured" and each.what != MODEL]
    found.sort(key=lambda each: -each.more)
    return [each for each in found if each.more >= _WORTH * found[0].more]


def _describe(item: Response, at_worst: float, *, turns: bool) -> Unmeasured:
    inputs = _not_measured(item)
    names = dict.fromkeys(each.measurement.what if each.measurement else f"{each.what} of {each.id}" for each in inputs)
    return Unmeasured(
        input=join_words(list(names)),
        what=inputs[0].what,
        id=[each.id for each in inputs],
        level=inputs[0].level,
        width=max(each.width for each in inputs),
        speed_up_at_worst=at_worst,
        turns=turns,
    )
