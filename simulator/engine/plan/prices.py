"""Prices: seconds and traffic of every communication step; many payloads, on many networks, are timed in one fold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.payloads import Payloads, UnlikeRoutesError, stack_rounds
from simulator.engine.plan.phases import (
    Algorithms,
    Uses,
    add_traffic,
    carry_collectives,
    ends_of,
    no_traffic,
    payload_bytes,
    phases_of,
)
from simulator.engine.rounds.disturbances import NO_DISTURBANCES
from simulator.fabrics.collectives import MeasuredCollective
from simulator.models.curves import Floats
from simulator.models.exchange import PRIMITIVE, Communication, Ints, Messages, PushPull
from simulator.models.limits import refuse_messages
from simulator.models.small_cache import LatestResults
from simulator.models.wiring import Traffic
from simulator.records import Struct, field, replace
from simulator.topologies.base import Rounds


class Prices(Struct):
    """Seconds of each communication step on its own, the traffic of all, and how they were found.

    `start_up`: seconds of the steps of pipelined collectives that do not depend on the links.
    `folded` and `flowed`: how many payloads were timed by each interpreter. `obstacles`: why the fold would not be
    exact. `algorithms`: how many payloads of each primitive each algorithm carries, and `reasons` why. `curves`: the
    measured curves that were used, and whether they cover all payloads. `payloads`, and `carriers`, the steps of each
    algorithm, are there where it was not known how often steps occur.
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
    payloads: Sequence[Payloads] = ()
    carriers: Sequence[tuple[tuple[str, str], Ints]] = ()

    def count(self, times: Floats) -> tuple[Traffic, Algorithms]:
        """The traffic and the algorithms of steps that occur so often (s,)."""
        traffic = Traffic(np.zeros_like(self.traffic.sent), np.zeros_like(self.traffic.links))
        algorithms = Algorithms()
        for item in self.payloads:
            add_traffic(traffic, item.rounds, item.src, item.route, times[item.places])
        for algorithm, places in self.carriers:
            algorithms[algorithm] += int(times[places].sum())
        return traffic, algorithms


class Lane(NamedTuple):
    """What is priced on one network: communication steps, and `uses`, which say how often each occurs."""

    steps: Sequence[Communication]
    uses: Uses
    network: NetworkSetup


def price_steps(steps: Sequence[Communication], uses: Uses, network: NetworkSetup) -> Prices:
    """Price each of `steps`, which occur as often as `uses` say, on an idle network."""
    return price_lanes([Lane(steps, uses, network)])[0]


def price_lanes(lanes: Sequence[Lane]) -> list[Prices]:
    """Price steps that follow each other, every worker being ready at time 0; each lane as if it were alone.

    Payloads with the same senders and receivers are timed together, on all networks that differ only in numbers.
    """
    jobs, of_lane = dict[object, _StepPrices](), list[tuple[_StepPrices, int]]()
    shapes, exchanges = dict[int, object](), dict[tuple[int, int], object]()
    for steps, uses, network in lanes:
        if id(network) not in shapes:
            shapes[id(network)] = _shape_of_network(network)
        same = id(steps), id(uses)
        if same not in exchanges:  # other kernels or times leave the exchanges as they are
            exchanges[same] = (tuple(steps), tuple(uses)) if len(lanes) > 1 else same
        key = (exchanges[same], shapes[id(network)])
        if key not in jobs:
            jobs[key] = _StepPrices(steps, uses, network)
        of_lane.append((jobs[key], jobs[key].add(network)))
    try:
        for job in jobs.values():
            for item in job.payloads:
                item.time()
    except UnlikeRoutesError:
        return [made for lane in lanes for made in price_lanes([lane])]
    return [job.prices(number) for job, number in of_lane]


_shapes: LatestResults[object] = LatestResults(256)
"""Shapes of fabrics, by their fingerprints."""


def _shape_of_network(network: NetworkSetup) -> object:
    """Equal for networks that differ only in numbers: then messages, routes and traffic are the same.

    Networks are by themselves where a choice depends on their numbers.
    """
    if network.topology.by_machine or network.fabric.measured or network.wiring.burst is not None:
        return id(network)
    wiring = network.wiring
    shape = _shapes.get(network.fabric.fingerprint, lambda: _shape_of(network.fabric))
    parts = (network.topology.fingerprint, shape, wiring.layout, wiring.node.tobytes())
    return (*parts, network.fidelity, network.disturbances is NO_DISTURBANCES, wiring.burst is None, wiring.names[-1:])


def _shape_of(value: Any) -> object:
    """A value without its floats."""
    if isinstance(value, BaseModel):
        return type(value), *(_shape_of(value.__dict__[name]) for name in type(value).model_fields)
    if isinstance(value, Mapping):
        return tuple((name, _shape_of(item)) for name, item in value.items())
    if isinstance(value, tuple | list):
        return tuple(_shape_of(item) for item in value)
    return float if isinstance(value, float) else value


class _StepPrices:
    """Steps with their payloads, traffic and algorithms, which are the same on all networks of one shape."""

    def __init__(self, steps: Sequence[Communication], uses: Uses, network: NetworkSetup) -> None:
        self.steps, self.network = steps, network
        self.networks, self.numbers = list[NetworkSetup](), dict[int, int]()
        times = np.bincount([place for _, place in uses], minlength=len(steps)).astype(float)
        self.payloads, self.carriers = list[Payloads](), list[tuple[tuple[str, str], Ints]]()
        self.common = Prices(np.zeros(len(steps)), np.zeros(len(steps)), no_traffic(network.wiring))
        groups: dict[type, list[int]] = defaultdict(list)
        for place, step in enumerate(steps):
            if isinstance(step, PushPull):
                phases = phases_of(step, 0, network)
                self.carriers.append((phases.algorithm, np.array([place])))
                self.payloads += [self._lay_out(np.array([place]), phase) for phase in phases if phase]
            elif isinstance(step, Messages):
                self.carriers.append((("messages", step.label), np.array([place])))
            else:
                groups[type(step)].append(place)
        for alike, rounds in _stack_messages(steps, network):
            self.payloads.append(self._lay_out(np.array(alike), rounds))
        for places in groups.values():
            self._add_collectives(np.array(places))
        whole = replace(self.common, payloads=self.payloads, carriers=self.carriers)
        traffic, algorithms = whole.count(times)
        self.common = replace(self.common if uses else whole, traffic=traffic, algorithms=algorithms)

    def add(self, network: NetworkSetup) -> int:
        """Price the steps on one more network; its number."""
        number = self.numbers.setdefault(id(network), len(self.networks))
        self.networks += [network] if number == len(self.networks) else []
        return number

    @cached_property
    def seconds(self) -> Floats:
        """Seconds of all steps on all networks, once all payloads have been timed."""
        made = np.tile(self.common.seconds, (len(self.networks), 1))
        for item in self.payloads:
            made[:, item.places] += item.seconds
        return made

    def prices(self, number: int) -> Prices:
        """The prices on a network, once all payloads have been timed."""
        made = replace(self.common, seconds=self.seconds[number], obstacles=[])
        for item in self.payloads:
            reason, flowed = item.found[number] if item.found else ("", False)
            made.obstacles += [reason] if reason else []
            made.flowed += len(item.timed) * flowed
            made.folded += len(item.timed) * (not flowed)
        return made

    def _add_collectives(self, places: Ints) -> None:
        """Payloads of one primitive: by the measured curve where it covers them, elsewhere by the link law."""
        network, fabric, layout, common = self.network, self.network.fabric, self.network.wiring.layout, self.common
        members = [self.steps[place] for place in places.tolist()]
        primitive, covered = PRIMITIVE[type(members[0])], np.zeros(len(members), dtype=bool)
        measured = fabric.measured_curve(primitive, network.topology.kind, layout)
        if measured is not None and network.disturbances is NO_DISTURBANCES and network.healthy:
            nbytes = payload_bytes(members, layout)[1]
            covered = measured.curve.covers(nbytes)
            common.seconds[places[covered]] = measured.curve.time(nbytes[covered])
            common.curves[measured.id] = (measured, bool(covered.all()))
        for choice, some, total, rounds in carry_collectives(members, network):
            self.carriers.append(((primitive, choice.label), places[some]))
            if choice.reason:
                common.reasons[primitive, choice.label] = choice.reason
            if not rounds:
                continue
            made = self._lay_out(places[some], rounds)
            made.total, made.timed = total, np.flatnonzero(~covered[some])
            made.efficiency, made.start_up, made.beside = (
                None if each is None else each[some] for each in (choice.efficiency, choice.start_up, choice.beside)
            )
            if made.start_up is not None:
                common.start_up[made.places] = made.start_up
            self.payloads.append(made)

    def _lay_out(self, places: Ints, rounds: Rounds) -> Payloads:
        """Payloads, with the routes of their messages."""
        refuse_messages(
            sum(map(len, [item.src for item in rounds] + [item.src for item in self.payloads])), priced=True
        )
        src, dst = ends_of(rounds)
        route = self.network.wiring.route(src, dst)
        return Payloads(places, rounds, src, dst, route, np.arange(len(places)), self.networks)


def _stack_messages(steps: Sequence[Communication], network: NetworkSetup) -> list[tuple[list[int], Rounds]]:
    """Batches of payloads with the same pattern, senders and receivers: indices into `steps`, and rounds (b, m)."""
    alike: dict[object, list[tuple[int, Rounds]]] = defaultdict(list)
    for place, step in enumerate(steps):
        if isinstance(step, Messages):
            (rounds,) = phases_of(step, 0, network)
            if rounds:
                ends = ((item.src.tobytes(), item.dst.tobytes(), item.repeat) for item in rounds)
                alike[step.pattern, *ends].append((place, rounds))
    pairs = [tuple(zip(*members, strict=True)) for members in alike.values()]
    return [(list(places), stack_rounds(several)) for places, several in pairs]
