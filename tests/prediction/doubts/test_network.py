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


def test_a_link_that_is_not_the_busiest_changes_nothing_to_first_order():
    """Servers: exchanges share links, so that all stays at first order."""
    sets = ("topology=parameter_server", "cluster.network=networks/10gbe-tcp")
    (inside,) = responses(made(*sets), "rate inside a node")
    assert inside.high == pytest.approx(0, abs=1e-12)
