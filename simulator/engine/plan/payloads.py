"""Seconds of payloads by fold or flows: those that are sent alike are timed together, on all of their networks."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import accumulate

import numpy as np

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.rounds.disturbances import NO_DISTURBANCES, TooManyMessages
from simulator.engine.rounds.fold import fold, fold_lanes
from simulator.engine.rounds.fold_validity import (
    busiest_link_decides,
    reasons_against_fold,
    senders_share_nic,
)
from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Round, Route
from simulator.records import Struct, field
from simulator.topologies.base import Rounds

MAX_TIMES = 2**22
"""Payloads times places that are folded together at most, or times links that are loaded together."""
SHARED = "other traffic uses the same links"
UNEVEN = "messages wait on several links, so that the busiest one is not always in use"
LIMITED = "one message cannot fill every link by itself"
UNKNOWN = "messages of different workers may meet on a link (there are too many to find out)"


class UnlikeRoutesError(Exception):
    """Networks that should differ only in numbers have different routes."""


class Payloads(Struct):
    """Payloads (b,) of one job that are sent alike, on n networks that differ only in numbers.

    `places` (b,): the steps that they belong to. `rounds`: their messages, with senders, receivers and `route` of all
    rounds. `timed`: those whose time is asked for. `total` (b,): bytes of each result, of a collective; None for
    messages. `efficiency`, `start_up`, `beside` (b,): as in `Subset`. Once they are timed: `seconds` (n, b), and
    `found`, for each network why the fold would not be exact (or nothing), and whether messages were followed one by
    one.
    """

    places: Ints
    rounds: Rounds
    src: Ints
    dst: Ints
    route: Route
    timed: Ints
    networks: list[NetworkSetup]
    total: Floats | None = None
    efficiency: Floats | None = None
    start_up: Floats | None = None
    beside: Floats | None = None
    seconds: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    found: list[tuple[str, bool]] = field(default_factory=list)

    def sent_like(self) -> Hashable:
        """Equal for payloads that are timed together."""
        network = self.networks[0]
        own = None if network.wiring.burst is None else id(network)
        kinds = (self.total is None, self.efficiency is None, self.start_up is None, network.fidelity, own)
        rounds = tuple((len(item.src), item.repeat) for item in self.rounds)
        ends = self.src.tobytes(), self.dst.tobytes(), *_links_of(self.route)
        return network.wiring.layout, len(network.wiring.capacity), kinds, rounds, ends

    def alone(self) -> Rounds:
        """The rounds of those that are timed."""
        if len(self.timed) == len(self.places):
            return self.rounds
        return [Round(item.src, item.dst, item.nbytes[self.timed], item.repeat) for item in self.rounds]


def time_payloads(items: Sequence[Payloads]) -> None:
    """Find `seconds` and `found` of all payloads. Raises UnlikeRoutesError where networks differ in routes."""
    batches: dict[Hashable, list[Payloads]] = {}
    for item in items:
        item.seconds = np.zeros((len(item.networks), len(item.places)))
        if len(item.timed):
            batches.setdefault(item.sent_like() if len(items) > 1 else None, []).append(item)
    for members in batches.values():
        _Batch(members).time()


class _Batch:
    """Payloads that are sent alike, one after the other as B rows, on N networks."""

    def __init__(self, items: Sequence[Payloads]) -> None:
        self.items, self.one = items, items[0]
        self.networks = list({id(each): each for item in items for each in item.networks}.values())
        self.number = {id(each): number for number, each in enumerate(self.networks)}
        self.wirings = [each.wiring for each in self.networks]
        self.routes = [self._route(each) for each in self.networks]
        self.starts = [0, *accumulate(len(item.places) for item in items[:-1])]
        self.rounds = self.one.rounds if len(items) == 1 else stack_rounds([item.rounds for item in items])
        self.factor, self.beside = self._numbers_of_fabrics()

    def time(self) -> None:
        """Find seconds: of those that are followed one by one, one by one; of all others together."""
        piped, together = self.one.start_up is not None, list[tuple[Payloads, int, Ints, int]]()
        for start, item in zip(self.starts, self.items, strict=True):
            item.found, rows = self._pipelined_ways(item) if piped else self._ways(item), start + item.timed
            for place, (network, (_, flowed)) in enumerate(zip(item.networks, item.found, strict=True)):
                number = self.number[id(network)]
                if flowed:
                    self._write(item, place, self._flow(item, number, rows, piped), rows, number)
                else:
                    together.append((item, place, rows, number))
        if not together:
            return
        rows = np.concatenate([each for _, _, each, _ in together])
        wires = np.repeat([number for *_, number in together], [len(each) for _, _, each, _ in together])
        seconds, last = self._pipe(rows, wires) if piped else self._fold(rows, wires), 0
        for item, place, each, number in together:
            first, last = last, last + len(each)
            self._write(item, place, seconds[first:last], each, number)

    def _write(self, item: Payloads, place: int, seconds: Floats, rows: Ints, number: int) -> None:
        """Add what a collective takes beside its links."""
        for extra in (item.start_up, item.beside):
            if extra is not None:
                seconds = extra[item.timed] + seconds
        item.seconds[place, item.timed] = seconds if self.beside is None else seconds + self.beside[number, rows]

    def _route(self, network: NetworkSetup) -> Route:
        """The route of all messages on a network."""
        if network is self.one.networks[0]:
            return self.one.route
        route = network.wiring.route(self.one.src, self.one.dst)
        if _links_of(route) != _links_of(self.one.route):
            raise UnlikeRoutesError
        return route

    def _numbers_of_fabrics(self) -> tuple[Floats | None, Floats | None]:
        """Of collectives, (N, B): bytes on the links per byte of payload, and seconds beside the links."""
        if self.one.total is None:
            return None, None
        total = np.concatenate([item.total for item in self.items if item.total is not None])
        beside = np.array([each.fabric.added_seconds(total) for each in self.networks])
        if self.one.efficiency is not None:
            efficiency = np.concatenate([item.efficiency for item in self.items if item.efficiency is not None])
            return np.broadcast_to(1 / efficiency, beside.shape), beside
        workers = self.wirings[0].layout.workers
        return np.array([each.fabric.protocol_factor(total, workers) for each in self.networks]), beside

    def _ways(self, item: Payloads) -> list[tuple[str, bool]]:
        """On each network: why the fold is not exact, and whether messages are followed."""
        networks, fidelity, src, dst = item.networks, item.networks[0].fidelity, item.src, item.dst
        if fidelity == "flows":
            reasons = [""] * len(networks)
        else:
            routes = [self.routes[self.number[id(each)]] for each in networks]
            try:
                reasons = reasons_against_fold(item.alone(), [each.wiring for each in networks], src, dst, routes)
            except TooManyMessages:
                if fidelity == "auto":
                    raise
                reasons = [UNKNOWN] * len(networks)
        pairs = zip(networks, reasons, strict=True)
        reasons = [reason or (SHARED if _is_disturbed(network) else "") for network, reason in pairs]
        return [(why, fidelity == "flows" or (bool(why) and fidelity == "auto")) for why in reasons]

    def _pipelined_ways(self, item: Payloads) -> list[tuple[str, bool]]:
        """The ways of messages that flow at once, limited by the busiest link where links are the job's own."""
        made = []
        for network in item.networks:
            wiring, disturbed = network.wiring, _is_disturbed(network)
            meeting = senders_share_nic(wiring, item.src, self.one.route)
            reason = SHARED if disturbed else LIMITED if wiring.ceiling is not None else ""
            flowed = network.fidelity == "flows" or bool(reason) or meeting or wiring.burst is not None
            uneven = not (flowed or busiest_link_decides(item.rounds, self.one.route, wiring.capacity))
            made.append((UNEVEN if uneven else reason, flowed or uneven))
        return made

    def _flow(self, item: Payloads, number: int, rows: Ints, piped: bool) -> Floats:
        """Seconds (b,) of an item's payloads on one network, message by message."""
        from simulator.engine.rounds.network import follow_flows  # the event loop: few scenarios need it

        network = self.networks[number]
        wiring = network.wiring.instant() if piped else network.wiring
        factor, ready = None if self.factor is None else self.factor[number, rows], np.zeros(len(wiring.node))
        times = follow_flows(item.alone(), wiring, ready, factor=factor, disturbances=network.disturbances)
        slowest: Floats = times.max(axis=1)
        return slowest

    def _fold(self, rows: Ints, wires: Ints) -> Floats:
        """Seconds (C,) of payloads `rows` on networks `wires`, (C,)."""
        first = self.wirings[0]
        parts = -(-len(rows) * first.layout.places // MAX_TIMES)
        latency = np.stack([route.latency for route in self.routes], axis=1)
        capacity = np.stack([each.capacity for each in self.wirings], axis=1)
        made = []
        for row, wire in zip(np.array_split(rows, parts), np.array_split(wires, parts), strict=True):
            factor = None if self.factor is None else self.factor[wire, row]
            if first.burst is None:
                ways = self.one.route, latency, capacity
                made.append(fold_lanes(self.rounds, first.layout, *ways, rows=row, wires=wire, factor=factor))
            else:
                rounds = [Round(item.src, item.dst, item.nbytes[row], item.repeat) for item in self.rounds]
                made.append(fold(rounds, first, np.zeros(len(first.node)), factor=factor).max(axis=1))
        return np.concatenate(made)

    def _pipe(self, rows: Ints, wires: Ints) -> Floats:
        """Seconds (C,) of payloads whose messages all flow at once: the time of the busiest link."""
        made, route = np.zeros(len(rows)), self.one.route
        payloads, links = len(self.rounds[0].nbytes), len(self.wirings[0].capacity)
        for part in np.array_split(np.arange(payloads), -(-payloads * links // MAX_TIMES)):
            nbytes = np.concatenate([item.repeat * item.nbytes[part] for item in self.rounds], axis=1).T
            load = np.zeros((links, len(part)))
            for column in route.links:
                on = column >= 0
                np.add.at(load, column[on], nbytes[on])
            for number, wiring in enumerate(self.wirings):
                here = np.flatnonzero((wires == number) & (rows >= part[0]) & (rows <= part[-1]))
                made[here] = (load[:, rows[here] - part[0]] / wiring.capacity[:, None]).max(axis=0)
        return made if self.factor is None else made * self.factor[wires, rows]


def _links_of(route: Route) -> tuple[bytes | None, ...]:
    """The links of all messages."""
    return tuple(None if each is None else each.tobytes() for each in (route.first, route.last, route.middle))


def _is_disturbed(network: NetworkSetup) -> bool:
    return network.disturbances is not NO_DISTURBANCES


def stack_rounds(parts: Sequence[Rounds]) -> Rounds:
    """Rounds of several payloads with the same messages; what is one number for all messages stays one."""
    made = []
    for same in zip(*parts, strict=True):
        one, count = same[0], len(same[0].src)
        if all(item.nbytes.strides[1] == 0 for item in same):
            few = np.concatenate([item.nbytes[:, :1] for item in same])
            nbytes = np.broadcast_to(few, (len(few), count))
        else:
            nbytes = np.concatenate([item.nbytes for item in same])
        made.append(Round(one.src, one.dst, nbytes, one.repeat))
    return made
