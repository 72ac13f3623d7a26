"""The network: messages that share links max-min fairly, on SimPy.

The same messages that `fold` reads, with the same rules for who waits for whom: a message starts when its sender holds
the data, both its ends have passed on what earlier rounds put on the same link, and the connection between the two is
free (exchanges under way together queue there, first in, first out). While it is under way it holds every
link of its route at once, at the rate that fair sharing gives it; it has arrived `latency` after its last byte left.

Messages that are alike are one flow (`classes.py`), flows on the same way share one count of bytes served, and rates
are worked out once per instant and set of flows, so that the cost is in what differs, not in what there is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count

import numpy as np
import simpy

from simulator.engine.rounds.classes import MessageClass, Shape, Structure, structure
from simulator.engine.rounds.laying import Laid, buckets_of, lay
from simulator.engine.rounds.surroundings import NOTHING_ELSE, Change, Surroundings
from simulator.engine.rounds.transfer import Flow, Transfer, unrolled
from simulator.models.curves import Floats
from simulator.models.exchange import Round
from simulator.models.timeline import LinkUse
from simulator.models.wiring import Wiring

_SAME = 1e-13
_NOTHING = 1e-15
"""Bytes that are rounding, whatever the rate."""
_NEVER = 1e30
"""More bytes than anything has."""
_MOST = 2_000_000
"""Messages, alike ones counted once, that one exchange may have: about a gigabyte."""


class Stalled(Exception):
    """Flows that will never end; carries the names of the dead links that they wait for."""


class TooManyMessages(Exception):
    """An exchange has more messages that differ than one machine can follow; carries their number."""


class Network:
    """The wires while exchanges are under way on them; `submit` starts one.

    `structures` are all that will be submitted, so that what is alike can be found beforehand; `colours` (P,) tell
    apart places that start at different times. `keep`: remember flows and rates after each change, for `link_use`.
    `laid`: what another network found for the same structures on the same wires, none of which change.
    """

    def __init__(
        self,
        env: simpy.Environment,
        wiring: Wiring,
        structures: Iterable[Structure],
        *,
        overhead: float = 0.0,
        colours: Floats | None = None,
        surroundings: Surroundings = NOTHING_ELSE,
        keep: bool = False,
        laid: Laid | None = None,
    ) -> None:
        self.env, self.wiring, self.overhead, self.now = env, wiring, overhead, env.now
        self.surroundings = surroundings
        self.laid = laid or lay(wiring, list(structures), colours, surroundings)
        self.classes, self.sharing, self.steady = self.laid
        types = self.classes.types
        self.active, self.rate, self.served = (np.zeros(types) for _ in range(3))
        self.next = np.full(types, _NEVER)
        self.queues: list[list[tuple[float, int, Flow]]] = [[] for _ in range(types)]
        self.starting: deque[Flow] = deque()
        self.queued: dict[int, deque[Flow]] = {}
        self.timers: list[tuple[float, int, Flow | Change]] = []
        self.order, self.version = count(), 0
        self.capacity = self.sharing.capacity.copy()
        self.slowest = self._narrowest()
        self.buckets = buckets_of(wiring, self.classes, self.sharing)
        self.history: list[tuple[float, Floats, Floats]] = []
        self.keep = keep
        for type_number in self.steady:
            self.active[type_number] += 1
        self.changes = len(surroundings.changes)
        for change in surroundings.changes:
            heappush(self.timers, (change.time, next(self.order), change))
        if self.steady:
            self.rate = self.sharing.rates(self.active)
        if self.timers or self.steady:
            self._settle()

    def submit(self, rounds: Sequence[Round], *, row: int = 0, ready: Floats | None = None) -> Transfer:
        """Start an exchange now, or where each place is `ready` (P,). Raises TooManyMessages."""
        return self.start(structure(rounds, row), ready)

    def start(self, shape: Shape, ready: Floats | None = None) -> Transfer:
        """As `submit`, with the structure and scales of the rounds, where these are known already."""
        self._catch_up()
        exchange = self._started(shape, ready)
        if exchange.left:
            self._settle()
        else:
            exchange.done.succeed(self.times(exchange))
        return exchange

    @property
    def again(self) -> Laid | None:
        """What another network may be given as `laid`; None where capacities are written over."""
        return None if self.surroundings.changes else self.laid

    def stuck(self) -> list[str]:
        """Names of links that are dead while flows wait for them."""
        dead = np.flatnonzero(self.sharing.capacity <= 0)
        crossed = self.sharing.load(self.active, np.ones_like(self.active))
        names = [int(np.flatnonzero(self.classes.of_link == link)[0]) for link in dead if crossed[link] > 0]
        return [self.wiring.names[name] for name in names]

    def link_use(self) -> LinkUse:
        """What every link carried from each change on."""
        rates = np.zeros((len(self.history), len(self.sharing.capacity)))
        for row, (_, active, rate) in zip(rates, self.history, strict=True):
            row[:] = self.sharing.load(active, rate)
        return LinkUse(np.array([time for time, _, _ in self.history]), rates, self.classes.of_link)

    def _narrowest(self) -> Floats:
        """Capacity of the narrower of each type's ends: what a message's overhead is counted at."""
        slowest = np.full(self.classes.types, np.inf)
        np.minimum.at(slowest, self.classes.type_of, self.sharing.capacity[self.classes.link_of])
        return slowest

    def _started(self, shape: Shape, ready: Floats | None) -> Transfer:
        programme, scales = self.classes.programmes[shape[0]], shape[1]
        number = sum(len(classes) * repeat for classes, repeat in programme.rounds)
        if number > _MOST:
            raise TooManyMessages(number)
        one = self.classes.one_place
        begin = [self.env.now] * len(one) if ready is None else ready[one].tolist()
        have = dict(enumerate(begin))
        exchange = Transfer(have, number, self.env.event(), [])
        for flow in unrolled(exchange, programme, scales, partial(self._flow, exchange)):
            if not flow.waits:
                heappush(self.timers, (flow.not_before, next(self.order), flow))
        return exchange

    def _flow(self, exchange: Transfer, item: MessageClass, scale: float) -> Flow:
        # A message's overhead holds its ends as long as that many bytes would.
        nbytes = item.size * scale + self.overhead * float(self.slowest[item.type])
        return Flow(exchange, item.type, nbytes, item.latency, item.into[0], item.pair, exchange.have[item.out[0]])

    def _catch_up(self) -> None:
        """Bring the flows to the clock's time; what is due at this very instant follows in `_settle`."""
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
        """Handle all that is due, then sleep until the next time that something is."""
        self._process()
        due = self._due()
        self.version += 1
        if np.isfinite(due):
            token = self.version
            wake = self.env.timeout(max(0.0, due - self.env.now))
            wake.callbacks.append(lambda event: self._wake(token, due))

    def _wake(self, token: int, due: float) -> None:
        if token == self.version:  # else the rates have changed since, and another wake is under way
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
                if isinstance(item, Change):
                    self._change(item)
                elif item.pair in self.queued:
                    self.queued[item.pair].append(item)
                else:
                    self.queued[item.pair] = deque()
                    self.starting.append(item)
            while self.starting:
                self._start(self.starting.popleft())
            # A remainder that the clock can't resolve is rounding.
            slack = self.rate * (self.now * _SAME) + self.next * _SAME + _NOTHING
            over = np.flatnonzero(self.next - self.served <= slack)
            for number in over.tolist():
                changed = True
                self._finish(number)
            if not (len(over) or self.starting or (self.timers and self.timers[0][0] <= near)):
                break
        if not changed:
            return
        self.rate = self.sharing.rates(self.active)
        if not self.changes and ((self.active > 0) & (self.rate <= 0)).any():
            raise Stalled(self.stuck())
        if self.keep:
            self.history.append((self.now, self.active.copy(), self.rate))

    def _start(self, flow: Flow) -> None:
        if self.buckets is not None:
            flow.nbytes -= self.buckets.take(flow.type, flow.nbytes)
        if not flow.nbytes:
            self._end(flow)
            return
        queue = self.queues[flow.type]
        if not queue:
            self.served[flow.type] = 0.0
        target = float(self.served[flow.type]) + flow.nbytes
        heappush(queue, (target, next(self.order), flow))
        self.next[flow.type] = queue[0][0]
        self.active[flow.type] += 1

    def _finish(self, number: int) -> None:
        """End the flows of a type that have been served."""
        queue, served = self.queues[number], float(self.served[number])
        slack = float(self.rate[number]) * self.now * _SAME + _NOTHING
        while queue and queue[0][0] - served <= slack + queue[0][0] * _SAME:
            flow = heappop(queue)[2]
            self.active[number] -= 1
            self._end(flow)
        self.next[number] = queue[0][0] if queue else _NEVER

    def _end(self, flow: Flow) -> None:
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
        if behind:
            self.starting.append(behind.popleft())
        else:
            del self.queued[flow.pair]
        exchange.left -= 1
        if not exchange.left:
            times = self.times(exchange)
            finish = self.env.timeout(max(0.0, float(times.max()) - self.env.now))
            finish.callbacks.append(lambda event: _trigger(exchange, times))

    def _change(self, change: Change) -> None:
        self.changes -= 1
        classes = np.unique(self.classes.of_link[list(change.links)])
        self.sharing.capacity[classes] = self.capacity[classes] * change.factor
        self.sharing.forget()

    def times(self, exchange: Transfer) -> Floats:
        """When each place has finished its part, (P,)."""
        at = np.fromiter(exchange.have.values(), float)
        return at[self.classes.of_place]


def _trigger(transfer: Transfer, times: Floats) -> None:
    transfer.done.succeed(times)
