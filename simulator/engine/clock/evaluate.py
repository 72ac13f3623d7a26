"""The fast evaluator: where every exchange has a price, a graph is a recurrence over its tasks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

import numpy as np

from simulator.engine.clock.intervals import Intervals, State
from simulator.engine.clock.numbers import Draws, Numbers, Seconds, first_of, front_of, latest, number_tasks
from simulator.engine.clock.slowing import Credit, Host, SlowedCompute
from simulator.engine.clock.terms import account, let_tell
from simulator.engine.plan.plan import Plan
from simulator.models.graph import COMMUNICATION, COMPUTE, Graph
from simulator.models.timeline import Iteration


def evaluate(graph: Graph, numbers: Numbers, before: State | None = None) -> Intervals:
    """Run iterations of a graph whose exchanges all have a price; `before`: what the period before has left."""
    return _Evaluation(graph, numbers, before).run()


class _Evaluation:
    """The times of all tasks so far. `now`: when each worker has done its compute so far; `free`: when each
    communication stream is."""

    def __init__(self, graph: Graph, numbers: Numbers, before: State | None) -> None:
        self.graph, self.numbers, self.before = graph, numbers, before
        self.later = numbers.later
        nothing: Seconds = 0.0 if numbers.is_scalar else np.zeros((len(numbers.points), 1))
        self.now: Seconds = before.now if before else nothing
        self.began = self.now
        self.start: list[Seconds] = [0.0] * len(graph.tasks)
        self.end: list[Seconds] = [0.0] * len(graph.tasks)
        self.host = Host(numbers)
        self.hooks: Seconds = 0.0
        self.free: list[Seconds] = [before.free if before else 0.0 for _ in graph.queues]
        self.waiting: dict[int, float] = {}
        self.compute = SlowedCompute(graph, numbers, before.under_way if before else ())

    def run(self) -> Intervals:
        scalar = self.numbers.is_scalar
        tasks, end, costs, compute, later = self.graph.tasks, self.end, self.numbers.costs, self.compute, self.later
        slowed, start_of = bool(compute.slowdown), self.start
        for place, task in enumerate(tasks):
            if task.stream == COMMUNICATION:
                self._exchange(place)
                continue
            if task.stream != COMPUTE:
                self._call_hook(place)
                continue
            if task.earlier and not self.before:
                self.start[place] = end[place] = self.now
                continue
            start = self._after(task.after, self.now) if task.after else self.now
            if self.before:
                for other in task.earlier:
                    start = later(start, self.before.ends[other])
            if task.meets:
                start = front_of(start)
            seconds = costs[place] if scalar else self.numbers.of(self.graph, place)
            start_of[place] = start
            self.now = end[place] = compute.end(place, start, seconds) if slowed else start + seconds
            if slowed:
                compute.keep(place, self.now, seconds)
        while self.waiting:
            self._run_queue(tasks[next(iter(self.waiting))].queue)
        before = self.before.starts if self.before else ()
        ran = Intervals(self.graph, self.numbers, self.start, end, self.began, before=before, alone=compute.alone)
        if self.graph.periodic:
            slowing = self.compute.collectives_after(latest(self.now))
            ran.state = State(self.now, self.free[0], self.start, self.end, slowing)
        return ran

    def _call_hook(self, place: int) -> None:
        """The host calls one hook after the other, each once the parameters of its module are there."""
        self.start[place] = ready = self._after(self.graph.tasks[place].after, self.hooks)
        self.hooks = self.end[place] = ready + self.numbers.costs[place]

    def _after(self, places: tuple[int, ...], since: Seconds) -> Seconds:
        """When these tasks have ended, from `since` on; those that wait in a queue are run before."""
        for place in places:
            if place in self.waiting:
                self._run_queue(self.graph.tasks[place].queue)
            since = self.later(since, self.end[place])
        return since

    def _exchange(self, place: int) -> None:
        """An exchange of a queue that goes in turn; of another queue it waits until all are known."""
        task = self.graph.tasks[place]
        ready = self._after(task.after[1:], self.end[task.after[0]])
        ready = front_of(ready) if task.meets else ready
        if not self.graph.in_turn:
            self.waiting[place] = first_of(ready)
            return
        free = self.free[task.queue]
        if not task.sends:
            self.start[place] = self.end[place] = self.later(free, ready)
            return
        start = self.later(free, self.host.start_of(ready))
        self._book(place, start, start + self.numbers.costs[place])

    def _book(self, place: int, start: Seconds, end: Seconds) -> None:
        """Note an exchange, and that it is under way."""
        task = self.graph.tasks[place]
        self.start[place], self.end[place], self.free[task.queue] = start, end, end
        if not self.compute.slowdown:
            return
        if self.compute.columns is not None:
            self.compute.columns.add(np.ravel(start), np.ravel(end))
            return
        low, high = first_of(start), first_of(end)
        self.compute.add_exchange(low, high)
        self.compute.keep_exchange(place, low)

    def _run_queue(self, queue: int) -> None:
        """Run all exchanges of a queue that does not go in the order of the graph, each ready at a known time.

        Of those that are ready, the first by priority are handed over up to the credit, and then run in order; without
        priorities they run by their turns.
        """
        tasks, places = self.graph.tasks, [place for place in self.waiting if self.graph.tasks[place].queue == queue]
        ready = {place: self.waiting.pop(place) for place in places}
        if not self.graph.queues[queue].by_priority:
            for place in sorted(places, key=lambda place: tasks[place].turn):
                self._run_next(queue, place, ready[place], ready[place])
            return
        now, credit, nbytes = 0.0, Credit(self.graph.queues[queue]), self.numbers.plan.work.nbytes
        arriving = deque(sorted(places, key=lambda place: (ready[place], tasks[place].bucket)))
        open_ones = list[tuple[int, int, int]]()
        handed, under_way = deque[tuple[int, float]](), deque[tuple[float, float]]()
        while arriving or open_ones or handed:
            while arriving and ready[arriving[0]] <= now:
                task = tasks[arriving[0]]
                heappush(open_ones, (task.priority, task.bucket, arriving.popleft()))
            while under_way and under_way[0][0] <= now:
                credit.give_back(under_way.popleft()[1])
            while open_ones and credit.allows(nbytes[open_ones[0][1]]):
                _, bucket, place = heappop(open_ones)
                credit.take(nbytes[bucket])
                handed.append((place, now))
            if handed and latest(self.free[queue]) <= now:
                place, since = handed.popleft()
                self._run_next(queue, place, since, now)
                under_way.append((latest(self.end[place]), nbytes[tasks[place].bucket]))
                continue
            upcoming = [ready[arriving[0]]] if arriving else []
            if under_way:
                upcoming.append(under_way[0][0])
            now = max(now, min(upcoming))  # a bucket that waits for credit waits for one that is under way

    def _run_next(self, queue: int, place: int, since: float, now: float) -> None:
        """Run an exchange that was handed over at `since`, from `now` on, once its stream is free."""
        task, free = self.graph.tasks[place], self.free[queue]
        if not task.sends:
            self.start[place] = self.end[place] = self.later(free, now)
            return
        start = self.later(self.later(free, now), self.host.start_of(since))
        self._book(place, start, start + self.numbers.costs[place])


MOST_PERIODS = 1000
"""Periods after which one is taken as it is; a queue of exchanges can grow slowly before compute waits for it."""
_SAME = 1e-12


def run_periods(graph: Graph, plan: Plan, draws: Iterable[Draws]) -> Iterator[Iteration]:
    """Periods, one for each of `draws`; the first is repeated until it repeats itself."""
    state: State | None = None
    settled = not graph.crosses
    for each in draws:
        numbers, before = number_tasks(graph, [(plan, each)]), (-1.0, 0.0)
        for _ in range(1 if settled else MOST_PERIODS):
            ran = evaluate(graph, numbers, state)
            state, made = ran.state, finished(ran)
            if same_period(before, (made.time, left_over(ran))):
                break
            before = made.time, left_over(ran)
        settled = True
        yield made


def finished(ran: Intervals) -> Iteration:
    """What has run, as an iteration."""
    (made,) = account(ran)
    made.start = latest(ran.began)
    let_tell(made, lambda: ran)
    return made


def left_over(ran: Intervals) -> float:
    """Seconds for which exchanges go on after a period; a queue that grows shows in its length only later."""
    return 0.0 if ran.state is None else latest(np.maximum(ran.state.free, ran.state.now) - ran.state.now)


def same_period(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether two periods take as long, and leave as much over."""
    return np.allclose(one, other, _SAME, _SAME * other[0])
