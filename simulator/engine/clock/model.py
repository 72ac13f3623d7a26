"""The clock: jobs whose workers run the tasks of their graph on streams, in a SimPy environment that anybody may join.

A worker's compute is a process that does one task after the other; each exchange that it makes ready joins a queue, and
is a process of its own while it is under way. An exchange takes the seconds of its price, or sends its rounds of
messages over the network. Workers that meet at every exchange are columns of one process, which follows the latest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np
import simpy

from simulator.engine.clock.intervals import Busy, Intervals, State
from simulator.engine.clock.numbers import Draws, Seconds, first_of, front_of, later_of, latest, number_tasks
from simulator.engine.clock.slowing import Credit, Host, SlowedCompute
from simulator.engine.clock.workers import DisturbedWorkers, push_ready_times
from simulator.engine.plan.plan import Plan
from simulator.engine.rounds.fold import fold
from simulator.engine.rounds.network import call_from, wait_until
from simulator.models.curves import Floats
from simulator.models.graph import COMPUTE, Graph, Task
from simulator.schedulers.step import TASKS_OF_STEPS

if TYPE_CHECKING:
    from simulator.engine.rounds.network import Network

Process = Generator[simpy.Event, Any, Any]
Listener = Callable[[str, Task, float], None]
"""What is called with `start` or `end`, a task and the time."""


class Job:
    """One job on the clock: what its iterations have in common, and what one leaves to the next.

    `links` (1, L): when each link is free, as earlier exchanges left it, where exchanges are folded. `streams`: of each
    queue, those of exchanges that may still be under way. `busy`: the parts of exchanges that have ended. `listener` is
    called with the start and the end of every task, at these times.
    """

    def __init__(self, env: simpy.Environment, plan: Plan, graph: Graph) -> None:
        self.env, self.plan, self.graph = env, plan, graph
        self.network: Network | None = None
        self.links = np.zeros((1, len(plan.wiring.capacity)))
        capacity = len(plan.work.order) if plan.setup.topology.concurrent else 1
        self.streams = [[simpy.Resource(env, capacity) for _ in range(queue.streams)] for queue in graph.queues]
        self.workers = DisturbedWorkers(plan.wiring.layout.workers)
        self.busy = list[Busy]()
        self.last: Iterating | None = None
        self.listener: Listener | None = None

    def iterate(self, draws: Draws) -> Process:
        """Run the next iteration, or the next period of local steps; the process's value is its Intervals."""
        self.last = Iterating(self, draws, self.last if self.graph.periodic else None)
        return (yield from self.last.run())

    def tell(self, event: str, task: Task, time: float) -> None:
        """Tell the listener of the start or the end of a task once the clock shows that time."""
        if (listener := self.listener) is not None:
            call_from(self.env, time, lambda: listener(event, task, time))


class Iterating:
    """One iteration under way.

    `start`, `end`: of every task so far, on the clock; `ended`: the events of exchanges and hooks. `waiting`: exchanges
    of each queue that are ready, and `since` when. `own`: when each worker is ready for an exchange (w,), where each
    goes at its own pace.
    """

    def __init__(self, job: Job, draws: Draws, before: Iterating | None) -> None:
        self.job, self.env, self.plan, self.graph, self.before = job, job.env, job.plan, job.graph, before
        self.numbers = number_tasks(self.graph, [(self.plan, job.workers.each_of(draws))])
        if self.plan.live and self.graph.periodic:
            self.numbers.slowdown = 0.0
        now = float(self.env.now)
        self.compute = SlowedCompute(self.graph, self.numbers, base=now)
        self.host = Host(self.numbers)
        self.now: Seconds = now if self.numbers.is_scalar else np.full((1, 1), now)
        self.free: list[Seconds] = [self.now] * len(job.graph.queues)
        if before is not None:
            before.before = None
            self.now, self.free, self.compute.collectives = before.now, before.free, before.compute.collectives
            self.compute.collectives[:] = self.compute.collectives_after(latest(self.now))
        self.began, tasks, queues = self.now, self.graph.tasks, self.graph.queues
        self.start, self.end = [self.began] * len(tasks), [self.began] * len(tasks)
        self.ended = {place: self.env.event() for place, task in enumerate(tasks) if task.stream != COMPUTE}
        self.changed, self.under_way = self.env.event(), 0
        self.waiting: list[list[tuple[int, int, int]]] = [[] for _ in queues]
        self.credit, self.turn = [Credit(each) for each in queues], [0] * len(queues)
        self.handing = [False] * len(queues)
        # Where nothing can slow compute down, its tasks need not be followed one by one.
        self.ahead = self.plan.own_pace or not (self.compute.slowdown or job.workers.followed)
        self.since: dict[int, float] = {}
        self.own: dict[int, Floats] = {}

    def run(self) -> Process:
        """The compute stream, from the first task to the last."""
        for process in (self._call_hooks(), *map(self._follow_on, self.graph.follow_ons)):
            self.env.process(process)
        for place in self.graph.compute:
            yield from self._compute(place, self.graph.tasks[place])
            for exchange in self.graph.made_ready_by.get(place, ()):
                self._make_ready(exchange, place)
        yield from wait_until(self.env, latest(self.now))
        yield self.env.timeout(0.0)  # what the last task has made ready is handed over in the same instant
        busy, self.job.busy = self.job.busy if self.plan.live else None, []
        before = self.before.start if self.before else ()
        ran = Intervals(
            self.graph, self.numbers, self.start, self.end, self.began, busy, before, alone=self.compute.alone
        )
        if self.graph.periodic:
            ran.state = State(self.now, self.free[0], self.start, self.end)
        return ran

    def _compute(self, place: int, task: Task) -> Process:
        """One task of the compute stream: wait for what it needs, then for its seconds."""
        before = self.before
        if task.earlier and before is None:
            self.start[place] = self.end[place] = self.now
            return
        start = self.now
        for other in task.after:
            yield self.ended[other]
            start = later_of(start, self.end[other])
        if before is not None:
            for other in task.earlier:
                yield before.ended[other]
                start = later_of(start, before.end[other])
        start = front_of(start) if task.meets else start
        self.job.tell("start", task, latest(start))
        if task.slowed == "steps" and self.compute.slowdown:
            yield from self._wait_for_steps(place, start)
        while True:  # what ends beside it, or happens to its worker, changes when it ends
            seconds = self.numbers.of(self.graph, place)
            if self.job.workers.followed:
                seconds = self.job.workers.delay(start, seconds)
            end = self.compute.end(place, start, seconds)
            last = latest(end)
            if self.ahead or self.env.now >= last:
                break
            yield self.env.timeout(last - self.env.now) | self.changed
        self.compute.keep(place, end, seconds)
        self.start[place], self.end[place], self.now = start, end, end
        self.job.tell("end", task, last)

    def _wait_for_steps(self, place: int, start: Seconds) -> Process:
        """Wait for the end of local steps, which are slowed down as a whole."""
        while True:
            end = start
            for each in range(place, place + len(TASKS_OF_STEPS)):
                end = self.compute.end(each, end, self.numbers.of(self.graph, each))
            if self.env.now >= latest(end):
                return
            yield self.env.timeout(latest(end) - self.env.now) | self.changed

    def _make_ready(self, place: int, computed: int) -> None:
        """An exchange is ready: once all workers are, or for each by itself."""
        ready, task = self.end[computed], self.graph.tasks[place]
        if self.plan.own_pace:
            self.own[place] = push_ready_times(self.plan, np.ravel(ready))
            call_from(self.env, float(self.own[place].min()), partial(self._admit, place))
        elif task.meets or self.plan.live:
            call_from(self.env, latest(ready), partial(self._admit, place))
        else:
            start = later_of(self.free[task.queue], self.host.start_of(ready) if task.sends else ready)
            self.start[place] = start
            self.free[task.queue] = self.end[place] = start + self.numbers.costs[place]
            self.compute.keep_exchange(place, first_of(start))
            self.job.tell("start", task, latest(start))
            self.job.tell("end", task, latest(self.end[place]))
            self.ended[place].succeed()

    def _follow_on(self, place: int) -> Process:
        """An exchange that follows once others have ended."""
        after = self.graph.tasks[place].after
        yield self.env.all_of([self.ended[other] for other in after])
        self._admit(place)

    def _call_hooks(self) -> Process:
        """The host calls one hook after the other, each once the parameters of its module are there."""
        free = self.began
        for place in self.graph.hooks:
            for other in self.graph.tasks[place].after:
                yield self.ended[other]
                free = later_of(free, self.end[other])
            self.start[place] = free
            self.job.tell("start", self.graph.tasks[place], latest(free))
            free = self.end[place] = free + self.numbers.costs[place]
            yield from wait_until(self.env, latest(free))
            self.job.tell("end", self.graph.tasks[place], latest(free))
            self.ended[place].succeed()

    def _admit(self, place: int) -> None:
        """An exchange joins its queue now. What becomes ready at the same instant is handed over together."""
        task, queue = self.graph.tasks[place], self.graph.tasks[place].queue
        first = task.priority if self.graph.queues[queue].by_priority else task.turn
        heappush(self.waiting[queue], (first, task.bucket, place))
        self.since[place] = float(self.env.now)
        self._hand_over_soon(queue)

    def _hand_over_soon(self, queue: int) -> None:
        if not self.handing[queue]:
            self.handing[queue] = True
            self.env.timeout(0.0).callbacks.append(lambda _: self._hand_over(queue))

    def _hand_over(self, queue: int) -> None:
        """Start the exchanges whose turn it is, as far as the credit allows."""
        self.handing[queue], rule, waiting = False, self.graph.queues[queue], self.waiting[queue]
        while waiting and self.credit[queue].allows(self.plan.work.nbytes[waiting[0][1]]):
            if not (self.plan.setup.topology.concurrent or rule.by_priority) and waiting[0][0] != self.turn[queue]:
                return
            number, place = self.turn[queue] % rule.streams, heappop(waiting)[2]
            self.turn[queue] += 1
            self.credit[queue].take(self.plan.work.nbytes[self.graph.tasks[place].bucket])
            turn = float(self.turn[queue]) if self.plan.setup.topology.has("in_order") else 0.0
            since = self.env.now if rule.by_priority else self.since[place]
            self.env.process(self._exchange(place, self.graph.tasks[place], number, since, turn))

    def _exchange(self, place: int, task: Task, number: int, since: float, turn: float) -> Process:
        """One exchange: the host starts it, then it waits for its stream, and is under way."""
        own = self.own.get(place)
        if own is not None and task.sends:
            own = np.asarray(self.host.start_of(own))
        start = float(own.min()) if own is not None else self.host.start_of(since) if task.sends else since
        seconds = latest(self.numbers.costs[place])
        if not self.plan.live:
            self.start[place] = later_of(self.free[task.queue], start)
            self.free[task.queue] = self.end[place] = self.start[place] + seconds
        with self.job.streams[task.queue][number].request() as granted:
            yield granted
            yield from wait_until(self.env, float(start))
            self.start[place] = start = self.env.now
            self.job.tell("start", task, start)
            self._toggle(start, 1 if task.sends else 0)
            if self.plan.live:
                yield from self._run_stages(task, number=number, own=own, turn=turn)
            else:
                self.compute.keep_exchange(place, start)
                yield from wait_until(self.env, start + seconds)
            self.end[place] = self.env.now
            self._toggle(self.env.now, -1 if task.sends else 0)
        self.credit[task.queue].give_back(self.plan.work.nbytes[task.bucket])
        self._hand_over_soon(task.queue)
        self.ended[place].succeed()
        self.job.tell("end", task, self.env.now)

    def _toggle(self, time: float, by: int) -> None:
        """An exchange begins or ends, and compute beside it is slower from then on, or faster."""
        spans, self.under_way = self.compute.under_way, self.under_way + by
        if by > 0 and self.under_way == 1:
            spans.append((time, math.inf))
        elif by < 0 and not self.under_way:
            spans[-1] = (spans[-1][0], time)
        if by < 0:
            self.changed.succeed()
            self.changed = self.env.event()

    def _run_stages(self, task: Task, *, number: int, own: Floats | None, turn: float) -> Process:
        """The stages of an exchange that shares links; `own` (w,): when each worker starts with the first of them."""
        for stage in self.plan.stages_of(task):
            began, place, sending = self.env.now, len(self.compute.collectives), -math.inf
            slows = stage.collective and not stage.by_hosts and self.compute.slowdown > 0
            beside = task.sends and stage.by_hosts  # compute is as fast as it is until the hosts are done
            self._toggle(began, -beside)
            if slows:
                self.compute.collectives.append((began, math.inf))
            if stage.seconds:
                yield self.env.timeout(stage.seconds)
                own = None if own is None else own + stage.seconds
            ready = np.full(len(self.plan.wiring.node), self.env.now)  # places that are no workers start now
            if own is not None:
                ready[: len(own)] = np.maximum(own, self.env.now)
            if stage.shape and self.job.network is not None:
                begin, label = None if own is None else ready, f"{stage.label}, bucket {task.bucket}"
                transfer = self.job.network.start(stage.shape, begin, turn=turn, stream=number, label=label)
                yield transfer.done
                sending = transfer.first_began
            elif stage.rounds:
                wiring, overhead = self.plan.wiring, self.plan.setup.runtime.message_overhead
                begin = ready[: wiring.layout.places]
                ends = fold(stage.rounds, wiring, begin, links=self.job.links, overhead=overhead)
                yield self.env.timeout(float(ends.max()) - self.env.now)
            own = None if stage.rounds else own
            if slows:
                self.compute.collectives[place] = (began, self.env.now)
            self._toggle(self.env.now, beside)
            self.job.busy.append(Busy(began, self.env.now, stage.label, task.bucket, stage.collective, sending))
        if own is not None:
            yield self.env.timeout(max(0.0, float(own.max()) - self.env.now))
