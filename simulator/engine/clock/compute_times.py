"""When each worker has computed each part of an iteration, and which workers are ready at the same times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.engine.clock.draws import Draws
from simulator.engine.plan.plan import Plan
from simulator.models.curves import Floats


def is_linear(plan: Plan, draws: Draws) -> bool:
    """Whether all times are linear in a worker's two draws, so that only the foremost can be the slowest."""
    selection, spread = plan.selection, plan.selection_spread
    alike = len(draws.compute) > 2 and len(plan.pace) == 1
    return alike and bool((float(draws.selection.min()) * spread >= -selection / 2).all())


def computed_times(plan: Plan, draws: Draws) -> Floats:
    """When each worker has computed each part: (workers, 2b + 1), forward, then per bucket backward, selection.

    Of several passes all but the last backward pass belong to the first column. Without overlap all of backward
    comes first; the first column is empty where it stands at the iteration's end. Columns are cumulated seconds.
    """
    work, factor = plan.work, draws.compute[:, None] * plan.pace
    backward = work.backward * factor[:, -len(work.backward) :]
    select = selection_times(plan, draws)
    if not plan.overlap:
        backward = np.concatenate([backward.sum(axis=1, keepdims=True), np.zeros_like(backward)[:, 1:]], axis=1)
    parts = np.empty((max(len(backward), len(select)), 1 + 2 * backward.shape[1]))
    parts[:, :1] = 0.0 if plan.scheduler.gated else work.input_time + work.before_last * factor[:, :1]
    parts[:, 1::2] = backward
    parts[:, 2::2] = select
    return np.cumsum(parts, axis=1)


def selection_times(plan: Plan, draws: Draws) -> Floats:
    """Seconds of each worker's selection from each bucket, (w, b)."""
    selection, spread = plan.selection, plan.selection_spread
    # A kernel can be slow without bound but not free: the normal spread is cut at half of its time.
    return np.maximum(selection + draws.selection[:, None] * spread, selection / 2)


def push_ready_times(plan: Plan, computed: Floats) -> Floats:
    """When each worker can push each bucket, (w, b), from `computed_times`: GPUs that sum first wait for their node."""
    ready: Floats = computed[:, 2::2]
    if not plan.network.topology.sums_in_nodes:
        return ready
    layout = plan.wiring.layout
    by_node = ready.reshape(layout.nodes, layout.gpus_per_node, -1).max(axis=1)
    return np.repeat(by_node, layout.gpus_per_node, axis=0)


_MOST_PUSHES = 2**28
"""Workers squared times buckets whose pushes are followed one by one, in half a second an iteration: 1.5 ns each, since
each push shares a server's link with all others."""


def has_too_many_pushes(plan: Plan) -> bool:
    """Whether pushes to servers are too many to be followed one by one where workers differ."""
    return plan.concurrent and plan.wiring.layout.workers**2 * len(plan.order) > _MOST_PUSHES


def goes_at_own_pace(plan: Plan, draws: Sequence[Draws]) -> bool:
    """Whether workers differ in some iteration, and each pushes to servers when it is ready itself.

    Where a scheduler limits what may be under way, where compute is slowed by communication, or where the pushes are
    too many to be followed one by one, all follow the slowest; after local steps they do, too.
    """
    if has_too_many_pushes(plan) or plan.period or not (plan.live and plan.concurrent):
        return False
    if plan.scheduler.queue.credit is not None or (plan.slowdown and plan.overlap):
        return False
    return max(len(plan.pace), len(plan.selection), *(len(each.compute) for each in draws)) > 1


def start_colours(plan: Plan, draws: Sequence[Draws]) -> Floats:
    """Numbers of the places of a network, (P,), equal for workers that can push at the same times in all iterations.

    All places that are no workers of this job have one number. The numbers of equal partitions are equal.
    """
    columns = [push_ready_times(plan, computed_times(plan, each)) for each in draws]
    _, first, same = np.unique(np.concatenate(columns, axis=1), axis=0, return_index=True, return_inverse=True)
    made = np.full(len(plan.wiring.node), -1.0)
    made[: plan.wiring.layout.workers] = first[same.ravel()]
    return made


def stretch_factors(actual: Floats, nominal: Floats) -> Floats:
    """Actual over nominal times; 1 where nothing takes time."""
    return np.divide(actual, nominal, out=np.ones_like(nominal), where=nominal > 0)
