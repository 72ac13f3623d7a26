"""The verdict on a comparison: yes, no or not decided, how probable it is, and which measurement would decide it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import NormalDist
from typing import Any

from simulator.models.widths import NORMAL_95
from simulator.prediction.doubts.doubt import Doubt, Level, Measurement
from simulator.prediction.doubts.spread import Ratio, Response, Spread, alone, compare_spreads
from simulator.prediction.result_parts import Worth
from simulator.records import replace
from simulator.units import join_words

_MEASURED_WIDTH = 1.05
"""Factor that is left of a doubt once it is measured: kernels and links are held out within 2 to 5 %."""
_LISTED = 5
_WORTH = 0.01
"""Inputs that hold less of the variance than this are not listed."""
_NORMAL = NormalDist()


def judge(first: Spread, second: Spread) -> Ratio | None:
    """How many times faster the first is; None where there is no ratio: one takes no time, or both take for ever."""
    none = bool(first.time) != bool(second.time) or math.isinf(min(first.time, second.time))
    return None if none else compare_spreads(first, second)


def verdict_fields(ratio: Ratio | None) -> Mapping[str, Any]:
    """The verdict on a comparison as the fields that answers have of it; none where there is no verdict.

    Where one side takes for ever, there is nothing but the word.
    """
    if ratio is None:
        return {}
    if math.isinf(ratio.log):
        return {"word": ratio.word}
    return {
        "word": ratio.word,
        "speed_up_interval": ratio.interval(),
        "probability": ratio.probability(),
        "value_of_information": value_of_information(ratio),
    }


def value_of_information(ratio: Ratio) -> list[Worth]:
    """What measuring each input would be worth, most valuable first.

    The errors of doubts add in squares. Measured, doubt i no longer varies (but for what a measurement leaves): the
    ratio's logarithm moves by a normal amount whose 5th and 95th percentiles are the ends of its 90 % interval, and the
    rest stays. `decided`: the probability that the question is decided then. `share`: of the squares; and
    `speed_up_interval`: of the ratio if the measurement confirms what is assumed.
    """
    ratio = replace(ratio, responses=tuple(map(alone, ratio.responses)))
    total = math.fsum(_square(ratio, item) for item in ratio.responses)
    worth = [item for item in ratio.responses if total and _square(ratio, item) >= _WORTH * total]
    rows = [_worth(ratio, item, total) for item in worth if measurements_of(item)]
    return sorted(rows, key=lambda row: (-row.decided, -row.share))[:_LISTED]


def _worth(ratio: Ratio, item: Response, total: float) -> Worth:
    measurements, width = measurements_of(item), max(each.width for each in item.doubts)
    left = min(1.0, math.log(_MEASURED_WIDTH) / math.log(width)) if width > 1 else 1.0
    narrowed = item._replace(low=left * item.low, high=left * item.high)
    known = tuple(narrowed if each is item else each for each in ratio.responses)
    stretch = ratio.tails.stretch[90]
    gone = _square(ratio, item) * (1 - left**2)
    return Worth(
        input=join_words([each.what for each in measurements]),
        id=[each.id for each in item.doubts],
        level=least_known(item.doubts),
        width=width,
        share=gone / total,
        decided=_chance_to_decide(ratio.log, *(stretch * math.sqrt(max(0.0, part)) for part in (gone, total - gone))),
        speed_up_interval=Ratio(ratio.log, known, ratio.tails).interval(),
        command=command_of(measurements),
        minutes=math.fsum(each.minutes for each in measurements),
    )


def _chance_to_decide(log: float, moved: float, rest: float) -> float:
    """P(|log + moved z / 1.645| >= rest), z standard normal: what remains of the 90 % interval leaves 0 out then."""
    if not moved:
        return float(abs(log) >= rest)
    deviation = moved / NORMAL_95
    return 1 - _NORMAL.cdf((rest - log) / deviation) + _NORMAL.cdf((-rest - log) / deviation)


def _square(ratio: Ratio, item: Response) -> float:
    """The square of how far a response moves a ratio's logarithm towards 0, where the question is decided."""
    return max(0.0, *((-item.low, -item.high) if ratio.log > 0 else (item.low, item.high))) ** 2


def least_known(doubts: Iterable[Doubt]) -> Level:
    """The level of the doubt that is known least."""
    return min((item.level for item in doubts), key=("assumed", "transferred", "measured").index)


def weightiest(doubts: Iterable[Doubt]) -> list[Doubt]:
    """The doubts that matter, those that matter most first."""
    found = sorted(doubts, key=lambda each: -each.more)
    return [each for each in found if each.more >= _WORTH * found[0].more]


def measurements_of(item: Response) -> list[Measurement]:
    """What would settle a response: its doubts' measurements, those that matter most first."""
    found = weightiest(each for each in item.doubts if each.measurement is not None)
    return list(dict.fromkeys(each.measurement for each in found if each.measurement))


def command_of(measurements: list[Measurement]) -> str:
    """One command line for measurements of one kind: their arguments joined by commas.

    >>> command_of([Measurement("topk", "sparsim record kernels --kernels", 1.0, "topk")])
    'sparsim record kernels --kernels topk'
    """
    arguments = ",".join(item.argument for item in measurements if item.argument)
    return f"{measurements[0].command} {arguments}".strip()
