"""Run a scenario: plan it, simulate it, and describe the outcome in the result that scripts rely on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from simulator.engine.plan.plan import Plan
from simulator.errors import InputError, unless_refused
from simulator.models.curves import Floats
from simulator.models.timeline import Iteration
from simulator.prediction.describing import describe_run
from simulator.prediction.doubts.collect import collect_doubts
from simulator.prediction.doubts.doubt import Doubt
from simulator.prediction.doubts.own_error import shipped_tails
from simulator.prediction.doubts.posterior import Carried, carry
from simulator.prediction.doubts.software import find_slowed
from simulator.prediction.doubts.spread import Asked, Response, Spread, respond, respond_linearly
from simulator.prediction.elastic import goodput_of
from simulator.prediction.job_setup import plans_of
from simulator.prediction.memory import refuse_what_does_not_fit
from simulator.prediction.result import RunResult
from simulator.prediction.result_parts import Goodput
from simulator.prediction.simulated import Simulated, simulate_batch, try_each
from simulator.records import Struct, replace
from simulator.scenario.changes import with_value
from simulator.scenario.reading import bind_measurement
from simulator.scenario.scenario import Scenario

_TOGETHER = 8
"""Predictions whose inputs are changed in one batch: some dozens of scenarios each, which are all in memory then."""


class Prediction(Struct, dict=True):
    """A scenario's outcome: what was simulated, the figures that it rests on (`inputs`), and how wrong it may be
    (`spread`), to first order unless `with_responses` was asked. Where all workers are alike, one iteration stands for
    all. `carried`: what a measurement says of it, by which the figures of `simulated` were moved.
    """

    simulated: Simulated
    inputs: list[Doubt]
    spread: Spread
    carried: Carried | None = None

    @property
    def scenario(self) -> Scenario:
        """What was predicted."""
        return self.simulated.scenario if self.carried is None else self.carried.asked

    @property
    def plan(self) -> Plan:
        """The plan of one iteration."""
        return self.simulated.plan

    @property
    def times(self) -> Floats:
        """Seconds of each counted iteration."""
        return self.simulated.figures.times

    @property
    def iteration(self) -> Iteration:
        """The last iteration."""
        return self.simulated.figures.last

    @property
    def iterations(self) -> tuple[Iteration, ...]:
        """All counted iterations, where they were asked for."""
        return tuple(self.simulated.figures.kept)

    @cached_property
    def result(self) -> RunResult:
        """Its figures, made when they are asked for."""
        return describe_run(self.simulated, self.inputs, self.spread, self.elastic, carried=self.carried)

    @cached_property
    def elastic(self) -> Goodput | None:
        """Its progress where machines come and go; None where they do not."""
        return goodput_of(self.simulated)

    @property
    def lasting(self) -> Spread:
        """Its spread, with what is lost where machines come and go in its time: infinite where a training never ends.

        Verdicts compare these.
        """
        return self.spread if self.elastic is None else replace(self.spread, time=self.elastic.lasting_time)

    @property
    def result_without_lists(self) -> RunResult:
        """What a row of a table says of it; much faster."""
        return describe_run(self.simulated, self.inputs, self.spread, self.elastic, lists=False, carried=self.carried)

    @property
    def document(self) -> Mapping[str, Any]:
        """The result as JSON has it."""
        return self.result.to_dict()


def run(scenario: Scenario, keep_iterations: bool = False, intervals: bool = True) -> Prediction:
    """Predict one scenario; `keep_iterations`: with every iteration's spans, for a timeline.

    Without `intervals` no uncertain input is looked at, and only single iterations differ.

    A scenario in which all workers are alike repeats itself, so one iteration stands for all; with random differences
    between workers `warmup` draws are discarded and `iterations` are averaged. Intervals are those of first order, as
    studies of many runs need them: `with_responses` gives better ones.

    Raises InputError where the parts of the scenario cannot work together, or do not fit into the memory of a GPU.
    """
    carried = _carry([scenario])
    simulated = _simulate([scenario], carried, keep_iterations, remedies=True)
    return unless_refused(_describe(simulated, intervals, carried)[0])


def run_batch(scenarios: Sequence[Scenario], intervals: bool = True) -> list[Prediction | InputError]:
    """Predict scenarios that share their work, as the points of a sweep do; an error in the place of one that fails.

    The same as `run` for each by itself, and faster; what does not fit into a GPU is refused without what would help,
    which takes many times as long as the point.
    """
    carried = _carry(scenarios)
    return _describe(_simulate(scenarios, carried), intervals, carried)


def time_batch(scenarios: Sequence[Scenario]) -> list[float | InputError]:
    """Seconds of an iteration of each scenario, as `run_batch` predicts them, and nothing else."""
    made = _simulate(scenarios, _carry(scenarios), terms=False)
    return try_each(made, lambda each: float(each.figures.times.mean()))


def _simulate(
    scenarios: Sequence[Scenario],
    carried: Sequence[Carried | InputError | None],
    keep_iterations: bool = False,
    *,
    terms: bool = True,
    remedies: bool = False,
) -> list[Simulated | InputError]:
    """Scenarios, simulated where a measurement moves them to; what does not fit into a GPU is refused."""
    places = _move(scenarios, carried)

    def fitting(made: Simulated) -> Simulated:
        refuse_what_does_not_fit(made.scenario, made.memory, remedies=remedies)
        return made

    return try_each(simulate_batch(places, keep_iterations, terms=terms), fitting)


def as_measured(scenario: Scenario) -> Scenario:
    """The scenario with its figures where its measurement moves them to, as `run` simulates it; itself without one.

    Raises InputError where the measurement cannot be.
    """
    return unless_refused(_move([scenario], _carry([scenario]))[0])


def _move(scenarios: Sequence[Scenario], carried: Sequence[Carried | InputError | None]) -> list[Scenario | InputError]:
    """Scenarios where their measurements move them to."""
    pairs = zip(scenarios, carried, strict=True)
    return [each.scenario if isinstance(each, Carried) else each or scenario for scenario, each in pairs]


def _carry(scenarios: Sequence[Scenario]) -> list[Carried | InputError | None]:
    """What the measurement of each scenario says of it; None where there is none."""
    bare = [with_value(scenario, "measured", None) for scenario in scenarios if scenario.narrowing]
    priors = iter(simulate_batch(bare))

    def carried(scenario: Scenario) -> Carried | None:
        if not scenario.narrowing:
            return None
        prior, measured = unless_refused(next(priors)), bind_measurement(scenario).narrowing
        return carry(scenario, measured, prior, collect_doubts(prior, find_slowed([prior])[0])) if measured else None

    return try_each(scenarios, carried)


def _describe(
    found: Sequence[Simulated | InputError], intervals: bool, carried: Sequence[Carried | InputError | None]
) -> list[Prediction | InputError]:
    """The predictions that follow from simulations; an error in the place of one that failed."""
    fitting = [each for each, item in zip(found, carried, strict=True) if isinstance(each, Simulated) and item is None]
    slowed = iter(find_slowed(fitting) if intervals else ())

    def predict(pair: tuple[Simulated | InputError, Carried | InputError | None]) -> Prediction:
        made, item = unless_refused(pair[0]), unless_refused(pair[1])
        times = made.figures.times
        time = float(times.mean())
        inputs = [] if not intervals else collect_doubts(made, next(slowed)) if item is None else [*item.doubts]
        before, digest = (time, "") if item is None else (float(item.prior.figures.times.mean()), item.known.digest)
        responses = _narrow(respond_linearly(inputs, before), item)
        return Prediction(
            made, inputs, Spread(time, responses, _single_iterations(times), shipped_tails(), digest), item
        )

    return try_each(zip(found, carried, strict=True), predict)


def _narrow(responses: Sequence[Response], carried: Carried | None) -> tuple[Response, ...]:
    """Responses with what a measurement says of each."""
    return tuple(responses) if carried is None else carried.narrowed(responses)


def with_responses(prediction: Prediction) -> Prediction:
    """The prediction with what follows from simulating both ends of each uncertain input: intervals, sized warnings."""
    (made,) = with_responses_of([prediction])
    return made


def with_responses_of(predictions: Sequence[Prediction]) -> list[Prediction]:
    """Several predictions with their responses, whose changed scenarios are simulated in batches."""
    made = []
    for first in range(0, len(predictions), _TOGETHER):
        some = predictions[first : first + _TOGETHER]
        means = ({} if item.carried is None else item.carried.means for item in some)
        asked = [Asked(it.simulated, it.inputs, it.spread.time, mean) for it, mean in zip(some, means, strict=True)]
        for item, each in zip(some, respond(asked), strict=True):
            made.append(replace(item, spread=replace(item.spread, responses=_narrow(each, item.carried))))
    return made


def plan_of(scenario: Scenario) -> Plan:
    """The plan of one iteration, with selections in closed form. Raises InputError where parts cannot work together."""
    return plans_of(scenario)[0]


def _single_iterations(times: Floats) -> tuple[float, float]:
    """ln of the 5th and of the 95th percentile of single iterations over their mean."""
    if len(times) < 2 or not times.all():
        return 0.0, 0.0
    low, high = np.percentile(times, (5, 95)).tolist()
    mean = float(times.mean())
    return math.log(low / mean), math.log(high / mean)
