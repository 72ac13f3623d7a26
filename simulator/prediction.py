"""Run a scenario: the prediction, as the result document that scripts rely on."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic_core import PydanticCustomError

from simulator.engine.plan import Plan, Setup, assemble
from simulator.engine.replay import added, mean_selection, replay_trace, replayed_unions
from simulator.engine.training import Draws, simulate
from simulator.errors import InputError, Problem
from simulator.models.exchange import Selection
from simulator.models.overlap import Overlap, ScaleMixture
from simulator.models.timeline import BREAKDOWN, Iteration
from simulator.scenario import Scenario, versions

if TYPE_CHECKING:
    from simulator.traces.format import Trace

NORMAL_95 = 1.6449
"""Standard deviations between the median and the 95th percentile of a normal distribution."""


@dataclass(slots=True)
class Prediction:
    """A scenario's outcome: the result document, and the spans of the last iteration for timelines."""

    scenario: Scenario
    document: dict[str, Any]
    iteration: Iteration
    plan: Plan = field(repr=False)


def run(scenario: Scenario) -> Prediction:
    """Predict one scenario.

    A scenario in which all workers are alike repeats itself, so one iteration stands for all; with random differences
    between workers `warmup` draws are discarded and `iterations` are averaged.

    Raises InputError where the parts of the scenario cannot work together.
    """
    plan = plan_of(scenario)  # refuses what can't work together before anything is replayed
    recorded, law = None, None
    if scenario.workload.gradients and scenario.cluster.workers > 1:
        from simulator.traces.format import Trace  # pyarrow: only where there is a trace to read

        trace = Trace.open(Path(scenario.workload.gradients))
        if scenario.cluster.workers <= trace.spec.workers:
            recorded = replayed(scenario, trace)
            plan = _plan(scenario, recorded[0])
        else:
            law = fitted_law(scenario, trace)
            plan = _plan(scenario, None, law)
    iterations = [simulate(plan, draws) for draws in _draws(scenario, plan)] or [simulate(plan)]
    times = np.array([item.time for item in iterations])
    breakdown = {term: _mean([item.breakdown[term] for item in iterations]) for term in BREAKDOWN}
    communication = _mean([item.communication_total for item in iterations])
    document = _document(scenario, plan, times, breakdown, communication)
    if scenario.workload.gradients and recorded is None and scenario.cluster.workers > 1:
        by = f", overlap law fitted to the trace ({_described(law)})" if law is not None else ""
        document["warnings"].append(f"more workers than the trace recorded: closed form{by}")
    document["density_over_iterations"] = [] if recorded is None else recorded[1]
    document["waiting_s"] = _mean([item.waiting for item in iterations])
    return Prediction(scenario, document, iterations[-1], plan)


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def plan_of(scenario: Scenario) -> Plan:
    """The plan of one iteration. Raises InputError where parts cannot work together."""
    return _plan(scenario, None)


def _plan(scenario: Scenario, selections: tuple[Selection, ...] | None, concentration: Overlap | None = None) -> Plan:
    cluster = scenario.cluster
    try:
        return assemble(
            Setup(
                workload=scenario.workload,
                nodes=cluster.nodes,
                gpus_per_node=cluster.gpus_per_node,
                gpu=cluster.gpu,
                fabric=cluster.network,
                runtime=cluster.runtime,
                topology=scenario.topology,
                sparsifier=scenario.sparsifier,
                scheduler=scenario.scheduler,
                concentration=scenario.concentration if concentration is None else concentration,
                selections=selections,
            )
        )
    except PydanticCustomError as error:
        context = error.context or {}
        raise InputError(
            Problem(f"scenario '{scenario.name}'", context["what"], context["got"], context["hint"])
        ) from None


def replayed(scenario: Scenario, trace: Trace) -> tuple[tuple[Selection, ...], list[dict[str, float]]]:
    """Mean selections per bucket, and one row per recorded iteration, of the first workers of a trace."""
    buckets = scenario.scheduler.plan(scenario.workload.layers)
    steps = list(replay_trace(scenario.sparsifier, buckets, trace, scenario.cluster.workers))
    rows = [added(each).row() for each in steps]
    return tuple(mean_selection([step.selection for step in one]) for one in zip(*steps, strict=True)), rows


def fitted_law(scenario: Scenario, trace: Trace) -> Overlap | None:
    """The overlap law fitted to a trace, for more workers than it holds.

    From what the scenario's own method aggregates at 1, 2, 4, ... recorded workers; None where the scenario states a
    law, one worker was recorded, or the method has no density. A scale mixture where there are three worker counts or
    more, else the beta-binomial concentration; None, too, where unions shrink as workers are added, as no law has it.
    """
    from simulator.traces.overlap_fit import fit_concentration, fit_mixture

    stated = scenario.overlap_concentration is not None or scenario.overlap_mixture is not None
    if stated or trace.spec.workers < 2 or not hasattr(scenario.sparsifier, "density"):
        return None
    buckets = scenario.scheduler.plan(scenario.workload.layers)
    unions = replayed_unions(scenario.sparsifier, buckets, trace)
    if any(after < before for before, after in pairwise(unions.values())):
        return None
    return fit_mixture(unions) if len(unions) > 2 else fit_concentration(unions)


def _described(law: Overlap) -> str:
    if isinstance(law, ScaleMixture):
        return f"scale mixture, spread {law.spread:.3g}, core {law.core:.3g}"
    return f"concentration {law:.4g}"


def _draws(scenario: Scenario, plan: Plan) -> list[Draws]:
    """One set of per-worker differences per counted iteration; none where all workers are alike.

    Each worker and purpose has a stream of its own, so that adding a worker leaves the others' draws alone.
    """
    stragglers, p = scenario.cluster.stragglers, scenario.cluster.workers
    random = stragglers.jitter > 0 or bool(plan.work.selection_spread.any())
    if p == 1 or not (random or stragglers.slow):
        return []
    fixed = np.ones(p)
    for item in stragglers.slow:
        fixed[item.worker] *= item.factor
    if not random:
        return [Draws(fixed, np.zeros(p))]
    count = scenario.warmup + scenario.iterations
    seeds = np.random.SeedSequence(scenario.seed).spawn(2 * p)
    normal = np.array([np.random.default_rng(seed).standard_normal(count) for seed in seeds])
    compute = fixed[:, None] * np.maximum(1 + stragglers.jitter * normal[:p], 0.1)
    return [Draws(compute[:, i], normal[p:, i]) for i in range(scenario.warmup, count)]


def _document(
    scenario: Scenario, plan: Plan, times: np.ndarray, breakdown: dict[str, float], communication: float
) -> dict[str, Any]:
    workers, batch = scenario.cluster.workers, scenario.workload.batch_size
    time = float(times.mean())
    calibration = _calibration(scenario, plan, breakdown)
    return {
        "scenario": scenario.name,
        "digest": scenario.digest,
        "versions": versions(),
        "seed": scenario.seed,
        "workers": workers,
        "iteration_time_s": time,
        "iteration_time_interval_s": _interval(times, calibration),
        "throughput_samples_per_s": workers * batch / time if time else None,
        "scaling_efficiency": plan.single_gpu_time / time if time else None,
        "breakdown_s": breakdown,
        "communication_total_s": communication,
        "traffic": _traffic(plan, time, workers),
        "density": plan.work.density,
        "fidelity": _fidelity(scenario, plan),
        "calibration": [{k: v for k, v in item.items() if k != "seconds"} for item in calibration],
        "warnings": _warnings(scenario, plan, calibration),
    }


def _traffic(plan: Plan, time: float, workers: int) -> dict[str, Any]:
    traffic, wiring = plan.prices.traffic, plan.wiring
    sent = traffic.sent[:workers]
    busiest = int(np.argmax(traffic.links / wiring.capacity))
    nbytes = float(traffic.links[busiest])
    used = nbytes / float(wiring.capacity[busiest]) / time if time else 0.0
    return {
        "sent_bytes_per_worker": float(sent.mean()),
        "sent_bytes_per_worker_max": float(sent.max()),
        "total_bytes": float(traffic.sent.sum()),
        "busiest_link": {"name": wiring.names[busiest], "bytes": nbytes, "utilisation": used},
    }


def _fidelity(scenario: Scenario, plan: Plan) -> dict[str, str]:
    if scenario.cluster.workers == 1:
        return {"tier": "fold", "reason": "one worker: nothing is exchanged"}
    if scenario.topology.concurrent:
        reason = "exchanges share links first in, first out; each link carries all its bytes at full rate"
    else:
        reason = "one exchange at a time, and the fabric does not block"
    algorithm = f"algorithm {scenario.topology.kind}"
    if scenario.cluster.network.protocols:
        algorithm += ", protocol by payload: " + ", ".join(
            f"{item.name} up to {item.up_to_per_worker:g} B per worker" for item in scenario.cluster.network.protocols
        )
    return {"tier": "fold", "reason": f"{reason}; {algorithm}"}


def _calibration(scenario: Scenario, plan: Plan, breakdown: dict[str, float]) -> list[dict[str, Any]]:
    """What the prediction rests on: each curve with its held-out error, and the seconds that hang on it."""
    gpu = scenario.cluster.gpu
    items: list[dict[str, Any]] = []
    for kernel, use in sorted(plan.work.kernels.items()):
        curve = gpu.curve(kernel)
        if curve is None:
            continue
        mape, inside = curve.held_out_mape, curve.in_range((use.smallest, use.largest))
        items.append(_evidence(f"kernel {kernel}", f"{gpu.name}/{kernel}", mape, inside, use.seconds))
    exposed = breakdown["communication_exposed"]
    for name, (measured, inside) in plan.prices.curves.items():
        items.append(
            _evidence("collective", f"{scenario.cluster.network.name}/{name}", measured.held_out_mape, inside, exposed)
        )
    if plan.prices.folded or (scenario.topology.concurrent and scenario.cluster.workers > 1):
        network = scenario.cluster.network
        share = 0.0 if plan.prices.curves else exposed
        items.append(_evidence("link law", network.name, network.held_out_mape, True, share))
    return items


def _evidence(what: str, name: str, mape: float | None, inside: bool, seconds: float) -> dict[str, Any]:
    return {"what": what, "id": name, "held_out_mape": mape, "in_range": inside, "seconds": seconds}


def _interval(times: np.ndarray, calibration: list[dict[str, Any]]) -> list[float]:
    """[p5, p95]: spread over the iterations, and each curve's held-out error on the seconds that hang on it.

    A mean absolute error m of a normal error means a standard deviation of m sqrt(pi/2); the curves' errors are taken
    as independent.
    """
    sigma = math.sqrt(math.pi / 2) * math.hypot(
        *((item["held_out_mape"] or 0.0) * item["seconds"] for item in calibration)
    )
    mean = float(times.mean())
    low, high = np.percentile(times, (5, 95)).tolist() if len(times) > 1 else (mean, mean)
    below, above = math.hypot(mean - low, NORMAL_95 * sigma), math.hypot(high - mean, NORMAL_95 * sigma)
    return [max(0.0, mean - below), mean + above]


def _warnings(scenario: Scenario, plan: Plan, calibration: list[dict[str, Any]]) -> list[str]:
    warnings = [
        f"{item['what']} {item['id']}: evaluated outside its measured range"
        for item in calibration
        if not item["in_range"]
    ]
    network, gpu = scenario.cluster.network, scenario.cluster.gpu
    foreign = [item.id for item in network.foreign_curves() if item.workers == scenario.cluster.workers]
    if foreign:
        warnings.append(f"curves {', '.join(foreign)} were measured at another bandwidth or latency: link law used")
    if not gpu.ideal:
        bare = sorted(kernel for kernel in plan.work.kernels if gpu.curve(kernel) is None)
        if bare:
            warnings.append(f"no measured curve for {', '.join(bare)} on {gpu.name}: priced by memory traffic")
    return warnings
