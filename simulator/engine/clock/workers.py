"""Workers that differ: each pushes when it is ready itself, or somebody interrupts it or slows it down."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from simulator.engine.clock.numbers import Draws, Seconds, number_tasks
from simulator.engine.clock.slowing import end_slowed
from simulator.engine.plan.plan import Plan
from simulator.models.curves import Floats
from simulator.models.graph import Graph

_MOST_PUSHES = 2**28
"""Workers squared times buckets whose pushes are followed one by one, in half a second an iteration: 1.5 ns each, since
each push shares a server's link with all others."""


def has_too_many_pushes(plan: Plan) -> bool:
    """Whether pushes to servers are too many to be followed one by one where workers differ."""
    return plan.setup.topology.concurrent and plan.wiring.layout.workers**2 * len(plan.work.order) > _MOST_PUSHES


def goes_at_own_pace(plan: Plan, draws: Sequence[Draws]) -> bool:
    """Whether workers differ in some iteration, and each pushes to servers when it is ready itself.

    Where a scheduler limits what may be under way, where compute is slowed by communication, or where the pushes are
    too many to be followed one by one, all follow the slowest; after local steps they do, too.
    """
    if has_too_many_pushes(plan) or plan.period or not (plan.live and plan.setup.topology.concurrent):
        return False
    if plan.setup.scheduler.queue.credit is not None or (plan.slowdown and plan.setup.scheduler.overlap):
        return False
    return max(len(plan.work.pace), len(plan.work.selection), *(len(each.compute) for each in draws)) > 1


def push_ready_times(plan: Plan, ready: Floats) -> Floats:
    """When each worker can push (w, ...) that is `ready` then: GPUs whose gradients are summed wait for their node."""
    if not plan.setup.topology.has("local_aggregation"):
        return ready
    layout = plan.wiring.layout
    by_node = ready.reshape(layout.nodes, layout.gpus_per_node, -1).max(axis=1)
    return np.repeat(by_node, layout.gpus_per_node, axis=0).reshape(ready.shape)


def number_starts(plan: Plan, graph: Graph, draws: Sequence[Draws]) -> Floats:
    """Numbers of the places of a network, (P,), equal for workers that can push at the same times in all iterations.

    All places that are no workers of this job have one number. The numbers of equal partitions are equal.
    """
    columns = [_ready_times(plan, graph, each) for each in draws]
    _, first, same = np.unique(np.concatenate(columns, axis=1), axis=0, return_index=True, return_inverse=True)
    made = np.full(len(plan.wiring.node), -1.0)
    made[: plan.wiring.layout.workers] = first[same.ravel()]
    return made


def _ready_times(plan: Plan, graph: Graph, draws: Draws) -> Floats:
    """What decides when each worker can push: when it has computed what each exchange needs, (w, b), if nothing slows
    it down. Where compute waits in between, also its seconds up to each wait, without those that it waits."""
    numbers = number_tasks(graph, [(plan, draws)])
    now, ends, waits = np.zeros((1, 1)), list[Floats](), list[Floats]()
    for place in graph.compute[: graph.compute.index(max(graph.made_ready_by)) + 1]:
        if graph.tasks[place].meets or graph.tasks[place].after:
            waits.append(now)
        now = now + np.asarray(numbers.of(graph, place))
        if place in graph.made_ready_by:
            ends.append(now)
    count = max(each.shape[1] for each in ends)
    made = np.array([np.broadcast_to(each[0], count) for each in (*ends, *waits)]).T
    return made if waits else push_ready_times(plan, made)


class DisturbedWorkers:
    """What happens to each of so many workers of a job; `followed`: each is followed, since it may be disturbed.

    `pauses`: when a worker stops computing, and for how many seconds, while exchanges under way go on. `slowed`: from
    when to when (s) its compute takes how many times as long.
    """

    def __init__(self, workers: int) -> None:
        self.workers, self.followed = workers, False
        self.pauses = defaultdict[int, list[tuple[float, float]]](list)
        self.slowed = defaultdict[int, list[tuple[float, float, float]]](list)

    def each_of(self, draws: Draws) -> Draws:
        """The draws of every worker by itself, if they are followed."""
        if not self.followed or len(draws.compute) == self.workers:
            return draws
        return Draws(*(np.broadcast_to(each, self.workers) for each in (draws.compute, draws.selection)))

    def delay(self, start: Seconds, seconds: Seconds) -> Floats:
        """Seconds (1, w) of a task that starts at `start` (1, w) on each worker, with what happens to it meanwhile."""
        made = np.array(np.broadcast_to(seconds, (1, self.workers)))
        begin = np.broadcast_to(start, made.shape)
        for worker, windows in self.slowed.items():
            for since, until, factor in windows:
                low, own = float(begin[0, worker]), float(made[0, worker])
                made[0, worker] = end_slowed(low, own, [(since, until)], factor - 1.0) - low
        for worker, pauses in self.pauses.items():
            low = float(begin[0, worker])
            for at, pause in sorted(pauses, key=lambda each: each[0]):
                if low <= at < low + made[0, worker]:
                    made[0, worker] += pause
                elif at <= low < at + pause:  # it began while the worker waited
                    made[0, worker] += at + pause - low
        return made
