"""Communication steps as rounds of messages, by the algorithm that a topology chooses for their payload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.fabrics.base import Fabric
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
)
from simulator.models.small_cache import LatestResults
from simulator.topologies.base import Carrier, Rounds, Subset
from simulator.topologies.ring import Ring

PRIMITIVE: dict[type[Communication], str] = {
    AllReduce: "all_reduce",
    AllGather: "all_gather",
    ReduceScatter: "reduce_scatter",
    Broadcast: "broadcast",
}


class Phases(list[Rounds]):
    """The phases of one communication step, each a list of rounds; `start_up`: seconds before the first of them.

    `algorithm`: the primitive, and the algorithm that carries it.
    """

    start_up: float = 0.0
    algorithm: tuple[str, str]


_FEW = 2**12
_known: LatestResults[list[Rounds]] = LatestResults(
    512, lambda phases: sum(len(item.src) for rounds in phases for item in rounds) <= _FEW
)
"""Phases of up to so many messages: an exchange on links that it shares is asked for once for its bytes, and once for
its stages."""


def phases_of(step: Communication, slot: int, network: NetworkSetup, *, protocol: bool = True) -> Phases:
    """The phases of one communication step, each a list of rounds; bytes as the protocol sends them.

    Without `protocol`: the bytes of the payload alone, as prices count them for exchanges that follow each other.
    """
    layout, topology = network.wiring.layout, network.topology
    if isinstance(step, PushPull | Messages):
        key = topology.fingerprint, step, layout, slot
        made = Phases(_known.get(key, lambda: topology.rounds(step, layout, slot)))
        made.algorithm = "push and pull" if isinstance(step, PushPull) else "messages", topology.kind
        return made
    choice, _, total, rounds = next(carry_collectives([step], network))
    if protocol:
        factor = float(network.fabric.protocol_factor(total, layout.workers)[0])
        factor = factor if choice.efficiency is None else 1 / float(choice.efficiency[0])
        rounds = [Round(item.src, item.dst, factor * item.nbytes, item.repeat) for item in rounds]
    made = Phases([rounds])
    made.algorithm = PRIMITIVE[type(step)], choice.label
    if protocol and rounds and choice.start_up is not None:
        # The messages themselves bring the start-up of one step.
        once = max(float(network.wiring.route(item.src, item.dst).latency.max()) for item in rounds)
        made.start_up = max(0.0, float(choice.start_up[0]) - once)
    if protocol and rounds and choice.beside is not None:
        made.start_up += float(choice.beside[0])
    return made


def carry_collectives(
    members: Sequence[Communication], network: NetworkSetup
) -> Iterator[tuple[Subset, Ints, Floats, Rounds]]:
    """How a topology carries steps of one primitive: each choice, the payloads for which it is made, as indices (b,),
    the bytes of their results (b,), and their rounds."""
    layout, primitive = network.wiring.layout, PRIMITIVE[type(members[0])]
    payload, total = payload_bytes(members, layout)
    for choice in network.topology.choices(primitive, total, layout, network.machine):
        if len(some := np.flatnonzero(choice.mask)):
            rounds = collective_rounds(primitive, payload[some], choice.topology, network.fabric, layout)
            yield choice, some, total[some], rounds


def payload_bytes(members: Sequence[Communication], layout: Layout) -> tuple[Floats, Floats]:
    """The payloads as a topology takes them, (b,) or (b, p) of an all-gather, and the bytes of each result, (b,)."""
    if isinstance(members[0], AllGather):
        sizes = np.array([step.sizes(layout.workers) for step in members if isinstance(step, AllGather)])
        return sizes, sizes.sum(axis=1)
    payload = np.array([step.nbytes for step in members if isinstance(step, AllReduce | ReduceScatter | Broadcast)])
    return payload, payload


def collective_rounds(primitive: str, payload: Floats, topology: Carrier, fabric: Fabric, layout: Layout) -> Rounds:
    """Rounds of a primitive's payloads (b,), or (b, p) of an all-gather; a ring follows the rings of the fabric."""
    rings = fabric.rings(layout) if isinstance(topology, Ring) else ()
    if isinstance(topology, Ring) and rings:
        return topology.over(rings, primitive, payload, layout)
    rounds: Rounds = getattr(topology, primitive)(payload, layout)
    return rounds
