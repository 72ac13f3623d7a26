"""Prices: seconds and traffic of every communication step, many payloads in one fold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
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
    Messages,
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

    seconds: Floats
    traffic: Traffic
    curves: dict[str, tuple[MeasuredCollective, bool]] = field(default_factory=dict)
    folded: int = 0


def price(
    steps: Sequence[Communication],
    uses: Sequence[tuple[int, int]],
    topology: Topology,
    fabric: Fabric,
    wiring: Wiring,
) -> Prices:
    """Price each of `steps`; `uses` are pairs (slot of the bucket, place in `steps`), for the traffic.

    Among peers, all payloads of one primitive fold together and start with every place ready. Exchanges of a
    concurrent topology are not timed here (they share links as they go), only their traffic is counted.
    """
    layout = wiring.layout
    traffic = Traffic(np.zeros(layout.places), np.zeros(len(wiring.capacity)))
    prices = Prices(np.zeros(len(steps)), traffic)
    if topology.concurrent:
        for slot, place in uses:
            for phase in topology.rounds(steps[place], layout, slot):
                _count(traffic, phase, wiring, np.ones(1))
        return prices
    times = np.bincount([place for _, place in uses], minlength=len(steps)).astype(float)
    groups: dict[type, list[int]] = defaultdict(list)
    for place, step in enumerate(steps):
        if isinstance(step, Messages):
            rounds = step.pattern(step.nbytes, layout)
            _count(traffic, rounds, wiring, times[place : place + 1])
            prices.seconds[place] = fold(rounds, wiring, np.zeros(layout.places)).max()
            prices.folded += 1
        else:
            groups[type(step)].append(place)
    for places in groups.values():
        members = [steps[place] for place in places]
        prices.seconds[places] = _price_group(members, times[places], topology, fabric, wiring=wiring, prices=prices)
    return prices


def _price_group(
    members: Sequence[Communication],
    times: Floats,
    topology: Topology,
    fabric: Fabric,
    *,
    wiring: Wiring,
    prices: Prices,
) -> Floats:
    """Seconds of payloads of one primitive; those inside a measured curve's range by it, the rest by the fold."""
    layout, primitive = wiring.layout, PRIMITIVE[type(members[0])]
    payload, total = _payloads(members, layout)
    seconds = np.zeros(len(members))
    by_curve = np.zeros(len(members), dtype=bool)
    measured = fabric.measured_curve(primitive, topology.kind, layout)
    if measured is not None:
        by_curve = measured.curve.covers(total)
        seconds[by_curve] = measured.curve.time(total[by_curve])
        prices.curves[measured.id] = (measured, bool(by_curve.all()))
    for chosen, mask, label, efficiency in topology.choices(primitive, total, layout):
        if not mask.any():
            continue
        rounds: Rounds = getattr(chosen, primitive)(payload[mask], layout)
        _count(prices.traffic, rounds, wiring, times[mask])
        rest = ~by_curve[mask]
        if rest.any():
            some = [Round(item.src, item.dst, item.nbytes[rest], item.repeat) for item in rounds]
            if efficiency is None:
                factor = fabric.protocol_factor(total[mask][rest], layout.workers)
            else:
                factor = np.full(int(rest.sum()), 1 / efficiency)
            law = fold(some, wiring, np.zeros(layout.places), factor=factor).max(axis=1)
            seconds[np.flatnonzero(mask)[rest]] = law
            prices.folded += int(rest.sum())
    return seconds


def _payloads(members: Sequence[Communication], layout: Layout) -> tuple[Floats, Floats]:
    """What the topology takes, and the bytes of the whole result, (b,)."""
    if isinstance(members[0], AllGather):
        sizes = np.array([step.sizes(layout.workers) for step in members if isinstance(step, AllGather)])
        return sizes, sizes.sum(axis=1)
    payload = np.array([step.nbytes for step in members if isinstance(step, AllReduce | ReduceScatter | Broadcast)])
    return payload, payload


def _count(traffic: Traffic, rounds: list[Round], wiring: Wiring, times: Floats) -> None:
    """Add each payload's bytes, `times` (b,) over."""
    if not rounds:
        return
    src, dst = (np.concatenate([getattr(item, end) for item in rounds]) for end in ("src", "dst"))
    nbytes = np.concatenate([item.repeat * (times @ item.nbytes) for item in rounds])
    traffic.add(src, wiring.route(src, dst), nbytes)
