"""The result document: figures of the counted iterations and their evidence, under the keys that scripts rely on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simulator.engine.clock.own_pace import has_too_many_pushes
from simulator.engine.plan.phases import PRIMITIVE
from simulator.engine.plan.plan import Plan
from simulator.prediction.doubts.collect import warning_keys
from simulator.prediction.doubts.doubt import Doubt
from simulator.prediction.doubts.spread import Spread
from simulator.prediction.elastic.elastic import elastic_keys
from simulator.prediction.figures import IterationFigures
from simulator.prediction.local_steps import period_keys
from simulator.prediction.simulated import Simulated
from simulator.scenario.scenario import Scenario
from simulator.scenario.versions import versions

_LISTED = 16
"""How many links a result lists."""
_PRIMITIVES = frozenset(PRIMITIVE.values())


def result_document(
    simulated: Simulated, inputs: Sequence[Doubt], spread: Spread, lists: bool = True
) -> dict[str, Any]:
    """The result document of a scenario; its keys are described in `result_keys`.

    Without `lists`, what a row of a table has no column for is left out.
    """
    scenario, plan, figures, recorded = simulated.scenario, simulated.plan, simulated.figures, simulated.recorded
    workers, batch = scenario.cluster.workers, scenario.workload.batch_size
    time, breakdown = spread.time, figures.breakdown
    return {
        "scenario": scenario.name,
        "digest": scenario.digest,
        "versions": versions(),
        "seed": scenario.seed,
        "workers": workers,
        "precision": scenario.workload.precision.described(),
        "iteration_time_s": time,
        **_interval_keys(spread),
        "throughput_samples_per_s": workers * batch / time if time else None,
        "scaling_efficiency": plan.single_gpu_time / time if time else None,
        "breakdown_s": breakdown,
        "communication_total_s": figures.mean("communication_total"),
        "traffic": _traffic(plan, time, workers),
        "density": plan.work.density,
        "fidelity": _fidelity(scenario, plan),
        "calibration": [item.as_row() for item in inputs],
        **warning_keys(simulated, spread, sized=lists),
        "memory": simulated.memory.as_keys(lists),
        "idle_s": {
            "waiting_for_slowest": max(0.0, breakdown["idle"] - plan.work.input_time - figures.mean("held_back")),
            "waiting_for_host": figures.mean("held_back"),
            "data_loading": plan.work.input_time,
        },
        **(_lists(simulated, time) if lists else {}),
        **({"replay": recorded.settled.row()} if recorded.settled is not None else {}),
        "waiting_s": figures.mean("waiting"),
        **({"streams": _streams(plan, figures)} if plan.scheduler.streams > 1 else {}),
        **({"period": period_keys(plan, figures, time)} if plan.period else {}),
        **elastic_keys(scenario, plan, time),
    }


def _lists(simulated: Simulated, time: float) -> dict[str, Any]:
    """The keys with a list of the links, the collectives and the recorded iterations."""
    plan = simulated.plan
    return {
        "links": _links(plan, time),
        "collectives": [
            {
                "primitive": primitive,
                "algorithm": algorithm,
                "calls": calls if plan.steps == 1 else calls / plan.steps,
                "reason": plan.prices.reasons.get((primitive, algorithm), ""),
            }
            for (primitive, algorithm), calls in sorted(plan.prices.algorithms.items())
        ],
        "density_over_iterations": [dict(row) for row in simulated.recorded.rows],
    }


def _interval_keys(spread: Spread) -> dict[str, Any]:
    """The keys of the result that follow from the spread of its time."""
    intervals = spread.intervals()
    return {"iteration_time_interval_s": intervals["90"], "intervals_s": intervals}


def _streams(plan: Plan, figures: IterationFigures) -> dict[str, float]:
    """How many streams there are, and how many are busy on average while any is."""
    total = figures.mean("communication_total")
    return {"count": plan.streams, "busy": figures.mean("communication_added_up") / total if total else 0.0}


def _traffic(plan: Plan, time: float, workers: int) -> dict[str, Any]:
    traffic, wiring = plan.prices.traffic, plan.wiring
    sent = traffic.sent[:workers]
    busiest = next(iter(wiring.busiest_links(traffic.links, 1).tolist()), 0)
    nbytes = float(traffic.links[busiest])
    used = nbytes / float(wiring.capacity[busiest]) / time if time else 0.0
    return {
        "sent_bytes_per_worker": float(sent.sum()) / workers,
        "sent_bytes_per_worker_max": float(sent.max()),
        "total_bytes": float(traffic.sent.sum()),
        "busiest_link": {"name": wiring.names[busiest], "bytes": nbytes, "utilisation": used},
    }


def _fidelity(scenario: Scenario, plan: Plan) -> dict[str, str]:
    if scenario.cluster.workers == 1:
        return {"tier": "fold", "reason": "one worker: nothing is exchanged"}
    prices = plan.prices
    tier = "flows" if plan.flowing or prices.flowed else "fold"
    if scenario.other_jobs:
        reason = "other jobs share the links"
    elif plan.live and plan.disturbances.changes:
        reason = "links change while exchanges are under way"
    elif plan.live and plan.alone:
        several = plan.streams > 1
        reason = f"up to {plan.streams} exchanges at once share the links" if several else "one exchange at a time"
        if plan.remembers:
            reason += ", each of which finds the token buckets of its links as earlier ones left them"
    elif plan.live:
        reason = "many exchanges at once share the links"
        reason += "" if plan.flowing else " first in, first out, as asked: each link carries all its bytes at full rate"
        if has_too_many_pushes(plan):
            reason += ", and workers that differ push with the slowest of them, since they are too many to be followed"
    elif scenario.fidelity == "flows":
        reason = "as asked; one exchange at a time"
    elif prices.obstacles:
        reason = prices.obstacles[0] + (", but fold was asked for: not exact" if scenario.fidelity == "fold" else "")
    else:
        reason = "one exchange at a time, and no message waits for another worker's on a link"
    names = sorted({label for _, label in prices.algorithms})
    reason += f"; algorithm {', '.join(names) or scenario.topology.kind}"
    by_payload = any(
        primitive in _PRIMITIVES and not prices.reasons.get((primitive, name)) for primitive, name in prices.algorithms
    )
    if scenario.cluster.network.protocols and by_payload:
        reason += ", protocol by payload: " + ", ".join(
            f"{item.name} up to {item.up_to_per_worker:g} B per worker" for item in scenario.cluster.network.protocols
        )
    return {"tier": tier, "reason": reason}


def _links(plan: Plan, time: float) -> list[dict[str, Any]]:
    """The busiest links: bytes of this job in an iteration, and the share of capacity that this is."""
    traffic, wiring = plan.prices.traffic, plan.wiring
    return [
        {
            "name": wiring.names[link],
            "bytes": float(traffic.links[link]),
            "utilisation": float(traffic.links[link] / wiring.capacity[link]) / time if time else 0.0,
        }
        for link in wiring.busiest_links(traffic.links, _LISTED).tolist()
    ]
