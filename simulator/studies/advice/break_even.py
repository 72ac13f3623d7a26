"""Where along an axis (bandwidth or number of workers) one method is faster than another."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from simulator.errors import InputError
from simulator.prediction.run import run
from simulator.scenario.changes import with_value
from simulator.scenario.scenario import Scenario

DECADES = (7, 11)
"""Powers of ten, in bytes per second, between which bandwidths are tried."""
PER_DECADE = 2
MOST_WORKERS = 256
_TIGHT, _ROUGH, _PARTS = 1e-3, 2e-2, 8

Point = tuple[float, float, float]
"""Seconds, and the ends of their interval."""
Stretch = tuple[float | None, float | None]
"""From and to; None: up to the end of what was tried."""
Gap = Callable[[float], float | None]


@dataclass(frozen=True, slots=True)
class Axis:
    """What varies: its key and the values to try, ascending. `whole`: whole numbers only."""

    key: str
    tried: tuple[float, ...]
    whole: bool = False

    def at(self, scenario: Scenario, value: float) -> Scenario:
        """The scenario with that value."""
        return with_value(scenario, self.key, round(value) if self.whole else value)


def bandwidth_axis(scenario: Scenario, per_decade: int = PER_DECADE) -> Axis:
    """The bandwidth of the NICs, or inside the node where there is only one node."""
    inside = scenario.cluster.nodes == 1 and scenario.cluster.network.intra_node is not None
    low, high = DECADES
    tried = tuple(10 ** (low + i / per_decade) for i in range(per_decade * (high - low) + 1))
    return Axis("cluster.network.intra_node.bandwidth" if inside else "cluster.network.bandwidth", tried)


def nodes_axis(scenario: Scenario) -> Axis:
    """The number of nodes, or of GPUs where there is only one node."""
    cluster = scenario.cluster
    one = cluster.nodes == 1 and cluster.gpus_per_node > 1
    each = 1 if one else cluster.gpus_per_node
    most = max(MOST_WORKERS // each, 2)
    tried = tuple(float(2**i) for i in range(17) if (1 if each > 1 else 2) <= 2**i <= most)
    return Axis("cluster.gpus_per_node" if one else "cluster.nodes", tried, whole=True)


@dataclass(frozen=True, slots=True)
class Win:
    """A stretch of an axis on which a method is faster, and the intervals of its two borders.

    On an axis of whole numbers, the borders are inside the stretch. A border's interval reaches from where the method
    is faster in the worst case of both predictions' intervals to where it is faster in the best case (as if their
    errors were independent).
    """

    start: float | None
    stop: float | None
    start_interval: Stretch | None
    stop_interval: Stretch | None


@dataclass(frozen=True, slots=True)
class Wins:
    """Where a method is faster; `tried`: the smallest and largest value that could be run (None: no value could)."""

    wins: tuple[Win, ...]
    tried: tuple[float, float] | None

    @property
    def everywhere(self) -> bool:
        """Whether the method is faster at every value tried."""
        return len(self.wins) == 1 and self.wins[0].start is None and self.wins[0].stop is None


class Race:
    """Compares methods with one other method along an axis, and remembers the times of that other method.

    Without `intervals` the borders are rough and have no intervals, for methods that take long to simulate.
    """

    def __init__(self, axis: Axis, against: Scenario, intervals: bool = True) -> None:
        self.axis, self.against, self.intervals = axis, against, intervals
        self.theirs: dict[float, Point | None] = {}

    def wins(self, method: Scenario) -> Wins:
        """The stretches on which `method` is faster."""
        mine: dict[float, Point | None] = {}

        def gap(which: int, value: float) -> float | None:
            """Time of the method minus that of the other: 0 as predicted, 1 in the worst case, 2 in the best case."""
            for scenario, times in ((method, mine), (self.against, self.theirs)):
                if value not in times:
                    times[value] = _point(self.axis.at(scenario, value))
            a, b = mine[value], self.theirs[value]
            return None if a is None or b is None else (a[0] - b[0], a[2] - b[1], a[1] - b[2])[which]

        places = [value for value in self.axis.tried if gap(0, value) is not None]
        if not places:
            return Wins((), None)
        likely = self._stretches(partial(gap, 0), places, self.intervals)
        if not self.intervals:
            return Wins(tuple(Win(*one, None, None) for one in likely), (places[0], places[-1]))
        surely, perhaps = (self._stretches(partial(gap, which), places, False) for which in (1, 2))
        return Wins(tuple(_win(one, surely, perhaps) for one in likely), (places[0], places[-1]))

    def _stretches(self, gap: Gap, places: Sequence[float], tight: bool) -> list[Stretch]:
        """The stretches on which a gap is below 0."""
        made: list[Stretch] = []
        start: float | None = None
        winning = False
        for place, value in enumerate(places):
            wins = (gap(value) or 0.0) < 0
            if wins == winning:
                continue
            edge = None if place == 0 else self._border(gap, places[place - 1], value, tight)
            if wins:
                start = edge
            else:
                made.append((start, edge))
            winning = wins
        return [*made, (start, None)] if winning else made

    def _border(self, gap: Gap, low: float, high: float, tight: bool) -> float:
        """The value between two others at which the sign changes; of whole numbers, the last one that is faster."""
        rising = (gap(low) or 0.0) < 0
        while (
            high - low > (1 if tight else max(1, low / _PARTS))
            if self.axis.whole
            else high / low > 1 + (_TIGHT if tight else _ROUGH)
        ):
            middle = float((low + high) // 2) if self.axis.whole else math.sqrt(low * high)
            value = gap(middle)
            if value is None or (value < 0) != rising:
                high = middle
            else:
                low = middle
        if self.axis.whole:
            return low if rising else high
        return math.sqrt(low * high)


def _win(likely: Stretch, surely: Sequence[Stretch], perhaps: Sequence[Stretch]) -> Win:
    start, stop = likely
    sure = next((one for one in surely if _meet(one, likely)), None)
    loose = next((one for one in perhaps if _meet(one, likely)), likely)
    return Win(
        start,
        stop,
        None if start is None else (_bound(min, start, loose[0]), _bound(max, start, sure and sure[0])),
        None if stop is None else (_bound(min, stop, sure and sure[1]), _bound(max, stop, loose[1])),
    )


def _bound(choose: Callable[[float, float], float], border: float, end: float | None) -> float | None:
    """The end of an interval: at least up to the border, which is known more exactly. None where it is not known."""
    return None if end is None else choose(border, end)


def _meet(one: Stretch, other: Stretch) -> bool:
    low = max(one[0] or 0.0, other[0] or 0.0)
    return low <= min(math.inf if one[1] is None else one[1], math.inf if other[1] is None else other[1])


def _point(scenario: Scenario) -> Point | None:
    """Seconds and their interval; None where the parts do not fit together."""
    try:
        document = run(scenario).document
    except InputError:
        return None
    low, high = document["iteration_time_interval_s"]
    return float(document["iteration_time_s"]), float(low), float(high)
