"""Prices: seconds and traffic of every communication step; payloads that are sent alike are timed in one fold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.payloads import Payloads, stack_rounds
from simulator.engine.plan.phases import (
    Algorithms,
    Uses,
    add_traffic,
    carry_collectives,
    no_traffic,
    payload_bytes,
    phases_of,
)
from simulator.engine.rounds.disturbances import NO_DISTURBANCES
from simulator.fabrics.collectives import MeasuredCollective
from simulator.models.curves import Floats
from simulator.models.exchange import PRIMITIVE, Communication, Ints, Messages, PushPull
from simulator.models.limits import refuse_messages
from simulator.models.small_cache import MOST, LatestResults
from simulator.models.wiring import Traffic
from simulator.records import Struct, field, replace
from simulator.topologies.base import Rounds


class Prices(Struct):
    """Seconds of each communication step on its own, the traffic of all, and how they were found.

    `start_up`: seconds of the steps of pipelined collectives that do not depend on the links.
    `folded` and `flowed`: how many payloads were timed by each interpreter. `obstacles`: why the fold would not be
    exact. `algorithms`: how many payloads of each primitive each algorithm carries, and `reasons` why. `curves`: the
    measured curves that were used, and whether they cover all payloads.
    """

    seconds: Floats
    start_up: Floats
    traffic: Traffic
    curves: dict[str, tuple[MeasuredCollective, bool]] = field(default_factory=dict)
    folded: int = 0
    flowed: int = 0
    obstacles: list[str] = field(default_factory=list)
    algorithms: Algorithms = field(default_factory=Algorithms)
    reasons: dict[tuple[str, str], str] = field(default_factory=dict)


def price_steps(steps: Sequence[Communication], uses: Uses, network: NetworkSetup) -> Prices:
    """Price steps that follow each other, every worker being ready at time 0, on an idle network.

    Each occurs as often as `uses` say. Payloads with the same senders and receivers are timed together.
    """
    return _StepPrices(steps, uses, network).prices()


_priced: LatestResults[tuple[Prices, NetworkSetup]] = LatestResults(16, lambda it: len(it[1].wiring.capacity) <= MOST)
"""The latest prices, which scenarios with other kernels or times share, and their networks, which keep their place."""


def price_again(steps: Sequence[Communication], uses: Uses, network: NetworkSetup) -> Prices:
    """Prices as of `price_steps`, remembered; whoever has them may change them."""
    key = id(network), tuple(steps), tuple(uses)
    return replace(_priced.get(key, lambda: (price_steps(steps, uses, network), network))[0])


class _StepPrices:
    """Steps on a network, with their payloads; `times`: how often each occurs."""

    def __init__(self, steps: Sequence[Communication], uses: Uses, network: NetworkSetup) -> None:
        self.steps, self.network = steps, network
        self.times = np.bincount([place for _, place in uses], minlength=len(steps)).astype(float)
        self.payloads: list[Payloads] = []
        self.priced = Prices(np.zeros(len(steps)), np.zeros(len(steps)), no_traffic(network.wiring))
        groups: dict[type, list[int]] = defaultdict(list)
        for place, step in enumerate(steps):
            if isinstance(step, PushPull):
                phases = phases_of(step, 0, network)
                self.priced.algorithms[phases.algorithm] += int(self.times[place])
                self.payloads += [self._count(np.array([place]), phase) for phase in phases if phase]
            elif isinstance(step, Messages):
                self.priced.algorithms["messages", step.label] += int(self.times[place])
            else:
                groups[type(step)].append(place)
        for alike, rounds in _stack_messages(steps, network):
            self.payloads.append(self._count(np.array(alike), rounds))
        for places in groups.values():
            self._add_collectives(np.array(places))

    def prices(self) -> Prices:
        """The prices, with the times of all payloads."""
        made = self.priced
        for item in self.payloads:
            if len(item.timed):
                seconds, reason, flowed = item.time()
                made.seconds[item.places[item.timed]] += seconds
                made.obstacles += [reason] if reason else []
                made.flowed += len(item.timed) * flowed
                made.folded += len(item.timed) * (not flowed)
        return made

    def _add_collectives(self, places: Ints) -> None:
        """Payloads of one primitive: by the measured curve where it covers them, elsewhere by the link law."""
        network, fabric, layout, priced = self.network, self.network.fabric, self.network.wiring.layout, self.priced
        members = [self.steps[place] for place in places.tolist()]
        primitive, covered = PRIMITIVE[type(members[0])], np.zeros(len(members), dtype=bool)
        measured = fabric.measured_curve(primitive, network.topology.kind, layout)
        if measured is not None and network.disturbances is NO_DISTURBANCES and network.healthy:
            nbytes = payload_bytes(members, layout)[1]
            covered = measured.curve.covers(nbytes)
            priced.seconds[places[covered]] = measured.curve.time(nbytes[covered])
            priced.curves[measured.id] = (measured, bool(covered.all()))
        for choice, some, total, rounds in carry_collectives(members, network):
            priced.algorithms[primitive, choice.label] += int(self.times[places[some]].sum())
            if choice.reason:
                priced.reasons[primitive, choice.label] = choice.reason
            if not rounds:
                continue
            made = self._count(places[some], rounds)
            made.total, made.timed = total, np.flatnonzero(~covered[some])
            made.efficiency, made.start_up, made.beside = (
                None if each is None else each[some] for each in (choice.efficiency, choice.start_up, choice.beside)
            )
            if made.start_up is not None:
                priced.start_up[made.places] = made.start_up
            self.payloads.append(made)

    def _count(self, places: Ints, rounds: Rounds) -> Payloads:
        """Payloads, whose traffic is counted."""
        refuse_messages(
            sum(map(len, [item.src for item in rounds] + [item.src for item in self.payloads])), priced=True
        )
        src, dst, route = add_traffic(self.priced.traffic, rounds, self.network.wiring, self.times[places])
        return Payloads(self.network, places, rounds, src, dst, route, np.arange(len(places)))


def _stack_messages(steps: Sequence[Communication], network: NetworkSetup) -> list[tuple[list[int], Rounds]]:
    """Batches of payloads with the same pattern, senders and receivers: indices into `steps`, and rounds (b, m)."""
    alike: dict[object, list[tuple[int, Rounds]]] = defaultdict(list)
    for place, step in enumerate(steps):
        if isinstance(step, Messages):
            rounds = network.topology.as_sent(step.rounds(network.wiring.layout))
            if rounds:
                ends = ((item.src.tobytes(), item.dst.tobytes(), item.repeat) for item in rounds)
                alike[step.pattern, *ends].append((place, rounds))
    pairs = [tuple(zip(*members, strict=True)) for members in alike.values()]
    return [(list(places), stack_rounds(several)) for places, several in pairs]
