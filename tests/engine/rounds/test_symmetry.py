"""One node that stands for all: where GPUs of a node share its NIC, too, and messages are listed rank by rank."""

import numpy as np
import pytest

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.prices import price_steps
from simulator.engine.rounds import fold
from simulator.fabrics.single_switch import SingleSwitch
from simulator.models.exchange import AllReduce, Layout
from simulator.topologies.hierarchical import Hierarchical

INSIDE = {"bandwidth": 1e11, "latency": 1e-6}


@pytest.mark.parametrize("inter", ["ring", "tree", "halving_doubling"])
@pytest.mark.parametrize("nics", [1, 2])
def test_gpus_that_share_a_nic_are_followed_on_one_node(monkeypatch, inter, nics):
    layout, reduced = Layout(8, 4), []

    def seconds(bandwidth):
        fabric = SingleSwitch(bandwidth=bandwidth, latency=2e-5, nics_per_node=nics, intra_node=INSIDE)
        network = NetworkSetup(Hierarchical(inter=inter), fabric, fabric.wire(layout))
        return price_steps([AllReduce(1e8), AllReduce(3e3)], [(0, 0), (1, 1)], network).seconds

    def reduce(*args):
        reduced.append(original(*args))
        return reduced[-1]

    original = fold.reduce_to_one_node
    monkeypatch.setattr(fold, "reduce_to_one_node", reduce)
    alone = seconds(1.25e9)
    monkeypatch.setattr(fold, "reduce_to_one_node", lambda *args: None)
    every = seconds(1.25e9 * (1 + 1e-15) + 1e-6)  # another number, so that nothing is remembered
    np.testing.assert_allclose(alone, every, rtol=1e-12)
    assert inter != "ring" or any(item is not None for item in reduced)
