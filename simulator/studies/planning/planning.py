"""Answer what is needed so that a target is met: each unknown by itself, with its interval."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from simulator.prediction.doubts.own_error import MODEL
from simulator.prediction.doubts.spread import Spread, half_widths
from simulator.prediction.doubts.workload import COMPUTE
from simulator.prediction.result import RunResult
from simulator.prediction.run import Prediction, run, with_responses
from simulator.records import replace
from simulator.reporting.answers.planned import (
    BackwardsPlan,
    NarrowingMeasurement,
    PlanNow,
    TargetNow,
    UnknownNeeded,
)
from simulator.scenario.changes import value_at, with_value
from simulator.scenario.scenario import Scenario
from simulator.sparsifiers.dense import Dense
from simulator.studies.planning.solving import Solution, find_border
from simulator.studies.planning.targets import NODE, PlanTarget, Training, parse_target
from simulator.studies.planning.unknowns import Unknown, unknowns_of
from simulator.studies.variants.crossing import Along, AskedPoint, Search, search_together


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
    if wanted.name == NODE:
        wanted = replace(wanted, training=wanted.training._replace(node_rate=_rate_of_a_node(scenario)))
    unknowns = unknowns_of(scenario, vary)
    now = with_responses(run(scenario))
    result = now.result_without_lists
    reached = wanted.reached(result)
    return BackwardsPlan(
        scenario=scenario.name,
        target=TargetNow(target, wanted.name, wanted.value, wanted.show(wanted.value)),
        now=PlanNow(reached, wanted.show(reached), wanted.margin(result) >= 0),
        answers=search_together([_answer(scenario, wanted, unknown) for unknown in unknowns]),
        measurement=_measurement(now),
    )


def _rate_of_a_node(scenario: Scenario) -> float:
    """Samples per second of each GPU in one node by itself, dense, whether the model fits into its memory or not.

    Where more GPUs than a node has share a model, those of the node share it. Raises InputError where one node cannot
    be such a cluster.
    """
    nodes = Unknown("cluster.nodes", (1.0,), whole=True, name="nodes", least=True)
    if (value_at(scenario, "scheduler.shard") or 1) > scenario.cluster.gpus_per_node:
        scenario = with_value(scenario, "scheduler.shard", None)
    alone = with_value(with_value(nodes.at(scenario, 1), "sparsifier", Dense()), "ignore_memory", True)
    result = run(alone, intervals=False).result_without_lists
    return (result.throughput or 0.0) / result.workers


def _answer(scenario: Scenario, target: PlanTarget, unknown: Unknown) -> Search[UnknownNeeded]:
    """What one unknown has to be, as a search along it."""
    along = Along(unknown, scenario, _read)
    yield [AskedPoint(along, value) for value in unknown.tried]

    def missed(value: float, longer: float = 1.0) -> Search[float | None]:
        """By which share the target is missed, if everything takes `longer` times as long; met exactly is met."""
        yield [AskedPoint(along, value)]
        known = along.at(value)
        return None if known is None else -target.margin(known.result, longer) or -sys.float_info.min

    def find(longer: float) -> Search[Solution | None]:
        return find_border(partial(missed, longer=longer), unknown.tried, unknown.least, unknown.whole)

    def shown(name: str, value: float, key: str) -> dict[str, Any]:
        """A value and the quantity there, each also with its unit, under the keys that an answer has for them."""
        reached = target.reached(along.evaluated(value).result)
        return {
            name: round(value) if unknown.whole and name == "needed" else value,
            f"{name}_shown": unknown.show(value),
            key: reached,
            f"{key}_shown": target.show(reached),
        }

    stated = value_at(scenario, unknown.key)
    made = UnknownNeeded(
        name=unknown.name,
        key=unknown.key,
        now=stated,
        now_shown=unknown.show(stated),
        tried=(unknown.tried[0], unknown.tried[-1]),
        status="refused",
    )
    found = yield from find(1.0)
    if found is None:
        return replace(made, reason=str(along.refusals[-1]))
    made = replace(made, status=found.status, upwards=found.upwards, again=found.again)
    if found.value is None:
        return replace(made, **shown("best", found.best, "best_reached"))
    # The answers if everything takes as long as at the ends of the interval at the answer; None: beyond the range.
    yield [AskedPoint(along, found.value, "full")]
    ends = list[float | None]()
    for longer in _longer(target, along.evaluated(found.value, "full")):
        border = yield from find(longer)
        ends.append(None if border is None else border.value)
    low, high = ends if found.upwards else ends[::-1]
    interval_shown = [None if end is None else unknown.show(end) for end in (low, high)]
    return replace(made, **shown("needed", found.value, "reached"), interval=(low, high), interval_shown=interval_shown)


class _Predicted(NamedTuple):
    """What is kept of the prediction of a point."""

    result: RunResult
    spread: Spread


def _read(prediction: Prediction) -> _Predicted:
    return _Predicted(prediction.result_without_lists, prediction.spread)


def _longer(target: PlanTarget, prediction: _Predicted) -> tuple[float, ...]:
    """The ends of a factor on the time, or on all of it that is not compute, in nine of ten cases.

    An input of compute that makes the iteration longer by the share d makes compute as much longer: of its share s of
    the time, all else over compute, (1 - s)/s, becomes s/(s + d) of that. Other inputs leave compute as it is: all else
    becomes 1 + d/(1 - s) times as long. Doubts are added in squares as logarithms of these factors, so that all else
    stays above 0 whatever they are.
    """
    spread = prediction.spread
    if not target.quantity.over_compute:
        low, high = spread.interval()
        return (low / spread.time, high / spread.time) if spread.time else (1.0, 1.0)
    share = prediction.result.compute_utilisation
    ends = [spread.iterations]
    for item in spread.responses:
        kind, what = item.key
        of_compute = kind == COMPUTE or (kind == MODEL and what.startswith("compute of "))
        changes = [math.expm1(end) for end in (item.low, item.high)]
        rest = max(1 - share, _SMALL)
        lost = [-_log(1 + d / max(share, _SMALL)) if of_compute else _log(1 + d / rest) for d in changes]
        ends.append((lost[0], lost[1]))
    below, above = (spread.tails.stretch[90] * each for each in half_widths(ends))
    return math.exp(-below), math.exp(above)


def _log(factor: float) -> float:
    """The logarithm of a factor on compute, or on all else, of which at least a tenth is left."""
    return math.log(max(factor, _LEAST))


_SMALL = 1e-9
_LEAST = 0.1
"""Least share of its time that compute, or all else, is taken to need at an end of an interval."""


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
