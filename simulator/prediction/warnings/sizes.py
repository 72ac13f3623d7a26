"""Sizes of warnings: from the uncertain inputs that a warning is about, so that they agree with the interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from simulator.engine.plan.plan import Plan
from simulator.prediction.uncertainty.inputs import UncertainInput
from simulator.prediction.uncertainty.responses import Response
from simulator.prediction.uncertainty.spread import Spread
from simulator.prediction.warnings.warning import SMALL, SizedWarning
from simulator.scenario.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Sizes:
    """A simulated scenario: its plan, the seconds of its terms, and how its time responds to what may be wrong."""

    scenario: Scenario
    plan: Plan
    breakdown: Mapping[str, float]
    spread: Spread

    def inputs(self, what: str) -> list[UncertainInput]:
        """The uncertain inputs whose kind begins so."""
        return [item for each in self.spread.responses for item in each.inputs if item.what.startswith(what)]

    def seconds_of(self, *terms: str) -> float:
        """Seconds of some terms of the iteration."""
        return math.fsum(self.breakdown[term] for term in terms)

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
        about = list(about)
        parts = {item.key: 1.0 if shares is None else shares[item.key] for item in about}
        time, responses = self.spread.time, [*self._parts(parts)]
        if seconds is None:
            touched = [value for value in map(self.touched, about) if value is not None]
            seconds = min(time, math.fsum(touched)) if touched else None
        if not responses:
            return SizedWarning(text, time, seconds)
        low, high = Spread(time, tuple(responses), tails=self.spread.tails).interval()
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
        own = next(each for each in self.spread.responses if item.key in [other.key for other in each.inputs])
        if own.exact and len(own.inputs) == 1:
            return self.spread.time * abs(math.exp(own.high) - math.exp(own.low))
        return item.less + item.more if _is_known(own, (item,)) else None

    def by_effect(self, items: Sequence[UncertainInput]) -> list[UncertainInput]:
        """The inputs that change the iteration, most first; all of them if none does. Unknown effects come last."""
        least = SMALL * self.spread.time
        known = [(self.apart(item), item) for item in items]
        chosen = [(least if value is None else value, item) for value, item in known]
        chosen = [row for row in chosen if row[0] >= least] or chosen
        return [item for _, item in sorted(chosen, key=lambda row: -row[0])]

    def _parts(self, shares: Mapping[tuple[str, str], float]) -> Iterable[Response]:
        """The responses to these inputs, each by the share that is theirs of what is wrong in the same way."""
        for each in self.spread.responses:
            mine = [item for item in each.inputs if item.key in shares and item.width > 1]
            if mine and _is_known(each, mine):
                whole = math.fsum(item.less + item.more for item in each.inputs)
                part = math.fsum(shares[item.key] * (item.less + item.more) for item in mine)
                share = part / whole if whole else max(shares[item.key] for item in mine)
                yield replace(each, low=share * each.low, high=share * each.high)


def _is_known(response: Response, items: Sequence[UncertainInput]) -> bool:
    """Whether the response says what the inputs change: it was simulated, or first order is enough for them."""
    return response.exact or any(item.more for item in items) or all(item.change is None for item in items)


def list_factors(items: Iterable[tuple[str, float]]) -> str:
    """Names, each with the factor by which it may be wrong.

    >>> list_factors([("topk", 1.94), ("scatter_add", 3.25)])
    'topk (1.9), scatter_add (3.2)'
    """
    return ", ".join(f"{name} ({width:.2g})" for name, width in items)


FACTORS = "in brackets the factor by which each may be wrong"
