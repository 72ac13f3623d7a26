"""Iterations of many plans at once, as recurrences over arrays: where exchanges go in turn.

Nothing then depends on what happens meanwhile, and an iteration is a chain of sums and maxima. Every number is computed
in the same order as on the clock, so that it is the same to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from simulator.engine.clock.compute_times import is_linear, stretch_factors
from simulator.engine.clock.draws import ALIKE, Draws, foremost_workers
from simulator.engine.clock.serial_stream import goes_in_turn
from simulator.engine.plan.plan import Plan
from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.models.timeline import Iteration, Span, covered_times

Mask = npt.NDArray[np.bool_]
_DRAWN, _SELECTION = ("compute", "selection"), ("selection", "selection_spread")
Lane = tuple[Plan, Draws]
"""One iteration of a plan, and how its workers differ in it."""
_PARTS_A_LANE = 16
"""Parts of compute that are slowed down, for which one lane more has to be there so that lanes are faster."""
_MOST_NUMBERS = 2**20
"""Workers times buckets of lanes that run together; a lane with more is left to the clock."""


def simulate_lanes(plans: Sequence[Plan]) -> list[Iteration]:
    """One iteration of each plan, all workers being alike; the same as `simulate` of each. Raises as `run_lanes`."""
    return run_lanes([(plan, ALIKE) for plan in plans])


def run_lanes(lanes: Sequence[Lane]) -> list[Iteration]:
    """Iterations, each by itself; the same as `simulate` of each. Raises Stalled where an exchange never ends."""
    made: dict[int, Iteration] = {}
    groups: dict[Hashable, list[int]] = {}
    for number, (plan, draws) in enumerate(lanes):
        groups.setdefault(_kind(plan, draws), []).append(number)
    for kind, numbers in groups.items():
        least = len(lanes) + 1 if kind is None else _least_lanes(lanes[numbers[0]][0])
        for some in _in_parts(numbers, lanes):
            if len(some) < least:
                made |= {number: _on_clock(lanes[number]) for number in some}
            else:
                made |= zip(some, _Lanes([lanes[number] for number in some]).iterations(), strict=True)
    return [made[number] for number in range(len(lanes))]


def _in_parts(numbers: Sequence[int], lanes: Sequence[Lane]) -> Iterator[list[int]]:
    """The numbers of lanes in parts whose times fit into memory."""
    part, held = list[int](), 0
    for number in numbers:
        plan, draws = lanes[number]
        size = len(draws.compute) * (1 + len(plan.order))
        if part and held + size > _MOST_NUMBERS:
            yield part
            part, held = [], 0
        part.append(number)
        held += size
    yield part


def _kind(plan: Plan, draws: Draws) -> Hashable:
    """Equal for iterations that are simulated together; None where one needs the clock."""
    scheduler, runtime, buckets = plan.scheduler, plan.runtime, len(plan.order)
    if plan.period or scheduler.gated or scheduler.decoupled or plan.pace.size > 1 or len(plan.selection) > 1:
        return None
    if not goes_in_turn(plan) or len(draws.compute) * buckets > _MOST_NUMBERS:
        return None
    costs = _slowdown(plan) > 0, runtime.cycle_time > 0, runtime.collective_launch > 0
    return buckets, plan.overlap, costs, _is_linear(plan, draws)


def _is_linear(plan: Plan, draws: Draws) -> bool:
    """Whether only the foremost workers are followed, as the clock does."""
    return not plan.slowdown and is_linear(plan, draws)


def _least_lanes(plan: Plan) -> int:
    """From how many lanes on arrays are faster than the clock."""
    return 2 + (2 * len(plan.order) // _PARTS_A_LANE if _slowdown(plan) else 0)


def _slowdown(plan: Plan) -> float:
    return plan.slowdown if plan.overlap else 0.0


class _Lanes:
    """Iterations of one kind, lane by lane: arrays (n, b) of n lanes with b buckets, (n, b, s) of s stages each."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.lanes, self.plans = lanes, [plan for plan, _ in lanes]
        plans = self.plans
        self.count, self.buckets = len(plans), len(plans[0].order)
        self.combine = np.array([plan.work.combine for plan in plans])
        self.input_time = np.array([plan.work.input_time for plan in plans])
        self.update = np.array([plan.work.update for plan in plans])
        self._lay_out_stages()
        self.cycle, self.launch = (
            np.array(list(map(attrgetter(f"runtime.{name}"), plans))) for name in ("cycle_time", "collective_launch")
        )

    def iterations(self) -> list[Iteration]:
        """The iteration of each lane."""
        slowdown = np.array([_slowdown(plan) for plan in self.plans])
        rows, lane_of, begins, means = self._rows()
        at = rows if len(rows) == self.count else np.maximum.reduceat(rows, begins)
        ready = at[:, 2::2]
        if slowdown[0]:
            slowed = self._slow_down_compute(at, slowdown)
            stretch = stretch_factors(slowed, at)
            ready, at, rows = slowed[:, 2::2], at * stretch, rows * stretch[lane_of]
        if means is None:
            ends = [*begins[1:].tolist(), len(rows)]
            means = np.array([rows[low:high].mean(axis=0) for low, high in zip(begins.tolist(), ends, strict=True)])
        return self._end_together(at, means, *self._run_serial(ready))

    def _rows(self) -> tuple[Floats, Ints, Ints, Floats | None]:
        """When each part of compute has ended, (r, 2b + 1), of workers: all, or those that can be the slowest.

        And the lane of each row, the first row of each lane, and the means over workers, where they are known already.
        """
        every, means = [draws for _, draws in self.lanes], None
        if _is_linear(*self.lanes[0]):
            middle = (np.array([float(getattr(draws, name).mean()) for draws in every]) for name in _DRAWN)
            means = self._computed_times(np.arange(self.count), *middle)
            few = [foremost_workers(draws.compute, draws.selection) for draws in every]
            every = [Draws(draws.compute[i], draws.selection[i]) for draws, i in zip(every, few, strict=True)]
        sizes = [len(draws.compute) for draws in every]
        lane = np.repeat(np.arange(self.count), sizes)
        drawn = (np.concatenate([getattr(draws, name) for draws in every]) for name in _DRAWN)
        rows = self._computed_times(lane, *drawn)
        if means is None and len(rows) == self.count and not self.plans[0].slowdown:
            means = rows
        return rows, lane, np.cumsum([0, *sizes[:-1]]), means

    def _lay_out_stages(self) -> None:
        """The seconds of all stages, 0 where there is none, and which are collectives."""
        tables = [plan.work.chain_table for plan in self.plans]
        most = max(table.fixed.shape[1] for table in tables)
        self.seconds = np.zeros((self.count, self.buckets, most))
        self.collective = np.zeros((self.count, self.buckets, most), dtype=bool)
        same: dict[int, list[int]] = {}
        for lane, table in enumerate(tables):
            same.setdefault(id(table), []).append(lane)
        for lanes in same.values():
            table, width = tables[lanes[0]], tables[lanes[0]].fixed.shape[1]
            self.seconds[lanes, :, :width] = table.seconds(np.array([self.plans[i].prices.seconds for i in lanes]))
            self.collective[lanes, :, :width] = table.collective
        self.exists = np.array([table.exists for table in tables])
        self.kernels = [bool((table.fixed > 0).any()) for table in tables]

    def _computed_times(self, lane: Ints, compute: Floats, selection: Floats) -> Floats:
        """As `computed_times`, (r, 2b + 1), for workers of these lanes with these draws, (r,) each."""
        plans, parts = self.plans, np.empty((len(lane), 1 + 2 * self.buckets))
        factor = (compute * np.array([plan.pace[0, 0] for plan in plans])[lane])[:, None]
        backward = np.array([plan.work.backward for plan in plans])[lane] * factor
        select, spread = (np.array([getattr(plan, name)[0] for plan in plans])[lane] for name in _SELECTION)
        if not plans[0].overlap:
            backward = np.concatenate([backward.sum(axis=1, keepdims=True), np.zeros_like(backward)[:, 1:]], axis=1)
        before = np.array([plan.work.before_last for plan in plans])[lane]
        parts[:, 0] = self.input_time[lane] + before * factor[:, 0]
        parts[:, 1::2] = backward
        parts[:, 2::2] = np.maximum(select + selection[:, None] * spread, select / 2)
        return np.cumsum(parts, axis=1)

    def _start_of(self, ready: Floats, host: Floats, exists: Mask) -> tuple[Floats, Floats]:
        """When exchanges that are ready can start, as `Software` has it; and when the host is free again."""
        start = ready
        if self.cycle[0]:
            start = np.ceil(start / self.cycle - 1e-9) * self.cycle
        if self.launch[0]:
            start = np.maximum(host, start) + self.launch
            host = np.where(exists, start, host)
        return start, host

    def _run_serial(self, ready: Floats) -> tuple[Floats, Floats, Floats]:
        """When each bucket is done, (n, b), and start and end of every stage, (n, b, s)."""
        clock, host, done = np.zeros(self.count), np.zeros(self.count), np.empty_like(ready)
        start, end = np.zeros_like(self.seconds), np.zeros_like(self.seconds)
        for bucket in range(self.buckets):
            exists, mine = self.exists[:, bucket], ready[:, bucket]
            begin, host = self._start_of(mine, host, exists)
            clock = np.where(exists, np.maximum(clock, begin), clock)
            for stage in range(self.seconds.shape[2]):
                start[:, bucket, stage] = clock
                clock = clock + self.seconds[:, bucket, stage]
                end[:, bucket, stage] = clock
            done[:, bucket] = np.maximum(clock, mine)
        return done, start, end

    def _slow_down_compute(self, slowest: Floats, slowdown: Floats) -> Floats:
        """As `slow_down_compute`, for all lanes: exchanges of earlier buckets are a queue, from `head` to `tail`."""
        n = self.count
        lane, now, clock, host = np.arange(n), np.zeros(n), np.zeros(n), np.zeros(n)
        start, end = np.full((n, self.buckets + 1), np.inf), np.full((n, self.buckets + 1), np.inf)
        head, tail = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        whole = np.array([math.fsum(stages) for stages in self.seconds.reshape(n * self.buckets, -1).tolist()])
        whole, ends, slower = whole.reshape(n, self.buckets), np.empty_like(slowest), 1.0 + slowdown
        for column, seconds in enumerate(np.diff(slowest, prepend=0.0, axis=1).T):
            left = seconds.copy()
            while (active := (head < tail) & (left != 0)).any():
                begin, stop = start[lane, head], end[lane, head]
                free = active & (now < begin)
                busy = active & ~free
                step = np.where(free, np.minimum(left, begin - now), 0.0)
                reached = np.where(busy, np.minimum(left, (stop - now) / slower), 0.0)
                through = busy & (reached < left)
                now = np.where(through, stop, np.where(busy, now + reached * slower, now + step))
                left = left - np.where(busy, reached, step)
                head = head + (active & (now >= stop))
            now = now + left
            ends[:, column] = now
            if column and column % 2 == 0:
                bucket = column // 2 - 1
                exists = self.exists[:, bucket]
                begin, host = self._start_of(now, host, exists)
                begin = np.maximum(clock, begin)
                clock = np.where(exists, begin + whole[:, bucket], clock)
                here = lane[exists]
                start[here, tail[here]], end[here, tail[here]] = begin[here], clock[here]
                tail = tail + exists
        return ends

    def _end_together(self, at: Floats, mean: Floats, done: Floats, start: Floats, end: Floats) -> list[Iteration]:
        """The end of each iteration: buckets are combined in order as they arrive, then comes the update."""
        computed, parts = at[:, -1], np.diff(mean, axis=1)
        now, low, high = computed, np.zeros_like(done), np.zeros_like(done)
        for bucket in range(self.buckets):
            low[:, bucket], now = now, np.maximum(now, done[:, bucket])
            high[:, bucket] = now
            now = now + self.combine[:, bucket]
        inside = np.array([self._kernel_time(lane, low[lane], high[lane], start, end) for lane in range(self.count)])
        share = np.array([plan.work.earlier_share for plan in self.plans])
        before = np.maximum(mean[:, 0] - self.input_time, 0.0)
        earlier = before * share
        terms = {
            "forward": before - earlier,
            "backward": parts[:, ::2].sum(axis=1) + earlier,
            "selection": parts[:, 1::2].sum(axis=1),
            "communication_exposed": np.array(list(map(math.fsum, (high - low).tolist()))) - inside,
            "combine": self.combine.sum(axis=1) + inside,
            "update": self.update,
            "idle": self.input_time + np.maximum(computed - mean[:, -1], 0.0),
        }
        spent = np.where(self.collective, end - start, 0.0).reshape(self.count, -1)
        rows = zip(*(values.tolist() for values in terms.values()), strict=True)
        waiting = np.maximum(at[:, 2::2] - mean[:, 2::2], 0.0).sum(axis=1)
        numbers = ((now + self.update).tolist(), rows, spent.tolist(), waiting.tolist())
        made = []
        for lane, time, row, busy, waited in zip(self.lanes, *numbers, strict=True):
            total = math.fsum(busy)
            item = Iteration(time, dict(zip(terms, row, strict=True)), total, total, waited, partial(_computed, lane))
            item.spans, item.spans_of = partial(_spans, lane), partial(_spans_of, lane)
            made.append(item)
        return made

    def _kernel_time(self, lane: int, low: Floats, high: Floats, start: Floats, end: Floats) -> float:
        """Seconds of the waits for communication in which a kernel of an exchange ran."""
        if not self.kernels[lane]:
            return 0.0
        ran = ~self.collective[lane] & (self.seconds[lane] > 0)
        kernels = list(zip(start[lane][ran].tolist(), end[lane][ran].tolist(), strict=True))
        waits = [(left, right) for left, right in zip(low.tolist(), high.tolist(), strict=True) if right > left]
        return math.fsum(covered_times(kernels, waits))


def _on_clock(lane: Lane) -> Iteration:
    from simulator.engine.clock.iterations import simulate  # brings SimPy and the event loop

    return simulate(*lane)


def _computed(lane: Lane) -> Floats:
    """When each worker has computed; as the spans, made by the clock when it is asked for."""
    return _on_clock(lane).computed()


def _spans(lane: Lane) -> list[Span]:
    """The spans of the slowest worker."""
    return _on_clock(lane).spans()


def _spans_of(lane: Lane, worker: int) -> list[Span]:
    return _on_clock(lane).spans_of(worker)
