"""Communication steps as rounds of messages, by the algorithm that a topology chooses, and the bytes of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.fabrics.base import Fabric
from simulator.models.curves import Floats
from simulator.models.exchange import (
    PRIMITIVE,
    AllGather,
    Collective,
    Communication,
    Ints,
    Layout,
    Messages,
    PushPull,
    Round,
    Route,
)
from simulator.models.linear_algebra import weigh_rows
from simulator.models.small_cache import LatestResults
from simulator.models.wiring import Traffic, Wiring
from simulator.records import replace
from simulator.topologies.base import Carrier, Rounds, Subset
from simulator.topologies.ring import Ring

if TYPE_CHECKING:
    from scipy.sparse import csr_array


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
        phases = _known.get(key, lambda: topology.rounds(step, layout, slot))
        made = Phases(join_independent(rounds, network.wiring) for rounds in phases)
        made.algorithm = "push and pull" if isinstance(step, PushPull) else "messages", topology.kind
        return made
    choice, _, total, rounds = next(carry_collectives([step], network))
    if protocol:
        factor = float(network.fabric.protocol_factor(total, layout.workers)[0])
        factor = factor if choice.efficiency is None else 1 / float(choice.efficiency[0])
        rounds = [replace(item, nbytes=factor * item.nbytes) for item in rounds]
    made = Phases([rounds])
    made.algorithm = PRIMITIVE[type(step)], choice.label
    if protocol and rounds and choice.start_up is not None:
        # The messages themselves bring the start-up of one step.
        once = max(float(network.wiring.route(item.src, item.dst).latency.max()) for item in rounds)
        made.start_up = max(0.0, float(choice.start_up[0]) - once)
    if protocol and rounds and choice.beside is not None:
        made.start_up += float(choice.beside[0])
    return made


def join_independent(rounds: Rounds, wiring: Wiring) -> Rounds:
    """Rounds that do not wait for what earlier ones bring, as few as links allow that send and receive in order.

    A message goes with the first round after all those in which an earlier one uses a link of its way. Where all
    messages of a place leave by one port, rounds stay as they are; over direct links to each other place all go at
    once.
    """
    if not all(item.independent for item in rounds) or len(rounds) < 2:
        return rounds
    src, dst = ends_of(rounds)
    links = np.stack(wiring.route(src, dst).links, axis=1)
    used = np.zeros(len(wiring.capacity) + 1, dtype=np.int64)  # by so many rounds; the last one stands for no link
    number, before = np.zeros(len(src), dtype=np.int64), 0
    for item in rounds:
        here = slice(before, before := before + len(item.src))
        number[here] = used[links[here]].max(axis=1)
        np.maximum.at(used, links[here], number[here, None] + 1)
        used[-1] = 0
    if number.max() + 1 == len(rounds):
        return rounds
    nbytes = np.concatenate([item.nbytes for item in rounds], axis=1)
    together = (np.flatnonzero(number == each) for each in range(number.max() + 1))
    return [Round(src[some], dst[some], nbytes[:, some]) for some in together]


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
    payload = np.array([step.nbytes for step in members if isinstance(step, Collective)])
    return payload, payload


def collective_rounds(primitive: str, payload: Floats, topology: Carrier, fabric: Fabric, layout: Layout) -> Rounds:
    """Rounds of a primitive's payloads (b,), or (b, p) of an all-gather; a ring follows the rings of the fabric."""
    rings = fabric.rings(layout) if isinstance(topology, Ring) else ()
    if isinstance(topology, Ring) and rings:
        return topology.over(rings, primitive, payload, layout)
    rounds: Rounds = getattr(topology, primitive)(payload, layout)
    return rounds


Uses = Sequence[tuple[int, int]]
"""Pairs of a bucket's slot (`Topology.slots`), and an index into communication steps: how often each step occurs."""
Algorithms = Counter[tuple[str, str]]
"""How many payloads of each primitive each algorithm carries."""


def no_traffic(wiring: Wiring) -> Traffic:
    """Traffic to which messages are added."""
    return Traffic(np.zeros(len(wiring.node)), np.zeros(len(wiring.capacity)))


def ends_of(rounds: Rounds) -> tuple[Ints, Ints]:
    """Senders and receivers of all messages, round by round."""
    return np.concatenate([item.src for item in rounds]), np.concatenate([item.dst for item in rounds])


def add_traffic(traffic: Traffic, rounds: Rounds, src: Ints, route: Route, times: Floats) -> None:
    """Add the bytes of each payload, `times` (b,) over, with the senders and routes of the messages of all rounds."""
    traffic.add(src, route, np.concatenate([item.repeat * weigh_rows(times, item.nbytes) for item in rounds]))


def traffic_of(rounds: Rounds, wiring: Wiring) -> Traffic:
    """The traffic of one payload's messages."""
    return _add_up([(1, rounds)] if rounds else (), wiring)


def _add_up(phases: Iterable[tuple[int, Rounds]], wiring: Wiring) -> Traffic:
    """The traffic of phases, each of which takes place so often."""
    traffic = no_traffic(wiring)
    for times, rounds in phases:
        src, dst = ends_of(rounds)
        add_traffic(traffic, rounds, src, wiring.route(src, dst), np.full(1, float(times)))
    return traffic


def count_traffic(
    steps: Sequence[Communication], uses: Uses, network: NetworkSetup, *, shared: bool
) -> tuple[Traffic, Algorithms]:
    """The traffic of an iteration's exchanges, and the algorithms that carry them.

    `shared`: exchanges meet more on the links than the job's own collectives; then all bytes of the protocol count.
    """
    algorithms = Algorithms()
    return _add_up(_phases_in(steps, uses, network, algorithms, shared), network.wiring), algorithms


def traffic_between(steps: Sequence[Communication], uses: Uses, network: NetworkSetup, *, shared: bool) -> csr_array:
    """Bytes (P, P), sparse, that each place (row) sends to each other (column) in one iteration.

    `shared` as in `count_traffic`, whose bytes from each place are what the rows sum to.
    """
    from scipy.sparse import coo_array, csr_array  # heavy, and only for who asks

    places = network.wiring.layout.places
    matrix = csr_array((places, places))
    for times, rounds in _phases_in(steps, uses, network, Algorithms(), shared):
        nbytes = np.concatenate([times * item.repeat * item.nbytes[0] for item in rounds])
        matrix = matrix + coo_array((nbytes, ends_of(rounds)), shape=(places, places)).tocsr()
    return matrix


def _phases_in(
    steps: Sequence[Communication], uses: Uses, network: NetworkSetup, algorithms: Algorithms, shared: bool
) -> Iterator[tuple[int, Rounds]]:
    """The phases that send anything, each with the number of times that it occurs; counts their `algorithms`."""
    # Only where exchanges meet others on the links do a bucket's messages depend on its slot.
    often = Counter[tuple[int, Communication]]()  # units of a model that are alike have equal steps
    for (slot, place), times in Counter(uses if shared else [(0, place) for _, place in uses]).items():
        often[slot, steps[place]] += times
    for (slot, step), times in often.items():
        phases = phases_of(step, slot, network, protocol=shared)
        algorithms[phases.algorithm] += times
        yield from ((times, phase) for phase in phases if phase)
