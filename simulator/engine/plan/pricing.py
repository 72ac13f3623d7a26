"""Prices: seconds and traffic of every communication step, many payloads in one fold."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from simulator.engine.plan.collective_rounds import collective_rounds
from simulator.engine.rounds.disturbances import NO_DISTURBANCES, Disturbances
from simulator.engine.rounds.flows import follow_flows
from simulator.engine.rounds.fold import fold
from simulator.engine.rounds.fold_validity import reason_against_fold
from simulator.fabrics.base import Fabric
from simulator.fabrics.collectives import MeasuredCollective
from simulator.models.curves import Floats
from simulator.models.exchange import (
    AllGather,
    AllReduce,
    Broadcast,
    Communication,
    Ints,
    Layout,
    Messages,
    PushPull,
    ReduceScatter,
    Round,
    Route,
)
from simulator.models.wiring import Traffic, Wiring
from simulator.topologies.base import Rounds, Topology

PRIMITIVE = {
    AllReduce: "all_reduce",
    AllGather: "all_gather",
    ReduceScatter: "reduce_scatter",
    Broadcast: "broadcast",
}


MAX_TIMES = 2**22
"""Payloads times places that fold together."""
Fidelity = Literal["auto", "fold", "flows"]


@dataclass(slots=True)
class Prices:
    """Seconds of each step where one follows the other, total traffic, and what they rest on.

    `folded` and `flowed` are the payloads priced by either; `obstacles` say where the fold would not be exact;
    `algorithms` how many payloads of each primitive went by which; `curves` the measured ones used.
    """

    seconds: Floats
    traffic: Traffic
    curves: dict[str, tuple[MeasuredCollective, bool]] = field(default_factory=dict)
    folded: int = 0
    flowed: int = 0
    obstacles: list[str] = field(default_factory=list)
    algorithms: Counter[tuple[str, str]] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Wires:
    """What steps are priced on: the topology, the fabric laid out, what else happens on it, and the interpreter.

    `healthy`: every link is as the fabric says, so that what was measured on it applies.
    """

    topology: Topology
    fabric: Fabric
    wiring: Wiring
    fidelity: Fidelity = "auto"
    disturbances: Disturbances = NO_DISTURBANCES
    healthy: bool = True


def price(steps: Sequence[Communication], uses: Sequence[tuple[int, int]], wires: Wires, live: bool = False) -> Prices:
    """Price each of `steps`; `uses` are pairs (slot of the bucket, place in `steps`), for the traffic.

    All payloads of one primitive fold together and start with every place ready. `live`: exchanges meet others on the
    links as they go and are timed there; only their traffic is counted here.
    """
    layout = wires.wiring.layout
    prices = Prices(np.zeros(len(steps)), Traffic(np.zeros(layout.places), np.zeros(len(wires.wiring.capacity))))
    if live:
        for slot, place in uses:
            for phase in on_the_wire(steps[place], slot, wires, prices.algorithms):
                if phase:
                    _count(prices.traffic, phase, wires.wiring, np.ones(1))
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
        for alike, rounds in _stacked(pattern, places, steps, layout):
            prices.seconds[alike] = _law(rounds, wires, prices, times[alike])
    for places in groups.values():
        members = [steps[place] for place in places]
        prices.seconds[places] = _price_group(members, times[places], wires, prices)
    return prices


def _stacked(
    pattern: Callable[[tuple[float, ...], Layout], Rounds],
    places: Sequence[int],
    steps: Sequence[Communication],
    layout: Layout,
) -> Iterator[tuple[list[int], Rounds]]:
    """Payloads of one pattern whose messages go the same ways, as one batch: their places, and the rounds (b, m)."""
    alike: dict[tuple[tuple[bytes, bytes, int], ...], list[tuple[int, Rounds]]] = defaultdict(list)
    for place in places:
        step = steps[place]
        rounds = pattern(step.nbytes, layout) if isinstance(step, Messages) else []
        alike[tuple((item.src.tobytes(), item.dst.tobytes(), item.repeat) for item in rounds)].append((place, rounds))
    for members in alike.values():
        made = [
            Round(one[0].src, one[0].dst, np.concatenate([item.nbytes for item in one]), one[0].repeat)
            for one in zip(*(rounds for _, rounds in members), strict=True)
        ]
        yield [place for place, _ in members], made


def alone(step: Communication, wires: Wires) -> tuple[Prices, bool]:
    """One exchange of any kind on idle wires, every place ready: its price, and whether flows were needed for it."""
    if not isinstance(step, PushPull):
        priced = price([step], [(0, 0)], wires)
        return priced, priced.flowed > 0
    prices = Prices(np.zeros(1), Traffic(np.zeros(wires.wiring.layout.places), np.zeros(len(wires.wiring.capacity))))
    for phase in on_the_wire(step, 0, wires, prices.algorithms):
        prices.seconds += _law(phase, wires, prices, np.ones(1))
    return prices, prices.flowed > 0


def on_the_wire(
    step: Communication,
    slot: int,
    wires: Wires,
    algorithms: Counter[tuple[str, str]] | None = None,
    protocol: bool = True,
) -> list[Rounds]:
    """The phases of one step as they travel: by the algorithm that carries it, bytes as its protocol makes them.

    Without `protocol`, the bytes of the messages themselves, as `price` counts them where exchanges follow each other.
    """
    layout, counter = wires.wiring.layout, Counter() if algorithms is None else algorithms
    if isinstance(step, PushPull | Messages):
        counter["push and pull" if isinstance(step, PushPull) else "messages", wires.topology.kind] += 1
        return wires.topology.rounds(step, layout, slot)
    primitive = PRIMITIVE[type(step)]
    payload, total = _payloads([step], layout)
    choices = wires.topology.choices(primitive, total, layout)
    chosen, _, label, efficiency = next(choice for choice in choices if choice.mask.any())
    counter[primitive, label] += 1
    factor = float(wires.fabric.protocol_factor(total, layout.workers)[0])
    factor = factor if efficiency is None else 1 / efficiency
    rounds = collective_rounds(primitive, payload, chosen, wires.fabric, layout)
    if not protocol:
        return [rounds]
    return [[Round(item.src, item.dst, factor * item.nbytes, item.repeat) for item in rounds]]


def _price_group(members: Sequence[Communication], times: Floats, wires: Wires, prices: Prices) -> Floats:
    """Seconds of payloads of one primitive; those inside a measured curve's range by it, the rest by the link law."""
    fabric, topology, layout = wires.fabric, wires.topology, wires.wiring.layout
    primitive = PRIMITIVE[type(members[0])]
    payload, total = _payloads(members, layout)
    seconds = np.zeros(len(members))
    by_curve = np.zeros(len(members), dtype=bool)
    measured = fabric.measured_curve(primitive, topology.kind, layout)
    if measured is not None and wires.disturbances is NO_DISTURBANCES and wires.healthy:
        by_curve = measured.curve.covers(total)
        seconds[by_curve] = measured.curve.time(total[by_curve])
        prices.curves[measured.id] = (measured, bool(by_curve.all()))
    for chosen, mask, label, efficiency in topology.choices(primitive, total, layout):
        if mask.any():
            prices.algorithms[primitive, label] += int(times[mask].sum())
        for some in _together(np.flatnonzero(mask), layout.places):
            rounds = collective_rounds(primitive, payload[some], chosen, fabric, layout)
            factor = fabric.protocol_factor(total[some], layout.workers)
            if efficiency is not None:
                factor = np.full(len(some), 1 / efficiency)
            law = _law(rounds, wires, prices, times[some], factor=factor, skip=by_curve[some])
            beside = fabric.beside(total[some]) if rounds else 0.0
            seconds[some] = np.where(by_curve[some], seconds[some], law + beside)
    return seconds


def _together(payloads: Ints, places: int) -> list[Ints]:
    """The payloads in parts that fold together: all at once, but for clusters so large that memory has to be spared."""
    return np.array_split(payloads, -(-len(payloads) * places // MAX_TIMES)) if len(payloads) else []


def _law(
    rounds: Rounds,
    wires: Wires,
    prices: Prices,
    times: Floats,
    *,
    factor: Floats | None = None,
    skip: npt.NDArray[np.bool_] | None = None,
) -> Floats:
    """Seconds (b,) by fold or flows, `times` (b,) counted as traffic; those to `skip` are counted but not priced."""
    made = np.zeros(len(times))
    if not rounds:
        return made
    wiring = wires.wiring
    src, dst, route = _count(prices.traffic, rounds, wiring, times)
    rest = np.ones(len(times), dtype=bool) if skip is None else ~skip
    if not rest.any():
        return made
    some = [Round(item.src, item.dst, item.nbytes[rest], item.repeat) for item in rounds]
    factor = None if factor is None else factor[rest]
    ready = np.zeros(len(wiring.node))
    why = "" if wires.fidelity == "flows" else reason_against_fold(some, wiring, src, dst, route)
    if wires.disturbances is not NO_DISTURBANCES:
        why = why or "others use the same links"
    if why:
        prices.obstacles.append(why)
    if wires.fidelity == "flows" or (why and wires.fidelity == "auto"):
        made[rest] = follow_flows(some, wiring, ready, factor=factor, disturbances=wires.disturbances).max(axis=1)
        prices.flowed += int(rest.sum())
    else:
        made[rest] = fold(some, wiring, ready, factor=factor).max(axis=1)
        prices.folded += int(rest.sum())
    return made


def _payloads(members: Sequence[Communication], layout: Layout) -> tuple[Floats, Floats]:
    """What the topology takes, and the bytes of the whole result, (b,)."""
    if isinstance(members[0], AllGather):
        sizes = np.array([step.sizes(layout.workers) for step in members if isinstance(step, AllGather)])
        return sizes, sizes.sum(axis=1)
    payload = np.array([step.nbytes for step in members if isinstance(step, AllReduce | ReduceScatter | Broadcast)])
    return payload, payload


def carried(rounds: Rounds, wiring: Wiring) -> Traffic:
    """What one payload's messages put on the links."""
    traffic = Traffic(np.zeros(len(wiring.node)), np.zeros(len(wiring.capacity)))
    if rounds:
        _count(traffic, rounds, wiring, np.ones(1))
    return traffic


def _count(traffic: Traffic, rounds: list[Round], wiring: Wiring, times: Floats) -> tuple[Ints, Ints, Route]:
    """Add each payload's bytes, `times` (b,) over; senders, receivers and routes of all rounds."""
    src, dst = (np.concatenate([getattr(item, end) for item in rounds]) for end in ("src", "dst"))
    nbytes = np.concatenate([item.repeat * (times @ item.nbytes) for item in rounds])
    route = wiring.route(src, dst)
    traffic.add(src, route, nbytes)
    return src, dst, route
