"""Predicted against measured: every scenario with `measured:`, and every table of measured collectives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from simulator.errors import InputError, Problem, map_unless_refused, unless_refused
from simulator.prediction.doubts.own_error import MODEL, doubt_parts, model_error
from simulator.prediction.doubts.spread import Spread, respond_linearly
from simulator.prediction.measured import WHOLE, is_used_in_fit, measured_values
from simulator.prediction.run import Prediction, run_batch, with_responses_of
from simulator.prediction.simulated import try_each
from simulator.progress import Watch
from simulator.records import replace
from simulator.reporting.answers.validated import ValidatedModel, ValidationRow
from simulator.scenario.changes import with_value
from simulator.scenario.scenario import DENSITIES, Measured, Scenario
from simulator.scenario.versions import versions
from simulator.studies.processes.executors import map_watched
from simulator.studies.validate.collective_table import table_rows
from simulator.studies.validate.measured_rows import (
    DEFAULT,
    ValidationTask,
    find_tasks,
    predicted_value,
    scenario_of_task,
)
from simulator.studies.validate.model_error import measured_share, parts_of
from simulator.studies.validate.scoreboard import (
    Whole,
    formula_errors,
    formula_scoreboard,
    scoreboard,
    signs,
    sum_up_signs,
    two_formulas_error,
)


def validate(
    places: Sequence[str | Path] = (),
    scenarios: Sequence[Scenario] = (),
    watch: Watch | None = None,
    processes: int | None = None,
) -> ValidatedModel:
    """Run every scenario with `measured:` in the given files and folders, and the given ones (default: those shipped).

    Every line of a table of measured collectives (`collectives.csv`) or iterations (`rows.csv`) is a row.
    `processes`: how many predict (default: one per core, where copies of this process can be made).

    Rows that were used in fitting are listed but not counted. An interruption (Ctrl-C) leaves out what `watch` has not
    seen done, once there are rows. Raises InputError with every problem of every file.
    """
    watch = watch or Watch()
    problems: list[Problem] = []
    tasks = [ValidationTask(scenario.name, scenario) for scenario in scenarios]
    if places or not scenarios:
        tasks += find_tasks(places, problems)
    made = map_watched(_carry_out, tasks, watch, "the predictions", processes)
    in_order = [made[place] for place in sorted(made)]
    iterations = [item for found in in_order for item in found.iterations]
    collectives = [row for found in in_order for row in found.collectives]
    problems = [*(item for found in in_order for item in found.problems), *problems]
    if watch.interrupted and not iterations and not collectives:
        raise KeyboardInterrupt
    if problems:
        raise InputError(problems)
    rows = [*(dict(item.row) for item in iterations), *collectives]
    if not rows:
        names = ", ".join([*map(str, places), *(scenario.name for scenario in scenarios)]) or DEFAULT
        raise InputError(Problem(names, "at least one scenario with `measured:`", "none"))
    judged = signs(iterations)
    return ValidatedModel(rows, *scoreboard(rows), judged, sum_up_signs(judged), formula_scoreboard(rows), versions())


NO_ERROR = "an error is relative to what was measured, and none is to 0"


class _TaskRows(NamedTuple):
    """The rows of a task, with the problems of what cannot be read or run."""

    iterations: Sequence[Whole] = ()
    collectives: Sequence[ValidationRow] = ()
    problems: Sequence[Problem] = ()


def _carry_out(tasks: Sequence[ValidationTask]) -> list[_TaskRows]:
    read = try_each(tasks, lambda task: None if task.is_table else scenario_of_task(task))
    measured = [each for each in read if isinstance(each, Scenario) and measured_values(each)]
    # Rows are judged by what is predicted without them.
    unaware = run_batch([with_value(each, "measured", None) for each in measured])
    predictions = iter(map_unless_refused(with_responses_of, unaware))

    def rows_of(pair: tuple[ValidationTask, Scenario | InputError | None]) -> _TaskRows:
        task, scenario = pair[0], unless_refused(pair[1])
        if scenario is None:
            return _TaskRows(collectives=list(table_rows(task.path, task.group)))
        if scenario.measured is None or not scenario.measured.stated:
            return _TaskRows()
        if not measured_values(scenario):
            raise InputError(Problem(scenario.name, "a measured value above 0", "0", NO_ERROR))
        return _TaskRows(list(_rows(unless_refused(next(predictions)), scenario, scenario.measured, task.group)))

    made = try_each(zip(tasks, read, strict=True), rows_of)
    return [_TaskRows(problems=each.problems) if isinstance(each, InputError) else each for each in made]


def _rows(prediction: Prediction, scenario: Scenario, measured: Measured, group: str) -> Iterator[Whole]:
    stated, judged = _judged(prediction, group)
    zero = [f"{name} was measured as 0 and has no row: {NO_ERROR}" for name, it in measured.stated.items() if not it]
    for quantity, value in measured_values(scenario).items():
        predicted = predicted_value(quantity, prediction)
        whole = quantity in WHOLE
        row = {
            "scenario": scenario.name,
            "group": group,
            "quantity": quantity,
            "unit": "" if quantity in DENSITIES else "s",
            "measured": value,
            "predicted": predicted,
            "interval": list(judged.interval()) if whole else None,
            "intervals": {f"{cases}": ends for cases, ends in judged.intervals().items()} if whole else None,
            "parts": parts_of(prediction, stated) if whole else None,
            "measured_share": measured_share(judged) if whole else None,
            "signed_error": predicted / value - 1,
            "baseline_signed_error": _trivial_sum(prediction) / value - 1 if whole else None,
            "used_in_fit": is_used_in_fit(measured, quantity),
            **_formulas(prediction, quantity, value),
            "digest": prediction.scenario.digest,
            "warnings": [*prediction.result.warning_texts, *zero],
        }
        yield Whole(row, scenario, judged.settled())


def _formulas(prediction: Prediction, quantity: str, measured: float) -> Mapping[str, Any]:
    """What published formulas make of a measured synchronisation, where all of the model is sent as it is, and of an
    iteration of a described model."""
    scenario = prediction.scenario
    workload, gpu = scenario.workload, scenario.cluster.gpu
    if quantity == "synchronisation" and scenario.sparsifier.kind == "dense":
        return {"formula_errors": formula_errors(prediction.plan, measured)}
    if quantity in WHOLE and workload.estimated is not None:
        busiest, gpus = _busiest_time(prediction), scenario.parallelism.copy_size
        return {"formula_errors": two_formulas_error(workload, gpu, busiest, measured, gpus=gpus)}
    return {}


def _judged(prediction: Prediction, group: str) -> tuple[Spread, Spread]:
    """The spread without the model's own error, and with the errors that all other set-ups showed."""
    spread, scenario = prediction.spread, prediction.scenario
    stated = replace(spread, responses=tuple(item for item in spread.responses if item.key[0] != MODEL))
    own = model_error()
    if own is None:
        return stated, stated
    errors = own.of(group)
    parts = doubt_parts(errors.width, scenario, prediction.simulated.figures.timed)
    responses = (*stated.responses, *respond_linearly(parts, spread.time))
    return stated, replace(stated, responses=responses, tails=errors)


def _trivial_sum(prediction: Prediction) -> float:
    """A baseline without simulation: single-GPU time + kernels + bytes of the busiest link at its full rate."""
    plan = prediction.plan
    timed = prediction.simulated.figures.timed
    kernels = timed["selection"] + timed["combine"] - plan.work.emptying
    return float(plan.single_gpu_time + kernels + _busiest_time(prediction))


def _busiest_time(prediction: Prediction) -> float:
    return prediction.result.traffic.busiest_link.utilisation * prediction.spread.time
