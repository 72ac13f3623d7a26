"""Where the places of a job, and of other jobs on the same cluster, stand; and the network that each job sees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.setup import OtherJobSetup, Setup
from simulator.engine.rounds.disturbances import NO_DISTURBANCES
from simulator.models.exchange import Ints, Layout, Placement
from simulator.models.small_cache import MOST, LatestResults
from simulator.models.wiring import Wiring
from simulator.records import Record, replace


class Seating(Record):
    """The network of the job, and for each other job its network and the numbers of its places among all places."""

    network: NetworkSetup
    others: tuple[tuple[NetworkSetup, Ints], ...]

    @property
    def shared(self) -> bool:
        """Whether links change in time, or carry traffic that is not the job's own."""
        return bool(self.network.disturbances.changes or self.others)


def seat_jobs(setup: Setup, other_jobs: Sequence[OtherJobSetup] = ()) -> Seating:
    """Lay the fabric out for all places of all jobs. Raises an expected-error for links or nodes that do not exist."""
    if not other_jobs:
        return Seating(_seat_one(setup), ())
    seats, placement = _place_jobs(setup.layout, other_jobs)
    network, endpoint = _network(setup, placement), _endpoint(setup)
    others = []
    for item, seat in zip(other_jobs, seats, strict=True):
        own, layout = placement.node[seat], item.setup.layout
        there = Placement(own, placement.rank[seat], np.intersect1d(placement.servers, own))
        local = setup.conditions.slowed(setup.fabric.lay(layout, there, endpoint))
        # Disturbances are numbered as links and places of the whole; a neighbour's own choices do not look at them.
        idle = replace(network, topology=item.setup.topology, wiring=local, disturbances=NO_DISTURBANCES)
        others.append((idle, seat))
    return Seating(network, tuple(others))


_placed: LatestResults[Placement] = LatestResults(64, lambda placement: placement.places <= MOST)
_seated: LatestResults[NetworkSetup] = LatestResults(256, lambda network: len(network.wiring.capacity) <= MOST)
_latest: LatestResults[NetworkSetup] = LatestResults(1)
"""The latest network of any size: a fit asks for that of a large cluster hundreds of times."""


def _seat_one(setup: Setup) -> NetworkSetup:
    """The network of a job that has it for itself; points of a sweep share it."""
    parts = setup.fabric.fingerprint, setup.topology.fingerprint, setup.conditions, setup.nodes, setup.gpus_per_node
    numbers = _endpoint(setup), setup.runtime.server_bandwidth, setup.scheduler.streams
    key = (*parts, *numbers, setup.fidelity, _device(setup))

    def make() -> NetworkSetup:
        return _network(setup, _placed.get(setup.layout, setup.layout.placement))

    return _seated.get(key, lambda: _latest.get(key, make))


def _endpoint(setup: Setup) -> float | None:
    return setup.runtime.endpoint_bandwidth if setup.topology.concurrent else None


def _device(setup: Setup) -> str:
    return setup.gpu.device or setup.gpu.name


def _network(setup: Setup, placement: Placement) -> NetworkSetup:
    """The network for places that stand there."""
    wiring = setup.conditions.slowed(_free_servers(setup, _lay(setup, placement, _endpoint(setup))))
    disturbances = setup.conditions.disturbances(wiring)
    return NetworkSetup(
        setup.topology,
        setup.fabric,
        wiring,
        setup.fidelity,
        disturbances,
        not (setup.conditions.links or setup.conditions.recorded),
        _device(setup),
    )


def _free_servers(setup: Setup, wiring: Wiring) -> Wiring:
    """The wiring with servers on machines of their own at the bandwidth that the runtime states for them."""
    layout, stated = setup.layout, setup.runtime.server_bandwidth
    if stated is None or not layout.servers or layout.colocated:
        return wiring
    servers, capacity = np.arange(layout.workers, layout.places), wiring.capacity.copy()
    worker = np.zeros_like(servers)
    rate = min(setup.fabric.carried(int(wiring.node.max()) + 1), stated)
    capacity[wiring.across(servers, worker).first] = rate
    capacity[wiring.across(worker, servers).last] = rate
    return replace(wiring, capacity=capacity)


def _lay(setup: Setup, placement: Placement, endpoint: float | None) -> Wiring:
    """The fabric's links; every communication stream brings connections of its own, which may fill a NIC together."""
    fabric, streams = setup.fabric, setup.scheduler.streams
    transport = fabric.transport
    if streams == 1 or transport is None or transport.stream_bandwidth is None:
        return fabric.lay(setup.layout, placement, endpoint)
    together = transport.model_copy(update={"streams": streams * transport.streams})
    wiring = fabric.model_copy(update={"transport": together}).lay(setup.layout, placement, endpoint)
    return wiring.with_ceiling(fabric.carried(placement.nodes))


def _place_jobs(layout: Layout, other_jobs: Sequence[OtherJobSetup]) -> tuple[list[Ints], Placement]:
    """The places of every other job, and the nodes and ranks of all places; servers get nodes of their own."""
    mine = layout.placement()
    node, rank, seats, last, servers = mine.node, mine.rank, [], mine.nodes, [mine.servers]
    for item in other_jobs:
        other = item.setup.layout.placement()
        hosts = np.array(item.nodes)
        own = other.node < len(hosts)
        standing = np.where(own, hosts[np.minimum(other.node, len(hosts) - 1)], last + other.node - len(hosts))
        servers.append(last + other.servers - len(hosts))
        seats.append(len(node) + np.arange(other.places))
        taken = np.bincount(node, minlength=int(standing.max()) + 1)
        node, rank = np.concatenate([node, standing]), np.concatenate([rank, other.rank + taken[standing]])
        last = max(last, int(standing.max()) + 1)
    return seats, Placement(node, rank, np.concatenate(servers))
