"""Links as uncertain inputs: which of them count, and what their rates and start-ups change."""

import math

import pytest

from simulator.prediction.run import run, with_responses
from simulator.scenario.changes import without_randomness
from simulator.scenario.reading import load

SLOW = ("sparsifier=dense", "scheduler=sequential", "cluster.runtime={name: none}")


def made(*sets):
    return with_responses(run(without_randomness(load("quickstart", (*SLOW, *sets)))))


def responses(prediction, part):
    return [item for item in prediction.spread.responses if item.key[0] == "link law" and part in item.key[1]]


@pytest.mark.parametrize("network", ["networks/nvlink-mesh-v100", "networks/nvswitch-a100"])
def test_the_links_of_a_single_node_are_uncertain_too(network):
    """A measured curve of all GPUs takes the place of the law, so that fewer are asked for."""
    prediction = made("cluster.nodes=1", "cluster.gpus_per_node=7", f"cluster.network={network}", "topology=ring")
    (rate,) = responses(prediction, "rate inside a node")
    exposed = prediction.document["breakdown_s"]["communication_exposed"]
    (item,) = rate.doubts
    assert item.width > 1
    # Nothing hides the exchange, and its bytes take nearly all of its time.
    assert math.expm1(rate.high) * prediction.spread.time == pytest.approx(exposed * (item.width - 1), rel=0.15)


def test_links_inside_nodes_of_which_nothing_is_said_are_those_between_them():
    network = "cluster.network={kind: single_switch, bandwidth: 1 GB/s, latency: 20 us}"
    prediction = made(network, "cluster.nodes=2", "cluster.gpus_per_node=4", "topology=ring")
    assert not responses(prediction, "inside a node")
    (rate,) = responses(prediction, "rate between nodes")
    assert rate.high > 0.1 and rate.low < 0


PLAIN = "cluster.network={kind: single_switch, bandwidth: 1 GB/s, latency: 20 us}"


@pytest.mark.parametrize(
    ("transport", "most"),
    [
        ("rdma", 1.0),  # leaves all of the NIC's rate
        ("{kind: tcp, stream_bandwidth: 500 MB/s, prior_width: 4}", 2.0),  # leaves a half of it
        ("{kind: tcp, stream_bandwidth: 500 MB/s, prior_width: 1.5}", 1.5),
    ],
)
def test_no_transport_is_faster_than_its_nic(transport, most):
    prediction = made(PLAIN, f"cluster.network.transport={transport}", "cluster.gpus_per_node=1", "topology=ring")
    (rate,) = responses(prediction, "rate between nodes")
    seconds = prediction.document["breakdown_s"]["communication_exposed"]
    rest = prediction.spread.time - seconds
    assert rate.exact and rate.high > 0.1
    assert math.exp(rate.low) * prediction.spread.time == pytest.approx(rest + seconds / most, rel=0.01)
    (text,) = [each for each in prediction.document["warnings"] if "what it leaves of the NIC's rate" in each]
    assert ("may be too high by a factor of 1.5:" in text) == (most == 1)
    assert ("either way" in text) == (most > 1)


def test_a_rate_of_which_nothing_more_is_said_may_be_higher():
    (rate,) = responses(made(PLAIN, "cluster.gpus_per_node=1", "topology=ring"), "rate between nodes")
    assert rate.low < -0.1


def test_a_line_between_sites_is_no_faster_than_stated_and_may_be_slower():
    sites = "sites: [{name: a, nodes: 2}, {name: b, nodes: 2}], between: {rate: 100 MB/s, latency: 10 ms}"
    network = f"cluster.network={{kind: wide_area, {sites}, bandwidth: 1 GB/s, latency: 20 us}}"
    (rate,) = responses(made(network, "cluster.nodes=4", "cluster.gpus_per_node=1"), "rate between nodes")
    assert rate.exact and rate.low == pytest.approx(0, abs=1e-9) and rate.high > 0.1


def test_a_link_that_is_not_the_busiest_changes_nothing_to_first_order():
    """Servers: exchanges share links, so that all stays at first order."""
    sets = ("topology=parameter_server", "cluster.network=networks/10gbe-tcp")
    (inside,) = responses(made(*sets), "rate inside a node")
    assert inside.high == pytest.approx(0, abs=1e-12)
