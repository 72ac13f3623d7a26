"""Workers that differ: each pushes when it is ready itself, or somebody interrupts it or slows it down."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from simulator.engine.clock.numbers import Draws, Seconds, number_tasks
from simulator.engine.clock.slowing import end_slowed
from simulator.engine.plan.plan import Plan
from simulator.errors import InputError, Problem
from simulator.models.curves import Floats
from simulator.models.graph import Graph
from simulator.records import Record

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


class Interruption(Record):
    """From `at` (s) on a worker computes nothing for so many seconds; exchanges that are under way go on."""

    at: float
    seconds: float


class Slowed(Record):
    """Between two times (s) compute of a worker takes `factor` times as long."""

    start: float
    until: float
    factor: float


class DisturbedWorkers:
    """What happens to each of so many workers of a job; `followed`: each is followed, since it may be disturbed."""

    def __init__(self, workers: int) -> None:
        self.workers, self.followed = workers, False
        self.pauses: dict[int, list[Interruption]] = {}
        self.slowed: dict[int, list[Slowed]] = {}

    def interrupt(self, worker: int, at: float, seconds: float) -> None:
        """Let a worker do nothing for so many seconds. Raises InputError for seconds below 0, or without end."""
        if not 0 <= seconds < math.inf:
            hint = "an interruption takes time, and it ends"
            raise InputError(Problem(f"worker {worker}: interrupt", "at least 0 s", f"{seconds:g} s", hint))
        self.pauses.setdefault(worker, []).append(Interruption(at, seconds))

    def slow_down(self, worker: int, factor: float, start: float, until: float) -> None:
        """Let compute of a worker take `factor` times as long between two times.

        Raises InputError for a factor below 1, and where it ends before it starts.
        """
        where = f"worker {worker}: slow_down"
        if not 1 <= factor < math.inf:
            hint = "a worker can be slowed down only"
            raise InputError(Problem(where, "a factor of at least 1", f"{factor:g}", hint))
        if not until >= start:
            raise InputError(
                Problem(where, f"an `until` from {start:g} s on", f"{until:g} s", "it ends after it starts")
            )
        self.slowed.setdefault(worker, []).append(Slowed(start, until, factor))

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
            for each in windows:
                low, own = float(begin[0, worker]), float(made[0, worker])
                made[0, worker] = end_slowed(low, own, [(each.start, each.until)], each.factor - 1.0) - low
        for worker, pauses in self.pauses.items():
            for pause in sorted(pauses, key=lambda pause: pause.at):
                low = float(begin[0, worker])
                if low <= pause.at < low + made[0, worker]:
                    made[0, worker] += pause.seconds
                elif pause.at <= low < pause.at + pause.seconds:  # it began while the worker waited
                    made[0, worker] += pause.at + pause.seconds - low
        return made
