"""What goes on inside the sites between which local steps are exchanged: the same engine runs their job."""

from __future__ import annotations

from simulator.engine.clock.run_points import run_point
from simulator.engine.plan.plan import Inside, Plan, plan_jobs
from simulator.engine.plan.prices import price_steps
from simulator.engine.plan.setup import seat_jobs
from simulator.engine.plan.work.work import prepare_work
from simulator.models.exchange import AllGather
from simulator.models.precision import FP32_BYTES
from simulator.models.small_cache import ResultsOfObjects
from simulator.models.timeline import Iteration
from simulator.records import replace

_ran: ResultsOfObjects[tuple[Plan, Iteration]] = ResultsOfObjects(64)
"""Sites that differ in what they exchange with others have the same local steps."""


def run_inside(plan: Plan) -> Plan:
    """The plan of local steps between sites with what an iteration inside a site takes; any other plan as it is.

    Weights as the optimiser works on them are gathered by all copies of the model in a site. Compute beside an exchange
    is as slow as beside any collective, also where one inside a site has slowed it down. Raises Stalled where an
    exchange never ends.
    """
    if plan.setup.inside is None:
        return plan
    (inner,) = seat_jobs([plan.setup.inside])
    work, precision = prepare_work(inner), plan.setup.workload.precision

    def run() -> tuple[Plan, Iteration]:
        (own,) = plan_jobs([(inner, work)])
        return own, run_point(own)

    networks = inner.network, inner.sharding and inner.sharding.network
    own, step = _ran.get((work, *networks), run, inner.scheduler.fingerprint, inner.runtime.fingerprint)
    width = FP32_BYTES if precision.has_master_weights else precision.gradient_bytes
    steps = [AllGather(float(width * bucket.numel)) for bucket in plan.work.buckets]
    gathers = price_steps(steps, [(0, number) for number in range(len(steps))], inner.network)
    gathers.traffic = gathers.traffic.shared_by(plan.steps)
    alone = own.work.compute_alone
    slowdown = max(0.0, plan.slowdown - step.breakdown["slowdown"] / alone) if alone else 0.0
    made = replace(plan.work, update=step.breakdown["update"], update_alone=own.work.update_alone)
    return replace(plan, work=made, slowdown=slowdown, inside=Inside(own, step, gathers))
