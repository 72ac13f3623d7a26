"""What a scenario is compared with, by default the fastest dense run of its framework, and the comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from simulator.component import build
from simulator.errors import InputError
from simulator.hardware.runtime import FRAMEWORKS, Framework
from simulator.models.timeline import BREAKDOWN
from simulator.prediction.doubts.spread import is_heavy
from simulator.prediction.doubts.verdict import judge, verdict_fields
from simulator.prediction.memory import memory_of, refuse_what_does_not_fit
from simulator.prediction.result import RunResult
from simulator.prediction.result_parts import Comparison, ImplementationSaving
from simulator.prediction.run import Prediction, plan_of, run, time_batch, with_responses
from simulator.records import Record, replace
from simulator.scenario.changes import Overrides, with_runtime, with_value, without_randomness
from simulator.scenario.reading import ScenarioSource, load, load_versus
from simulator.scenario.scenario import Scenario
from simulator.schedulers.base import Scheduler
from simulator.schedulers.sharded import Sharded
from simulator.sparsifiers.dense import Dense
from simulator.sparsifiers.implementation import GOOD
from simulator.studies.compare.verdict_words import (
    describe_cost,
    describe_question,
    describe_sides,
    describe_times,
    describe_verdict,
    is_about_paying,
)
from simulator.studies.variants.crossing import evaluate, with_good_implementation
from simulator.studies.variants.names import combination_name, schedule_name, settings_of, topology_name
from simulator.topologies.base import Topology

_NOT_NCCL = ("mpi", "gloo")
"""Transports of other libraries: what was measured over them does not hold for NCCL."""


class Opponent(Record):
    """A scenario to compare with, and what it is in words; no words where the scenario describes it itself."""

    scenario: Scenario
    words: str = ""


class _DenseRun(NamedTuple):
    """A dense run: whether it is expected not to fit into memory, and its seconds, by which the best is the least; its
    schedule in words; and whether messages are followed one by one, which takes long to simulate."""

    exceeded: bool
    time: float
    words: str
    scenario: Scenario
    slow: bool


def choose_opponent(scenario: Scenario, described: Scenario | None = None, search: bool = True) -> Opponent | None:
    """What `versus` of a scenario asks for; None where there is nothing to compare with.

    `described`: the baseline that a mapping `versus` describes. Without `search`, `best_dense` is dense with the
    scenario's own schedule. Raises InputError where what it asks for cannot run.
    """
    if isinstance(scenario.versus, dict):
        return None if described is None else Opponent(described)
    exact = scenario.sparsifier.kind == Dense.kind and _exact(scenario.scheduler) == scenario.scheduler
    if scenario.versus == "none" or (scenario.versus is None and exact):
        return None
    try:
        return best_dense(scenario, search)
    except InputError:
        if scenario.versus is None:
            return None
        raise


def best_dense(scenario: Scenario, search: bool = True) -> Opponent:
    """The fastest dense run on the same cluster that the scenario's framework offers (`simulator.hardware.runtime`).

    Candidates are the framework's schedules and the scenario's own, on the scenario's topology, those of sharded models
    on all meshes and in all formats of reductions, and with embeddings as rows where the framework gathers them; then
    the fastest on the framework's other topologies. Where messages
    share links, which takes long to simulate, only the framework's default and the scenario's own schedule are tried.
    Random differences are left out of the search. Without `search` it is dense with the scenario's own schedule.

    Raises InputError where no candidate can run.
    """
    dense = _dense_run(scenario)
    if not search:
        words = "dense with the scenario's own schedule (on a cluster of this size no better one is searched)"
        return Opponent(dense, words)
    framework = FRAMEWORKS[scenario.cluster.runtime.framework]
    steady = without_randomness(dense)
    runs = [(words, with_value(steady, "scheduler", each)) for words, each in _schedules(dense, framework)]
    if gathers_rows(scenario):
        rows = not getattr(dense.sparsifier, "indexed_slices", False)
        how = "embeddings as rows" if rows else "embeddings dense"
        other = Dense(indexed_slices=rows)
        runs += [(f"{words}; {how}", with_value(made, "sparsifier", other)) for words, made in runs]
    refusals = list[InputError]()
    tried = _try_runs(runs[:2], refusals)
    if not (tried and tried[0].slow):
        tried += _try_runs(runs[2:], refusals)
    if not tried:
        first = runs[0][1]
        refuse_what_does_not_fit(first, memory_of(first, plan_of(first)))  # says what would help
        raise refusals[0]
    best = min(tried, key=itemgetter(0, 1))
    if not best.slow:
        others = [(best.words, with_value(best.scenario, "topology", each)) for each in _topologies(dense, framework)]
        tried += _try_runs(others, refusals)
        best = min(tried, key=itemgetter(0, 1))
    words = f"dense as {framework.label} sends it ({best.words}; {topology_name(best.scenario)})"
    if len(tried) > 1:
        words += f", the fastest of {len(tried)} combinations tried"
    parts = {part: getattr(best.scenario, part) for part in ("scheduler", "topology", "sparsifier")}
    return Opponent(dense.model_copy(update=parts), words)


def gathers_rows(scenario: Scenario) -> bool:
    """Whether the scenario has embeddings whose gradients are rows, and its framework gathers these."""
    framework = FRAMEWORKS[scenario.cluster.runtime.framework]
    return framework.gathers_rows and any(layer.rows is not None for layer in scenario.workload.layers)


def _dense_run(scenario: Scenario) -> Scenario:
    """The scenario without compression, and so without replay; under the runtime that its runtime names for dense."""
    if scenario.cluster.runtime.dense_runtime:
        scenario = with_runtime(scenario, scenario.cluster.runtime.dense_runtime)
    changed = with_value(scenario, "workload.gradients", "")
    sparsifier = scenario.sparsifier if isinstance(scenario.sparsifier, Dense) else Dense()
    changed = with_value(changed, "scheduler", _exact(scenario.scheduler))
    return changed.model_copy(update={"sparsifier": sparsifier, "versus": None, "question": ""})


def _exact(scheduler: Scheduler) -> Scheduler:
    """The schedule, which rounds nothing within the groups of a sharded model."""
    return scheduler.exact if isinstance(scheduler, Sharded) else scheduler


def _schedules(scenario: Scenario, framework: Framework) -> list[tuple[str, Scheduler]]:
    """Schedules with words: the framework's default, the scenario's own, and the framework's others."""
    streams = {"streams": scenario.scheduler.streams}
    offered = [(offer.words, build(Scheduler, {**offer.scheduler, **streams})) for offer in framework.schedules]
    if isinstance(scenario.scheduler, Sharded):
        offered = [(made.name, made) for made in settings_of(scenario.scheduler, scenario)]
    own = (f"{schedule_name(scenario)}, the scenario's own schedule", scenario.scheduler)
    known = any(scheduler == scenario.scheduler for _, scheduler in offered)
    return offered if known else [offered[0], own, *offered[1:]]


def _topologies(scenario: Scenario, framework: Framework) -> list[Topology]:
    """The framework's topologies besides the scenario's own, without those that cannot be meant on this cluster."""
    cluster, left_out = scenario.cluster, {scenario.topology.kind}
    left_out |= {"nccl"} if cluster.network.transport_kind in _NOT_NCCL else set()
    left_out |= {"hierarchical"} if cluster.gpus_per_node == 1 else set()
    return [build(Topology, kind) for kind in framework.topologies if kind not in left_out]


def _try_runs(runs: Sequence[tuple[str, Scenario]], refusals: list[InputError]) -> list[_DenseRun]:
    """Those that succeed; why others do not is added to the refusals."""
    tried = list[_DenseRun]()
    for (words, scenario), made in zip(runs, evaluate([scenario for _, scenario in runs], "none"), strict=True):
        if isinstance(made, InputError):
            refusals.append(made)
        else:
            slow = made.plan.flowing or made.plan.prices.flowed > 0
            tried.append(_DenseRun(made.simulated.memory.exceeded, made.spread.time, words, scenario, slow))
    return tried


def run_with_comparison(source: ScenarioSource, overrides: Overrides = (), keep_iterations: bool = False) -> Prediction:
    """What `sparsim run` answers: the prediction with its intervals, what a good implementation would save, and the
    comparison that the scenario's `versus` asks for.

    Raises InputError for a wrong scenario, and where it or its baseline cannot run.
    """
    prediction = with_responses(run(load(source, overrides), keep_iterations))
    prediction.result = replace(prediction.result, implementation=compare_with_good(prediction))
    add_comparison(prediction, source, overrides)
    return prediction


def compare_with_good(prediction: Prediction) -> ImplementationSaving | None:
    """The implementation of a prediction's method, and what one that is fused and never waits would save.

    None where there is nothing to say: a single worker, or a method without kernels; and where the answer would take
    another replay or another simulation of flows.
    """
    scenario, plan = prediction.scenario, prediction.plan
    own = set(plan.work.kernels) - {"update", "copy"}
    if scenario.sparsifier.implementation == GOOD or not own or scenario.workload.gradients or plan.flowing:
        return None
    time, (good,) = prediction.spread.time, time_batch([with_good_implementation(scenario)])
    if isinstance(good, InputError):
        return None
    # Kernels whose time grows faster than their elements are not fused where that is slower.
    good = min(time, good)
    return ImplementationSaving(
        name=scenario.sparsifier.implementation,
        label=scenario.sparsifier.known_implementations()[scenario.sparsifier.implementation].label,
        good_iteration_time=good,
        saving=time - good,
        saving_share=1 - good / time if time else 0.0,
    )


def add_comparison(prediction: Prediction, source: ScenarioSource, overrides: Overrides = ()) -> None:
    """Add the comparison and its question to the result of a scenario that was read from `source`.

    Nothing is added where there is nothing to compare with. Raises InputError where the baseline cannot run.
    """
    described = load_versus(source, overrides) if isinstance(prediction.scenario.versus, dict) else None
    opponent = choose_opponent(prediction.scenario, described, search=not is_heavy(prediction.plan))
    if opponent is not None:
        prediction.result = compared_with(opponent, prediction, with_responses(run(opponent.scenario)))


def compared_with(opponent: Opponent, candidate: Prediction, baseline: Prediction) -> RunResult:
    """The result of a prediction with its comparison with its opponent, of which `baseline` is the prediction.

    That is the speed-up, the difference of every term, the verdict, and the answer in words. Both with their responses.
    Speed-up and verdict count what is lost where machines come and go, terms do not.
    """
    own, against = candidate.result, baseline.result
    terms = {key: own.breakdown[key] - against.breakdown[key] for key in BREAKDOWN}
    pays = is_about_paying(candidate.scenario, baseline.scenario)
    names = combination_name(candidate.scenario), combination_name(baseline.scenario)
    if names[0] == names[1]:  # they are called by what differs
        names = "this set-up", f"the same with {describe_sides(candidate.scenario, baseline.scenario)[1]}"
    time, other, verdict = own.lasting_time, against.lasting_time, judge(candidate.lasting, baseline.lasting)
    finite = time < math.inf > other
    answer = [describe_verdict(verdict) if pays else describe_cost(verdict)] if verdict and finite else []
    sides = names if pays else describe_sides(candidate.scenario, baseline.scenario)
    named = [f"The opponent is {opponent.words}."] if opponent.words else []
    comparison = Comparison(
        kind="pays" if pays else "costs",
        baseline=names[1],
        found=opponent.words,
        opponent_time=against.iteration_time,
        opponent_interval=against.interval,
        opponent_breakdown=against.breakdown,
        opponent_idle=against.idle,
        speed_up=other / time if time and finite else None,
        difference=terms,
        text=" ".join([*answer, describe_times(sides, (own, against), terms), *named]),
        **verdict_fields(verdict),
    )
    question = candidate.scenario.question or describe_question(candidate.scenario, opponent.scenario)
    return replace(own, comparison=comparison, question=question)
