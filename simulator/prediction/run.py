"""Run a scenario: the prediction, as the result document that scripts rely on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from pydantic_core import PydanticCustomError

from simulator.engine.clock.training import Neighbour, simulate_all
from simulator.engine.plan.conditions import Background, Conditions, LinkSpeed
from simulator.engine.plan.plan import Plan, assemble
from simulator.engine.plan.setup import Beside, OtherGpu, Setup
from simulator.engine.rounds.network import Stalled, TooManyMessages
from simulator.errors import InputError, Problem
from simulator.models.curves import Floats
from simulator.models.timeline import Iteration
from simulator.prediction.draws import draws_of
from simulator.prediction.evidence import Evidence, evidence_of
from simulator.prediction.recorded import NOTHING_RECORDED, Recorded, recorded
from simulator.prediction.result import Counted, document_of
from simulator.scenario.scenario import OtherJob, Scenario


@dataclass(slots=True)
class Prediction:
    """A scenario's outcome: the result document, the last iteration and, where they were asked for, all counted ones.

    Where all workers are alike, one iteration stands for all.
    """

    scenario: Scenario
    document: dict[str, Any]
    iteration: Iteration
    plan: Plan = field(repr=False)
    times: Floats = field(repr=False)
    evidence: list[Evidence] = field(repr=False)
    iterations: tuple[Iteration, ...] = field(default=(), repr=False)


def run(scenario: Scenario, keep_iterations: bool = False) -> Prediction:
    """Predict one scenario; `keep_iterations`: with every iteration's spans, for a timeline.

    A scenario in which all workers are alike repeats itself, so one iteration stands for all; with random differences
    between workers `warmup` draws are discarded and `iterations` are averaged.

    Raises InputError where the parts of the scenario cannot work together.
    """
    plan, neighbours = _plans(scenario)  # refuses what can't work together before anything is replayed
    found = NOTHING_RECORDED
    if scenario.workload.gradients and scenario.cluster.workers > 1:
        found = recorded(scenario, plan)
        plan, neighbours = _plans(scenario, found)
    counted = _simulated(scenario, plan, neighbours, keep_iterations)
    evidence = evidence_of(scenario, plan, counted.breakdown)
    document = document_of(scenario, plan, counted, evidence, found)
    return Prediction(scenario, document, counted.last, plan, counted.times, evidence, tuple(counted.kept))


def plan_of(scenario: Scenario) -> Plan:
    """The plan of one iteration. Raises InputError where parts cannot work together."""
    return _plans(scenario)[0]


def _plans(scenario: Scenario, found: Recorded = NOTHING_RECORDED) -> tuple[Plan, list[Neighbour]]:
    """The plan of the scenario's job, and of those beside it."""
    cluster = scenario.cluster
    with _told(scenario):  # again: studies change the number of nodes of a scenario that was valid
        cluster.refuse_absent()
        scenario.refuse_unfit()
    conditions = Conditions(
        tuple(LinkSpeed(item.link, item.factor, item.start, item.until) for item in cluster.links),
        tuple(Background(item.source, item.destination, item.bandwidth) for item in cluster.background),
    )
    setup = Setup(
        workload=scenario.workload,
        nodes=cluster.nodes,
        gpus_per_node=cluster.gpus_per_node,
        gpu=cluster.gpu,
        fabric=cluster.network,
        runtime=cluster.runtime,
        topology=scenario.topology,
        sparsifier=scenario.sparsifier,
        scheduler=scenario.scheduler,
        concentration=scenario.concentration if found.law is None else found.law,
        selections=found.selections,
        fidelity=scenario.fidelity,
        others=tuple(OtherGpu(item.gpu, item.nodes, item.factor) for item in cluster.other_gpus),
        conditions=conditions,
        orders={item.worker: item.buckets for item in scenario.collective_order},
    )
    with _told(scenario):
        plan, others = assemble(setup, [_beside(job, setup) for job in scenario.other_jobs])
    return plan, [Neighbour(other, start) for other, start in others]


def _beside(job: OtherJob, setup: Setup) -> Beside:
    own = replace(
        setup,
        workload=job.workload,
        nodes=len(job.nodes),
        gpus_per_node=job.gpus_per_node,
        runtime=job.runtime,
        topology=job.topology,
        sparsifier=job.sparsifier,
        scheduler=job.scheduler,
        selections=None,
        others=(),
        orders={},
    )
    return Beside(own, job.nodes, job.start)


@contextmanager
def _told(scenario: Scenario) -> Iterator[None]:
    """What the engine can't do, as an input error that says so."""
    try:
        yield
        return
    except PydanticCustomError as error:
        context = error.context or {}
        problem = (context["what"], context["got"], context["hint"])
    except Stalled as error:
        links = ", ".join(error.args[0]) or "its links"
        hint = "a link that is down for good starves what waits for it: give it an `until`, or a `factor` above 0"
        problem = ("every exchange to end", f"workers that wait for {links} for ever", hint)
    except TooManyMessages as error:
        hint = "fewer workers, a topology with fewer rounds, or `fidelity: fold`"
        problem = ("an exchange that flows can follow", f"{error.args[0]:,} messages", hint)
    raise InputError(Problem(f"scenario '{scenario.name}'", *problem))


def _simulated(scenario: Scenario, plan: Plan, neighbours: list[Neighbour], keep: bool) -> Counted:
    """Every counted iteration. Raises InputError where an exchange never ends."""
    counted = Counted()
    with _told(scenario):
        made = simulate_all(plan, draws_of(scenario, plan, bool(neighbours)), neighbours, keep)
        for item in islice(made, scenario.warmup if neighbours else 0, None):
            counted.add(item, keep)
    return counted
