"""Answer what is needed so that a target is met: each unknown by itself, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from simulator.errors import InputError
from simulator.prediction.doubts.own_error import MODEL
from simulator.prediction.doubts.spread import half_widths
from simulator.prediction.doubts.workload import COMPUTE
from simulator.prediction.result import RunResult
from simulator.prediction.run import Prediction, run, run_batch, with_responses
from simulator.records import replace
from simulator.reporting.answers.planned import (
    BackwardsPlan,
    Ends,
    NarrowingMeasurement,
    PlanNow,
    TargetNow,
    UnknownNeeded,
)
from simulator.scenario.changes import value_at
from simulator.scenario.scenario import Scenario
from simulator.studies.planning.solving import Solution, find_border
from simulator.studies.planning.targets import PlanTarget, Training, parse_target
from simulator.studies.planning.unknowns import Unknown, unknowns_of


def plan_backwards(
    scenario: Scenario, target: str, vary: Sequence[str] = (), training: Training | None = None
) -> BackwardsPlan:
    """What a scenario needs to meet a target, such as `compute utilisation 90 %`.

    Each unknown in `vary` (default: all that the scenario has) is solved for while all else stays: the least bandwidth,
    the least number of local steps, the largest density, the least number of nodes (or the most, where more of them
    make it worse). The interval of an answer holds it in nine of ten cases: at its ends the target is met if everything
    takes as much longer, or shorter, as the 90 % interval of the prediction at the answer says.

    Raises InputError for a target or an unknown that does not exist, and where the scenario cannot be run.
    """
    wanted = parse_target(target, training or Training())
    unknowns = unknowns_of(scenario, vary)
    now = with_responses(run(scenario))
    reached = wanted.reached(now.result_without_lists)
    return BackwardsPlan(
        scenario=scenario.name,
        target=TargetNow(target, wanted.name, wanted.value, wanted.show(wanted.value)),
        now=PlanNow(reached, wanted.show(reached), wanted.margin(now.result_without_lists) >= 0),
        answers=[_answer(scenario, wanted, unknown) for unknown in unknowns],
        measurement=_measurement(now),
    )


class _Margins:
    """Margins along an unknown, each predicted once."""

    def __init__(self, scenario: Scenario, target: PlanTarget, unknown: Unknown) -> None:
        self.scenario, self.target, self.unknown = scenario, target, unknown
        self.results: dict[float, RunResult | None] = {}
        self.why = ""

    def predict(self, values: Sequence[float]) -> None:
        """Predict what is not known yet, together."""
        new, scenarios = list[float](), list[Scenario]()
        for value in values:
            if value not in self.results:
                try:
                    scenarios.append(self.unknown.at(self.scenario, value))
                    new.append(value)
                except InputError as error:
                    self.results[value], self.why = None, str(error)
        for value, made in zip(new, run_batch(scenarios, intervals=False), strict=True):
            if isinstance(made, Prediction):
                self.results[value] = made.result_without_lists
            else:
                self.results[value], self.why = None, str(made)

    def at(self, value: float, longer: float = 1.0) -> float | None:
        """The margin at a value, if everything takes `longer` times as long."""
        self.predict([value])
        result = self.results[value]
        return None if result is None else self.target.margin(result, longer)

    def reached(self, value: float) -> float:
        """The quantity at a value that was predicted."""
        result = self.results[value]
        return 0.0 if result is None else self.target.reached(result)


def _answer(scenario: Scenario, target: PlanTarget, unknown: Unknown) -> UnknownNeeded:
    margins = _Margins(scenario, target, unknown)
    margins.predict(unknown.tried)
    stated = value_at(scenario, unknown.key)
    made = UnknownNeeded(
        name=unknown.name,
        key=unknown.key,
        now=stated,
        now_shown=unknown.show(stated),
        tried=(unknown.tried[0], unknown.tried[-1]),
        status="refused",
    )
    found = find_border(margins.at, unknown.tried, unknown.least, unknown.whole)
    if found is None:
        return replace(made, reason=margins.why)
    made = replace(made, status=found.status, upwards=found.upwards, again=found.again)
    if found.value is None:
        best = margins.reached(found.best)
        shown = {"best_shown": unknown.show(found.best), "best_reached_shown": target.show(best)}
        return replace(made, best=found.best, best_reached=best, **shown)
    reached, interval = margins.reached(found.value), _interval(margins, found)
    return replace(
        made,
        needed=round(found.value) if unknown.whole else found.value,
        needed_shown=unknown.show(found.value),
        reached=reached,
        reached_shown=target.show(reached),
        interval=interval,
        interval_shown=[None if end is None else unknown.show(end) for end in interval],
    )


def _interval(margins: _Margins, found: Solution) -> Ends:
    """The answers if everything takes as long as at the ends of the interval at the answer; None: beyond the range."""
    unknown, value = margins.unknown, found.value or found.best
    prediction = with_responses(run(unknown.at(margins.scenario, value)))
    ends = list[float | None]()
    for longer in _longer(margins.target, prediction):
        border = find_border(partial(margins.at, longer=longer), unknown.tried, unknown.least, unknown.whole)
        ends.append(None if border is None else border.value)
    low, high = ends if found.upwards else ends[::-1]
    return low, high


def _longer(target: PlanTarget, prediction: Prediction) -> tuple[float, ...]:
    """The ends of a factor on the time, or on all of it that is not compute, in nine of ten cases.

    An input of compute that makes the iteration longer by d makes compute as much longer: its share c/T becomes
    (c + d)/(T + d).
    """
    spread = prediction.spread
    if not target.quantity.over_compute:
        low, high = spread.interval()
        return (low / spread.time, high / spread.time) if spread.time else (1.0, 1.0)
    share = prediction.result_without_lists.compute_utilisation
    ends = [spread.iterations]
    for item in spread.responses:
        kind, what = item.key
        of_compute = kind == COMPUTE or (kind == MODEL and what.startswith("compute of "))
        changes = [math.expm1(end) for end in (item.low, item.high)]
        lost = [math.log((1 + d) / max(1 + d / share, _LEAST)) if of_compute else math.log1p(d) for d in changes]
        ends.append((lost[0], lost[1]))
    below, above = (spread.tails.stretch[90] * each for each in half_widths(ends))
    return tuple(_odds(min(share * factor, _MOST)) / _odds(share) for factor in (math.exp(below), math.exp(-above)))


def _odds(share: float) -> float:
    """All else over compute, where compute has this share of the time."""
    return 1 / min(max(share, 1e-9), _MOST) - 1


_MOST = 1 - 1e-9
_LEAST = 0.1
"""Least share of its time that compute is taken to need at an end of its interval."""


def _measurement(prediction: Prediction) -> NarrowingMeasurement | None:
    """The measurement that would narrow the answers most: of the input with the largest effect on the time."""
    responses = sorted(prediction.spread.responses, key=lambda item: -max(abs(item.low), abs(item.high)))
    whole = sum(max(abs(item.low), abs(item.high)) ** 2 for item in responses)
    for response in responses:
        for item in response.doubts:
            if item.measurement is not None:
                share = max(abs(response.low), abs(response.high)) ** 2 / whole if whole else 0.0
                known = item.measurement
                return NarrowingMeasurement(known.what, known.command, known.minutes, item.width, share)
    return None
