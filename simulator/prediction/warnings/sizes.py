"""Sizes of warnings: from the uncertain inputs that a warning is about, so that they agree with the interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from simulator.engine.plan.plan import Plan
from simulator.prediction.uncertainty.inputs import UncertainInput
from simulator.prediction.uncertainty.responses import Response
from simulator.prediction.uncertainty.spread import Spread
from simulator.prediction.warnings.warning import SMALL, SizedWarning
from simulator.records import Record
from simulator.scenario.scenario import Scenario


class Sizes(Record, dict=True):
    """A simulated scenario: its plan, the seconds of its terms, and how its time responds to what may be wrong."""

    scenario: Scenario
    plan: Plan
    breakdown: Mapping[str, float]
    spread: Spread

    def inputs(self, kind: str) -> Sequence[UncertainInput]:
        """The uncertain inputs of a kind."""
        return self._index[0].get(kind, ())

    def inputs_of_kernels(self) -> list[UncertainInput]:
        """The uncertain inputs of kernels, whose kinds begin so."""
        return [item for each in self.spread.responses for item in each.inputs if item.what.startswith("kernel ")]

    @cached_property
    def _index(self) -> tuple[Mapping[str, list[UncertainInput]], Mapping[tuple[str, str], int]]:
        """The inputs by kind, and which response each is a part of, by the input's key."""
        kinds, places = dict[str, list[UncertainInput]](), dict[tuple[str, str], int]()
        for place, response in enumerate(self.spread.responses):
            for item in response.inputs:
                what = item.what
                places[what, item.id] = place
                if what in kinds:
                    kinds[what].append(item)
                else:
                    kinds[what] = [item]
        return kinds, places

    def seconds_of(self, *terms: str) -> float:
        """Seconds of some terms of the iteration."""
        return math.fsum([self.breakdown[term] for term in terms])

    def warning(
        self,
        text: str,
        about: Iterable[UncertainInput] = (),
        seconds: float | None = None,
        shares: Mapping[tuple[str, str], float] | None = None,
    ) -> SizedWarning:
        """The warning about some inputs; `seconds` that it touches, if they are more than those of the inputs.

        `shares`: of an input's effect, where the warning is about a part of it.
        """
        time, about = self.spread.time, [*about]
        responses = self._parts(about, shares) if about else []
        if seconds is None and about:
            touched = [value for value in map(self.touched, about) if value is not None]
            seconds = min(time, math.fsum(touched)) if touched else None
        if not responses:
            return SizedWarning(text, time, seconds)
        low, high = self.spread.interval_of(responses)
        return SizedWarning(text, time, seconds, time - low, high - time)

    def touched(self, item: UncertainInput) -> float | None:
        """Seconds of the iteration that are proportional to an input; None where that is not known.

        Seconds s are (w - 1 / w) s apart where the input is w times as large and as small.
        """
        apart = self.apart(item)
        return None if apart is None or item.width == 1 else apart / (item.width - 1 / item.width)

    def apart(self, item: UncertainInput) -> float | None:
        """Seconds between the iterations at both ends of an input; None where that is not known.

        As simulated, where the input is wrong by itself, and elsewhere to first order.
        """
        own = self.spread.responses[self._index[1][item.what, item.id]]
        if own.exact and len(own.inputs) == 1:
            return self.spread.time * abs(math.exp(own.high) - math.exp(own.low))
        return item.less + item.more if _is_known(own, (item,)) else None

    def by_effect(self, items: Sequence[UncertainInput]) -> list[UncertainInput]:
        """The inputs that change the iteration, most first; all of them if none does. Unknown effects come last."""
        if not items:
            return []
        least = SMALL * self.spread.time
        known = [(self.apart(item), item) for item in items]
        chosen = [(least if value is None else value, item) for value, item in known]
        chosen = [row for row in chosen if row[0] >= least] or chosen
        chosen.sort(key=_most_first)
        return [item for _, item in chosen]

    def _parts(self, about: Sequence[UncertainInput], shares: Mapping[tuple[str, str], float] | None) -> list[Response]:
        """The responses to these inputs, each by the share that is theirs of what is wrong in the same way."""
        # Loops, since this is asked for every warning of every point of a sweep.
        places, chosen = self._index[1], dict[int, list[tuple[str, str]]]()
        for item in about:
            if item.width > 1:
                key = item.what, item.id
                chosen.setdefault(places[key], []).append(key)
        found = []
        for place in sorted(chosen):
            response, keys = self.spread.responses[place], chosen[place]
            mine = response.inputs
            if len(mine) > 1:
                mine = tuple([item for item in mine if (item.what, item.id) in keys])
            if _is_known(response, mine):
                found.append(
                    response
                    if shares is None and len(mine) == len(response.inputs)
                    else _part_of(response, mine, shares)
                )
        return found


def _part_of(
    response: Response, mine: Sequence[UncertainInput], shares: Mapping[tuple[str, str], float] | None
) -> Response:
    """The part of a response that is due to some of its inputs, or to the shares of them."""
    known = {item.key: 1.0 if shares is None else shares[item.key] for item in mine}
    whole = math.fsum(item.less + item.more for item in response.inputs)
    part = math.fsum(known[item.key] * (item.less + item.more) for item in mine)
    share = part / whole if whole else max(known.values())
    return response._replace(low=share * response.low, high=share * response.high)


def _most_first(row: tuple[float, UncertainInput]) -> float:
    return -row[0]


def _is_known(response: Response, items: Sequence[UncertainInput]) -> bool:
    """Whether the response says what the inputs change: it was simulated, or first order is enough for them."""
    if response.exact:
        return True
    for item in items:
        if item.more:
            return True
    return all([item.change is None for item in items])


def list_factors(items: Iterable[tuple[str, float]]) -> str:
    """Names, each with the factor by which it may be wrong.

    >>> list_factors([("topk", 1.94), ("scatter_add", 3.25)])
    'topk (1.9), scatter_add (3.2)'
    """
    return ", ".join(f"{name} ({width:.2g})" for name, width in items)


FACTORS = "in brackets the factor by which each may be wrong"
