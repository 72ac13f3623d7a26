"""The network: messages that share links max-min fairly, on SimPy.

It reads the same messages as `fold`, with the same rules for who waits for whom. A message starts when three things
hold: its sender has the data, what earlier rounds put on the same link has passed at both ends, and the connection
between the two is free (messages of exchanges that are under way at the same time queue there: by turn, and then first
in, first out; each communication stream has connections of its own). While it is under way it uses all links of its
route at once, at the rate that fair sharing gives it. It has arrived `latency` after its last byte has left.

Messages that are alike are one flow (`equivalence_classes.py`). Flows over the same links share one count of bytes
served, and rates are worked out once per instant and set of active flows. So the cost depends on how many messages
differ, not on how many there are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count

import numpy as np
import simpy

from simulator.engine.rounds.disturbances import NO_DISTURBANCES, Disturbances, LinkChange
from simulator.engine.rounds.equivalence_classes import MessageClass, Shape, Structure, structure
from simulator.engine.rounds.prepared_network import PreparedNetwork, prepare_network
from simulator.engine.rounds.transfer import Flow, Transfer, unroll_flows
from simulator.models.curves import Floats
from simulator.models.exchange import Round
from simulator.models.timeline import LinkUse
from simulator.models.wiring import Wiring

_SAME = 1e-13
_NOTHING = 1e-15
"""Bytes: as few as this are a rounding error, whatever the rate."""
_NEVER = 1e30
"""Bytes: more than any message has."""
_PAIRS = 2**40
"""Pairs of sender and receiver: more than there are."""
_MOST = 2_000_000
"""Messages of one exchange, alike ones counted once: they take about a gigabyte of memory."""


class Stalled(Exception):
    """Some flows will never end; the error carries the names of the dead links that they wait for."""


class TooManyMessages(Exception):
    """An exchange has more different messages than one machine can follow; the error carries their number."""


class Network:
    """The links while exchanges are under way; `submit` starts an exchange.

    `structures` are those of all exchanges that will be submitted, so that what is alike can be found beforehand;
    `colours` (P,) differ for places that start at different times. `keep`: record flows and rates after each change,
    for `link_use`. `prepared`: what another network found for the same structures on the same links, if these do not
    change.
    """

    def __init__(
        self,
        env: simpy.Environment,
        wiring: Wiring,
        structures: Iterable[Structure],
        *,
        overhead: float = 0.0,
        colours: Floats | None = None,
        disturbances: Disturbances = NO_DISTURBANCES,
        keep: bool = False,
        prepared: PreparedNetwork | None = None,
    ) -> None:
        self.env, self.wiring, self.overhead, self.now = env, wiring, overhead, env.now
        self.disturbances = disturbances
        self.prepared = prepared or prepare_network(wiring, list(structures), colours, disturbances)
        self.classes, self.rates, self.steady = self.prepared
        types = self.classes.types
        self.active, self.rate, self.served = (np.zeros(types) for _ in range(3))
        self.next = np.full(types, _NEVER)
        self.queues: list[list[tuple[float, int, Flow]]] = [[] for _ in range(types)]
        self.starting: deque[Flow] = deque()
        self.freed: list[int] = []
        self.queued: dict[int, list[tuple[float, int, Flow]]] = {}
        self.timers: list[tuple[float, int, Flow | LinkChange]] = []
        self.order, self.wake_number = count(), 0
        self.capacity = self.rates.capacity.copy()
        self.narrowest = self._narrowest_capacities()
        self.buckets = self.prepared.token_buckets(wiring)
        self.history: list[tuple[float, Floats, Floats]] = []
        self.keep = keep
        for type_number in self.steady:
            self.active[type_number] += 1
        self.pending_changes = len(disturbances.changes)
        for change in disturbances.changes:
            heappush(self.timers, (change.time, next(self.order), change))
        if self.steady:
            self.rate = self.rates.rates(self.active)
        if self.timers or self.steady:
            self._settle()

    def submit(self, rounds: Sequence[Round], *, row: int = 0, ready: Floats | None = None) -> Transfer:
        """Start an exchange now, or when each place is `ready` (P,). Raises TooManyMessages."""
        return self.start(structure(rounds, row), ready)

    def start(self, shape: Shape, ready: Floats | None = None, *, turn: float = 0.0, stream: int = 0) -> Transfer:
        """Start an exchange as `submit` does, given the structure and scales of its rounds, and its turn.

        Each `stream` has connections of its own, on which no message waits for those of other streams.
        """
        self._catch_up()
        exchange = self._new_transfer(shape, ready, turn, stream)
        if exchange.left:
            self._settle()
        else:
            exchange.done.succeed(self.times(exchange))
        return exchange

    @property
    def reusable(self) -> PreparedNetwork | None:
        """What another network can take as `prepared`; None where links change, since that overwrites capacities."""
        return None if self.disturbances.changes else self.prepared

    def dead_links(self) -> list[str]:
        """Names of links without capacity that flows wait for."""
        dead = np.flatnonzero(self.rates.capacity <= 0)
        crossed = self.rates.load(self.active, np.ones_like(self.active))
        names = [int(np.flatnonzero(self.classes.of_link == link)[0]) for link in dead if crossed[link] > 0]
        return [self.wiring.names[name] for name in names]

    def token_bucket_content(self) -> Floats | None:
        """Bytes that the token buckets of each class of links hold now; None where links have none."""
        if self.buckets is None:
            return None
        self._catch_up()
        return self.buckets.content.copy()

    def link_use(self) -> LinkUse:
        """Bytes/s that every link carried, from each change of the flows on."""
        rates = np.zeros((len(self.history), len(self.rates.capacity)))
        for row, (_, active, rate) in zip(rates, self.history, strict=True):
            row[:] = self.rates.load(active, rate)
        return LinkUse(np.array([time for time, _, _ in self.history]), rates, self.classes.of_link)

    def _narrowest_capacities(self) -> Floats:
        """The smallest capacity on the way of each type (T,), by which a message's overhead becomes bytes."""
        slowest = np.full(self.classes.types, np.inf)
        np.minimum.at(slowest, self.classes.type_of, self.rates.capacity[self.classes.link_of])
        return slowest

    def _new_transfer(self, shape: Shape, ready: Floats | None, turn: float, stream: int) -> Transfer:
        programme, scales = self.classes.programmes[shape[0]], shape[1]
        number = sum(len(classes) * repeat for classes, repeat in programme.rounds)
        if number > _MOST:
            raise TooManyMessages(number)
        one = self.classes.one_place
        begin = [self.env.now] * len(one) if ready is None else ready[one].tolist()
        have = dict(enumerate(begin))
        exchange = Transfer(have, number, self.env.event(), [], turn)
        for flow in unroll_flows(exchange, programme, scales, partial(self._flow, exchange, stream * _PAIRS)):
            if not flow.waits:
                heappush(self.timers, (flow.not_before, next(self.order), flow))
        return exchange

    def _flow(self, exchange: Transfer, first_pair: int, item: MessageClass, scale: float) -> Flow:
        # A message's overhead occupies its links for as long as this many bytes would.
        nbytes = item.size * scale + self.overhead * float(self.narrowest[item.type])
        pair, have = first_pair + item.pair, exchange.have[item.out[0]]
        return Flow(exchange, item.type, nbytes, item.latency, item.into[0], pair, have)

    def _catch_up(self) -> None:
        """Bring the flows to the clock's time. What is due at this very instant follows in `_settle`."""
        self._advance(self.env.now)

    def _due(self) -> float:
        """When the next flow ends or starts."""
        timer = self.timers[0][0] if self.timers else np.inf
        if not len(self.rate):
            return timer
        never = np.full_like(self.rate, np.inf)
        left = np.divide(self.next - self.served, self.rate, out=never, where=self.rate > 0)
        return min(timer, self.now + float(left.min()))

    def _advance(self, time: float) -> None:
        if time > self.now:
            self.served += self.rate * (time - self.now)
            if self.buckets is not None:
                self.buckets.fill(self.active, self.rate, time - self.now)
            self.now = time

    def _settle(self) -> None:
        """Handle all that is due, then sleep until something is due again."""
        self._process()
        due = self._due()
        self.wake_number += 1
        if np.isfinite(due):
            number = self.wake_number
            wake = self.env.timeout(max(0.0, due - self.env.now))
            wake.callbacks.append(lambda event: self._wake(number, due))

    def _wake(self, number: int, due: float) -> None:
        if number == self.wake_number:  # otherwise the rates have changed, and a later wake-up is set
            self._advance(due)
            self._settle()

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
            while self.starting:
                self._start_flow(self.starting.popleft())
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
        if not self.pending_changes and ((self.active > 0) & (self.rate <= 0)).any():
            raise Stalled(self.dead_links())
        if self.keep:
            self.history.append((self.now, self.active.copy(), self.rate))

    def _start_flow(self, flow: Flow) -> None:
        if self.buckets is not None:
            flow.nbytes -= self.buckets.take(flow.type, flow.nbytes)
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
        slack = float(self.rate[number]) * self.now * _SAME + _NOTHING
        while queue and queue[0][0] - served <= slack + queue[0][0] * _SAME:
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
            times = self.times(exchange)
            finish = self.env.timeout(max(0.0, float(times.max()) - self.env.now))
            finish.callbacks.append(lambda event: _trigger(exchange, times))

    def _change_links(self, change: LinkChange) -> None:
        self.pending_changes -= 1
        classes = np.unique(self.classes.of_link[list(change.links)])
        self.rates.capacity[classes] = self.capacity[classes] * change.factor
        self.rates.forget()

    def times(self, exchange: Transfer) -> Floats:
        """When each place has finished its part, (P,)."""
        at = np.fromiter(exchange.have.values(), float)
        return at[self.classes.of_place]


def _trigger(transfer: Transfer, times: Floats) -> None:
    transfer.done.succeed(times)
