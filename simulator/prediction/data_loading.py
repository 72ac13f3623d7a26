"""Data loading that the GPUs of a node share: how long an iteration waits for its batch."""

from __future__ import annotations

from simulator.engine.plan.plan import Plan
from simulator.records import replace
from simulator.scenario.scenario import Scenario

_SAME = 1e-12
_MOST = 20


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

    It may take less than the wait longer: under a gated schedule exchanges go on while an iteration waits. Where a
    runtime looks for tensors in cycles, the wait decides what each cycle finds, and where links change, how they are
    when exchanges begin.
    """
    from simulator.engine.clock.run_points import run_point  # brings SimPy and the event loop

    wait = max(0.0, seconds - run_point(plan).time / plan.steps)
    uneven = plan.setup.scheduler.gated or plan.setup.runtime.cycle_time > 0 or plan.steps > 1 or plan.live
    for _ in range(_MOST if wait and uneven else 0):
        missing = seconds - run_point(_waiting(plan, wait)).time / plan.steps
        if missing <= _SAME * seconds:
            break
        wait += missing
    return wait


def _waiting(plan: Plan, seconds: float) -> Plan:
    """The plan with a longer wait for data."""
    return replace(plan, work=replace(plan.work, input_time=plan.work.input_time + seconds))
