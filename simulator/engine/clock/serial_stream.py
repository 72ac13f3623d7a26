"""The communication stream where one exchange follows the other, and every duration is known."""

from __future__ import annotations

import math
from collections import deque
from heapq import heappop, heappush

import numpy as np

from simulator.engine.clock.software import Busy, Credit, Software
from simulator.engine.plan.plan import Plan
from simulator.models.curves import Floats


def run_serial(plan: Plan, ready: list[float]) -> tuple[list[float], list[Busy]]:
    """Run one exchange after the other, with known durations: when each bucket is done, and what ran when.

    First in, first out; or, by priority, the ready bucket that the next forward pass needs first. The second halves of
    decoupled exchanges follow when all first halves are done.
    """
    software, busy = Software(plan), list[Busy]()
    if plan.scheduler.queue.by_priority:
        done = _by_priority(plan, ready, software, busy)
    else:
        done, clock, note = list(ready), 0.0, busy.append
        for index in plan.order:
            stages = plan.exchanges[index]
            if stages:
                clock = max(clock, software.start_of(ready[index]) if software.any else ready[index])
                for stage in stages:
                    end = clock + stage.seconds
                    note((clock, end, stage.label, index, stage.collective))
                    clock = end
            done[index] = max(clock, ready[index])
    if plan.scheduler.decoupled:
        _run_second_halves(plan, done, busy, software)
    return done, busy


def goes_in_turn(plan: Plan) -> bool:
    """Whether exchanges follow each other on one stream, in the order in which buckets become ready, at known cost."""
    turns = list(plan.order)
    return not plan.live and not plan.scheduler.queue.by_priority and plan.scheduler.streams == 1 and turns == sorted(turns)


def slow_down_compute(plan: Plan, slowest: Floats, slowdown: float) -> Floats:
    """When the slowest worker has computed each part if exchanges slow it down, (2b + 1,), cumulated as `slowest`.

    For plans that go in turn: while a part is computed, only exchanges of earlier buckets can be under way, and these
    are known. Compute takes 1 + `slowdown` times as long while one is.
    """
    software, under_way = Software(plan), deque[tuple[float, float]]()
    now = clock = 0.0
    ends = []
    for column, seconds in enumerate(np.diff(slowest, prepend=0.0).tolist()):
        left = seconds
        while under_way and left:
            start, end = under_way[0]
            if now < start:
                step = min(left, start - now)
                now, left = now + step, left - step
            else:
                step = min(left, (end - now) / (1.0 + slowdown))
                now = end if step < left else now + step * (1.0 + slowdown)
                left -= step
            if now >= end:
                under_way.popleft()
        now += left
        ends.append(now)
        if column and column % 2 == 0:
            index = column // 2 - 1
            if stages := plan.exchanges[index]:
                start = max(clock, software.start_of(now) if software.any else now)
                clock = start + math.fsum(stage.seconds for stage in stages)
                under_way.append((start, clock))
    return np.array(ends)


def _by_priority(plan: Plan, ready: list[float], software: Software, busy: list[Busy]) -> list[float]:
    """Of the ready buckets, those of the highest priority are handed over up to the credit, and then run in order."""
    done, clock, now = list(ready), 0.0, 0.0
    arriving = deque(sorted(range(len(ready)), key=lambda index: (ready[index], index)))
    waiting: list[tuple[int, int]] = []
    handed: deque[tuple[int, float]] = deque()
    under_way: deque[tuple[float, float]] = deque()
    credit = Credit(plan)
    while arriving or waiting or handed:
        while arriving and ready[arriving[0]] <= now:
            index = arriving.popleft()
            heappush(waiting, (plan.priority[index], index))
        while under_way and under_way[0][0] <= now:
            credit.give_back(under_way.popleft()[1])
        while waiting and credit.allows(plan.nbytes[waiting[0][1]]):
            index = heappop(waiting)[1]
            credit.take(plan.nbytes[index])
            handed.append((index, now))
        if handed and clock <= now:
            index, since = handed.popleft()
            if not plan.exchanges[index]:
                credit.give_back(plan.nbytes[index])
                continue
            clock = max(now, software.start_of(since) if software.any else since)
            for stage in plan.exchanges[index]:
                busy.append((clock, clock + stage.seconds, stage.label, index, stage.collective))
                clock += stage.seconds
            done[index] = clock
            under_way.append((clock, plan.nbytes[index]))
            continue
        upcoming = [ready[arriving[0]]] if arriving else []
        if under_way:
            upcoming.append(under_way[0][0])
        now = max(now, min(upcoming))  # a bucket that waits for credit waits for one that is under way
    return done


def _run_second_halves(plan: Plan, done: list[float], busy: list[Busy], software: Software) -> None:
    """The all-gathers of decoupled exchanges, in forward order, once everything is reduced."""
    reduced = clock = max(done, default=0.0)
    for index in sorted(range(len(done)), key=lambda index: (plan.priority[index], index)):
        if plan.second_halves[index] and software.any:
            clock = max(clock, software.start_of(reduced))
        for stage in plan.second_halves[index]:
            busy.append((clock, clock + stage.seconds, stage.label, index, stage.collective))
            clock += stage.seconds
            done[index] = clock
