"""Parameter servers as BytePS runs them: keys and their hash, slices in order, servers on machines of their own."""

from collections import Counter

import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st
from validation_rows import row_of
from worked_scenarios import worked

from examples import switch
from simulator.engine.rounds.equivalence_classes import structure
from simulator.engine.rounds.network import Network
from simulator.models.exchange import Round
from simulator.models.gradients import Block
from simulator.models.layers import Layer
from simulator.prediction.run import plan_of, run
from simulator.scenario.scenario import Scenario
from simulator.schedulers.base import partition, singles
from simulator.topologies.parameter_server import KEYS_PER_TENSOR, ParameterServer, djb2

HASHED = ParameterServer(servers=4, placement="hashed")


@given(st.integers(0, 2**40))
def test_the_hash_is_the_loop_of_the_published_code(key):
    """h starts at 5381; each character turns it into (h << 5) + h + c, in 64 bits."""
    made = np.uint64(5381)
    with np.errstate(over="ignore"):
        for digit in str(key).encode():
            made = (made << np.uint64(5)) + made + np.uint64(digit)
    assert djb2(key) == int(made)


def test_a_slice_goes_to_one_server_by_the_key_of_its_tensor():
    layers = [Layer(name=name, numel=numel) for name, numel in (("b", 3), ("a", 10), ("c", 4))]
    buckets = partition(layers, 4 * 4)
    assert [bucket.layers[0] for bucket in buckets] == [2, 1, 1, 1, 0]
    keys = HASHED.slots(buckets, [layer.name for layer in layers])
    a, b, c = 0, KEYS_PER_TENSOR, 2 * KEYS_PER_TENSOR  # tensors are declared in the order of their names
    assert keys == [c, a, a + 1, a + 2, b]
    layout = HASHED.layout(2, 1)
    for key in keys:
        push, pull = HASHED.push_pull(np.array([8.0]), np.array([8.0]), layout, key)
        assert set(push[0].dst.tolist()) == set(pull[0].src.tolist()) == {2 + djb2(key) % 4}
        assert push[0].nbytes.tolist() == [[8.0, 8.0]]


def test_other_placements_count_buckets():
    buckets = singles([Layer(name=name, numel=1) for name in "ba"])
    for placement in ("sharded", "round_robin"):
        assert ParameterServer(placement=placement).slots(buckets, ["b", "a"]) == [0, 1]


@given(numels=st.lists(st.integers(1, 30), min_size=1, max_size=6), most=st.integers(1, 12))
def test_slices_of_a_merged_buffer_hold_every_element_once(numels, most):
    layers = [Layer(name=f"layer {i}", numel=numel) for i, numel in enumerate(numels)]
    slices = partition(layers, 4 * most, merged=True)
    assert [bucket.index for bucket in slices] == list(range(len(slices)))
    assert [bucket.numel for bucket in slices[:-1]] == [most] * (len(slices) - 1)
    held = []
    for bucket in slices:
        for number, (layer, pieces) in enumerate(zip(bucket.layers, bucket.pieces, strict=True)):
            first = bucket.offset if number == 0 else 0
            held += [(layer, first + i) for i in range(pieces)]
    assert held == [(layer, i) for layer in reversed(range(len(numels))) for i in range(numels[layer])]


def test_a_merged_buffer_has_one_key_behind_all_gradients_and_parameters():
    keys = HASHED.slots(partition([Layer(name=name, numel=6) for name in "abc"], 4 * 4, merged=True), list("abc"))
    assert keys == [6 * KEYS_PER_TENSOR + number for number in range(5)]


def test_the_bytes_of_every_server_are_those_that_the_hash_gives_it():
    measured = row_of("rtx2080ti-10gbe-ps", "ResNet-50, WFBP, parameter server, 32 GPUs on 10 GbE")
    plan, forward = plan_of(measured), [layer.name for layer in measured.workload.layers]
    by_hand, parts = Counter(), Counter()
    for bucket in plan.work.buckets:
        name = forward[bucket.layers[0]]
        key = sorted(forward).index(name) * 65_536 + parts[name]
        parts[name] += 1
        by_hand[djb2(key) % 8] += 8 * 4 * bucket.numel
    links = zip(plan.wiring.names, plan.prices.traffic.links, strict=True)
    arriving = {int(name.split()[1]): nbytes for name, nbytes in links if name.endswith("NIC in")}
    assert [arriving[8 + server] for server in range(8)] == pytest.approx([by_hand[server] for server in range(8)])
    assert max(by_hand.values()) / np.mean(list(by_hand.values())) == pytest.approx(1.62, abs=0.005)


@pytest.mark.parametrize(("turns", "ends"), [((0, 0), (3, 4)), ((0, 1), (3, 4)), ((1, 0), (4, 3))])
def test_on_a_busy_connection_the_lowest_turn_goes_first(turns, ends):
    """Three exchanges of one message of 1 s from place 0 to 1; while the first is under way, the others queue."""
    env, one = simpy.Environment(), [Round(np.array([0]), np.array([1]), np.array([[1e9]]))]
    network = Network(env, switch(2, 1, 1e9, 0.0), [structure(one)[0]])
    made = []

    def submit():
        made.append(network.start(structure(one), turn=-1.0))
        yield env.timeout(0.5)
        for turn in turns:
            made.append(network.start(structure(one), turn=float(turn)))

    env.process(submit())
    env.run()
    assert made[0].round_ends()[0][0][0] == pytest.approx(1)
    assert tuple(each.round_ends()[0][0][0] for each in made[1:]) == pytest.approx([end - 1 for end in ends])


def scenario(gpus=2, topology=None, runtime=None):
    """Two nodes of GPUs and as many servers on machines of their own, four slices of 4 MB at once."""
    parts = {"topology": {"kind": "parameter_server", "servers": 0, **(topology or {})}, "gpus_per_node": gpus}
    parts |= {"runtime": {"name": "servers", **(runtime or {})}, "scheduler": {"kind": "wfbp", "partition": "4 MB"}}
    network = {"intra_node": {"bandwidth": 1e9}}
    return Scenario.model_validate(worked([(4, 0, 1e-3)], bandwidth=1e9, network=network, **parts))


def test_slices_in_order_overlap_their_steps():
    """Four slices of 4 MB on nodes of four GPUs at 1 GB/s: three steps of 1 ms inside the node, 4 ms up, 4 ms down.

    In order the NIC is busy upwards from 3 ms on for 16 ms; the last slice then takes 4 ms down and 3 ms inside. First
    in, first out, every slice does its first step inside the node before any does its second, so that the first one is
    through after 9 ms.
    """
    ordered = run(scenario(gpus=4, topology={"in_order": True})).document["iteration_time_s"]
    assert ordered == pytest.approx(1e-3 + 3e-3 + 16e-3 + 4e-3 + 3e-3, rel=1e-9)
    assert run(scenario(gpus=4)).document["iteration_time_s"] == pytest.approx(ordered + 6e-3, rel=1e-9)


def test_a_server_of_its_own_may_be_faster_than_a_worker_s_endpoint():
    """Every slice goes to one server of two: at the endpoint's rate it takes the pushes of both nodes in turn."""
    topology = {"servers": 1}
    slow = run(scenario(topology=topology, runtime={"endpoint_bandwidth": 5e8}))
    fast = run(scenario(topology=topology, runtime={"endpoint_bandwidth": 5e8, "server_bandwidth": 2e9}))
    capacity = dict(zip(fast.plan.wiring.names, fast.plan.wiring.capacity.tolist(), strict=True))
    assert capacity["node 0 NIC out"] == 5e8
    assert capacity["node 2 NIC in"] == capacity["node 2 NIC out"] == 1e9  # the network's, below the server's own
    assert fast.document["iteration_time_s"] < slow.document["iteration_time_s"]
    shared = run(scenario(topology={"colocated": True}, runtime={"endpoint_bandwidth": 5e8, "server_bandwidth": 2e9}))
    assert shared.plan.wiring.capacity.max() == 1e9  # inside the nodes
    assert shared.plan.wiring.capacity[:4].tolist() == [5e8] * 4


def test_a_slice_of_several_tensors_is_cut_from_a_gradient_where_it_begins():
    """Buckets of a merged buffer begin inside their first tensor only."""
    values = np.arange(10, dtype=np.float32)[None, :]
    block = Block(values, np.repeat([0, 1], [4, 6]), np.arange(10), np.ones(10), (4, 6), 0)
    slices = partition([Layer(name="a", numel=4), Layer(name="b", numel=6)], 4 * 4, merged=True)
    made = [block.cut(each.layers, each.offset, each.pieces).of(block).values[0].tolist() for each in slices]
    assert made == [[4, 5, 6, 7], [8, 9, 0, 1], [2, 3]]
