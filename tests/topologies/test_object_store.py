"""The object store: bytes and times of uploads and downloads by closed forms, on an idle network."""

import numpy as np
import pytest

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.prices import price_steps
from simulator.engine.rounds.network import follow_flows
from simulator.fabrics.single_switch import SingleSwitch
from simulator.fabrics.sites import Store
from simulator.fabrics.wide_area import WideArea
from simulator.models.exchange import AllGather, AllReduce, Broadcast, Layout, ReduceScatter
from simulator.prediction.run import run
from simulator.scenario.scenario import Scenario
from simulator.topologies.object_store import ObjectStore

UP, DOWN, WAY, S = 110e6 / 8, 500e6 / 8, 0.03, 2e7
"""A home line, and a payload."""


def peers(count, bandwidth):
    """So many sites of one node, and a store that carries so much."""
    sites = [{"name": f"peer{i}", "nodes": 1, "up": UP, "down": DOWN} for i in range(count)]
    return WideArea(bandwidth=1.25e9, sites=sites, between={}, store={"bandwidth": bandwidth, "latency": WAY})


def price(step, fabric, nodes, **options):
    """Seconds of one step, and the traffic."""
    topology = ObjectStore(**options)
    prices = price_steps([step], [(0, 0)], NetworkSetup(topology, fabric, fabric.wire(topology.layout(nodes, 1))))
    return prices.seconds[0], prices.traffic


@pytest.mark.parametrize("p", [2, 5, 20])
@pytest.mark.parametrize("store", [1e11, 5e7])
@pytest.mark.parametrize("own", [False, True])
def test_a_gather_uploads_once_and_downloads_the_others(p, store, own):
    took, traffic = price(AllGather(S), peers(p, store), p, own=own)
    got = (p - 1 + own) * S
    assert took == pytest.approx(2 * WAY + max(S / UP, p * S / store) + max(got / DOWN, p * got / store), rel=1e-9)
    assert traffic.sent.tolist() == pytest.approx([S] * p + [p * got])


@pytest.mark.parametrize("p", [2, 6])
def test_an_all_reduce_is_the_gather_of_dense_payloads(p):
    assert price(AllReduce(S), peers(p, 1e11), p)[0] == price(AllGather(S), peers(p, 1e11), p)[0]


@pytest.mark.parametrize("p", [2, 6])
def test_a_broadcast_and_a_reduce_scatter(p):
    took, traffic = price(Broadcast(S), peers(p, 1e11), p)
    assert took == pytest.approx(2 * WAY + S / UP + S / DOWN)
    assert traffic.sent.tolist() == [S, *[0] * (p - 1), (p - 1) * S]
    took, traffic = price(ReduceScatter(S), peers(p, 1e11), p)
    parts = (p - 1) / p * S
    assert took == pytest.approx(2 * WAY + parts / UP + parts / DOWN)
    assert traffic.sent.tolist() == pytest.approx([parts] * p + [p * parts])


def test_payloads_of_different_sizes_wait_for_the_largest():
    sizes = (S, 3 * S, 2 * S)
    took, traffic = price(AllGather(sizes, padded=False), peers(3, 1e11), 3)
    assert took == pytest.approx(2 * WAY + 3 * S / UP + 5 * S / DOWN)
    assert traffic.sent.tolist() == pytest.approx([*sizes, 12 * S])


@pytest.mark.parametrize(
    ("step", "parallel", "own", "requests"),
    [
        (AllGather(S), None, False, 1 + 1),
        (AllGather(S), 1, False, 1 + 6),
        (AllGather(S), 4, True, 1 + 2),
        (Broadcast(S), 1, False, 1 + 1),
        (ReduceScatter(S), 4, False, 2 + 2),
        (ReduceScatter(S), None, True, 1 + 1),
    ],
)
def test_requests_cost_time_beside_the_bytes(step, parallel, own, requests):
    fabric = peers(7, 1e11)
    free, slow = (price(step, fabric, 7, own=own, parallel=parallel, request=seconds) for seconds in (0.0, 0.5))
    assert slow[0] - free[0] == pytest.approx(0.5 * requests)
    assert slow[1].links.tolist() == free[1].links.tolist()


@pytest.mark.parametrize(("parallel", "waves"), [(None, 1), (7, 1), (4, 2), (3, 3), (1, 7)])
def test_each_request_has_a_connection_of_its_own(parallel, waves):
    """Seven objects of 40 MB at 50 Mbit/s of a connection, where neither lines nor the store limit anything."""
    slow = {"bandwidth": 12.5e9, "latency": 0.025, "stream_bandwidth": 6.25e6}
    fabric = peers(8, 1e11).model_copy(update={"store": Store(**slow)})
    took, traffic = price(AllGather(4e7), fabric, 8, parallel=parallel)
    assert took == pytest.approx(0.05 + 4e7 / 6.25e6 + max(7 * 4e7 / DOWN, waves * 4e7 / 6.25e6), rel=1e-9)
    assert traffic.sent.tolist() == pytest.approx([4e7] * 8 + [8 * 7 * 4e7])


def test_on_another_fabric_the_store_is_a_node():
    """Its NIC carries all payloads, one after the other."""
    fabric, p = SingleSwitch(bandwidth=1e8, latency=0.001), 4
    rounds = ObjectStore().all_gather(np.full((1, p), S), Layout(p, 1, 1))
    found = follow_flows(rounds, fabric.wire(Layout(p, 1, 1)), np.zeros(p + 1)).max()
    assert found == pytest.approx(2 * 0.001 + p * S / 1e8 + p * (p - 1) * S / 1e8)
    assert price(AllGather(S), fabric, p)[0] == pytest.approx(found, rel=1e-12)


def scenario(**values):
    """Four peers with a payload of 40 MB and a request time of 0.2 s."""
    layers = [{"name": "all", "numel": 10_000_000, "forward": 0.01, "backward": 0.01}]
    cluster = {"nodes": 4, "gpu": {"name": "x", "ideal": True}, "network": peers(4, 1e11)}
    topology = {"kind": "object_store", "request": 0.2}
    parts = {"topology": topology, "sparsifier": "dense", "scheduler": "sequential", "ignore_memory": True}
    return Scenario.model_validate(
        {"workload": {"batch_size": 1, "layers": layers}, "cluster": cluster} | parts | values
    )


def test_requests_count_on_the_clock_as_well_as_in_prices():
    """With links that change, here to what they were, exchanges are followed on the clock."""
    changed = [{"link": "peer0 up", "factor": 0.5, "start": 1000.0}]
    plain = scenario()
    both = (plain, scenario(cluster=plain.cluster.model_dump() | {"network": plain.cluster.network, "links": changed}))
    times = [run(spec, intervals=False).document["iteration_time_s"] for spec in both]
    assert times[0] == pytest.approx(times[1], rel=1e-9)
    assert times[0] == pytest.approx(0.02 + 2 * WAY + 40e6 / UP + 3 * 40e6 / DOWN + 0.4, rel=1e-3)
