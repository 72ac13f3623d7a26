"""Prices: seconds and traffic of every communication step; many payloads, on many networks, are timed in one fold."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.payloads import Payloads, UnlikeRoutesError, stack_rounds, time_payloads
from simulator.engine.plan.phases import PRIMITIVE, collective_rounds, payload_bytes, phases_of
from simulator.engine.rounds.disturbances import NO_DISTURBANCES
from simulator.fabrics.collectives import MeasuredCollective
from simulator.models.curves import Floats
from simulator.models.exchange import Communication, Ints, Messages, PushPull, Round, Route
from simulator.models.linear_algebra import weigh_rows
from simulator.models.small_cache import LatestResults
from simulator.models.wiring import Traffic, Wiring
from simulator.records import Struct, field
from simulator.topologies.base import Rounds


class Prices(Struct):
    """Seconds of each communication step on its own, the traffic of all, and how they were found.

    `folded` and `flowed`: how many payloads were timed by each interpreter. `obstacles`: why the fold would not be
    exact. `algorithms`: how many payloads of each primitive each algorithm carries, and `reasons` why. `curves`: the
    measured curves that were used, and whether they cover all payloads. `start_up`: seconds of the steps of pipelined
    collectives that do not depend on the links.
    """

    seconds: Floats
    traffic: Traffic
    curves: dict[str, tuple[MeasuredCollective, bool]] = field(default_factory=dict)
    folded: int = 0
    flowed: int = 0
    obstacles: list[str] = field(default_factory=list)
    algorithms: Counter[tuple[str, str]] = field(default_factory=Counter)
    reasons: dict[tuple[str, str], str] = field(default_factory=dict)
    start_up: Floats = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if len(self.start_up) != len(self.seconds):
            self.start_up = np.zeros(len(self.seconds))


class Lane(NamedTuple):
    """What is priced on one network: communication steps, and `uses`, pairs (number of the bucket, index into `steps`),
    which say how often each occurs."""

    steps: Sequence[Communication]
    uses: Sequence[tuple[int, int]]
    network: NetworkSetup


def price_steps(
    steps: Sequence[Communication],
    uses: Sequence[tuple[int, int]],
    network: NetworkSetup,
    live: bool = False,
    *,
    protocol: bool = True,
) -> Prices:
    """Price each of `steps`; `uses` as in `Lane`.

    `live`: exchanges share links with others and are timed by the clock; only their traffic is counted here, with or
    without the bytes that a `protocol` adds.
    """
    if not live:
        return price_lanes([Lane(steps, uses, network)])[0]
    wiring = network.wiring
    prices = Prices(np.zeros(len(steps)), _no_traffic(wiring))
    for slot, place in uses:
        for phase in phases_of(steps[place], slot, network, prices.algorithms, protocol):
            if phase:
                _count_traffic(prices.traffic, phase, wiring, np.ones(1))
    return prices


def price_lanes(lanes: Sequence[Lane], *, with_reasons: bool = True) -> list[Prices]:
    """Price steps that follow each other, every worker being ready at time 0; the same as `price_steps` of each.

    Payloads with the same senders and receivers are timed together, on all networks that differ only in numbers.
    Without reasons (`obstacles`) it is not asked whether an asked-for fold is exact.
    """
    jobs: dict[object, _Job] = {}
    shapes: dict[int, object] = {}
    exchanges: dict[tuple[int, int], object] = {}
    of_lane: list[tuple[_Job, int]] = []
    for steps, uses, network in lanes:
        if id(network) not in shapes:
            shapes[id(network)] = _shape_of_network(network)
        same = id(steps), id(uses)
        if same not in exchanges:  # other kernels or times leave the exchanges as they are
            exchanges[same] = (tuple(steps), tuple(uses)) if len(lanes) > 1 else same
        key = (exchanges[same], shapes[id(network)])
        if key not in jobs:
            jobs[key] = _Job(steps, uses, network)
        of_lane.append((jobs[key], jobs[key].add(network)))
    try:
        time_payloads([item for job in jobs.values() for item in job.payloads], with_reasons=with_reasons)
    except UnlikeRoutesError:
        return [made for lane in lanes for made in price_lanes([lane], with_reasons=with_reasons)]
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


class _Job:
    """Steps with their payloads, traffic and algorithms, which are the same on all networks of one shape."""

    def __init__(self, steps: Sequence[Communication], uses: Sequence[tuple[int, int]], network: NetworkSetup) -> None:
        self.steps, self.network, self.networks = steps, network, list[NetworkSetup]()
        self.times = np.bincount([place for _, place in uses], minlength=len(steps)).astype(float)
        self.payloads: list[Payloads] = []
        self.traffic, self.curves = _no_traffic(network.wiring), dict[str, tuple[MeasuredCollective, bool]]()
        self.algorithms: Counter[tuple[str, str]] = Counter()
        self.reasons: dict[tuple[str, str], str] = {}
        self.by_curve: list[tuple[Ints, Floats]] = []
        self.start_up = np.zeros(len(steps))
        self.together: Floats | None = None
        groups: dict[type, list[int]] = defaultdict(list)
        for place, step in enumerate(steps):
            if isinstance(step, Messages):
                self.algorithms["messages", step.label] += int(self.times[place])
            else:
                groups[type(step)].append(place)
        for alike, rounds in _stack_messages(steps, network):
            self.payloads.append(self._count(np.array(alike), rounds))
        for places in groups.values():
            self._add_collectives(np.array(places))

    def add(self, network: NetworkSetup) -> int:
        """Price the steps on one more network; its number."""
        if self.networks and network is self.networks[-1]:
            return len(self.networks) - 1
        self.networks.append(network)
        for item in self.payloads:
            item.networks.append(network)
        return len(self.networks) - 1

    def prices(self, number: int) -> Prices:
        """The prices on a network, once all payloads have been timed."""
        if self.together is None:
            self.together = np.zeros((len(self.networks), len(self.steps)))
            for item in self.payloads:
                self.together[:, item.places] = item.seconds
            for places, curve in self.by_curve:
                self.together[:, places] = curve
        made = Prices(
            self.together[number],
            self.traffic,
            self.curves,
            algorithms=self.algorithms,
            reasons=self.reasons,
            start_up=self.start_up,
        )
        for item in self.payloads:
            reason, flowed = item.found[number] if item.found else ("", False)
            made.obstacles += [reason] if reason else []
            made.flowed += len(item.timed) * flowed
            made.folded += len(item.timed) * (not flowed)
        return made

    def _add_collectives(self, places: Ints) -> None:
        """Payloads of one primitive: by the measured curve where it covers them, elsewhere by the link law."""
        network, fabric, layout = self.network, self.network.fabric, self.network.wiring.layout
        members = [self.steps[place] for place in places.tolist()]
        primitive = PRIMITIVE[type(members[0])]
        payload, total = payload_bytes(members, layout)
        covered = np.zeros(len(members), dtype=bool)
        measured = fabric.measured_curve(primitive, network.topology.kind, layout)
        if measured is not None and network.disturbances is NO_DISTURBANCES and network.healthy:
            covered = measured.curve.covers(total)
            self.by_curve.append((places[covered], measured.curve.time(total[covered])))
            self.curves[measured.id] = (measured, bool(covered.all()))
        for choice in network.topology.choices(primitive, total, layout, network.machine):
            some = np.flatnonzero(choice.mask)
            if not len(some):
                continue
            self.algorithms[primitive, choice.label] += int(self.times[places[some]].sum())
            if choice.reason:
                self.reasons[primitive, choice.label] = choice.reason
            rounds = collective_rounds(primitive, payload[some], choice.topology, fabric, layout)
            if not rounds:
                continue
            made = self._count(places[some], rounds)
            made.total, made.timed = total[some], np.flatnonzero(~covered[some])
            if choice.efficiency is not None:
                made.efficiency = choice.efficiency[some]
            if choice.start_up is not None:
                made.start_up = choice.start_up[some]
                self.start_up[made.places] = made.start_up
            if choice.beside is not None:
                made.beside = choice.beside[some]
            self.payloads.append(made)

    def _count(self, places: Ints, rounds: Rounds) -> Payloads:
        """Payloads, whose traffic is counted."""
        src, dst, route = _count_traffic(self.traffic, rounds, self.network.wiring, self.times[places])
        return Payloads(places, rounds, src, dst, route, np.arange(len(places)))


_Stacks = list[tuple[list[int], Rounds]]
_FEW = 2**17
_stacks: LatestResults[_Stacks] = LatestResults(
    16, lambda stacks: sum(item.nbytes.size for _, rounds in stacks for item in rounds) <= _FEW
)
"""Few messages: those of the same steps, which points of a sweep send over other networks."""


def _stack_messages(steps: Sequence[Communication], network: NetworkSetup) -> _Stacks:
    """Batches of payloads with the same pattern, senders and receivers: indices into `steps`, and rounds (b, m)."""
    messages = [(place, step) for place, step in enumerate(steps) if isinstance(step, Messages)]
    if not messages:
        return []
    topology, layout = network.topology, network.wiring.layout

    def make() -> _Stacks:
        alike: dict[object, list[tuple[int, Rounds]]] = defaultdict(list)
        for place, step in messages:
            rounds = topology.as_sent(step.pattern(step.nbytes, layout))
            if rounds:
                ends = ((item.src.tobytes(), item.dst.tobytes(), item.repeat) for item in rounds)
                alike[step.pattern, *ends].append((place, rounds))
        pairs = [tuple(zip(*members, strict=True)) for members in alike.values()]
        return [(list(places), stack_rounds(several)) for places, several in pairs]

    return _stacks.get((topology.fingerprint, layout, *messages), make)


def price_alone(step: Communication, network: NetworkSetup) -> tuple[Prices, bool]:
    """The price of one communication step on an idle network, and whether messages were followed for it."""
    if not isinstance(step, PushPull):
        priced = price_steps([step], [(0, 0)], network)
        return priced, priced.flowed > 0
    prices = Prices(np.zeros(1), _no_traffic(network.wiring))
    for phase in phases_of(step, 0, network, prices.algorithms):
        if phase:
            src, dst, route = _count_traffic(prices.traffic, phase, network.wiring, np.ones(1))
            item = Payloads(np.zeros(1, dtype=np.int64), phase, src, dst, route, np.zeros(1, dtype=np.int64), [network])
            time_payloads([item])
            (reason, flowed), seconds = item.found[0], item.seconds[0]
            prices.seconds += seconds
            prices.obstacles += [reason] if reason else []
            prices.flowed, prices.folded = prices.flowed + flowed, prices.folded + (not flowed)
    return prices, prices.flowed > 0


def _no_traffic(wiring: Wiring) -> Traffic:
    return Traffic(np.zeros(len(wiring.node)), np.zeros(len(wiring.capacity)))


def traffic_of(rounds: Rounds, wiring: Wiring) -> Traffic:
    """The traffic of one payload's messages."""
    traffic = _no_traffic(wiring)
    if rounds:
        _count_traffic(traffic, rounds, wiring, np.ones(1))
    return traffic


def _count_traffic(traffic: Traffic, rounds: list[Round], wiring: Wiring, times: Floats) -> tuple[Ints, Ints, Route]:
    """Add the bytes of each payload, `times` (b,) over; returns senders, receivers and routes of all rounds."""
    src, dst = (np.concatenate([getattr(item, end) for item in rounds]) for end in ("src", "dst"))
    nbytes = np.concatenate([item.repeat * weigh_rows(times, item.nbytes) for item in rounds])
    route = wiring.route(src, dst)
    traffic.add(src, route, nbytes)
    return src, dst, route
