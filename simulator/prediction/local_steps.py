"""What a result says of a period of local steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from simulator.engine.plan.plan import Plan
from simulator.prediction.figures import IterationFigures

_HOUR = 3600.0


def compute_utilisation(document: Mapping[str, Any]) -> float:
    """Compute utilisation of a result: the share of the time in which a worker computes forward, backward and update.

    Of local steps it is that of `period_keys`, without the outer step.
    """
    if "period" in document:
        return float(document["period"]["compute_utilisation"])
    breakdown = document["breakdown_s"]
    return float((breakdown["forward"] + breakdown["backward"] + breakdown["update"]) / document["iteration_time_s"])


def period_keys(plan: Plan, figures: IterationFigures, time: float) -> dict[str, Any]:
    """The key `period` of a result document, of local steps that take `time` seconds each.

    Compute utilisation is the share of the time in which a worker takes inner steps (Douillard et al., 2501.18512,
    section 3.5): forward and backward pass, and the inner optimiser.
    """
    steps, breakdown, work = plan.steps, figures.breakdown, plan.work
    computed = breakdown["forward"] + breakdown["backward"] + work.update
    kernels = breakdown["selection"] + breakdown["combine"] + float(work.outer.sum()) / steps
    sent, links = plan.prices.traffic.sent[: plan.wiring.layout.workers], plan.prices.traffic.links
    fragments = [0.0] * len(plan.period.fragments) if plan.period else []
    for bucket in work.buckets:
        fragments[bucket.fragment] += bucket.numel
    peak = max(fragments) / math.fsum(fragments)
    synchronisation = steps * (figures.mean("communication_total") + kernels)
    transport = plan.network.fabric.transport
    set_up = transport.set_up if transport is not None else None
    return {
        "inner_steps": steps,
        "time_s": steps * time,
        "synchronisation_s": synchronisation,
        "first_synchronisation_s": None if set_up is None else synchronisation + set_up,
        "compute_utilisation": computed / time if time else None,
        "sent_bytes_per_worker": steps * float(sent.mean()),
        "sent_bytes_per_worker_peak": steps * float(sent.mean()) * peak,
        "sent_bytes_per_worker_and_hour": float(sent.mean()) / time * _HOUR if time else None,
        "busiest_link_bytes_per_hour": float(links[(links / plan.wiring.capacity).argmax()]) / time * _HOUR
        if time
        else None,
    }
