"""The communication stream where one exchange follows the other, and every duration is known."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush

from simulator.engine.clock.software import Busy, Credit, Software
from simulator.engine.plan.plan import Plan


def run_serial(plan: Plan, ready: list[float]) -> tuple[list[float], list[Busy]]:
    """Run one exchange after the other, with known durations: when each bucket is done, and what ran when.

    First in, first out; or, by priority, the ready bucket that the next forward pass needs first. The second halves of
    decoupled exchanges follow when all first halves are done.
    """
    software, busy = Software(plan), list[Busy]()
    if plan.scheduler.by_priority:
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
