"""One period of local steps: compute that goes on by itself, and exchanges of fragments that it waits for."""

from __future__ import annotations

import math
from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import simpy

from simulator.engine.clock.compute_times import selection_times
from simulator.engine.clock.draws import Draws
from simulator.engine.clock.live_stream import LiveStream
from simulator.engine.clock.period_spans import Part, PeriodLog, slowest_spans, worker_spans
from simulator.engine.clock.software import Busy, Software
from simulator.engine.plan.plan import Plan
from simulator.models.curves import Floats
from simulator.models.period import Event, Period
from simulator.models.terms import BREAKDOWN
from simulator.models.timeline import Iteration, covered_times

if TYPE_CHECKING:
    from simulator.engine.rounds.network import Network

Process = Generator[simpy.Event, Any, Any]
_MOST, _MOST_LIVE = 1000, 64
"""Periods after which one is taken as it is; a queue of exchanges can grow slowly before compute waits for it."""
_ALIKE = 3
"""Periods in a row that take as long as the one before, where it is not known what is still queued."""
_SAME = 1e-12


class PeriodJob:
    """The periods of one job, one after the other: an exchange may still be under way when the next one starts.

    Workers compute without regard to each other. The exchange of a fragment starts when the slowest of them is ready,
    or, if the period says so, for each worker by itself. Where times are known in advance they are a recurrence over
    starts and waits; where exchanges share links, the same on SimPy. `slowdown` of compute by exchanges is followed in
    the former case only.
    """

    def __init__(self, plan: Plan, env: simpy.Environment, network: Network | None, links: Floats) -> None:
        self.plan, self.work, self.env, self.network, self.links = plan, plan.work, env, network, links
        self.period = plan.period or Period(1, ())
        self.events = self.period.events()
        self.buckets: list[list[int]] = [[] for _ in self.period.fragments]
        for bucket in plan.work.buckets:
            self.buckets[bucket.fragment].append(bucket.index)
        first, last = self.work.passes.first[0], float(self.work.backward.sum())
        self.passes = [("forward", first), *self.work.passes.between(), ("backward", last)]
        self.clock, self.free = np.full(1, env.now), np.full(1, env.now)
        self.log = PeriodLog(self.clock, ended=self.clock)
        self.known: list[Busy] = []
        self.under_way: dict[int, list[Any]] = {}
        self.streams: list[simpy.Resource] | None = None
        self.lives: list[LiveStream] = []
        self.settled = not self.period.crosses

    def iterate(self, draws: Draws) -> Process:
        """The next period; the process's value is its Iteration. The first is repeated until it repeats itself."""
        alike, before = 0, (-1.0, 0.0)
        for _ in range(1 if self.settled else _MOST_LIVE if self.plan.live else _MOST):
            yield from self._follow(draws)
            # A queue of exchanges that grows shows in the length of a period only later.
            left = float((np.maximum(self.free, self.clock) - self.clock).max())
            alike = alike + 1 if np.allclose(before, (self.log.length, left), _SAME, _SAME * self.log.length) else 0
            before = self.log.length, left
            if alike >= (_ALIKE if self.plan.live else 1):
                break
        self.settled = True
        return self._iteration()

    def _follow(self, draws: Draws) -> Process:
        """One period, on the clock where exchanges are live."""
        self.log = PeriodLog(self.clock, self.passes, together=self.period.together)
        self.software, reply = Software(self.plan), None
        foremost = float(self.clock.max())  # compute is slowed down as that of the last worker, which starts here
        self.known = [item for item in self.known if item[1] > foremost]
        if self.plan.live:
            self.live = LiveStream(self.plan, self.env, self.network, self.links, self.streams)
            self.streams = self.live.streams
        walk = self._walk(draws)
        try:
            while True:
                event, ready = walk.send(reply)
                reply = (yield from self._on_clock(event, ready)) if self.plan.live else self._known(event, ready)
        except StopIteration:
            pass
        self.log.ended = self.clock
        yield self.env.timeout(max(0.0, float(self.clock.max()) - self.env.now))
        if self.plan.live:
            self.log.busy = [item for live in (*self.lives, self.live) for item in self._ended(live)]
            self.lives = [self.live]

    @staticmethod
    def _ended(live: LiveStream) -> list[Busy]:
        """What has ended on a stream since it was last asked; an exchange may end in the period after its start."""
        made = [(live.base + busy[0], live.base + busy[1], *busy[2:]) for busy in live.busy]
        live.busy.clear()
        return made

    def _walk(self, draws: Draws) -> Generator[tuple[Event, Floats], list[Floats] | None, None]:
        """Compute from event to event; yields each with when the workers are there (w,), and is sent when the buckets
        of an awaited fragment have arrived, each (w,) or (1,)."""
        work, log, at = self.work, self.log, 0
        rows = max(len(draws.compute), len(self.plan.pace), len(self.plan.selection))
        pace, selection = self.plan.pace, selection_times(self.plan, draws)
        before, last = pace[:, :1], pace[:, -len(work.backward) :]
        factor = draws.compute
        forward = factor * before[:, 0] * work.forward
        backward = factor * (before[:, 0] * work.passes.earlier_backward + (last * work.backward).sum(axis=1))
        self.clock = log.began = np.broadcast_to(self.clock, rows).copy()
        for event in self.events:
            steps, at = event.step - at, event.step
            if steps:
                self._compute(steps, forward, backward)
            if event.waits and event.earlier and event.fragment not in self.under_way:
                continue
            members = self.buckets[event.fragment]
            if not event.waits:
                self._note("selection", selection[:, members].sum(axis=1), members[0])
                start = self.clock.max(keepdims=True) if self.period.together else self.clock
                log.waited += float((start - self.clock).mean()) if self.period.together else 0.0
                yield event, start
                continue
            done = yield event, self.clock
            slowest = float(self.clock.max())
            if work.combine[members].any():
                for bucket, end in zip(members, done or (), strict=True):
                    self._wait(end, slowest, bucket)
                    self._note("combine", np.full(1, work.combine[bucket]), bucket)
            else:
                self._wait(np.maximum.reduce(done or ()), slowest, members[-1])
            self._note("update", np.full(1, work.outer[members].sum()), members[0])

    def _compute(self, steps: int, forward: Floats, backward: Floats) -> None:
        """So many local steps, slower while an exchange is under way."""
        parts = (("idle", np.full(1, self.work.input_time)), ("forward", forward), ("backward", backward))
        every = [*parts, ("update", np.full(1, self.work.update))]
        stretch = self._stretch(float(self.clock.max()), steps * (forward + backward).max())
        for term, seconds in every:
            factor = stretch if term in ("forward", "backward") else 1.0
            self._note(term, steps * factor * seconds, -1, steps)

    def _stretch(self, start: float, seconds: float) -> float:
        """How many times longer compute of `seconds` takes from `start` on, because of exchanges that are known."""
        slowdown = self.plan.slowdown
        if not slowdown or not seconds or self.plan.live or not self.under_way:
            return 1.0
        now, left = start, seconds
        for low, high, _, _, collective in self.known:
            if not collective or high <= now:
                continue
            free = min(left, max(0.0, low - now))
            now, left = now + free, left - free
            slowed = min(left, (high - max(now, low)) / (1 + slowdown)) if left else 0.0
            now, left = now + slowed * (1 + slowdown), left - slowed
        return (now + left - start) / seconds

    def _note(self, term: str, seconds: Floats, bucket: int, steps: int = 1) -> None:
        """A part of compute on every worker."""
        if seconds.any():
            start = self.clock
            self.clock = start + seconds
            self.log.parts.append(Part(term, start, self.clock, bucket, steps))

    def _wait(self, end: Floats, slowest: float, bucket: int) -> None:
        """Wait for a bucket: for the slowest worker up to when that one waits, too, then for communication."""
        start = self.clock
        alone = np.maximum(start, np.minimum(end, slowest)) if self.period.together else start
        self.clock = np.maximum(start, end)
        if (alone > start).any():
            self.log.parts.append(Part("idle", start, alone, bucket, 0))
        if (self.clock > alone).any():
            self.log.parts.append(Part("communication_exposed", alone, self.clock, bucket, 0))
            self.log.gaps.append((float(alone.max()), float(self.clock.max())))

    def _known(self, event: Event, ready: Floats) -> list[Floats]:
        """Start the exchange of a fragment, or tell when one that was started has arrived."""
        if event.waits:
            return self.under_way.pop(event.fragment)
        self.free, ends = np.broadcast_to(self.free, ready.shape), []
        for bucket in self.buckets[event.fragment]:
            if stages := self.plan.exchanges[bucket]:
                now = np.maximum(self.free, self.software.starts_of(ready) if self.software.any else ready)
                for stage in stages:
                    end = now + stage.seconds
                    self.log.busy.append((float(now[0]), float(end[0]), stage.label, bucket, stage.collective))
                    self.known.append(self.log.busy[-1])
                    now = end
                self.free = now
            ends.append(np.maximum(self.free, ready))
        self.under_way[event.fragment] = ends
        return []

    def _on_clock(self, event: Event, ready: Floats) -> Process:
        """The same, where the exchange takes as long as the links make it."""
        if not event.waits:
            yield self.env.timeout(max(0.0, float(ready.max()) - self.env.now))
            for bucket in self.buckets[event.fragment]:
                self.live.admit(bucket)
            self.under_way[event.fragment] = [self.live.done[bucket] for bucket in self.buckets[event.fragment]]
            return []
        ends = []
        for arrived in self.under_way.pop(event.fragment):
            ends.append(np.full(1, (yield arrived)))
        return ends

    def _iteration(self) -> Iteration:
        log = self.log
        time, base = log.length, float(log.began.max())
        terms = dict.fromkeys(BREAKDOWN, 0.0)
        for term, start, end, _, _ in log.parts:
            terms[term] += float((end - start).mean())
        kernels = [(start, end) for start, end, _, _, collective in log.busy if not collective]
        inside = math.fsum(covered_times(kernels, log.gaps)) if kernels else 0.0
        terms["communication_exposed"] -= inside
        terms["combine"] += inside
        mean = float((log.ended - log.began).mean())
        if not self.period.together and mean:
            terms = {term: seconds * time / mean for term, seconds in terms.items()}
        total = math.fsum(end - start for start, end, _, _, collective in log.busy if collective)
        ended = log.ended - base
        made = Iteration(time, terms, total, total, log.waited, computed=lambda: ended, start=base)
        made.spans, made.spans_of = partial(slowest_spans, log), partial(worker_spans, log)
        return made
