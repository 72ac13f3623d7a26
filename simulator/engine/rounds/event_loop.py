"""The event loop of flows: when flows start and end, and at which rates they run in between.

A flow starts when its sender has the data, what earlier rounds put on the same link has passed at both ends, and the
connection between the two is free. Flows over the same links share one count of bytes served, and rates are worked out
once per instant and set of active flows. The loop knows no clock but `now`: `network.py` puts it on SimPy.

This is the reference; `event_loop.c` computes the same to the last bit, and is used where it is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

import numpy as np

from simulator.engine.rounds.disturbances import LinkChange, Stalled, TooManyMessages
from simulator.engine.rounds.equivalence_classes import Key, MessageClass, Programme
from simulator.engine.rounds.link_sharing import PreparedNetwork, TokenBuckets
from simulator.models.curves import Floats
from simulator.records import Struct, field

_SAME = 1e-13
_NOTHING = 1e-15
"""Bytes: as few as this are a rounding error, whatever the rate."""
_NEVER = 1e30
"""Bytes: more than any message has."""
MOST_WORK = 2**30
"""Links that are looked at to share them, each time that a rate is found, until an exchange ends: 4 ns each."""
_PAIRS = 2**40
"""Pairs of sender and receiver: more than there are."""


class Exchange(Struct, eq=False):
    """One exchange under way in the event loop.

    `turn`: on a connection that is busy, messages of the lowest turn go first, and of equal turns the first that came.
    `have`: when each class of places has received everything so far. `left`: flows that have not ended.
    """

    number: int
    have: dict[int, float]
    turn: float
    left: int = 0
    flows: list[Flow] = field(default_factory=list)


class Flow(Struct, eq=False):
    """All messages of one class in one round of one exchange."""

    exchange: Exchange
    type: int
    nbytes: float
    latency: float
    into: int
    pair: int
    not_before: float
    waits: int = 0
    begins: list[tuple[Flow, float]] = field(default_factory=list)
    began: float = -1.0
    ended: float = -1.0


class Ended(NamedTuple):
    """An exchange that has ended: when each class of places has its data, and when each flow ended and began."""

    number: int
    have: Floats
    flows: Floats
    began: Floats


class Pause(NamedTuple):
    """Where the loop stopped: the clock, the clock at which something is `due` next, and what has just ended."""

    clock: float
    wake: float
    due: float
    ended: list[Ended]


class EventLoop:
    """Flows under way, from the time `now` on.

    `overhead`: seconds for which a message occupies its links before its bytes. `keep`: record what links carry.
    """

    def __init__(
        self, prepared: PreparedNetwork, buckets: TokenBuckets | None, overhead: float, now: float, *, keep: bool
    ) -> None:
        self.rates, self.buckets, self.now, self.keep = prepared.rates, buckets, now, keep
        types = prepared.classes.types
        self.capacity = self.rates.capacity
        self.stated = self.capacity.copy()
        self.active, self.rate, self.served = (np.zeros(types) for _ in range(3))
        self.next = np.full(types, _NEVER)
        self.extra = overhead * self.rates.narrowest_capacities(types)
        self.queues: list[list[tuple[float, int, Flow]]] = [[] for _ in range(types)]
        self.starting: list[Flow] = []
        self.freed: list[int] = []
        self.queued: dict[int, list[tuple[float, int, Flow]]] = {}
        self.timers: list[tuple[float, int, Flow | LinkChange]] = []
        self.order = count()
        self.ended: list[Ended] = []
        self.history: list[tuple[float, int]] = []
        self.rows: list[Floats] = []
        self.recorded_for: tuple[bytes, bytes] | None = None
        self.active[prepared.steady] = 1.0
        self.worked = self.rates.work
        self.pending_changes = len(prepared.changes)
        for change in prepared.changes:
            heappush(self.timers, (change.time, next(self.order), change))
        if prepared.steady:
            self.rate = self.rates.rates(self.active)

    def start(
        self, number: int, programme: Programme, scales: Sequence[float], begin: Floats, *, turn: float, stream: int
    ) -> None:
        """Add exchange `number`, whose classes of places are ready at the times `begin`."""
        exchange = Exchange(number, dict(enumerate(begin.tolist())), turn)
        self._unroll(exchange, programme, scales, stream * _PAIRS)
        for flow in exchange.flows:
            if not flow.waits:
                heappush(self.timers, (flow.not_before, next(self.order), flow))

    def advance(self, time: float) -> None:
        """Bring the flows to `time`. What is due at this very instant follows in `follow`."""
        if time > self.now:
            self.served += self.rate * (time - self.now)
            if self.buckets is not None:
                self.buckets.fill(self.active, self.rate, time - self.now)
            self.now = time

    def follow(self, clock: float, until: float) -> Pause:
        """Handle all that is due, and go on while the next instant is before `until` and no exchange has ended.

        `clock` is that of SimPy, which may differ from `now` by a rounding error. Raises Stalled, TooManyMessages.
        """
        while True:
            self._process()
            due = self._due()
            wake = clock + max(0.0, due - clock)
            if self.ended or not wake < until:
                ended, self.ended = self.ended, []
                self.worked = self.rates.work if ended else self.worked
                return Pause(clock, wake, due, ended)
            clock = wake
            self.advance(due)

    def recorded(self) -> tuple[Floats, Floats]:
        """Times (t,), and the bytes/s that each class of links carried from each time on, (t, L)."""
        rows = [self.rows[row] for _, row in self.history]
        return np.array([time for time, _ in self.history]), np.array(rows).reshape(-1, len(self.capacity))

    def _unroll(self, exchange: Exchange, programme: Programme, scales: Sequence[float], first_pair: int) -> None:
        """Make all flows of the exchange, linked to the flows that wait for them."""
        sent: dict[Key, list[Flow]] = {}
        received: dict[int, dict[Key, list[Flow]]] = {}
        for (classes, repeat), scale in zip(programme.rounds, scales, strict=True):
            for _ in range(repeat):
                flows = [self._flow(exchange, first_pair, item, scale) for item in classes]
                for item, flow in zip(classes, flows, strict=True):
                    data = [other for flows in received.get(item.out[0], {}).values() for other in flows]
                    after = [(other, other.latency) for other in data]
                    after += [(other, 0.0) for other in sent.get(item.out, ())]
                    # The last link is free once the message before has arrived; this message, too, gets there a
                    # latency after it has left.
                    queued = received.get(item.into[0], {}).get(item.into, ())
                    after += [(other, max(0.0, other.latency - flow.latency)) for other in queued]
                    flow.waits = len(after)
                    for other, delay in after:
                        other.begins.append((flow, delay))
                sent.update({item.out: [] for item in classes})
                for item in classes:
                    received.setdefault(item.into[0], {})[item.into] = []
                for item, flow in zip(classes, flows, strict=True):
                    sent[item.out].append(flow)
                    received[item.into[0]][item.into].append(flow)
                exchange.flows += flows
        exchange.left = len(exchange.flows)

    def _flow(self, exchange: Exchange, first_pair: int, item: MessageClass, scale: float) -> Flow:
        # A message's overhead occupies its links for as long as this many bytes would.
        nbytes = item.size * scale + float(self.extra[item.type])
        pair, have = first_pair + item.pair, exchange.have[item.out[0]]
        return Flow(exchange, item.type, nbytes, item.latency, item.into[0], pair, have)

    def _due(self) -> float:
        """When the next flow ends or starts."""
        timer = self.timers[0][0] if self.timers else np.inf
        if not len(self.rate):
            return timer
        never = np.full_like(self.rate, np.inf)
        left = np.divide(self.next - self.served, self.rate, out=never, where=self.rate > 0)
        return min(timer, self.now + float(left.min()))

    def _process(self) -> None:
        """Start and end flows until nothing more is due now."""
        changed = False
        while True:
            near = self.now * (1 + _SAME)
            while self.timers and self.timers[0][0] <= near:
                item = heappop(self.timers)[2]
                changed = True
                if isinstance(item, LinkChange):
                    self._change_links(item)
                elif item.pair in self.queued:
                    heappush(self.queued[item.pair], (item.exchange.turn, next(self.order), item))
                else:
                    self.queued[item.pair] = []
                    self.starting.append(item)
            while self.freed:
                self.starting.append(heappop(self.queued[self.freed.pop()])[2])
            self._start_waiting()
            # What the clock cannot resolve is a rounding error.
            slack = self.rate * (self.now * _SAME) + self.next * _SAME + _NOTHING
            over = np.flatnonzero(self.next - self.served <= slack)
            for number in over.tolist():
                changed = True
                self._end_served(number)
            if not (len(over) or self.starting or self.freed or (self.timers and self.timers[0][0] <= near)):
                break
        if not changed:
            return
        self.rate = self.rates.rates(self.active)
        if self.rates.work - self.worked > MOST_WORK:
            raise TooManyMessages
        if not self.pending_changes and ((self.active > 0) & (self.rate <= 0)).any():
            raise Stalled
        if self.keep:
            self._record()

    def _record(self) -> None:
        key = (self.active.tobytes(), self.rate.tobytes())
        if key != self.recorded_for:
            self.rows.append(self.rates.load(self.active, self.rate))
            self.recorded_for = key
        self.history.append((self.now, len(self.rows) - 1))

    def _start_waiting(self) -> None:
        while self.starting:
            together, self.starting = self.starting, []
            self._empty_buckets(together)
            for flow in together:
                self._start_flow(flow)

    def _empty_buckets(self, flows: Sequence[Flow]) -> None:
        """Take off what passes at once; the overhead of a message is time at its ends, and passes no bucket."""
        if self.buckets is None:
            return
        nbytes = [flow.nbytes - float(self.extra[flow.type]) for flow in flows]
        for flow, passed in zip(flows, self.buckets.take([flow.type for flow in flows], nbytes), strict=True):
            flow.nbytes -= passed

    def _start_flow(self, flow: Flow) -> None:
        flow.began = self.now
        if not flow.nbytes:
            self._end_flow(flow)
            return
        queue = self.queues[flow.type]
        if not queue:
            self.served[flow.type] = 0.0
        target = float(self.served[flow.type]) + flow.nbytes
        heappush(queue, (target, next(self.order), flow))
        self.next[flow.type] = queue[0][0]
        self.active[flow.type] += 1

    def _end_served(self, number: int) -> None:
        """End the flows of a type that have been served."""
        queue, served = self.queues[number], float(self.served[number])
        slack = float(self.rate[number]) * (self.now * _SAME)
        while queue and queue[0][0] - served <= slack + queue[0][0] * _SAME + _NOTHING:
            flow = heappop(queue)[2]
            self.active[number] -= 1
            self._end_flow(flow)
        self.next[number] = queue[0][0] if queue else _NEVER

    def _end_flow(self, flow: Flow) -> None:
        exchange, arrived = flow.exchange, self.now + flow.latency
        flow.ended = self.now
        exchange.have[flow.into] = max(exchange.have[flow.into], arrived)
        for other, delay in flow.begins:
            other.not_before = max(other.not_before, self.now + delay)
            other.waits -= 1
            if not other.waits:
                heappush(self.timers, (other.not_before, next(self.order), other))
        flow.begins = []
        behind = self.queued[flow.pair]
        if not behind:
            del self.queued[flow.pair]
        elif behind[0][0] <= flow.exchange.turn:
            self.starting.append(heappop(behind)[2])
        else:  # the next message of the same exchange may be due at this very instant
            self.freed.append(flow.pair)
        exchange.left -= 1
        if not exchange.left:
            have = np.fromiter(exchange.have.values(), float)
            ended, began = (np.array([getattr(each, name) for each in exchange.flows]) for name in ("ended", "began"))
            self.ended.append(Ended(exchange.number, have, ended, began))

    def set_capacity(self, link: int, rate: float) -> None:
        """Let a class of links carry `rate` bytes/s from now on."""
        self.capacity[link] = rate
        self.rates.forget()
        self.rate = self.rates.rates(self.active)
        if self.keep:
            self._record()

    def _change_links(self, change: LinkChange) -> None:
        self.pending_changes -= 1
        self.capacity[list(change.links)] = self.stated[list(change.links)] * change.factor
        self.rates.forget()
