"""What goes on inside the sites between which local steps are exchanged: the same engine runs their job."""

from __future__ import annotations

import numpy as np

from simulator.engine.clock.run_points import run_point
from simulator.engine.plan.plan import Inside, Plan, plan_jobs
from simulator.engine.plan.prices import Lane, price_lanes
from simulator.engine.plan.setup import Setup, seat_jobs
from simulator.engine.plan.work.work import prepare_work
from simulator.models.exchange import AllGather
from simulator.models.precision import FP32_BYTES
from simulator.models.small_cache import ResultsOfObjects
from simulator.models.timeline import Iteration
from simulator.records import replace
from simulator.schedulers.sharded import Sharded

_ran: ResultsOfObjects[tuple[Plan, Iteration]] = ResultsOfObjects(64)
"""Sites that differ in what they exchange with others have the same local steps."""


def run_inside(plan: Plan) -> Plan:
    """The plan of local steps between sites with what an iteration inside a site takes; any other plan as it is.

    Kernels beside an exchange between sites are as slow as beside any collective, so that those that collectives inside
    the site slow down already are slowed down less by it. Raises Stalled where an exchange inside never ends.
    """
    if plan.setup.inside is None:
        return plan
    (inner,) = seat_jobs([plan.setup.inside])
    work = prepare_work(inner)
    networks = inner.network, inner.network if inner.sharding is None else inner.sharding.network

    def run() -> tuple[Plan, Iteration]:
        (own,) = plan_jobs([(inner, work)])
        return own, run_point(own)

    own, step = _ran.get((work, *networks), run, inner.scheduler.fingerprint, inner.runtime.fingerprint)
    lanes = _gathers(plan, inner)
    gathers = tuple(zip((lane.network for lane in lanes), price_lanes(lanes), strict=True))
    seconds = np.sum([prices.seconds for _, prices in gathers] or [np.zeros(len(plan.work.buckets))], axis=0)
    for _, prices in gathers:
        prices.traffic = prices.traffic.shared_by(plan.steps)
    computed, alone = step.breakdown["forward"] + step.breakdown["backward"], own.work.compute_alone
    slowdown = max(0.0, (1 + plan.slowdown) * alone / computed - 1) if computed else 0.0
    made = replace(plan.work, update=step.breakdown["update"], update_alone=own.work.update_alone)
    return replace(plan, work=made, slowdown=slowdown, inside=Inside(own, step, gathers, seconds))


def _gathers(plan: Plan, inner: Setup) -> list[Lane]:
    """By which all copies of the model inside a site get what its GPUs have of each bucket after an outer step.

    First those with the same part of the model, in the format of the weights that the optimiser works on; then, where
    all GPUs keep whole parameters, those that share it.
    """
    precision, copies = plan.setup.workload.precision, inner.workers
    width = FP32_BYTES if precision.has_master_weights else precision.gradient_bytes
    made = [(width, inner.network)] if copies > 1 else []
    if inner.sharding is not None and isinstance(inner.scheduler, Sharded) and inner.scheduler.in_place:
        made.append((precision.gradient_bytes * copies, inner.sharding.network))
    numels = [bucket.numel for bucket in plan.work.buckets]
    uses = [(0, number) for number in range(len(numels))]
    return [Lane(tuple(AllGather(float(each * numel)) for numel in numels), uses, network) for each, network in made]
