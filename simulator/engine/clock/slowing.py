"""What delays tasks: kernels beside communication take longer, and the host starts exchanges one by one."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from simulator.engine.clock.numbers import Numbers, Seconds, front_of, later_of, latest
from simulator.models.curves import Floats
from simulator.models.graph import Graph, Queue
from simulator.models.timeline import merge_intervals
from simulator.schedulers.step import TASKS_OF_STEPS


class Host:
    """The host's thread that starts exchanges: it looks for them in cycles, and launches one call after the other.

    Both go on while earlier exchanges are under way. Cycles do not begin with iterations, so that an exchange is ready
    at any moment of one: it waits for half a cycle in the mean.
    """

    def __init__(self, numbers: Numbers) -> None:
        self.wait, self.launch = numbers.cycle / 2, numbers.launch
        if len(numbers.points) == 1:
            self.wait, self.launch = latest(self.wait), latest(self.launch)
        self.launches = bool(np.any(self.launch))
        self.free: Seconds = 0.0

    def start_of(self, ready: Seconds) -> Seconds:
        """When an exchange that is ready can start: at the end of a cycle, and once its call is launched."""
        start = ready + self.wait
        if self.launches:
            start = self.free = later_of(self.free, start) + self.launch
        return start


class Credit:
    """How many bytes may be under way at once; one exchange always may, whatever its size."""

    def __init__(self, queue: Queue) -> None:
        self.limit = math.inf if queue.credit is None else queue.credit
        self.out, self.count = 0.0, 0

    def allows(self, nbytes: float) -> bool:
        """Whether this many more bytes may be handed over."""
        return not self.count or self.out + nbytes <= self.limit

    def take(self, nbytes: float) -> None:
        """An exchange of so many bytes is handed over."""
        self.out, self.count = self.out + nbytes, self.count + 1

    def give_back(self, nbytes: float) -> None:
        """An exchange has ended."""
        self.count -= 1
        self.out = self.out - nbytes if self.count else 0.0


Interval = tuple[float, float]


def end_slowed(start: float, seconds: float, under_way: Sequence[Interval], slowdown: float) -> float:
    """When compute of `seconds` ends that starts at `start`, and takes 1 + `slowdown` times as long while an exchange
    is under way. `under_way` are those intervals, in order and without overlaps.

    >>> end_slowed(0.0, 3.0, [(1.0, 3.0)], 1.0)  # 1 s free, 2 s for 1 s of compute, 1 s free
    4.0
    """
    now, left = start, seconds
    for low, high in under_way[_first_after(under_way, start) :]:
        if now < low:
            step = min(left, low - now)
            now, left = now + step, left - step
        if not left:
            break
        step = min(left, (high - now) / (1.0 + slowdown))
        now = high if step < left else now + step * (1.0 + slowdown)
        left -= step
    return now + left


def _first_after(under_way: Sequence[Interval], time: float) -> int:
    """The number of the first interval that ends after a time."""
    place = bisect_right(under_way, (time, math.inf))
    return place - 1 if place and under_way[place - 1][1] > time else place


class SlowedCompute:
    """When the compute tasks of one graph end, of which exchanges under way slow some down.

    `under_way`: the exchanges so far, from start to end; `collectives`: when collectives ran. Of what is still under
    way the end is infinite. `base`: when the iteration began. `alone`: of each task that exchanges may slow down the
    seconds that it takes by itself.
    """

    def __init__(self, graph: Graph, numbers: Numbers, collectives: Sequence[Interval] = (), base: float = 0.0) -> None:
        self.graph, self.numbers, self.base = graph, numbers, base
        self.slowdown = latest(numbers.slowdown)
        self.under_way, self.collectives, self.past = list[Interval](), list(collectives), 0
        self.alone = dict[int, Seconds]()
        self.columns: SlowedColumns | None = None
        if self.slowdown and len(numbers.points) > 1:
            self.columns = SlowedColumns(np.ravel(numbers.slowdown), len(graph.exchanges))
        self.nominal: Seconds = 0.0
        self.stretch = 1.0

    def end(self, place: int, start: Seconds, seconds: Seconds) -> Seconds:
        """When a task ends that starts at `start` and takes `seconds` by itself."""
        slowed = self.graph.tasks[place].slowed
        if not self.slowdown or not slowed:
            return start + seconds
        if slowed == "front":
            if self.graph.tasks[place].after:  # proportions to the slowest worker begin anew after a wait
                self.nominal = start - self.base
            slow = self._front_slowed if self.numbers.workers is None else self._proportional
            return slow(start, seconds)
        if slowed == "own":
            return self._each_slowed(start, seconds)
        if slowed == "steps":
            self.stretch = self._stretch_of_steps(place, latest(start))
            return start + seconds
        return start + seconds * self.stretch

    def keep(self, place: int, end: Seconds, seconds: Seconds) -> None:
        """Note that a task has ended, before the end of the next one is asked for."""
        if self.slowdown and self.graph.tasks[place].slowed:
            self.alone[place] = seconds
        in_proportion = self.slowdown and self.graph.tasks[place].slowed == "front"
        self.nominal = self.nominal + seconds if in_proportion else end - self.base

    def add_exchange(self, low: float, high: float) -> None:
        """Note an exchange from `low` to `high`; those of several communicators that overlap are one."""
        first = last = _first_after(self.under_way, low)
        while last < len(self.under_way) and self.under_way[last][0] < high:
            low, high = min(low, self.under_way[last][0]), max(high, self.under_way[last][1])
            last += 1
        self.under_way[first:last] = [(low, high)]

    def keep_exchange(self, place: int, start: float) -> None:
        """Note when the collectives of an exchange with a price run, which starts at `start`, where it is asked for."""
        asked = self.slowdown and (self.graph.periodic or self.graph.slows_each)
        for stage in self.numbers.plan.stages_of(self.graph.tasks[place]) if asked else ():
            if stage.collective:
                self.collectives.append((start, start + stage.seconds))
            start += stage.seconds

    def collectives_after(self, time: float) -> tuple[Interval, ...]:
        """The collectives that end after `time`: no others slow down what begins then."""
        return tuple(each for each in self.collectives if each[1] > time)

    def _proportional(self, start: Seconds, seconds: Seconds) -> Seconds:
        """Compute as slowed down as that of the slowest worker; the others keep their proportions to it."""
        before, own = front_of(self.nominal), self.nominal + seconds
        front = front_of(own)
        slowed = self._front_slowed(front_of(start), front - before) - self.base
        return np.asarray(own * np.divide(slowed, front, out=np.ones_like(front), where=front > 0) + self.base)

    def _front_slowed(self, start: Seconds, seconds: Seconds) -> Seconds:
        if self.columns is not None:
            return self.columns.end(np.ravel(start), np.ravel(seconds))[:, None]
        end = end_slowed(latest(start), latest(seconds), self.under_way, self.slowdown)
        return end if isinstance(start, float) else np.array([[end]])

    def _each_slowed(self, start: Seconds, seconds: Seconds) -> Seconds:
        """Compute of each worker, slowed down while it runs beside a collective.

        Starts only grow, so that what has ended before one counts for none after it.
        """
        first = start if isinstance(start, float) else float(start.min())
        while self.past < len(self.collectives) and self.collectives[self.past][1] <= first:
            self.past += 1
        busy = merge_intervals(self.collectives[self.past :])
        if isinstance(start, float):
            return end_slowed(start, latest(seconds), busy, self.slowdown)
        pairs = zip(start[0].tolist(), np.broadcast_to(seconds, start.shape)[0].tolist(), strict=True)
        return np.array([[end_slowed(*pair, busy, self.slowdown) for pair in pairs]])

    def _stretch_of_steps(self, place: int, begin: float) -> float:
        """How many times longer the passes of local steps take, as those of the slowest worker from their start on."""
        first = TASKS_OF_STEPS.index("forward")
        forward, backward = (self.numbers.of(self.graph, place + number) for number in (first, first + 1))
        seconds = latest(forward + backward)
        if not seconds:
            return 1.0
        return (end_slowed(begin, seconds, merge_intervals(self.collectives), self.slowdown) - begin) / seconds


class SlowedColumns:
    """When compute of n iterations side by side ends beside exchanges, which are added one by one; times only grow."""

    def __init__(self, slowdown: Floats, exchanges: int) -> None:
        n = len(slowdown)
        self.slower, self.lane = 1.0 + slowdown, np.arange(n)
        self.low, self.high = np.full((n, exchanges + 1), np.inf), np.full((n, exchanges + 1), np.inf)
        self.head, self.count = np.zeros(n, dtype=np.int64), 0

    def add(self, low: Floats, high: Floats) -> None:
        """One more exchange, from `low` to `high` (n,)."""
        self.low[:, self.count], self.high[:, self.count] = low, high
        self.count += 1

    def end(self, start: Floats, seconds: Floats) -> Floats:
        """When compute of `seconds` (n,) ends that starts at `start` (n,)."""
        now, left = start, seconds.copy()
        while (active := (self.head < self.count) & (left != 0)).any():
            low, high = self.low[self.lane, self.head], self.high[self.lane, self.head]
            free = active & (now < low)
            step = np.where(free, np.minimum(left, low - now), 0.0)
            now, left = now + step, left - step
            busy = active & ~free
            step = np.where(busy, np.minimum(left, (high - now) / self.slower), 0.0)
            through = busy & (step < left)
            now, left = np.where(through, high, now + step * self.slower), left - step
            self.head = self.head + (active & (now >= high))
        return now + left
