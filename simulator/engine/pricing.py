"""Prices: seconds and traffic of every communication step, many payloads in one fold."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from simulator.engine.fold import fold
from simulator.fabrics.base import Fabric, MeasuredCollective, Wiring
from simulator.models.curves import Floats
from simulator.models.exchange import (
    AllGather,
    AllReduce,
    Broadcast,
    Communication,
    Layout,
    ReduceScatter,
    Round,
    Traffic,
)
from simulator.topologies.base import Rounds, Topology

PRIMITIVE = {
    AllReduce: "all_reduce",
    AllGather: "all_gather",
    ReduceScatter: "reduce_scatter",
    Broadcast: "broadcast",
}


@dataclass(slots=True)
class Prices:
    """Seconds of each step where one follows the other, total traffic, and the measured curves used."""

    seconds: dict[Communication, float]
    traffic: Traffic
    curves: dict[str, tuple[MeasuredCollective, bool]] = field(default_factory=dict)
    folded: int = 0


def price(
    steps: Iterable[tuple[Communication, int]], topology: Topology, fabric: Fabric, wiring: Wiring
) -> Prices:
    """Price communication steps given with the slot (key) of their bucket; equal steps are priced once.

    Among peers, all payloads of one primitive fold together and start with every place ready. Exchanges of a
    concurrent topology are not timed here (they share links as they go), only their traffic is counted.
    """
    layout = wiring.layout
    counted = Counter(steps)
    prices = Prices({}, Traffic(np.zeros(layout.places), np.zeros(len(wiring.capacity))))
    if topology.concurrent:
        for (step, slot), count in counted.items():
            for phase in topology.rounds(step, layout, slot):
                _count(prices.traffic, phase, wiring, np.full(1, float(count)))
        return prices
    groups: dict[type, Counter[Communication]] = defaultdict(Counter)
    for (step, _), count in counted.items():
        groups[type(step)][step] += count
    for kind, group in groups.items():
        _price_group(PRIMITIVE[kind], group, topology, fabric, wiring, prices)
    return prices


def _price_group(
    primitive: str,
    group: Counter[Communication],
    topology: Topology,
    fabric: Fabric,
    wiring: Wiring,
    prices: Prices,
) -> None:
    layout, members = wiring.layout, list(group)
    payload, total = _payloads(members, layout)
    times = np.array([float(group[step]) for step in members])
    seconds = np.zeros(len(members))
    by_curve = np.zeros(len(members), dtype=bool)
    measured = fabric.measured_curve(primitive, topology.kind, layout)
    if measured is not None:
        by_curve = (total >= measured.points[0][0]) & (total <= measured.points[-1][0])
        seconds[by_curve] = measured.curve.time(total[by_curve])
        prices.curves[measured.id] = (measured, bool(by_curve.all()))
    for chosen, mask in topology.choices(primitive, total, layout):
        if not mask.any():
            continue
        rounds: Rounds = getattr(chosen, primitive)(payload[mask], layout)
        _count(prices.traffic, rounds, wiring, times[mask])
        rest = ~by_curve[mask]
        if rest.any():
            some = [Round(item.src, item.dst, item.nbytes[rest], item.repeat) for item in rounds]
            factor = fabric.protocol_factor(total[mask][rest], layout.workers)
            law = fold(some, wiring, np.zeros(layout.places), factor=factor).max(axis=1)
            seconds[np.flatnonzero(mask)[rest]] = law
            prices.folded += int(rest.sum())
    prices.seconds.update(zip(members, seconds.tolist(), strict=True))


def _payloads(members: list[Communication], layout: Layout) -> tuple[Floats, Floats]:
    """What the topology takes, and the bytes of the whole result, (b,)."""
    if isinstance(members[0], AllGather):
        sizes = np.array([step.sizes(layout.workers) for step in members if isinstance(step, AllGather)])
        return sizes, sizes.sum(axis=1)
    payload = np.array([float(step.nbytes) for step in members if not hasattr(step, "push_nbytes")])  # type: ignore[union-attr, arg-type]
    return payload, payload


def _count(traffic: Traffic, rounds: list[Round], wiring: Wiring, times: Floats) -> None:
    """Add each payload's bytes, `times` (b,) over."""
    for item in rounds:
        first, last, _ = wiring.route(item.src, item.dst)
        traffic.add(item, first, last, item.repeat * (times @ item.nbytes))
