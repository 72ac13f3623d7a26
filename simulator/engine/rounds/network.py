"""The network: messages that share links max-min fairly, on SimPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple

import numpy as np
import simpy

from simulator.engine.rounds.compiled_loop import make_event_loop
from simulator.engine.rounds.disturbances import NO_DISTURBANCES, Disturbances, Stalled, TooManyMessages
from simulator.engine.rounds.equivalence_classes import Programme, Shape, Structure, structures
from simulator.engine.rounds.event_loop import Ended, EventLoop
from simulator.engine.rounds.link_sharing import prepare_network
from simulator.models.curves import Floats
from simulator.models.exchange import Round
from simulator.models.timeline import LinkUse
from simulator.models.wiring import Wiring
from simulator.records import Record, Struct, replace


def call_at(env: simpy.Environment, time: float, call: Callable[[], object]) -> None:
    """Call when the clock shows exactly `time`, or now if that has passed."""
    delay = max(0.0, time - env.now)
    exact = not delay or env.now + delay == time

    def go_on(event: simpy.Event) -> None:
        if exact:
            call()
        else:
            call_at(env, time, call)

    # Halfway there the rest of the delay is exact (Sterbenz, Floating-Point Computation, 1974).
    env.timeout(delay if exact else delay / 2).callbacks.append(go_on)


def call_from(env: simpy.Environment, time: float, call: Callable[[], object]) -> None:
    """Call when the clock shows exactly `time`, or at once if it does or that has passed."""
    if time > env.now:
        call_at(env, time, call)
    else:
        call()


def wait_until(env: simpy.Environment, time: float) -> Iterator[simpy.Event]:
    """Wait until the clock shows exactly `time`, in a process that yields from this."""
    if time > env.now:
        reached = env.event()
        call_at(env, time, reached.succeed)
        yield reached


_MOST = 2_000_000
"""Messages of one exchange, alike ones counted once: they take about a gigabyte of memory."""


class Transfer(Struct, eq=False):
    """One exchange, as whoever has started it sees it.

    `left`: flows that have not ended. `done` is triggered at the end, with the times (P,) at which each place has
    finished its part, which are `times` from then on. `ended`: when each flow ended, in the order of rounds; `began`:
    when it started to use its links. `scales`: bytes of the largest message of each round. `label`: what it is called.
    """

    programme: Programme
    left: int
    done: simpy.Event
    scales: Sequence[float] = ()
    label: str = ""
    times: Floats | None = None
    ended: Floats | None = None
    began: Floats | None = None

    @property
    def first_began(self) -> float:
        """When the first message of an exchange that has ended used its links; -inf where it has none."""
        return -math.inf if self.began is None or not len(self.began) else float(self.began.min())

    def round_ends(self) -> list[Floats]:
        """When the flows of each round ended, (repeat, classes)."""
        if self.ended is None:
            raise RuntimeError("the exchange is under way")
        ends, at = list[Floats](), 0
        for classes, repeat in self.programme.rounds:
            ends.append(self.ended[at : at + len(classes) * repeat].reshape(repeat, len(classes)))
            at += len(classes) * repeat
        return ends


class Message(NamedTuple):
    """A message that has travelled: numbers of its places, its bytes, when it used its links (s), and its exchange."""

    source: int
    destination: int
    nbytes: float
    start: float
    end: float
    exchange: str


class Network:
    """The links while exchanges are under way; `start` starts an exchange.

    `structures` are those of all exchanges that will be started, so that what is alike can be found beforehand;
    `colours` (P,) differ for places that start at different times. `keep`: record what links carry after each change,
    for `link_use`. `changeable`: capacities may be set, and every message is followed by itself and kept.
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
        changeable: bool = False,
    ) -> None:
        self.env, self.wiring, self.changeable = env, wiring, changeable
        prepared = prepare_network(wiring, list(structures), colours, disturbances, apart=changeable)
        self.classes, self.rates, self.buckets = prepared.classes, prepared.rates, prepared.token_buckets(wiring)
        self.loop = make_event_loop(prepared, self.buckets, overhead, env.now, keep=keep, changeable=changeable)
        self.under_way: dict[int, Transfer] = {}
        self.kept: list[Transfer] = []
        self.numbers, self.wake_number = count(), 0
        if prepared.changes or prepared.steady:
            self._settle()

    def start(
        self, shape: Shape, ready: Floats | None = None, *, turn: float = 0.0, stream: int = 0, label: str = ""
    ) -> Transfer:
        """Start an exchange now, or when each place is `ready` (P,), given the structure and scales of its rounds.

        On a connection that is busy, messages of the lowest turn go first, and of equal turns the first that came.
        Each `stream` has connections of its own, on which no message waits for those of other streams. Raises
        TooManyMessages.
        """
        self.loop.advance(self.env.now)
        programme, one = self.classes.programmes[shape[0]], self.classes.one_place
        transfer = Transfer(programme, programme.flows, self.env.event(), shape[1], label)
        if self.changeable:
            self.kept.append(transfer)
        if transfer.left > _MOST:
            raise TooManyMessages(transfer.left)
        begin = np.full(len(one), self.env.now) if ready is None else np.asarray(ready, dtype=float)[one]
        number = next(self.numbers)
        if transfer.left:
            self.under_way[number] = transfer
            self.loop.start(number, programme, shape[1], begin, turn=turn, stream=stream)
            self._settle()
        else:
            self._end(transfer, Ended(number, begin, np.zeros(0), np.zeros(0)))
            transfer.done.succeed(transfer.times)
        return transfer

    def times(self, transfer: Transfer) -> Floats:
        """When each place has finished its part of an exchange that has ended, (P,)."""
        if transfer.times is None:
            raise Stalled(self.dead_links())
        return transfer.times

    def dead_links(self) -> list[str]:
        """Names of links without capacity that flows wait for."""
        dead = np.flatnonzero(self.loop.capacity <= 0)
        crossed = self.rates.load(self.loop.active, np.ones_like(self.loop.active))
        links = [int(np.flatnonzero(self.classes.of_link == link)[0]) for link in dead if crossed[link] > 0]
        return [self.wiring.names[link] for link in sorted(links)]

    def token_bucket_content(self) -> Floats | None:
        """Bytes that the token buckets of each class of links hold now; None where links have none."""
        if self.buckets is None:
            return None
        self.loop.advance(self.env.now)
        return self.buckets.content.copy()

    def link_use(self) -> LinkUse:
        """Bytes/s that every link carried, from each change of the flows on."""
        return LinkUse(*self.loop.recorded(), self.classes.of_link)

    def set_capacity(self, link: int, rate: float) -> None:
        """Let a link carry `rate` bytes/s from now on, where the network is `changeable`."""
        if not isinstance(self.loop, EventLoop):
            raise RuntimeError("links of this network cannot be changed")
        self.loop.advance(self.env.now)
        self.loop.set_capacity(int(self.classes.of_link[link]), rate)
        self._settle()

    def messages(self) -> Iterator[Message]:
        """The messages of all exchanges that have ended, in the order in which these started."""
        one = self.classes.one_place.tolist()
        for transfer in self.kept:
            if transfer.began is None or transfer.ended is None:
                continue
            times = zip(transfer.began.tolist(), transfer.ended.tolist(), strict=True)
            for (classes, repeat), scale in zip(transfer.programme.rounds, transfer.scales, strict=True):
                for item in classes * repeat:
                    ends = one[item.out[0]], one[item.into[0]]
                    yield Message(*ends, item.size * scale, *next(times), transfer.label)

    def _settle(self, woken: bool = False) -> None:
        """Handle all that is due, then sleep until something is due again.

        Only where SimPy has `woken` the network can it go on by itself up to the next event of SimPy: otherwise
        whoever called has not yet said what comes next.
        """
        self.wake_number += 1
        clock, until = self.env.now, self.env.peek() if woken else -np.inf
        while True:
            try:
                clock, wake, due, ended = self.loop.follow(clock, until)
            except Stalled:
                raise Stalled(self.dead_links()) from None
            except TooManyMessages:
                raise TooManyMessages(sum(each.left for each in self.under_way.values())) from None
            for each in ended:
                transfer = self.under_way.pop(each.number)
                self._end(transfer, each)
                last = float(each.have.max())
                call_at(self.env, clock + max(0.0, last - clock), partial(transfer.done.succeed, transfer.times))
            if not woken or not wake < (until := self.env.peek()):
                break
            clock = wake
            self.loop.advance(due)
        if np.isfinite(due):
            call_at(self.env, wake, partial(self._wake, self.wake_number, due))

    def _wake(self, number: int, due: float) -> None:
        if number == self.wake_number:  # otherwise the rates have changed, and a later wake-up is set
            self.loop.advance(due)
            self._settle(woken=True)

    def _end(self, transfer: Transfer, ended: Ended) -> None:
        transfer.left, transfer.ended, transfer.began = 0, ended.flows, ended.began
        transfer.times = ended.have[self.classes.of_place]


_PERIODIC = 1e-12


def follow_flows(
    rounds: Sequence[Round],
    wiring: Wiring,
    ready: Floats,
    *,
    overhead: float = 0.0,
    factor: Floats | None = None,
    step: bool = False,
    disturbances: Disturbances = NO_DISTURBANCES,
) -> Floats:
    """Times (b, places) at which each place has finished its part of `rounds`, alone on the network.

    Arguments as in `fold`. A repeated round is not followed to its end once it has become periodic, unless `step` is
    set or links change. Raises Stalled, TooManyMessages.
    """
    payloads = len(rounds[0].nbytes) if rounds else 1
    start = np.asarray(ready, dtype=float)
    items = rounds if factor is None else [replace(item, nbytes=factor[:, None] * item.nbytes) for item in rounds]
    alone = _Alone(wiring, start, overhead, disturbances, items)
    # A token bucket that empties slowly changes the period late.
    whole = step or bool(disturbances.changes) or wiring.burst is not None
    cut = [item.repeat if whole else alone.followed_repeats(item) for item in items]
    known: dict[Shape, Floats] = {}
    made = np.empty((payloads, len(start)))
    for row, shape in enumerate(structures(items)):
        if shape not in known:
            known[shape] = alone.follow_shortened(shape, cut)
        made[row] = known[shape]
    return made


class _Alone(Record):
    """One exchange after another, each alone on the network."""

    wiring: Wiring
    ready: Floats
    overhead: float
    disturbances: Disturbances
    rounds: Sequence[Round]

    @property
    def period(self) -> int:
        """Repetitions after which the order on the links is that of before."""
        return max(1, self.wiring.layout.gpus_per_node)

    def follow_shortened(self, shape: Shape, cut: Sequence[int]) -> Floats:
        """Times of every place; of a long repetition only `cut` periods are followed, if the last ones are alike."""
        structure, scales = shape
        short = tuple((*item[:3], kept, item[4]) for item, kept in zip(structure, cut, strict=True))
        times, ends = self.follow((short, scales))
        left_out = 0.0
        for item, kept, end in zip(self.rounds, cut, ends, strict=True):
            if item.repeat == kept:
                continue
            last = end[-2 * self.period :] - end[-3 * self.period : -self.period]
            if np.ptp(last) > _PERIODIC * float(np.abs(end).max()):
                return self.follow(shape)[0]
            left_out += float(last.mean()) * ((item.repeat - kept) // self.period)
        return times + left_out

    def follow(self, shape: Shape) -> tuple[Floats, list[Floats]]:
        """Times of every place, and the times at which the flows of each round ended, (repeat, classes)."""
        env = simpy.Environment()
        network = Network(
            env,
            self.wiring,
            [shape[0]],
            overhead=self.overhead,
            colours=self.ready,
            disturbances=self.disturbances,
        )
        transfer = network.start(shape, self.ready)
        env.run(until=transfer.done if self.disturbances.steady else None)
        if transfer.left:
            raise Stalled(network.dead_links())
        return network.times(transfer), transfer.round_ends()

    def followed_repeats(self, item: Round) -> int:
        """How often a round is followed: always to its end if a place only sends or only receives."""
        if item.repeat <= 6 * self.period or any(len(np.unique(end)) < len(self.ready) for end in (item.src, item.dst)):
            return item.repeat
        return 4 * self.period + item.repeat % self.period
