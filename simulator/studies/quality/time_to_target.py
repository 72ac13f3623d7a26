"""Time and cost to a target on a scenario's cluster: iterations from trainings times the predicted iteration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simulator.component import build
from simulator.errors import InputError
from simulator.prediction.doubts.spread import Spread, is_heavy
from simulator.prediction.doubts.verdict import judge
from simulator.prediction.iterations_to_target import Iterations
from simulator.prediction.run import Prediction, run, with_responses
from simulator.records import Record, replace
from simulator.reporting.answers.trained import MethodTime, RefusedMethod, TrainingQuality
from simulator.scenario.cluster import LEFT_OUT
from simulator.scenario.scenario import Scenario
from simulator.scenario.titles import method_name
from simulator.sparsifiers.base import Sparsifier
from simulator.sparsifiers.dense import Dense
from simulator.studies.compare.opponent import best_dense, same_dense
from simulator.studies.compare.verdict_words import describe_verdict
from simulator.studies.quality.iterations import MeasuredIterations, local_steps_of
from simulator.units import join_words

HOUR = 3600.0


class _TrainedMethod(Record):
    """A method that was trained, with its prediction on the scenario's cluster, and its time to the target."""

    method: str
    prediction: Prediction
    iterations: Iterations
    spread: Spread

    @property
    def time(self) -> float:
        return self.prediction.spread.time


def time_to_target(
    described: TrainingQuality, scenario: Scenario, measured: MeasuredIterations, price: float | None = None
) -> TrainingQuality:
    """Described trainings with every method that was trained, by its time to the target, each judged against dense at
    its best. `price`: of one GPU for an hour.

    Raises InputError where dense cannot run, or has not reached the target.
    """
    own = run(scenario, intervals=False)
    opponent = same_dense(scenario) if is_heavy(own.plan) else best_dense(scenario)
    dense = _candidate(opponent.scenario, measured)
    found, refused = [dense], list[RefusedMethod]()
    for changed in _variants(scenario, measured):
        try:
            found.append(_candidate(changed, measured))
        except InputError as error:
            refused.append(RefusedMethod(method_name(changed), str(error.problems[0])))
    found.sort(key=lambda item: item.spread.time)
    return replace(
        described,
        scenario=scenario.name,
        digest=scenario.digest,
        workers=scenario.cluster.workers,
        looked_up=measured.place,
        same_model=measured.same_model,
        opponent=opponent.words,
        methods=[_row(item, dense, found, scenario.cluster.workers, price) for item in found],
        refused=refused,
        answer=_answer(found, dense),
        warnings=[*measured.warnings(scenario), *([LEFT_OUT] if scenario.cluster.membership else ())],
    )


def _variants(scenario: Scenario, measured: MeasuredIterations) -> Iterator[Scenario]:
    """The scenario with every method and density that was trained with error feedback, and its own method."""
    seen = set[str]()
    settings = [each for each in measured.study.groups if each.recipe.task == measured.place.task]
    steps = local_steps_of(scenario)
    members = [
        build(Sparsifier, {"kind": each.recipe.kind, **each.parameters})
        for each in settings
        if each.recipe.error_feedback and each.recipe.local_steps == steps and each.recipe.precision == "fp32"
    ]
    for member in [*members, scenario.sparsifier]:
        changed = scenario.model_copy(update={"sparsifier": member, "measured": None, "versus": None})
        name = member.model_dump_json() + member.kind
        if member.kind != Dense.kind and name not in seen:
            yield changed
        seen.add(name)


def _candidate(scenario: Scenario, measured: MeasuredIterations) -> _TrainedMethod:
    iterations = measured.find(scenario)
    prediction = with_responses(run(scenario))
    name = measured.setting_of(scenario).method
    return _TrainedMethod(name, prediction, iterations, iterations.spread(prediction.spread))


def _row(
    item: _TrainedMethod, dense: _TrainedMethod, found: Sequence[_TrainedMethod], workers: int, price: float | None
) -> MethodTime:
    verdict = None if item is dense else judge(item.spread, dense.spread)
    low, high = item.spread.interval()
    per_second = None if price is None else price * workers / HOUR
    return MethodTime(
        method=item.method,
        iterations_to_target=item.iterations.value,
        iterations_to_target_interval=item.iterations.interval,
        iterations_over_dense=item.iterations.value / dense.iterations.value,
        iteration_time=item.time,
        iteration_time_interval=item.prediction.result.interval,
        time_to_target=item.spread.time,
        time_to_target_interval=(low, high),
        cost=None if per_second is None else per_second * item.spread.time,
        cost_interval=None if per_second is None else (per_second * low, per_second * high),
        speed_up_over_dense=dense.spread.time / item.spread.time,
        speed_up_interval=(1.0, 1.0) if verdict is None else verdict.ratio.interval(),
        probability=None if verdict is None else verdict.ratio.probability(),
        verdict=None if verdict is None else verdict.word,
        answer="" if verdict is None else describe_verdict(verdict),
        pareto=not any(_dominates(other, item) for other in found),
    )


def _dominates(other: _TrainedMethod, item: _TrainedMethod) -> bool:
    """Whether another method needs no more iterations and no more time for one, and less of either."""
    pairs = [(other.iterations.value, item.iterations.value), (other.time, item.time)]
    return all(one <= mine for one, mine in pairs) and any(one < mine for one, mine in pairs)


def _answer(found: Sequence[_TrainedMethod], dense: _TrainedMethod) -> str:
    """Which method reaches the target first, how sure that is, and which ones cannot be told apart from it."""
    others = [item for item in found if item is not dense]
    if not others:
        return "Only dense can be compared."
    best = others[0]
    text = (
        f"{best.method} against dense, by the time to the target: {describe_verdict(judge(best.spread, dense.spread))}"
    )
    alike = [item.method for item in others[1:] if judge(item.spread, best.spread).word in ("undecided", "alike")]
    return text + (f" It cannot be told apart from {join_words(alike)}." if alike else "")
