"""Data loading that the GPUs of a node share: how long an iteration waits for its batch."""

from __future__ import annotations

from dataclasses import replace

from simulator.engine.clock.iterations import simulate
from simulator.engine.plan.plan import Plan
from simulator.scenario.scenario import Scenario


def with_loading(plan: Plan, scenario: Scenario) -> Plan:
    """The plan with the wait for the batches that a node prepares at `cluster.loading`'s rate for its g GPUs.

    wait = b g / rate, or, where batches are prefetched, max(0, b g / rate - the rest of the iteration), with a batch of
    b per GPU. The rest is that of an iteration in which all workers keep to their mean. One GPU by itself has the whole
    rate. Both come on top of the workload's own `input_time`.

    Raises Stalled where an exchange never ends.
    """
    loading = scenario.cluster.loading
    if loading is None:
        return plan
    alone = scenario.workload.batch_size / loading.rate
    shared = alone * scenario.cluster.gpus_per_node
    if loading.prefetched:
        shared = max(0.0, shared - simulate(plan).time)
        alone = max(0.0, alone - plan.single_gpu_time)
    own = plan.work.input_time
    return replace(plan, work=replace(plan.work, input_time=own + shared, input_alone=own + alone))
