"""The bytes of an iteration's messages: over links, from each place, and between each two places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.phases import phases_of
from simulator.models.curves import Floats
from simulator.models.exchange import Communication, Ints, Route
from simulator.models.linear_algebra import weigh_rows
from simulator.models.wiring import Traffic, Wiring
from simulator.topologies.base import Rounds

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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


def add_traffic(traffic: Traffic, rounds: Rounds, wiring: Wiring, times: Floats) -> tuple[Ints, Ints, Route]:
    """Add the bytes of each payload, `times` (b,) over; returns senders, receivers and routes of all rounds."""
    src, dst = ends_of(rounds)
    route = wiring.route(src, dst)
    traffic.add(src, route, np.concatenate([item.repeat * weigh_rows(times, item.nbytes) for item in rounds]))
    return src, dst, route


def traffic_of(rounds: Rounds, wiring: Wiring) -> Traffic:
    """The traffic of one payload's messages."""
    traffic = no_traffic(wiring)
    if rounds:
        add_traffic(traffic, rounds, wiring, np.ones(1))
    return traffic


def count_traffic(
    steps: Sequence[Communication], uses: Uses, network: NetworkSetup, *, shared: bool
) -> tuple[Traffic, Algorithms]:
    """The traffic of an iteration's exchanges, and the algorithms that carry them.

    `shared`: exchanges meet more on the links than the job's own collectives; then all bytes of the protocol count.
    """
    traffic, algorithms = no_traffic(network.wiring), Algorithms()
    for times, rounds in _phases_in(steps, uses, network, algorithms, shared):
        add_traffic(traffic, rounds, network.wiring, np.full(1, float(times)))
    return traffic, algorithms


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
