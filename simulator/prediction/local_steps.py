"""What a result says of a period of local steps."""

from __future__ import annotations

import math

from simulator.engine.plan.plan import Plan
from simulator.prediction.figures import IterationFigures
from simulator.prediction.result_parts import PeriodTimes

_HOUR = 3600.0


def period_times(plan: Plan, figures: IterationFigures, time: float) -> PeriodTimes:
    """The figures of a period of local steps that take `time` seconds each.

    Compute utilisation is the share of the time in which a worker takes inner steps (Douillard et al., 2501.18512,
    section 3.5): forward and backward pass, and the inner optimiser.
    """
    steps, breakdown, work = plan.steps, figures.timed, plan.work
    computed = breakdown["forward"] + breakdown["backward"] + work.update
    kernels = breakdown["selection"] + breakdown["combine"] + float(work.outer.sum()) / steps
    if plan.inside is not None:
        own = plan.inside.step
        kernels -= own.communication_total + own.breakdown["selection"] + own.breakdown["combine"]
    sent, links = plan.prices.traffic.sent[: plan.wiring.layout.workers], plan.prices.traffic.links
    fragments = [0.0] * len(plan.period.fragments) if plan.period else []
    for bucket in work.buckets:
        fragments[bucket.fragment] += bucket.numel
    peak = max(fragments) / math.fsum(fragments)
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
        sent_per_worker_peak=steps * float(sent.mean()) * peak,
        sent_per_worker_and_hour=float(sent.mean()) / time * _HOUR if time else None,
        busiest_link_per_hour=busiest / time * _HOUR if time else None,
    )
