"""Seconds of payloads by fold or flows: those that are sent alike are timed together, on all of their networks."""

from __future__ import annotations

from collections.abc import Sequence

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
from simulator.models.exchange import Ints, Route
from simulator.records import Struct, field, replace
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

    def time(self) -> None:
        """Find `seconds` and `found`: of networks on which messages are followed, one by one; of all others together.

        Raises UnlikeRoutesError where networks differ in routes.
        """
        self.seconds = np.zeros((len(self.networks), len(self.places)))
        if not len(self.timed):
            return
        piped, routes = self.start_up is not None, [self._route(each) for each in self.networks]
        factor, beside = self._numbers_of_fabrics()
        self.found = self._pipelined_ways() if piped else self._ways(routes)
        seconds = np.zeros((len(self.networks), len(self.timed)))
        together = [number for number, (_, flowed) in enumerate(self.found) if not flowed]
        if together:
            rows, wires = np.tile(self.timed, len(together)), np.repeat(together, len(self.timed))
            made = self._pipe(rows, wires, factor) if piped else self._fold(rows, wires, factor, routes)
            seconds[together] = made.reshape(len(together), -1)
        for number, (_, flowed) in enumerate(self.found):
            if flowed:
                seconds[number] = self._flow(self.networks[number], None if factor is None else factor[number], piped)
        for extra in (self.start_up, self.beside):
            seconds = seconds if extra is None else extra[self.timed] + seconds
        self.seconds[:, self.timed] = seconds if beside is None else seconds + beside[:, self.timed]

    def _route(self, network: NetworkSetup) -> Route:
        """The route of all messages on a network."""
        if network is self.networks[0]:
            return self.route
        route = network.wiring.route(self.src, self.dst)
        if _links_of(route) != _links_of(self.route):
            raise UnlikeRoutesError
        return route

    def _numbers_of_fabrics(self) -> tuple[Floats | None, Floats | None]:
        """Of collectives, (n, b): bytes on the links per byte of payload, and seconds beside the links."""
        total = self.total
        if total is None:
            return None, None
        beside = np.array([each.fabric.added_seconds(total) for each in self.networks])
        if self.efficiency is not None:
            return np.broadcast_to(1 / self.efficiency, beside.shape), beside
        workers = self.networks[0].wiring.layout.workers
        return np.array([each.fabric.protocol_factor(total, workers) for each in self.networks]), beside

    def _timed_rounds(self) -> Rounds:
        """The rounds of those that are timed."""
        if len(self.timed) == len(self.places):
            return self.rounds
        return [replace(item, nbytes=item.nbytes[self.timed]) for item in self.rounds]

    def _ways(self, routes: Sequence[Route]) -> list[tuple[str, bool]]:
        """On each network: why the fold is not exact, and whether messages are followed."""
        networks, fidelity = self.networks, self.networks[0].fidelity
        wirings, reasons = [each.wiring for each in networks], [""] * len(networks)
        if fidelity != "flows":
            try:
                reasons = reasons_against_fold(self._timed_rounds(), wirings, self.src, self.dst, routes)
            except TooManyMessages:
                if fidelity == "auto":
                    raise
                reasons = [UNKNOWN] * len(networks)
        pairs = zip(networks, reasons, strict=True)
        reasons = [reason or (SHARED if _is_disturbed(network) else "") for network, reason in pairs]
        return [(why, fidelity == "flows" or (bool(why) and fidelity == "auto")) for why in reasons]

    def _pipelined_ways(self) -> list[tuple[str, bool]]:
        """The ways of messages that flow at once, limited by the busiest link where links are the job's own."""
        made = []
        for network in self.networks:
            wiring, disturbed = network.wiring, _is_disturbed(network)
            meeting = senders_share_nic(wiring, self.src, self.route)
            reason = SHARED if disturbed else LIMITED if wiring.ceiling is not None else ""
            flowed = network.fidelity == "flows" or bool(reason) or meeting or wiring.burst is not None
            uneven = not (flowed or busiest_link_decides(self.rounds, self.route, wiring.capacity))
            made.append((UNEVEN if uneven else reason, flowed or uneven))
        return made

    def _flow(self, network: NetworkSetup, factor: Floats | None, piped: bool) -> Floats:
        """Seconds of those that are timed on one network, message by message."""
        from simulator.engine.rounds.network import follow_flows  # the event loop: few scenarios need it

        wiring = network.wiring.instant() if piped else network.wiring
        factor, ready = None if factor is None else factor[self.timed], np.zeros(len(wiring.node))
        disturbances = network.disturbances
        times = follow_flows(self._timed_rounds(), wiring, ready, factor=factor, disturbances=disturbances)
        slowest: Floats = times.max(axis=1)
        return slowest

    def _fold(self, rows: Ints, wires: Ints, factors: Floats | None, routes: Sequence[Route]) -> Floats:
        """Seconds (C,) of payloads `rows` on networks `wires`, (C,)."""
        wirings = [each.wiring for each in self.networks]
        first = wirings[0]
        parts = -(-len(rows) * first.layout.places // MAX_TIMES)
        latency = np.stack([route.latency for route in routes], axis=1)
        capacity = np.stack([each.capacity for each in wirings], axis=1)
        made = []
        for row, wire in zip(np.array_split(rows, parts), np.array_split(wires, parts), strict=True):
            factor = None if factors is None else factors[wire, row]
            if first.burst is None:
                ways = self.route, latency, capacity
                made.append(fold_lanes(self.rounds, first.layout, *ways, rows=row, wires=wire, factor=factor))
            else:
                rounds = [replace(item, nbytes=item.nbytes[row]) for item in self.rounds]
                made.append(fold(rounds, first, np.zeros(len(first.node)), factor=factor).max(axis=1))
        return np.concatenate(made)

    def _pipe(self, rows: Ints, wires: Ints, factors: Floats | None) -> Floats:
        """Seconds (C,) of payloads whose messages all flow at once: the time of the busiest link."""
        made, capacities = np.zeros(len(rows)), [each.wiring.capacity for each in self.networks]
        payloads, links = len(self.places), len(capacities[0])
        for part in np.array_split(np.arange(payloads), -(-payloads * links // MAX_TIMES)):
            nbytes = np.concatenate([item.repeat * item.nbytes[part] for item in self.rounds], axis=1).T
            load = np.zeros((links, len(part)))
            for column in self.route.links:
                on = column >= 0
                np.add.at(load, column[on], nbytes[on])
            for number, capacity in enumerate(capacities):
                here = np.flatnonzero((wires == number) & (rows >= part[0]) & (rows <= part[-1]))
                made[here] = (load[:, rows[here] - part[0]] / capacity[:, None]).max(axis=0)
        return made if factors is None else made * factors[wires, rows]


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
        made.append(replace(one, nbytes=nbytes))
    return made
