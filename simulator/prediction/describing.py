"""The result of a run, from its simulation: figures of the counted iterations, and what they rest on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from operator import attrgetter

from simulator.engine.clock.workers import has_too_many_pushes
from simulator.engine.plan.plan import Plan
from simulator.fabrics.base import Fabric
from simulator.models.exchange import PRIMITIVES
from simulator.models.sharding import AXES, LAYERS
from simulator.prediction.doubts.collect import sort_warnings
from simulator.prediction.doubts.doubt import Doubt
from simulator.prediction.doubts.posterior import Carried, describe_settled
from simulator.prediction.doubts.spread import Spread
from simulator.prediction.network_use import NetworkUse, sent_in_layers
from simulator.prediction.result import RunResult
from simulator.prediction.result_parts import (
    AxisUse,
    AxisUses,
    CollectiveUse,
    Densities,
    Fidelity,
    Goodput,
    LinkLoad,
    PeriodTimes,
    PricedReplay,
    RecordedStep,
    SentTraffic,
    StreamUse,
)
from simulator.prediction.simulated import IterationFigures, Simulated
from simulator.records import replace
from simulator.scenario.scenario import Scenario
from simulator.scenario.versions import versions

_ALIKE = 1 + 1e-9
"""How many times as much another sum of the same bytes may be."""
_LISTED = 16
"""How many links a result lists."""


def describe_run(
    simulated: Simulated,
    inputs: Sequence[Doubt],
    spread: Spread,
    elastic: Goodput | None,
    *,
    lists: bool = True,
    carried: Carried | None = None,
) -> RunResult:
    """The result of a scenario. Without `lists`, what a row of a table has no column for is left out. `carried`: what a
    measurement says of it."""
    scenario, plan, figures, settled = simulated.scenario, simulated.plan, simulated.figures, simulated.recorded.settled
    workers = scenario.cluster.workers
    time, breakdown = spread.time, figures.breakdown
    intervals, total = spread.intervals(), figures.mean("communication_total")
    busy = figures.mean("communication_added_up") / total if total else 0.0
    warnings, notes = sort_warnings(simulated if carried is None else carried.prior, spread)
    uses, memory = simulated.network_uses, simulated.memory
    return RunResult(
        name=scenario.name,
        digest=scenario.digest if carried is None else carried.asked.digest,
        versions=versions(),
        seed=scenario.seed,
        workers=workers,
        precision=scenario.workload.precision.described(),
        iteration_time=time,
        interval=intervals[90],
        intervals=intervals,
        throughput=scenario.samples / time if time else None,
        scaling_efficiency=plan.single_gpu_time / time if time else None,
        breakdown=breakdown,
        communication_total=total,
        traffic=_traffic(simulated, time),
        density=Densities(**plan.work.density),
        fidelity=_fidelity(scenario, plan, uses),
        calibration=[item.as_row() for item in inputs],
        # Sizes follow from the responses: without them, they only decide what is listed.
        warnings=[item.sized if lists else item.text for item in warnings],
        warning_sizes=[item.as_row() for item in warnings] if lists else None,
        notes=[item.sized for item in notes] if lists else None,
        measured=None if carried is None else describe_settled(carried, spread),
        # Lists of its own: the memory is remembered, and whoever has a result may change it.
        memory=replace(
            memory,
            parts={**memory.parts},
            not_known=[*(memory.not_known or ())] if lists else None,
            details=[*(memory.details or ())] if lists else None,
        ),
        idle={
            "waiting_for_slowest": max(
                0.0, breakdown["idle"] - plan.work.input_time - plan.bubble.seconds - figures.mean("held_back")
            ),
            "waiting_for_host": figures.mean("held_back"),
            "waiting_for_stages": plan.bubble.seconds - plan.bubble.communication,
            "communication_of_stages": plan.bubble.communication,
            "data_loading": plan.work.input_time,
        },
        links=_links(uses, scenario.cluster.network, time) if lists else None,
        collectives=_collectives(plan, uses) if lists else None,
        density_over_iterations=[RecordedStep(**row) for row in simulated.recorded.rows] if lists else None,
        replay=None
        if settled is None
        else PricedReplay(
            settled=not settled.reason,
            from_iteration=settled.first,
            iterations=settled.iterations,
            mean_error=settled.error,
            change=settled.change,
            change_error=settled.change_error,
            reason=settled.reason,
        ),
        waiting=figures.mean("waiting"),
        streams=StreamUse(plan.streams, busy) if plan.setup.scheduler.streams > 1 else None,
        axes=_axes(uses, figures, plan),
        period=period_times(plan, figures, time) if plan.period else None,
        elastic=elastic,
    )


def _collectives(plan: Plan, uses: Sequence[NetworkUse]) -> list[CollectiveUse]:
    reasons = plan.prices.reasons | dict(item for axis in plan.axes for item in axis.prices.reasons.items())
    called = sum((each.algorithms for each in uses), Counter[tuple[str, str]]())
    return [
        CollectiveUse(
            primitive,
            algorithm,
            calls if plan.steps == 1 else calls / plan.steps,
            reasons.get((primitive, algorithm), ""),
        )
        for (primitive, algorithm), calls in sorted(called.items())
    ]


def _axes(uses: Sequence[NetworkUse], figures: IterationFigures, plan: Plan) -> AxisUses | None:
    """The axes along which several GPUs exchange of a job that has more than its workers; None for others.

    Of those that divide layers the bytes are those of the stage that sends most.
    """
    made, passes, stage = dict[str, AxisUse](), plan.of_step.setup.workload.micro_batches, None
    for axis in AXES if len(uses) > 1 else ():
        some = [(use.wiring.layout.workers, use.traffic.sent) for use in uses if use.axis == axis]
        counts = [count for count, _ in some]  # experts have a smaller group beside that of all else
        if (gpus := math.prod(counts) if axis == LAYERS else max(counts, default=1)) > 1:
            sent = math.fsum(float(each[:count].mean()) for count, each in some)
            exposed, of_stages = figures.mean(axis), sent_in_layers(plan) if axis == LAYERS else []
            if max(of_stages, default=0.0) > sent * _ALIKE:
                sent, stage = max(of_stages), of_stages.index(max(of_stages)) + 1
            made[axis] = AxisUse(gpus=gpus, exposed=exposed, sent=sent, sent_in_micro_batch=sent / passes)
    return AxisUses(**made, stage=stage) if made else None


def _traffic(simulated: Simulated, time: float) -> SentTraffic:
    uses, network = simulated.network_uses, simulated.scenario.cluster.network
    return SentTraffic(
        sent_per_worker=simulated.sent_per_worker,
        sent_per_worker_max=math.fsum(float(use.traffic.sent[: use.wiring.layout.workers].max()) for use in uses),
        total=math.fsum(each.groups * float(each.traffic.sent.sum()) for each in uses),
        busiest_link=max(
            (load for each in uses for load in _loads(each, network, time, 1)), key=attrgetter("utilisation")
        ),
    )


def _loads(use: NetworkUse, network: Fabric, time: float, count: int) -> list[LinkLoad]:
    """The busiest links of a network, up to so many, with the bytes of all groups that share them; the first one where
    none is used."""
    traffic, wiring = use.traffic.links, use.wiring
    made = []
    for link in wiring.busiest_links(traffic, count).tolist() or [0][:count]:
        nbytes = float(traffic[link])
        used = nbytes / float(wiring.capacity[link]) / time if time else 0.0
        sharing = network.groups_on(wiring.names[link], use.fabric, use.groups) if link < wiring.offset else 1
        made.append(LinkLoad(name=wiring.names[link], nbytes=sharing * nbytes, utilisation=used))
    return made


def _fidelity(scenario: Scenario, plan: Plan, uses: Sequence[NetworkUse]) -> Fidelity:
    if scenario.cluster.workers == 1:
        return Fidelity("fold", "one worker: nothing is exchanged")
    prices = plan.prices
    tier = "flows" if plan.flowing or prices.flowed else "fold"
    if scenario.other_jobs:
        reason = "other jobs share the links"
    elif plan.live and plan.setup.network.disturbances.changes:
        reason = "links change while exchanges are under way"
    elif plan.live and plan.setup.alone:
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
    names = sorted({label for use in uses for _, label in use.algorithms})
    reason += f"; algorithm {', '.join(names) or scenario.topology.kind}"
    by_payload = any(
        primitive in PRIMITIVES and not prices.reasons.get((primitive, name)) for primitive, name in prices.algorithms
    )
    if scenario.cluster.network.protocols and by_payload:
        reason += ", protocol by payload: " + ", ".join(
            f"{item.name} up to {item.up_to_per_worker:g} B per worker" for item in scenario.cluster.network.protocols
        )
    return Fidelity(tier, reason)


def _links(uses: Sequence[NetworkUse], network: Fabric, time: float) -> list[LinkLoad]:
    """The busiest links: bytes of this job in an iteration, and the share of capacity that this is."""
    loads = [load for each in uses if each.traffic.links.any() for load in _loads(each, network, time, _LISTED)]
    return sorted(loads, key=attrgetter("utilisation"), reverse=True)[:_LISTED] if len(uses) > 1 else loads


def period_times(plan: Plan, figures: IterationFigures, time: float) -> PeriodTimes:
    """The figures of a period of local steps that take `time` seconds each.

    Compute utilisation is the share of the time in which a worker takes inner steps (Douillard et al., 2501.18512,
    section 3.5): forward and backward pass, and the inner optimiser, with what exchanges slow them down.
    """
    steps, breakdown, work = plan.steps, figures.timed, plan.work
    computed = work.update + sum(figures.mean(term) for term in ("forward", "backward", "slowdown"))
    kernels = breakdown["selection"] + breakdown["combine"] + float(work.outer.sum()) / steps
    if plan.inside is not None:
        own = plan.inside.step
        kernels -= own.communication_total + own.breakdown["selection"] + own.breakdown["combine"]
    sent, links = plan.prices.traffic.sent[: plan.wiring.layout.workers], plan.prices.traffic.links
    synchronisation = steps * (figures.mean("communication_total") + kernels)
    transport = plan.setup.network.fabric.transport
    set_up = transport.set_up if transport is not None else None
    busiest = float(links[(links / plan.wiring.capacity).argmax()])
    return PeriodTimes(
        inner_steps=steps,
        time=steps * time,
        synchronisation=synchronisation,
        first_synchronisation=None if set_up is None else synchronisation + set_up,
        exposed_inside=None if plan.inside is None else plan.inside.step.breakdown["communication_exposed"],
        compute_utilisation=computed / time if time else None,
        sent_per_worker=steps * float(sent.mean()),
        sent_per_worker_peak=steps * float(sent.mean()) * plan.largest_fragment,
        sent_per_worker_and_hour=float(sent.mean()) / time * 3600.0 if time else None,
        busiest_link_per_hour=busiest / time * 3600.0 if time else None,
    )
