"""Prices: seconds and traffic of every communication step; many payloads are timed in one fold."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.phases import PRIMITIVE, collective_rounds, payload_bytes, phases_of
from simulator.engine.rounds.disturbances import NO_DISTURBANCES
from simulator.engine.rounds.flows import follow_flows
from simulator.engine.rounds.fold import fold
from simulator.engine.rounds.fold_validity import reason_against_fold, senders_meet
from simulator.fabrics.collectives import MeasuredCollective
from simulator.models.curves import Floats
from simulator.models.exchange import (
    Communication,
    Ints,
    Layout,
    Messages,
    PushPull,
    Round,
    Route,
)
from simulator.models.wiring import Traffic, Wiring
from simulator.topologies.base import Rounds

MAX_TIMES = 2**22
"""Payloads times places that are folded together at most."""


@dataclass(slots=True)
class Prices:
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
        self.start_up = np.zeros(len(self.seconds))


def price_steps(
    steps: Sequence[Communication],
    uses: Sequence[tuple[int, int]],
    network: NetworkSetup,
    live: bool = False,
    *,
    protocol: bool = True,
) -> Prices:
    """Price each of `steps`; `uses`, pairs (number of the bucket, index into `steps`), say how often each occurs.

    All payloads of one primitive are folded together, every worker being ready at time 0. `live`: exchanges share links
    with others and are timed by the clock; only their traffic is counted here, with or without the bytes that a
    `protocol` adds.
    """
    layout = network.wiring.layout
    prices = Prices(np.zeros(len(steps)), Traffic(np.zeros(layout.places), np.zeros(len(network.wiring.capacity))))
    if live:
        for slot, place in uses:
            for phase in phases_of(steps[place], slot, network, prices.algorithms, protocol):
                if phase:
                    _count_traffic(prices.traffic, phase, network.wiring, np.ones(1))
        return prices
    times = np.bincount([place for _, place in uses], minlength=len(steps)).astype(float)
    groups: dict[type, list[int]] = defaultdict(list)
    patterns: dict[Any, list[int]] = {}
    for place, step in enumerate(steps):
        if isinstance(step, Messages):
            patterns.setdefault(step.pattern, []).append(place)
            prices.algorithms["messages", step.label] += int(times[place])
        else:
            groups[type(step)].append(place)
    for pattern, places in patterns.items():
        for alike, rounds in _stack_messages(pattern, places, steps, network):
            prices.seconds[alike] = _time_rounds(rounds, network, prices, times[alike])
    for places in groups.values():
        members = [steps[place] for place in places]
        prices.seconds[places], prices.start_up[places] = _price_group(members, times[places], network, prices)
    return prices


def _stack_messages(
    pattern: Callable[[tuple[float, ...], Layout], Rounds],
    places: Sequence[int],
    steps: Sequence[Communication],
    network: NetworkSetup,
) -> Iterator[tuple[list[int], Rounds]]:
    """Batches of payloads with the same senders and receivers: indices into `steps`, and rounds (b, m)."""
    alike: dict[tuple[tuple[bytes, bytes, int], ...], list[tuple[int, Rounds]]] = defaultdict(list)
    for place in places:
        step = steps[place]
        rounds = pattern(step.nbytes, network.wiring.layout) if isinstance(step, Messages) else []
        rounds = network.topology.as_sent(rounds)
        alike[tuple((item.src.tobytes(), item.dst.tobytes(), item.repeat) for item in rounds)].append((place, rounds))
    for members in alike.values():
        made = [
            Round(one[0].src, one[0].dst, np.concatenate([item.nbytes for item in one]), one[0].repeat)
            for one in zip(*(rounds for _, rounds in members), strict=True)
        ]
        yield [place for place, _ in members], made


def price_alone(step: Communication, network: NetworkSetup) -> tuple[Prices, bool]:
    """The price of one communication step on an idle network, and whether follow_flows were needed for it."""
    if not isinstance(step, PushPull):
        priced = price_steps([step], [(0, 0)], network)
        return priced, priced.flowed > 0
    prices = Prices(
        np.zeros(1), Traffic(np.zeros(network.wiring.layout.places), np.zeros(len(network.wiring.capacity)))
    )
    for phase in phases_of(step, 0, network, prices.algorithms):
        prices.seconds += _time_rounds(phase, network, prices, np.ones(1))
    return prices, prices.flowed > 0


def _price_group(
    members: Sequence[Communication], times: Floats, network: NetworkSetup, prices: Prices
) -> tuple[Floats, Floats]:
    """Seconds of payloads of one primitive: by the measured curve where it covers them, elsewhere by the link law.

    And the seconds of start-up that are among them where a collective is pipelined.
    """
    fabric, topology, layout = network.fabric, network.topology, network.wiring.layout
    primitive = PRIMITIVE[type(members[0])]
    payload, total = payload_bytes(members, layout)
    seconds, start_up = np.zeros(len(members)), np.zeros(len(members))
    by_curve = np.zeros(len(members), dtype=bool)
    measured = fabric.measured_curve(primitive, topology.kind, layout)
    if measured is not None and network.disturbances is NO_DISTURBANCES and network.healthy:
        by_curve = measured.curve.covers(total)
        seconds[by_curve] = measured.curve.time(total[by_curve])
        prices.curves[measured.id] = (measured, bool(by_curve.all()))
    for choice in topology.choices(primitive, total, layout, network.machine):
        if choice.mask.any():
            prices.algorithms[primitive, choice.label] += int(times[choice.mask].sum())
            if choice.reason:
                prices.reasons[primitive, choice.label] = choice.reason
        for some in _split_by_memory(np.flatnonzero(choice.mask), layout.places):
            rounds = collective_rounds(primitive, payload[some], choice.topology, fabric, layout)
            factor = fabric.protocol_factor(total[some], layout.workers)
            if choice.efficiency is not None:
                factor = 1 / choice.efficiency[some]
            law = _time_rounds(
                rounds,
                network,
                prices,
                times[some],
                factor=factor,
                skip=by_curve[some],
                start_up=None if choice.start_up is None else choice.start_up[some],
            )
            if choice.start_up is not None and rounds:
                start_up[some] = choice.start_up[some]
            beside = fabric.beside(total[some]) if rounds else 0.0
            seconds[some] = np.where(by_curve[some], seconds[some], law + beside)
    return seconds, start_up


def _split_by_memory(payloads: Ints, places: int) -> list[Ints]:
    """The payloads in parts that are folded together; one part, unless a large cluster would fill the memory."""
    return np.array_split(payloads, -(-len(payloads) * places // MAX_TIMES)) if len(payloads) else []


def _time_rounds(
    rounds: Rounds,
    network: NetworkSetup,
    prices: Prices,
    times: Floats,
    *,
    factor: Floats | None = None,
    skip: npt.NDArray[np.bool_] | None = None,
    start_up: Floats | None = None,
) -> Floats:
    """Seconds (b,) of payloads by fold or follow_flows.

    Each payload is counted `times` (b,) over as traffic. `factor` (b,) multiplies its bytes on the links. Payloads to
    `skip` (b,) are counted, but not timed. `start_up` (b,): of pipelined collectives, whose messages flow at once.
    """
    made = np.zeros(len(times))
    if not rounds:
        return made
    wiring = network.wiring
    src, dst, route = _count_traffic(prices.traffic, rounds, wiring, times)
    rest = np.ones(len(times), dtype=bool) if skip is None else ~skip
    if not rest.any():
        return made
    some = [Round(item.src, item.dst, item.nbytes[rest], item.repeat) for item in rounds]
    factor = None if factor is None else factor[rest]
    if start_up is not None:
        made[rest] = start_up[rest] + _time_pipelined(some, route, network, prices, factor)
        return made
    ready = np.zeros(len(wiring.node))
    why = "" if network.fidelity == "flows" else reason_against_fold(some, wiring, src, dst, route)
    if network.disturbances is not NO_DISTURBANCES:
        why = why or "other traffic uses the same links"
    if why:
        prices.obstacles.append(why)
    if network.fidelity == "flows" or (why and network.fidelity == "auto"):
        made[rest] = follow_flows(some, wiring, ready, factor=factor, disturbances=network.disturbances).max(axis=1)
        prices.flowed += int(rest.sum())
    else:
        made[rest] = fold(some, wiring, ready, factor=factor).max(axis=1)
        prices.folded += int(rest.sum())
    return made


def _time_pipelined(
    rounds: list[Round], route: Route, network: NetworkSetup, prices: Prices, factor: Floats | None
) -> Floats:
    """Seconds (b,) of messages that all flow at once: those of the busiest link, where links are the job's own."""
    wiring, alone = network.wiring, network.disturbances is NO_DISTURBANCES
    meeting = senders_meet(wiring, np.concatenate([item.src for item in rounds]), route)
    if network.fidelity == "flows" or not alone or meeting or wiring.burst is not None:
        if not alone:
            prices.obstacles.append("other traffic uses the same links")
        prices.flowed += len(rounds[0].nbytes)
        ready = np.zeros(len(wiring.node))
        times = follow_flows(rounds, wiring.instant(), ready, factor=factor, disturbances=network.disturbances)
        slowest: Floats = times.max(axis=1)
        return slowest
    nbytes = np.concatenate([item.repeat * item.nbytes for item in rounds], axis=1).T
    load = np.zeros((len(wiring.capacity), nbytes.shape[1]))
    for links in (route.first, route.last, *(() if route.middle is None else route.middle.T)):
        on = links >= 0
        np.add.at(load, links[on], nbytes[on])
    prices.folded += nbytes.shape[1]
    busiest: Floats = (load / wiring.capacity[:, None]).max(axis=0)
    return busiest if factor is None else busiest * factor


def traffic_of(rounds: Rounds, wiring: Wiring) -> Traffic:
    """The traffic of one payload's messages."""
    traffic = Traffic(np.zeros(len(wiring.node)), np.zeros(len(wiring.capacity)))
    if rounds:
        _count_traffic(traffic, rounds, wiring, np.ones(1))
    return traffic


def _count_traffic(traffic: Traffic, rounds: list[Round], wiring: Wiring, times: Floats) -> tuple[Ints, Ints, Route]:
    """Add the bytes of each payload, `times` (b,) over; returns senders, receivers and routes of all rounds."""
    src, dst = (np.concatenate([getattr(item, end) for item in rounds]) for end in ("src", "dst"))
    nbytes = np.concatenate([item.repeat * (times @ item.nbytes) for item in rounds])
    route = wiring.route(src, dst)
    traffic.add(src, route, nbytes)
    return src, dst, route
