"""What trainings took to a target, and the time and cost to it on a scenario's cluster."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from simulator.component import build
from simulator.errors import InputError
from simulator.prediction.doubts.spread import Spread, compare_spreads, is_heavy
from simulator.prediction.iterations_to_target import Iterations
from simulator.prediction.run import Prediction, run, with_responses
from simulator.records import Record, replace
from simulator.reporting.answers.trained import (
    LeftOutErrors,
    MethodTime,
    RefusedMethod,
    SettingSteps,
    TrainedPlace,
    TrainedTask,
    TrainingLaw,
    TrainingQuality,
)
from simulator.scenario.cluster import LEFT_OUT
from simulator.scenario.scenario import Scenario
from simulator.scenario.titles import method_name
from simulator.sparsifiers.base import Sparsifier
from simulator.sparsifiers.dense import Dense
from simulator.studies.compare.opponent import best_dense
from simulator.studies.compare.verdict_words import describe_verdict
from simulator.studies.quality.iterations import MeasuredIterations, find_iterations, find_place, local_steps_of
from simulator.studies.quality.law import Law
from simulator.studies.quality.study import Study, describe_setting, leave_out
from simulator.trainings.runs import Recipe, method_curves, read_runs
from simulator.units import count_of, join_words

HOUR = 3600.0


class _TrainedMethod(Record):
    """A method that was trained, with its prediction on the scenario's cluster, and its time to the target."""

    method: str
    prediction: Prediction
    iterations: Iterations
    spread: Spread


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
        changed = scenario.model_copy(update={"sparsifier": member, "versus": None})
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
    item: _TrainedMethod, dense: _TrainedMethod, found: Sequence[_TrainedMethod], per_second: float | None
) -> MethodTime:
    verdict = None if item is dense else compare_spreads(item.spread, dense.spread)
    low, high = item.spread.interval()
    mine, *needs = ((each.iterations.value, each.prediction.spread.time) for each in (item, *found))
    return MethodTime(
        method=item.method,
        iterations_to_target=item.iterations.value,
        iterations_to_target_interval=item.iterations.interval,
        iterations_over_dense=item.iterations.value / dense.iterations.value,
        iteration_time=item.prediction.spread.time,
        iteration_time_interval=item.prediction.result.interval,
        time_to_target=item.spread.time,
        time_to_target_interval=(low, high),
        cost=None if per_second is None else per_second * item.spread.time,
        cost_interval=None if per_second is None else (per_second * low, per_second * high),
        speed_up_over_dense=dense.spread.time / item.spread.time,
        speed_up_interval=(1.0, 1.0) if verdict is None else verdict.interval(),
        probability=None if verdict is None else verdict.probability(),
        verdict=None if verdict is None else verdict.word,
        answer="" if verdict is None else describe_verdict(verdict),
        # No other method needs no more iterations and no more time for one, and less of either.
        pareto=not any(one != mine and one[0] <= mine[0] and one[1] <= mine[1] for one in needs),
    )


def _answer(found: Sequence[_TrainedMethod], dense: _TrainedMethod) -> str:
    """Which method reaches the target first, how sure that is, and which ones cannot be told apart from it."""
    others = [item for item in found if item is not dense]
    if not others:
        return "Only dense can be compared."
    best = others[0]
    verdict = describe_verdict(compare_spreads(best.spread, dense.spread))
    text = f"{best.method} against dense, by the time to the target: {verdict}"
    words = [(item.method, compare_spreads(item.spread, best.spread).word) for item in others[1:]]
    alike = [method for method, word in words if word in ("undecided", "alike")]
    return text + (f" It cannot be told apart from {join_words(alike)}." if alike else "")


def describe_quality(
    study: Study,
    scenario: Scenario | None = None,
    *,
    task: str = "",
    workers: int = 0,
    batch_size: int = 0,
    dense_iterations: float | None = None,
    price: float | None = None,
) -> TrainingQuality:
    """The whole answer of `sparsim quality`: the study, and with a scenario the time to the target on its cluster of
    every method that was trained, each judged against dense at its best.

    `task`, `workers` and `batch_size` say where iterations are looked up, `price` is that of one GPU for an hour.
    Raises InputError where the target was not reached or lies outside of what was run, and where dense cannot run.
    """
    described = _describe_study(study)
    if scenario is None:
        return described
    place = find_place(study, scenario, task, workers, batch_size)
    measured = find_iterations(study, scenario, place, dense_iterations)
    own = run(scenario, intervals=False)
    opponent = best_dense(scenario, search=not is_heavy(own.plan))
    dense = _candidate(opponent.scenario, measured)
    found, refused = [dense], list[RefusedMethod]()
    for changed in _variants(scenario, measured):
        try:
            found.append(_candidate(changed, measured))
        except InputError as error:
            refused.append(RefusedMethod(method_name(changed), str(error.problems[0])))
    found.sort(key=lambda item: item.spread.time)
    per_second = None if price is None else price * scenario.cluster.workers / HOUR
    folder = Path(study.place)
    curves = method_curves(read_runs(folder), study.target.quantity) if folder.is_dir() else []
    return replace(
        described,
        scenario=scenario.name,
        digest=scenario.digest,
        workers=scenario.cluster.workers,
        looked_up=place,
        same_model=measured.same_model,
        opponent=opponent.words,
        methods=[_row(item, dense, found, per_second) for item in found],
        refused=refused,
        answer=_answer(found, dense),
        warnings=[*measured.warnings(scenario), *([LEFT_OUT] if scenario.cluster.membership else ())],
        curves=[each for each in curves if TrainedPlace(each.task, each.workers, each.batch_size) == place],
    )


def _describe_study(study: Study) -> TrainingQuality:
    return TrainingQuality(
        trainings=study.place,
        target=str(study.target),
        tasks=[TrainedTask(*task) for task in sorted({(each.task, each.elements) for each in study.laws})],
        seed_deviation=study.noise.deviation,
        settings=[
            SettingSteps(
                *describe_setting(setting),
                None if made.log is None else math.exp(made.log),
                None if made.log is None else (math.exp(made.low), math.exp(made.high)),
                made.reached,
                made.trained,
                made.iterations,
            )
            for setting, made in study.typical.items()
        ],
        laws=[_describe_law(study, recipe, law) for recipe, law in study.laws.items() if law is not None],
        notes=_notes(study),
    )


def _describe_law(study: Study, recipe: Recipe, law: Law) -> TrainingLaw:
    rows = leave_out(study, recipe)
    factors = sorted(math.exp(abs(math.log(row.factor))) for row in rows)
    middle = factors[len(factors) // 2] if factors else None
    return TrainingLaw(
        task=recipe.task,
        method=recipe.name,
        form=str(law.form),
        factors={"S": math.exp(law.scale), **law.factors},
        range=dict(law.range),
        width=math.exp(law.half_width),
        left_out=LeftOutErrors(len(rows), middle, sum(row.inside for row in rows), rows),
    )


def _notes(study: Study) -> list[str]:
    made = []
    missing = {setting: known for setting, known in study.typical.items() if known.reached < known.trained}
    if missing:
        count = sum(known.trained - known.reached for known in missing.values())
        trained = sum(known.trained for known in study.typical.values())
        where = "; ".join(
            f"{setting.words} ({known.trained - known.reached} of {known.trained})"
            for setting, known in missing.items()
        )
        made.append(
            f"{count} of {count_of(trained, 'training')} did not reach the target. They count as more than the "
            f"iterations that were run: {where}."
        )
    early = sum(item.at_once for items in study.groups.values() for item in items)
    if early:
        made.append(
            f"{count_of(early, 'training')} had reached the target when the smoothed curve begins, and may have "
            "reached it before: choose a harder target, or measure more often."
        )
    return made
