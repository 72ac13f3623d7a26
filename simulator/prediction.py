"""Run a scenario: the prediction, as the result document that scripts rely on."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic_core import PydanticCustomError

from simulator.cluster import Stragglers
from simulator.engine.conditions import Background, Conditions, LinkSpeed
from simulator.engine.network import Stalled, TooManyMessages
from simulator.engine.plan import Plan, assemble
from simulator.engine.pricing import PRIMITIVE
from simulator.engine.replay import added, mean_selection, replay_trace, replayed_unions
from simulator.engine.setup import Beside, OtherGpu, Setup
from simulator.engine.training import ALIKE, Draws, Neighbour, simulate_all
from simulator.errors import InputError, Problem
from simulator.evidence import Evidence, evidence_of, interval, warnings_of
from simulator.models.curves import Floats
from simulator.models.exchange import Selection
from simulator.models.limits import refuse_draws, refuse_turns
from simulator.models.overlap import Overlap, ScaleMixture
from simulator.models.timeline import BREAKDOWN, Iteration
from simulator.scenario import OtherJob, Scenario, versions

if TYPE_CHECKING:
    from simulator.traces.format import Trace

_LISTED = 16
_FEW_DRAWS = 2**18
"""Draws of no more than so many are remembered."""
_MANY_DRAWS, _TOGETHER = 2**21, 16
"""Draws that are made together, at least of so many iterations."""
PRIMITIVES = frozenset(PRIMITIVE.values())


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
    plan, neighbours = _plans(scenario, None)  # refuses what can't work together before anything is replayed
    recorded, law = None, None
    if scenario.workload.gradients and scenario.cluster.workers > 1:
        from simulator.traces.format import Trace  # pyarrow: only where there is a trace to read

        trace = Trace.open(Path(scenario.workload.gradients))
        if scenario.cluster.workers <= trace.spec.workers:
            recorded = replayed(scenario, trace, plan)
            plan, neighbours = _plans(scenario, recorded[0])
        else:
            law = fitted_law(scenario, trace, plan)
            plan, neighbours = _plans(scenario, None, law)
    counted = _simulated(scenario, plan, neighbours, keep_iterations)
    times, breakdown = np.array(counted.of["time"]), {term: counted.mean(term) for term in BREAKDOWN}
    evidence = evidence_of(scenario, plan, breakdown)
    communication = counted.mean("communication_total")
    document = _document(scenario, plan, times, breakdown, communication, evidence=evidence)
    if scenario.workload.gradients and recorded is None and scenario.cluster.workers > 1:
        by = f", overlap law fitted to the trace ({_described(law)})" if law is not None else ""
        document["warnings"].append(f"more workers than the trace recorded: closed form{by}")
    document["idle_s"] = {
        "waiting_for_slowest": max(0.0, breakdown["idle"] - plan.work.input_time),
        "data_loading": plan.work.input_time,
    }
    document["links"] = _links(plan, document["iteration_time_s"])
    document["collectives"] = [
        {"primitive": primitive, "algorithm": algorithm, "calls": calls}
        for (primitive, algorithm), calls in sorted(plan.prices.algorithms.items())
    ]
    document["density_over_iterations"] = [] if recorded is None else recorded[1]
    document["waiting_s"] = counted.mean("waiting")
    return Prediction(scenario, document, counted.last, plan, times, evidence, tuple(counted.kept))


class _Counted:
    """Figures of the counted iterations, and the last of these; all of them where they are kept."""

    def __init__(self) -> None:
        self.of = {name: array("d") for name in ("time", "communication_total", "waiting", *BREAKDOWN)}
        self.last: Iteration
        self.kept: list[Iteration] = []

    def add(self, item: Iteration, keep: bool) -> None:
        """Count one more."""
        for name, value in self.of.items():
            value.append(item.breakdown[name] if name in item.breakdown else getattr(item, name))
        self.last = item
        if keep:
            self.kept.append(item)

    def mean(self, name: str) -> float:
        """Mean over the counted iterations."""
        return math.fsum(self.of[name]) / len(self.of[name])


def plan_of(scenario: Scenario) -> Plan:
    """The plan of one iteration. Raises InputError where parts cannot work together."""
    return _plans(scenario, None)[0]


def _plans(
    scenario: Scenario, selections: tuple[Selection, ...] | None, concentration: Overlap | None = None
) -> tuple[Plan, list[Neighbour]]:
    """The plan of the scenario's job, and of those beside it."""
    cluster = scenario.cluster
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
        concentration=scenario.concentration if concentration is None else concentration,
        selections=selections,
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


def _simulated(scenario: Scenario, plan: Plan, neighbours: list[Neighbour], keep: bool) -> _Counted:
    """Every counted iteration. Raises InputError where an exchange never ends."""
    draws, counted = _draws(scenario, plan, bool(neighbours)), _Counted()
    with _told(scenario):
        made = simulate_all(plan, draws, neighbours, keep)
        for item in islice(made, scenario.warmup if neighbours else 0, None):
            counted.add(item, keep)
    return counted


def replayed(scenario: Scenario, trace: Trace, plan: Plan) -> tuple[tuple[Selection, ...], list[dict[str, float]]]:
    """Mean selections per bucket, and one row per recorded iteration, of the first workers of a trace."""
    buckets = plan.work.buckets
    steps = list(replay_trace(scenario.sparsifier, buckets, trace, scenario.cluster.workers))
    rows = [added(each).row() for each in steps]
    return tuple(mean_selection([step.selection for step in one]) for one in zip(*steps, strict=True)), rows


def fitted_law(scenario: Scenario, trace: Trace, plan: Plan) -> Overlap | None:
    """The overlap law fitted to a trace, for more workers than it holds.

    From what the scenario's own method aggregates at 1, 2, 4, ... recorded workers; None where the scenario states a
    law, one worker was recorded, or the method has no density. A scale mixture where there are three worker counts or
    more, else the beta-binomial concentration; None, too, where unions shrink as workers are added, as no law has it.
    """
    from simulator.traces.overlap_fit import fit_concentration, fit_mixture

    stated = scenario.overlap_concentration is not None or scenario.overlap_mixture is not None
    if stated or trace.spec.workers < 2 or not hasattr(scenario.sparsifier, "density"):
        return None
    buckets = plan.work.buckets
    unions = replayed_unions(scenario.sparsifier, buckets, trace)
    if any(after < before for before, after in pairwise(unions.values())):
        return None
    return fit_mixture(unions) if len(unions) > 2 else fit_concentration(unions)


def _described(law: Overlap) -> str:
    if isinstance(law, ScaleMixture):
        return f"scale mixture, spread {law.spread:.3g}, core {law.core:.3g}"
    return f"concentration {law:.4g}"


def _draws(scenario: Scenario, plan: Plan, beside: bool) -> Iterable[Draws]:
    """One set of per-worker differences per counted iteration; a single one where it repeats itself.

    Each worker and purpose has a stream of its own, so that adding a worker leaves the others' draws alone. Where other
    jobs run `beside`, those of the warm-up are kept, since the jobs move against each other.
    """
    stragglers, p = scenario.cluster.stragglers, scenario.cluster.workers
    random = stragglers.jitter > 0 or bool(plan.selection_spread.any())
    count = scenario.warmup + scenario.iterations
    if beside or (random and p > 1):
        with _told(scenario):
            _refuse(plan, p, count, random)
    if p == 1 or not (random or stragglers.slow):
        return [ALIKE] * (count if beside else 1)
    fixed = np.ones(p)
    for item in stragglers.slow:
        fixed[item.worker] *= item.factor
    if not random:
        return [Draws(fixed, np.zeros(p))] * (count if beside else 1)
    return islice(_drawn(scenario, fixed, count), 0 if beside else scenario.warmup, None)


def _refuse(plan: Plan, workers: int, count: int, random: bool) -> None:
    """Raise an expected-error for more iterations than can be followed in half a minute."""
    gated, work = plan.scheduler.gated, plan.work
    turns = max(len(work.buckets), len(work.layer_forward)) if gated else len(work.buckets)
    layered = gated or plan.runtime.compute_slowdown > 0
    refuse_turns(workers if random else 1, turns, count, layered=layered, live=plan.live)
    if random:
        refuse_draws(workers, count)


def _drawn(scenario: Scenario, fixed: Floats, count: int) -> Iterator[Draws]:
    """The random differences of every iteration, warm-up first."""
    p = len(fixed)
    few = p * count <= _FEW_DRAWS
    for normal in [_normal(scenario.seed, p, count)] if few else _normal_in_parts(scenario.seed, p, count):
        compute = fixed[:, None] * _factors(scenario.cluster.stragglers, normal[:p])
        yield from map(Draws, compute.T, normal[p:].T)


@lru_cache(maxsize=4)  # a sweep draws the same numbers again and again
def _normal(seed: int, workers: int, count: int) -> Floats:
    """Standard normal draws (2p, count), each row a stream of its own: compute of every worker, then selection."""
    return np.concatenate(list(_normal_in_parts(seed, workers, count)), axis=1)


def _normal_in_parts(seed: int, workers: int, count: int) -> Iterator[Floats]:
    """The same draws (2p, n), some iterations at a time: memory does not grow with their number."""
    seeds = np.random.SeedSequence(seed).spawn(2 * workers)
    some = max(_TOGETHER, _MANY_DRAWS // workers)
    streams = [np.random.default_rng(item) for item in seeds] if count > some else map(np.random.default_rng, seeds)
    for first in range(0, count, some):
        yield np.array([stream.standard_normal(min(some, count - first)) for stream in streams])


def _factors(stragglers: Stragglers, normal: Floats) -> Floats:
    """Factors of mean 1 and standard deviation `jitter` from standard normal draws, by their quantiles."""
    jitter = stragglers.jitter
    if stragglers.distribution == "normal" or not jitter:
        return np.maximum(1 + jitter * normal, 0.1)
    if stragglers.distribution == "lognormal":
        sigma = math.sqrt(math.log1p(jitter**2))
        return np.exp(sigma * normal - sigma**2 / 2)
    from scipy.special import log_ndtr, ndtr

    if stragglers.distribution == "uniform":
        return np.maximum(1 + jitter * math.sqrt(12) * (np.asarray(ndtr(normal)) - 0.5), 0.1)
    # A floor of 1 - jitter, and an exponential tail above it whose mean and deviation are both `jitter`.
    return np.maximum(1 - jitter - jitter * np.asarray(log_ndtr(-normal)), 0.1)


def _document(
    scenario: Scenario,
    plan: Plan,
    times: Floats,
    breakdown: dict[str, float],
    communication: float,
    *,
    evidence: Sequence[Evidence],
) -> dict[str, Any]:
    workers, batch = scenario.cluster.workers, scenario.workload.batch_size
    time = float(times.mean())
    return {
        "scenario": scenario.name,
        "digest": scenario.digest,
        "versions": versions(),
        "seed": scenario.seed,
        "workers": workers,
        "iteration_time_s": time,
        "iteration_time_interval_s": interval(times, evidence),
        "throughput_samples_per_s": workers * batch / time if time else None,
        "scaling_efficiency": plan.single_gpu_time / time if time else None,
        "breakdown_s": breakdown,
        "communication_total_s": communication,
        "traffic": _traffic(plan, time, workers),
        "density": plan.work.density,
        "fidelity": _fidelity(scenario, plan),
        "calibration": [item.shown() for item in evidence],
        "warnings": warnings_of(scenario, plan, evidence),
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
    prices = plan.prices
    tier = "flows" if plan.flowing or prices.flowed else "fold"
    if scenario.other_jobs:
        reason = "other jobs share the links"
    elif plan.live and plan.surroundings.changes:
        reason = "links change while exchanges are under way"
    elif plan.live:
        reason = "many exchanges at once share the links"
        reason += "" if plan.flowing else " first in, first out, as asked: each link carries all its bytes at full rate"
    elif scenario.fidelity == "flows":
        reason = "as asked; one exchange at a time"
    elif prices.obstacles:
        reason = prices.obstacles[0] + (", but fold was asked for: not exact" if scenario.fidelity == "fold" else "")
    else:
        reason = "one exchange at a time, and no message waits for another worker's on a link"
    names = sorted({label for _, label in prices.algorithms})
    reason += f"; algorithm {', '.join(names) or scenario.topology.kind}"
    if scenario.cluster.network.protocols and any(primitive in PRIMITIVES for primitive, _ in prices.algorithms):
        reason += ", protocol by payload: " + ", ".join(
            f"{item.name} up to {item.up_to_per_worker:g} B per worker" for item in scenario.cluster.network.protocols
        )
    return {"tier": tier, "reason": reason}


def _links(plan: Plan, time: float) -> list[dict[str, Any]]:
    """The busiest links: bytes of this job in an iteration, and the share of capacity that this is."""
    traffic, wiring = plan.prices.traffic, plan.wiring
    use = traffic.links / wiring.capacity
    order = [int(i) for i in np.argsort(-use, kind="stable")[:_LISTED] if use[i] > 0]
    return [
        {
            "name": wiring.names[i],
            "bytes": float(traffic.links[i]),
            "utilisation": float(use[i]) / time if time else 0.0,
        }
        for i in order
    ]
