"""Phases of a step on links that it shares are made once for each step, server and layout."""

import numpy as np
import pytest

from simulator.engine.plan import phases
from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.phases import phases_of
from simulator.engine.plan.prices import price_steps
from simulator.fabrics.intra_node import IntraNode
from simulator.fabrics.single_switch import SingleSwitch
from simulator.models.exchange import AllReduce, Layout, Messages, PushPull, all_to_all
from simulator.prediction.run import run
from simulator.scenario.reading import load
from simulator.topologies.nccl import Nccl
from simulator.topologies.parameter_server import ParameterServer


@pytest.mark.parametrize("placement", ["sharded", "hashed"])
def test_remembered_phases_are_those_of_a_process_that_remembers_nothing(monkeypatch, placement):
    """Two jobs, of which the second asks for the same bytes from other places."""
    changes = ("topology={kind: parameter_server, in_order: false}", f"topology.placement={placement}")
    scenarios = [
        load("quickstart", (*changes, "sparsifier=dense", f"cluster.nodes={nodes}", "cluster.gpus_per_node=2"))
        for nodes in (2, 3, 2)
    ]
    together = [run(scenario) for scenario in scenarios]
    assert together[0].document == together[2].document
    for scenario, known in zip(scenarios, together, strict=True):
        monkeypatch.setattr(phases, "_known", phases.LatestResults(1))
        assert run(scenario).document == known.document


def test_what_a_protocol_adds_travels_the_same_way():
    network = NetworkSetup(Nccl(), SingleSwitch(bandwidth=1e9), SingleSwitch(bandwidth=1e9).wire(Layout(4, 1)))
    whole = phases_of(AllReduce(1e3), 0, network)[0]
    for item, plain in zip(whole, phases_of(AllReduce(1e3), 0, network, protocol=False)[0], strict=True):
        assert (item.src != item.dst).all()
        np.testing.assert_array_equal([item.src, item.dst], [plain.src, plain.dst])
        assert (item.nbytes > plain.nbytes).all()


def test_of_a_start_up_the_longest_way_of_a_message_is_left_out():
    """Messages go between nodes in 30 us and inside them in 1 us; the library's own start-up is longer."""
    intra = {"bandwidth": 1e10, "latency": 1e-6}
    fabric = SingleSwitch.model_validate({"bandwidth": 1e9, "latency": 30e-6, "intra_node": intra})
    network = NetworkSetup(Nccl(), fabric, fabric.wire(Layout(2, 2)))
    (choice,) = (
        each for each in Nccl().choices("all_reduce", np.array([1e3]), Layout(2, 2), network.machine) if each.mask.any()
    )
    assert choice.start_up[0] > 30e-6
    beside = 0.0 if choice.beside is None else choice.beside[0]
    assert phases_of(AllReduce(1e3), 0, network).start_up == pytest.approx(choice.start_up[0] - 30e-6 + beside)
    assert phases_of(AllReduce(1e3), 0, network, protocol=False).start_up == 0


SQUARE = IntraNode(bandwidth=1e9, latency=1e-4, host=2e8, mesh=((0, 1, 1), (1, 2, 1), (2, 3, 1), (0, 3, 1)))
SWITCH = IntraNode(bandwidth=1e9, latency=1e-4)


@pytest.mark.parametrize(
    ("inside", "layout", "rounds"),
    [
        (SQUARE, Layout(1, 4), [12]),  # 8 messages to neighbours, and 4 across through the host
        (SWITCH, Layout(1, 4), [4, 4, 4]),
        (SWITCH, Layout(2, 2), [8, 4]),  # those in a node beside the first ones between the nodes
        (SQUARE, Layout(2, 4), [32, 8, 8, 8]),
    ],
)
def test_messages_that_wait_for_nothing_but_links_go_as_soon_as_these_are_free(inside, layout, rounds):
    """By fold and by flows; the longest way is a NIC's, or across a square through the host."""
    fabric = SingleSwitch(bandwidth=1e8, latency=1e-3, nics_per_node=layout.gpus_per_node, intra_node=inside)
    step, wiring = Messages("tokens", (1e5,), all_to_all), fabric.wire(layout)
    seconds = []
    for fidelity in ("fold", "flows"):
        network = NetworkSetup(Nccl(), fabric, wiring, fidelity=fidelity)
        assert [len(item.src) for item in phases_of(step, 0, network)[0]] == rounds
        seconds += price_steps([step], [(0, 0)], network).seconds.tolist()
    slowest = 2e8 if inside.mesh else 1e9
    each = 1e-3 + 1e5 / 1e8 if layout.nodes > 1 else 1e-4 + 1e5 / slowest
    assert seconds == pytest.approx([len(rounds) * each] * 2)


def test_a_push_and_its_pull_follow_each_other():
    """Two workers share the link of a server each way: two payloads in, then two out."""
    topology, fabric = ParameterServer(servers=1), SingleSwitch(bandwidth=1e9)
    network = NetworkSetup(topology, fabric, fabric.wire(topology.layout(2, 1)))
    priced = price_steps([PushPull(1e6, 3e6), PushPull(2e6, 2e6)], [(0, 0), (1, 1), (2, 1)], network)
    assert priced.seconds.tolist() == pytest.approx([8e-3, 8e-3], rel=1e-9)
    assert priced.folded + priced.flowed == 4
    assert priced.algorithms == {("push and pull", "parameter_server"): 3}
    assert priced.traffic.sent.tolist() == pytest.approx([5e6, 5e6, 2 * 7e6])
