"""The fold against its slow twin, against the textbooks, and against what can't be."""

from math import ceil, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError
from reference import interpret

from examples import example, pairs, switch
from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.phases import count_traffic, traffic_between, traffic_of
from simulator.engine.plan.prices import price_steps
from simulator.engine.rounds.fold import fold, fold_lanes, reduce_to_one_node, split_into_legs
from simulator.fabrics.single_switch import SingleSwitch
from simulator.models.exchange import AllGather, AllReduce, Broadcast, Layout, PushPull, ReduceScatter, Round
from simulator.records import replace
from simulator.topologies.base import Topology, ring_gather, ring_pass
from simulator.topologies.nccl import TunerRow
from simulator.topologies.parameter_server import ParameterServer

ALPHA, B, S = 50e-6, 1.25e9, 1e8
STEP = {"all_reduce": AllReduce, "all_gather": AllGather, "reduce_scatter": ReduceScatter, "broadcast": Broadcast}

# Nothing, or at least a byte: parts of the smallest floats are no longer exact.
nbytes = st.one_of(st.just(0.0), st.floats(1, 1e9))
bandwidths = st.floats(1e6, 1e11)
latencies = st.one_of(st.just(0.0), st.floats(1e-12, 1e-2))
readies = st.lists(st.floats(0, 1), min_size=48, max_size=48)
PAYLOAD = {"size": nbytes, **dict.fromkeys(("wire", "local"), st.tuples(bandwidths, latencies))}
"""Bytes, and bandwidth and latency between the nodes and inside them."""
fewer = settings(max_examples=settings.default.max_examples // 3)  # for every topology and primitive


def rounds_of(kind, primitive, size, layout):
    """Rounds of one payload: a number, or for a gather one per worker."""
    payload = np.broadcast_to(np.asarray(size, dtype=float), (layout.workers,))
    topology = example(Topology, kind)
    return getattr(topology, primitive)(payload[None, :] if primitive == "all_gather" else payload[:1], layout)


def shares_links(kind, primitive):
    """Whether one GPU per node sends or receives twice in a round, which the slow twin can't time."""
    rounds = rounds_of(kind, primitive, 1.0, Layout(12, 1))
    return any(len(np.unique(end)) < len(end) for item in rounds for end in (item.src, item.dst))


def times(rounds, wiring, ready=None, **options):
    ready = np.zeros(wiring.layout.places) if ready is None else np.array(ready[: wiring.layout.places])
    return fold(rounds, wiring, ready, **options)[0]


def collective_time(kind, primitive, size, wiring):
    return times(rounds_of(kind, primitive, size, wiring.layout), wiring).max()


@given(sizes=st.lists(nbytes, min_size=2, max_size=12), bandwidth=bandwidths, latency=latencies, ready=readies)
def test_a_gather_of_unequal_blocks_equals_the_reference(sizes, bandwidth, latency, ready):
    wiring = switch(len(sizes), 1, bandwidth, latency)
    rounds = ring_gather(np.arange(len(sizes)), np.array([sizes]))
    np.testing.assert_allclose(times(rounds, wiring, ready), interpret(rounds, wiring, ready[: len(sizes)]), rtol=1e-9)


@given(nodes=st.integers(1, 6), gpus=st.integers(1, 4), **PAYLOAD, ready=readies)
def test_a_ring_over_two_kinds_of_links_equals_the_reference(*, nodes, gpus, size, wire, local, ready):
    wiring = switch(nodes, gpus, *wire, local)
    rounds = rounds_of("ring", "all_reduce", size, wiring.layout)
    expected = interpret(rounds, wiring, ready[: nodes * gpus])
    np.testing.assert_allclose(times(rounds, wiring, ready), expected, rtol=1e-9)


@given(p=st.integers(2, 12), size=nbytes, data=st.data(), latency=latencies, ready=readies)
def test_links_that_all_differ_equal_the_reference(*, p, size, data, latency, ready):
    wiring = switch(p, 1, B, latency)
    capacity = data.draw(st.lists(bandwidths, min_size=2 * p, max_size=2 * p))
    wiring = replace(wiring, capacity=np.array([*capacity, *wiring.capacity[2 * p :]]))
    rounds = rounds_of("ring", "all_reduce", size, wiring.layout)
    np.testing.assert_allclose(times(rounds, wiring, ready), interpret(rounds, wiring, ready[:p]), rtol=1e-9)


@pytest.mark.parametrize(("kind", "primitive"), [pair for pair in pairs() if not shares_links(*pair)])
@given(p=st.integers(2, 12), size=nbytes, bandwidth=bandwidths, latency=latencies, ready=readies, over=latencies)
def test_every_topology_equals_the_reference(*, kind, primitive, p, size, bandwidth, latency, ready, over):
    wiring = switch(p, 1, bandwidth, latency)
    rounds = rounds_of(kind, primitive, size, wiring.layout)
    expected = interpret(rounds, wiring, ready[:p], over)
    np.testing.assert_allclose(times(rounds, wiring, ready, overhead=over), expected, rtol=1e-9)


def test_only_these_are_not_compared_with_the_reference():
    assert {(kind, primitive) for kind, primitive in pairs() if shares_links(kind, primitive)} == {
        ("all_to_all", "broadcast"),
        ("double_binary_tree", "all_reduce"),
        ("double_binary_tree", "broadcast"),
        ("gloo", "broadcast"),
        ("mpi", "broadcast"),
        ("nccl", "all_reduce"),
    }


@pytest.mark.parametrize("p", [2, 3, 8, 13, 64])
def test_ring_formulas(p):
    wiring = switch(p, 1, B, ALPHA)
    formulas = {
        "all_reduce": 2 * (p - 1) * (ALPHA + S / (p * B)),
        "all_gather": (p - 1) * (ALPHA + S / B),
        "reduce_scatter": (p - 1) * (ALPHA + S / (p * B)),
        "broadcast": (p - 1) * (ALPHA + S / B),
    }
    for primitive, seconds in formulas.items():
        assert collective_time("ring", primitive, S, wiring) == pytest.approx(seconds, rel=1e-12), primitive


@pytest.mark.parametrize("p", [2, 3, 8, 13, 64])
def test_tree_formulas(p):
    """Exact at powers of two; elsewhere the latency of an incomplete level hides behind its parent's other child."""
    wiring, levels = switch(p, 1, B, ALPHA), ceil(log2(p))
    for primitive, passes in {"all_reduce": 2, "broadcast": 1}.items():
        seconds, formula = collective_time("tree", primitive, S, wiring), passes * levels * (ALPHA + S / B)
        if p == 2**levels:
            assert seconds == pytest.approx(formula, rel=1e-12)
        else:
            assert passes * (ALPHA + levels * S / B) * (1 - 1e-12) <= seconds < formula


@pytest.mark.parametrize(("n", "servers"), [(1, 1), (8, 1), (8, 2), (8, 8), (3, 2)])
def test_push_pull_is_bound_by_the_servers(n, servers):
    topology = example(Topology, "parameter_server", servers=servers)
    layout = topology.layout(n, 1)
    wiring = SingleSwitch(bandwidth=B, latency=ALPHA).wire(layout)
    clock, links = np.zeros(layout.places), np.zeros((1, len(wiring.capacity)))
    for phase in topology.push_pull(np.array([S]), np.array([S]), layout):
        clock[:] = fold(phase, wiring, clock, links=links).max()
    assert clock.max() == pytest.approx(2 * (ALPHA + n * S / (servers * B)), rel=1e-12)


@pytest.mark.parametrize(("kind", "primitive"), pairs())
def test_payloads_side_by_side_equal_one_by_one(kind, primitive):
    wiring, sizes = switch(4, 3, B, ALPHA, (4 * B, ALPHA / 9)), [16.0, 1e3, 4e4, 1e6, S]
    one_by_one = [times(rounds_of(kind, primitive, size, wiring.layout), wiring) for size in sizes]
    payload = np.array(sizes)
    topology, law = example(Topology, kind), np.zeros((len(sizes), wiring.layout.places))
    result = 12 * payload if primitive == "all_gather" else payload
    for chosen, mask, *_ in topology.choices(primitive, result, wiring.layout):
        if mask.any():
            part = np.repeat(payload[mask, None], 12, axis=1) if primitive == "all_gather" else payload[mask]
            law[mask] = fold(getattr(chosen, primitive)(part, wiring.layout), wiring, np.zeros(12))
    np.testing.assert_allclose(law, one_by_one, rtol=1e-12)


@given(nodes=st.integers(2, 5), gpus=st.integers(1, 4), repeat=st.integers(1, 300), **PAYLOAD, ready=readies)
def test_the_periodic_jump_equals_stepping(*, nodes, gpus, repeat, size, wire, local, ready):
    wiring = switch(nodes, gpus, *wire, local)
    (item,) = ring_pass(np.arange(nodes * gpus), np.array([[size]]), repeat)
    single = [Round(item.src, item.dst, item.nbytes)] * repeat
    jumped, stepped = (np.zeros((1, len(wiring.capacity))) for _ in range(2))
    law, slow = times([item], wiring, ready, links=jumped), times(single, wiring, ready, links=stepped)
    np.testing.assert_allclose(law, slow, rtol=1e-9)
    np.testing.assert_allclose(jumped, stepped, rtol=1e-9)


@pytest.mark.parametrize(("kind", "primitive"), pairs())
@fewer
@given(nodes=st.integers(1, 6), gpus=st.integers(1, 4), **PAYLOAD)
def test_no_transfer_beats_its_bottleneck(*, kind, primitive, nodes, gpus, size, wire, local):
    wiring = switch(nodes, gpus, *wire, local)
    rounds = rounds_of(kind, primitive, size, wiring.layout)
    total, crossed, message = times(rounds, wiring).max(), np.zeros(len(wiring.capacity)), 0.0
    for item in rounds:
        first, last, latency, _ = wiring.route(item.src, item.dst)
        narrowest = np.minimum(wiring.capacity[first], wiring.capacity[last])
        message = max(message, (latency + item.nbytes[0] / narrowest).max())
        np.add.at(crossed, first, item.repeat * item.nbytes[0])
        np.add.at(crossed, last, item.repeat * item.nbytes[0])
    assert total >= max((crossed / wiring.capacity).max(), message) * (1 - 1e-9)


@pytest.mark.parametrize(("kind", "primitive"), pairs())
@fewer
@given(nodes=st.integers(1, 5), gpus=st.integers(1, 4), **PAYLOAD, by=st.floats(1, 10))
def test_more_bandwidth_less_latency_and_fewer_bytes_never_take_longer(
    *, kind, primitive, nodes, gpus, size, wire, local, by
):
    rounds = rounds_of(kind, primitive, size, Layout(nodes, gpus))
    larger = [Round(item.src, item.dst, item.nbytes * by, item.repeat) for item in rounds]
    base = times(rounds, switch(nodes, gpus, *wire, local)).max() * (1 + 1e-9)
    assert times(rounds, switch(nodes, gpus, wire[0] * by, wire[1], local)).max() <= base
    assert times(rounds, switch(nodes, gpus, *wire, (local[0] * by, local[1]))).max() <= base
    assert times(rounds, switch(nodes, gpus, wire[0], wire[1] / by, (local[0], local[1] / by))).max() <= base
    assert times(larger, switch(nodes, gpus, *wire, local)).max() * (1 + 1e-9) >= base / (1 + 1e-9)


@pytest.mark.parametrize(("kind", "primitive"), pairs())
def test_traffic_counts_every_byte_once(kind, primitive):
    fabric, size, layout = SingleSwitch(bandwidth=B), 1e6, Layout(3, 4)
    wires = NetworkSetup(example(Topology, kind), fabric, fabric.wire(layout))
    traffic = price_steps([STEP[primitive](size)], [(0, 0)], wires).traffic
    total = sum(item.repeat * item.nbytes.sum() for item in rounds_of(kind, primitive, size, layout))
    assert traffic.sent.sum() == pytest.approx(total)
    assert traffic.links.sum() == pytest.approx(2 * total)
    if (kind, primitive) == ("ring", "all_reduce"):
        np.testing.assert_allclose(traffic.sent, 2 * 11 / 12 * size)


def test_a_batch_with_different_wire_factors():
    wiring, factor = switch(4, 1, B, ALPHA), np.array([1.0, 2.0])
    law = fold(ring_pass(np.arange(4), np.array([[S / 4], [S / 4]]), 6), wiring, np.zeros(4), factor=factor).max(axis=1)
    np.testing.assert_allclose(law, [6 * (ALPHA + f * S / (4 * B)) for f in factor], rtol=1e-12)


@pytest.mark.parametrize("fidelity", ["fold", "flows"])
def test_a_price_says_how_many_payloads_were_folded_and_how_many_flowed(fidelity):
    layout, fabric = Layout(4, 1), SingleSwitch(bandwidth=B, latency=ALPHA)
    wires = NetworkSetup(example(Topology, "ring"), fabric, fabric.wire(layout), fidelity)
    priced = price_steps([AllReduce(S), Broadcast(S), AllReduce(2 * S)], [(0, 0), (1, 1), (2, 2)], wires)
    assert (priced.folded, priced.flowed) == ((3, 0) if fidelity == "fold" else (0, 3))
    assert priced.seconds[[0, 2]] == pytest.approx([6 * (ALPHA + f * S / (4 * B)) for f in (1, 2)], rel=1e-9)


@pytest.mark.parametrize("kind", ["ring", "tree", "nccl"])
def test_one_worker_sends_nothing_and_takes_no_time(kind):
    fabric = SingleSwitch(bandwidth=B, latency=ALPHA)
    wires = NetworkSetup(example(Topology, kind), fabric, fabric.wire(Layout(1, 1)))
    steps, uses = [AllReduce(S), Broadcast(S)], [(0, 0), (1, 1)]
    priced = price_steps(steps, uses, wires)
    assert (priced.seconds.tolist(), priced.folded, priced.flowed) == ([0, 0], 0, 0)
    assert priced.traffic.sent.tolist() == [0]
    for shared in (False, True):
        assert count_traffic(steps, uses, wires, shared=shared)[0].sent.tolist() == [0]
        assert traffic_between(steps, uses, wires, shared=shared).nnz == 0


def test_a_message_leaves_by_the_sender_s_link_and_comes_by_the_receiver_s():
    wiring = SingleSwitch(bandwidth=B).wire(Layout(3, 1))
    traffic = traffic_of([Round(np.array([0]), np.array([2]), np.array([[S]]))], wiring)
    used = {name: nbytes for name, nbytes in zip(wiring.names, traffic.links.tolist(), strict=True) if nbytes}
    assert used == {"node 0 NIC out": S, "node 2 NIC in": S}
    assert traffic.sent.tolist() == [S, 0, 0]


def test_servers_in_turn_get_whole_buckets():
    """Three workers, two servers: the first takes the buckets of S and 4 S from everyone, the second that of 2 S."""
    topology = ParameterServer(servers=2, placement="round_robin")
    fabric, layout = SingleSwitch(bandwidth=B), topology.layout(3, 1)
    wires = NetworkSetup(topology, fabric, fabric.wire(layout))
    steps = [PushPull(f * S, f * S) for f in (1, 2, 4)]
    matrix = traffic_between(steps, [(0, 0), (1, 1), (2, 2)], wires, shared=True).toarray()
    expected = np.zeros((5, 5))
    expected[:3, 3:] = [5 * S, 2 * S]
    np.testing.assert_allclose(matrix, expected + expected.T, rtol=1e-12)


@pytest.mark.parametrize(("shared", "factor"), [(False, 1), (True, 2)])
def test_flags_beside_the_data_count_only_where_they_meet_others_on_the_links(shared, factor):
    """A ring of four sends 2 * 3 / 4 of S to the next; NCCL's LL puts as many flags beside it."""
    row = TunerRow(collective="allreduce", algorithm="ring", protocol="ll")
    fabric = SingleSwitch(bandwidth=B)
    wires = NetworkSetup(example(Topology, "nccl", tuner=(row,)), fabric, fabric.wire(Layout(4, 1)))
    steps, uses = [AllReduce(S)], [(0, 0)]
    matrix = traffic_between(steps, uses, wires, shared=shared).toarray()
    np.testing.assert_allclose(matrix, 1.5 * factor * S * np.roll(np.eye(4), 1, axis=1), rtol=1e-12)
    traffic, algorithms = count_traffic(steps, uses, wires, shared=shared)
    np.testing.assert_allclose(matrix.sum(axis=1), traffic.sent, rtol=1e-12)
    assert algorithms.total() == 1
    if not shared:
        np.testing.assert_allclose(matrix.sum(axis=1), price_steps(steps, uses, wires).traffic.sent, rtol=1e-12)


def test_a_protocol_of_half_the_bandwidth_takes_twice_as_long():
    """NCCL's LL puts a flag beside every data word, which doubles the time beyond the start-ups."""
    fabric, seconds = SingleSwitch(bandwidth=B), {}
    for protocol in ("ll", "simple"):
        row = TunerRow(collective="allreduce", algorithm="ring", protocol=protocol)
        wires = NetworkSetup(example(Topology, "nccl", tuner=(row,)), fabric, fabric.wire(Layout(4, 1)))
        whole, twice = price_steps([AllReduce(S), AllReduce(2 * S)], [(0, 0), (1, 1)], wires).seconds
        seconds[protocol] = float(twice - whole)
    assert seconds["simple"] == pytest.approx(6 * S / (4 * B), rel=1e-9)
    assert seconds["ll"] == pytest.approx(2 * seconds["simple"], rel=1e-9)


def legs_on(wiring, rounds, links=None):
    route = wiring.route(*(np.concatenate([getattr(item, end) for item in rounds]) for end in ("src", "dst")))
    if links is not None:
        route = route._replace(last=links)
    return split_into_legs(rounds, route, route.latency[:, None], wiring.capacity[:, None])


@pytest.mark.parametrize("layout", [(8, 1), (4, 2), (2, 4)])
def test_one_node_stands_for_all_that_are_alike(layout):
    """A ring, and one more round on its links: of every node one worker and its ports are followed."""
    layout = Layout(*layout)
    wiring, g = SingleSwitch(bandwidth=B, latency=ALPHA).wire(layout), layout.gpus_per_node
    everybody = np.arange(layout.workers)
    rounds = [*ring_pass(everybody, np.array([[S], [1e3]]), 5), *ring_pass(everybody, np.array([[S], [1e3]]), 1)]
    one = reduce_to_one_node(layout, len(wiring.capacity), legs_on(wiring, rounds))
    assert [len(item.src) for item in one[0]] == [g, g]
    assert len(np.unique(np.concatenate([[*item.first, *item.last] for item in one[0]]))) == 2 * g
    assert reduce_to_one_node(Layout(1, layout.workers), len(wiring.capacity), legs_on(wiring, rounds)) is None


def test_no_node_stands_for_nodes_that_differ():
    layout = Layout(8, 2)
    wiring = SingleSwitch(bandwidth=B, latency=ALPHA).wire(layout)
    (legs,) = legs_on(wiring, ring_pass(np.arange(16), np.ones((1, 1)), 3))
    first, one_of = np.arange(16) == 0, np.arange(16)[:, None] == 0

    def is_reduced(*changed):
        return reduce_to_one_node(layout, len(wiring.capacity), changed) is not None

    assert is_reduced(legs)
    assert not is_reduced(replace(legs, dst=np.where(first, 3, legs.dst)))
    assert not is_reduced(replace(legs, dst=np.where(legs.dst == 7, layout.workers, legs.dst)))  # a server
    assert not is_reduced(replace(legs, nbytes=np.arange(16.0)[None, :]))
    assert not is_reduced(replace(legs, last=np.zeros_like(legs.last)))
    for name in ("latency", "leaving", "arriving"):
        assert not is_reduced(replace(legs, **{name: getattr(legs, name) + one_of}))
    assert not is_reduced(legs, replace(legs, first=legs.first[np.r_[1, 0, 2:16]]))  # the same links in other roles


@given(
    st.sampled_from(["ring", "tree", "halving_doubling", "recursive_doubling", "all_to_all", "hierarchical"]),
    st.sampled_from(["all_reduce", "all_gather", "broadcast"]),
    st.sampled_from([(1, 4), (4, 1), (8, 1), (4, 2), (3, 2), (16, 1)]),
    st.lists(st.tuples(bandwidths, latencies), min_size=1, max_size=3),
    st.lists(nbytes, min_size=1, max_size=3),
)
@fewer
def test_many_payloads_on_many_networks_are_folded_as_each_by_itself(kind, primitive, layout, numbers, sizes):
    """To the last bit, whatever is folded together with it."""
    layout = Layout(*layout)
    try:
        rounds = rounds_of(kind, primitive, 1.0, layout)
    except PydanticCustomError:
        return
    if not rounds:
        return
    stacked = [replace(item, nbytes=np.array(sizes)[:, None] * item.nbytes) for item in rounds]
    wirings = [SingleSwitch(bandwidth=b, latency=a).wire(layout) for b, a in numbers]
    ends = [np.concatenate([getattr(item, end) for item in rounds]) for end in ("src", "dst")]
    routes = [wiring.route(*ends) for wiring in wirings]
    rows, wires = (each.ravel() for each in np.indices((len(sizes), len(wirings))))
    factors = np.linspace(1.0, 1.5, len(rows))
    together = fold_lanes(
        stacked,
        layout,
        route=routes[0],
        latency=np.stack([route.latency for route in routes], axis=1),
        capacity=np.stack([wiring.capacity for wiring in wirings], axis=1),
        rows=rows,
        wires=wires,
        factor=factors,
    )
    for column, (row, wire) in enumerate(zip(rows, wires, strict=True)):
        one = [replace(item, nbytes=item.nbytes[row : row + 1]) for item in stacked]
        factor = factors[column : column + 1]
        assert together[column] == fold(one, wirings[wire], np.zeros(layout.places), factor=factor).max()


@pytest.mark.parametrize("slow", ["node 0 NIC out", "node 1 NIC in"])
def test_a_message_costs_either_end_its_overhead(slow):
    """One message, ten times: each takes the slower link its bytes and the overhead, and the last one a start-up."""
    wiring = switch(2, 1, B, ALPHA)
    capacity = wiring.capacity.copy()
    capacity[wiring.names.index(slow)] = B / 4
    item = Round(np.array([0]), np.array([1]), np.array([[S]]), 10)
    took = times([item], replace(wiring, capacity=capacity), overhead=0.01)
    assert took[1] == pytest.approx(10 * (4 * S / B + 0.01) + ALPHA, rel=1e-9)


@pytest.mark.parametrize("order", [(0, 2), (2, 0)])
def test_a_place_has_its_data_when_the_last_of_several_messages_is_there(order):
    """By links of their own, in any order: one comes through the node, one by the NIC, and then it sends on."""
    wiring = SingleSwitch(bandwidth=B, latency=ALPHA, intra_node={"bandwidth": 8 * B, "latency": 0.0}).wire(
        Layout(2, 2)
    )
    sizes = {0: S / 10, 2: S}
    rounds = [
        Round(np.array(order), np.array([1, 1]), np.array([[sizes[place] for place in order]])),
        Round(np.array([1]), np.array([0]), np.array([[S]])),
    ]
    there = ALPHA + S / B
    assert times(rounds, wiring)[:2] == pytest.approx([there + S / (8 * B), there], rel=1e-12)
