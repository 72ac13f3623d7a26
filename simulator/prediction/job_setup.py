"""A scenario as the engine takes it: the setup of its job and of the other jobs on its network; its data loading."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from simulator.component import expected
from simulator.engine.clock.run_points import run_inside
from simulator.engine.plan.network_setup import Conditions
from simulator.engine.plan.plan import Plan, plan_jobs
from simulator.engine.plan.prices import price_steps
from simulator.engine.plan.setup import OtherGpu, Setup, seat_jobs
from simulator.engine.plan.sharding import shard_job
from simulator.engine.plan.work.work import prepare_work
from simulator.engine.refusals import as_input_error
from simulator.hardware.runtime import Runtime, Way
from simulator.models.exchange import Selection
from simulator.records import replace
from simulator.scenario.scenario import OtherJob, Scenario
from simulator.schedulers.sharded import Sharded
from simulator.sparsifiers.dense import Dense

if TYPE_CHECKING:
    from simulator.engine.settling import Settled


class RecordedInputs(NamedTuple):
    """What a recorded trace gives a prediction: `selections`, one of each bucket.

    Where the trace has enough workers: `rows`, one per recorded iteration, and the means over `settled`, the part of
    them that is priced. Where it has fewer: the selections extrapolated from replays of its workers over that part,
    `ends`, between which they lie in nine of ten cases, and `warning`, what the result says about it.
    """

    selections: tuple[Selection, ...] | None = None
    rows: tuple[dict[str, Any], ...] = ()
    settled: Settled | None = None
    ends: tuple[tuple[Selection, ...], ...] = ()
    warning: str = ""


NOTHING_RECORDED = RecordedInputs()


def job_setups(scenario: Scenario, stage: int = 0) -> list[Setup]:
    """The setup of a scenario's job, on GPUs of a `stage` of its pipeline, and then those of its other jobs.

    Raises an expected-error where parts do not fit each other: studies change the cluster of a scenario that was valid.
    """
    cluster = scenario.cluster
    cluster.refuse_unfit()
    scenario.refuse_unfit()
    recorded = cluster.link_trace.recorded() if cluster.link_trace else ()
    setup = Setup(
        workload=scenario.workload,
        nodes=cluster.nodes,
        gpus_per_node=cluster.gpus_per_node,
        gpu=cluster.gpu,
        fabric=cluster.network,
        runtime=_runtime_of(scenario, cluster.runtime, cluster.network.way(cluster.nodes)),
        topology=scenario.topology,
        sparsifier=scenario.sparsifier,
        scheduler=scenario.scheduler,
        concentration=scenario.concentration,
        fidelity=scenario.fidelity,
        others=tuple(OtherGpu(item.gpu, item.nodes, item.factor) for item in cluster.other_gpus),
        conditions=Conditions((*cluster.links, *recorded), cluster.background),
        orders={item.worker: item.buckets for item in scenario.collective_order},
    )
    schedulers = scenario.scheduler, *(job.scheduler for job in scenario.other_jobs)
    sharded = [each for each in schedulers if isinstance(each, Sharded)]
    if sharded and scenario.other_jobs:
        raise expected("jobs whose models are not sharded, where several share a network", sharded[0].kind)
    if scenario.parallelism.divides and scenario.other_jobs:
        raise expected("jobs without `parallelism`, where several share a network", "one with it")
    same: dict[str, object] = {"`links`": cluster.links or cluster.link_trace, "`membership`": cluster.membership}
    same |= {"`stragglers`": cluster.stragglers.jitter or cluster.stragglers.slow, "`other_jobs`": scenario.other_jobs}
    same |= {"`collective_order`": scenario.collective_order, "recorded gradients": scenario.workload.gradients}
    differ = [name for name, value in same.items() if value]
    if differ and getattr(scenario.scheduler, "inside", None):
        raise expected("sites that are alike in all steps, for a schedule with `inside`", differ[0])
    mine = shard_job(setup, scenario.parallelism, stage)
    _refuse_lost_parts(scenario, mine)
    return [mine, *(_other_job_setup(job, setup) for job in scenario.other_jobs)]


def _refuse_lost_parts(scenario: Scenario, job: Setup) -> None:
    """Raise an expected-error where nodes fail, others go on, and have not all that those that failed had."""
    cluster, layout = scenario.cluster, scenario.parallelism
    joint = layout.tensor * max(layout.context, layout.expert)
    divided = layout.pipeline.stages > 1 or joint > cluster.gpus_per_node
    single = isinstance(scenario.scheduler, Sharded) and job.workers == 1
    if cluster.nodes > 1 and cluster.membership and cluster.membership.loses_nodes and (divided or single):
        what = (
            "`policy: checkpoint` of `membership`, or copies of the model on groups of nodes (`scheduler.shard`, HSDP)"
        )
        got = "policy continue with a model that is divided over nodes" if divided else "policy continue with one copy"
        raise expected(
            what,
            got,
            "nobody else has the part of the model, or of its optimiser states, that was on a node that fails",
        )


def plans_of(scenario: Scenario, *, followed: bool = False, stage: int = 0) -> tuple[Plan, list[Plan]]:
    """The plan of one iteration, with selections in closed form, and those of other jobs.

    `followed`: every message is followed, also of exchanges that have a price. `stage`: of a pipeline, whose first one
    ends an iteration. Raises InputError where parts cannot work together.
    """
    with as_input_error(f"scenario '{scenario.name}'"):
        jobs = seat_jobs([replace(job, followed=followed) for job in job_setups(scenario, stage)])
        own, *others = plan_jobs([(job, prepare_work(job)) for job in jobs])
        return with_loading(run_inside(own), scenario), others


def plan_sizes(scenario: Scenario, stage: int = 0) -> Plan:
    """The plan of one iteration as `plans_of` makes it, but without prices: what memory holds needs sizes alone."""
    with as_input_error(f"scenario '{scenario.name}'"):
        (own, *_) = seat_jobs(job_setups(scenario, stage))
        if own.inside is not None:
            return plans_of(scenario, stage=stage)[0]
        return Plan(own, prepare_work(own), price_steps((), (), own.network), None, 0.0, live=False, flowing=False)


def _runtime_of(job: Scenario | OtherJob, runtime: Runtime, way: Way) -> Runtime:
    """A job's runtime as it is over a way, and with its sums on servers."""
    runtime = runtime.over(way)
    if not (job.topology.sums_on_hosts and isinstance(job.sparsifier, Dense)):
        return runtime
    return runtime.summing(job.workload.precision.value_bytes)


def _other_job_setup(job: OtherJob, setup: Setup) -> Setup:
    """The setup of another job: its own parts, on the cluster of the job in question."""
    return replace(
        setup,
        workload=job.workload,
        nodes=len(job.nodes),
        gpus_per_node=job.gpus_per_node,
        runtime=_runtime_of(job, job.runtime, setup.fabric.way(len(job.nodes))),
        topology=job.topology,
        sparsifier=job.sparsifier,
        scheduler=job.scheduler,
        others=(),
        orders={},
        hosts=job.nodes,
        start=job.start,
    )


_SAME = 1e-12
_MOST = 60


def with_loading(plan: Plan, scenario: Scenario) -> Plan:
    """The plan with the wait for the batches that a node prepares at `cluster.loading`'s rate for its g GPUs.

    wait = b g / rate, with a batch of b per GPU; or, where batches are prefetched, the least after which an iteration
    in which all workers keep to their mean takes b g / rate. One GPU by itself has the whole rate. Both come on top of
    the workload's own `input_time`.

    Raises Stalled where an exchange never ends.
    """
    loading = scenario.cluster.loading
    if loading is None:
        return plan
    alone = scenario.workload.batch_size / loading.rate
    shared = alone * scenario.cluster.gpus_per_node
    if loading.prefetched:
        shared = _missing_wait(plan, shared)
        alone = max(0.0, alone - plan.single_gpu_time)
    made = _waiting(plan, shared)
    return replace(made, work=replace(made.work, input_alone=plan.work.input_time + alone))


def _missing_wait(plan: Plan, seconds: float) -> float:
    """The wait after which an iteration takes `seconds`; 0 where it takes longer.

    It may take less than the wait longer: under a gated schedule exchanges go on while an iteration waits, and where
    links change, the wait decides how they are when exchanges begin. Where it takes no longer at all, since exchanges
    wait for a link that is down, steps grow.
    """
    from simulator.engine.clock.run_points import run_point  # brings SimPy and the event loop

    wait = step = missing = max(0.0, seconds - run_point(plan).time / plan.steps)
    low, high = 0.0, math.inf
    uneven = plan.setup.scheduler.gated or plan.steps > 1 or plan.live
    for _ in range(_MOST if wait and uneven else 0):
        before, missing = missing, seconds - run_point(_waiting(plan, wait)).time / plan.steps
        if abs(missing) <= _SAME * seconds:
            return wait
        if missing > 0:
            low, step = wait, missing if missing < before else 2 * step
        else:
            high = wait
        wait = min(low + step, (low + high) / 2)
    return min(wait, high)


def _waiting(plan: Plan, seconds: float) -> Plan:
    """The plan with a longer wait for data."""
    return replace(plan, work=replace(plan.work, input_time=plan.work.input_time + seconds))
