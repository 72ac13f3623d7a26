"""What NCCL's collectives take on the hardware: closed forms, and chunks halved one by one.

Constants are those of NVIDIA/nccl, src/graph/tuning.cc, v2.30.7 (2025).
"""

import numpy as np
import pytest

from simulator.hardware.machine import LibraryTerms, Machine
from simulator.models.exchange import Layout
from simulator.records import replace
from simulator.topologies.nccl_channels import Channels, trees
from simulator.topologies.nccl_times import WITHIN_CONSTANTS, NcclTimes
from simulator.topologies.nccl_tuning import COLLNET, LL, LL128, NVLS, NVLS_TREE, PAT, RING, SIMPLE, TREE, NcclTuning

NODE = Machine(generation="hopper", nics=4, reported=50e9, port=400e9, inside="nvlink", switched=True, latency=2e-6)
KIB = 2.0**10


def times(layout, primitive="all_reduce", machine=NODE, **options):
    return NcclTimes(NcclTuning(**options).knowledge(machine, Layout(*layout)), machine, primitive, Layout(*layout))


SIZES = np.array([1.0, 32 * KIB, 2**20, 2.0**24, 2.0**27 - 1, 2.0**27, 2.0**31])


@pytest.mark.parametrize("layout", [(2, 1), (2, 8), (3, 2), (8, 8)])
@pytest.mark.parametrize("channels", [1, 6])
def test_every_chunk_of_a_tree_takes_its_time_between_nodes(layout, channels):
    """From 512 KiB a channel, chunks are halved down to 32 KiB while there are fewer than 8 for a level of the tree.

    Two nodes send the payload once over a link, more nodes twice; of every GPU one chunk is on the way at once.
    """
    nodes, each = layout
    machine = replace(NODE, terms=LibraryTerms(step_overhead=((1e3, 10e-6), (1e6, 30e-6), (1e8, 90e-6))))
    levels, right = int(np.log2(nodes)), []
    for size in SIZES:
        chunk = 512 * KIB
        while chunk > 32 * KIB and size / (channels * chunk) < 8 * (each - 1 + levels):
            chunk /= 2
        overhead = np.interp(np.log(channels * chunk), np.log([1e3, 1e6, 1e8]), [10e-6, 30e-6, 90e-6])
        right.append(size * (1 if nodes == 2 else 2) / (channels * chunk) * overhead / each)
    for protocol, constant in ((LL128, 14e-6 + 2 * ((each - 1) * 1.25e-6 + levels * 8.5e-6)),
                               (SIMPLE, 8.4e-6 + 2 * ((each - 1) * 4e-6 + levels * 14e-6))):  # fmt: skip
        found = times(layout, machine=machine, channels=channels).start_up(TREE, protocol, SIZES)
        np.testing.assert_allclose(found, constant + np.array(right), rtol=1e-12)
    assert times(layout, machine=machine).efficiency(TREE, SIMPLE, SIZES).tolist() == [1.0] * len(SIZES)


@pytest.mark.parametrize("layout", [(2, 1), (2, 8), (5, 3)])
@pytest.mark.parametrize(("primitive", "passes"), [("all_reduce", 2), ("all_gather", 1), ("reduce_scatter", 1)])
def test_every_step_of_a_ring_takes_its_time_between_nodes(layout, primitive, passes):
    """The steps of a chunk are alike on all GPUs, so that one in g crosses nodes; here the network is 3 us farther."""
    terms = LibraryTerms(step_overhead=((1e3, 10e-6), (1e9, 10e-6)), latency=1e-6)
    machine, steps = replace(NODE, latency=4e-6, terms=terms), passes * (layout[0] * layout[1] - 1)
    across = steps / layout[1]
    for protocol, base, hop in ((LL, 6.6, 0.6), (LL128, 14.0, 1.9), (SIMPLE, 8.4, 3.4)):
        right = 1e-6 * (base + (steps - across) * hop + across * 13)
        found = times(layout, primitive, machine).start_up(RING, protocol, np.array([0.0, 1.0, 1e9]))
        np.testing.assert_allclose(found, [0, right, right], rtol=1e-12)
    if primitive == "all_gather":  # the time is that of the bytes of a step, a p-th of the payload
        uneven = replace(machine, terms=terms.model_copy(update={"step_overhead": ((1e3, 10e-6), (1e6, 40e-6))}))
        payload = np.array([1e3, 1e6]) * layout[0] * layout[1]
        few, many = times(layout, primitive, uneven).start_up(RING, LL, payload)
        assert many - few == pytest.approx(across * 30e-6, rel=1e-9)
    # A network that is nearer than the measured one by more than the step took leaves nothing.
    near = replace(machine, latency=1e-6, terms=terms.model_copy(update={"latency": 50e-6}))
    found = times(layout, primitive, near).start_up(RING, SIMPLE, np.ones(1))
    assert found[0] == pytest.approx(1e-6 * (8.4 + (steps - across) * 3.4), rel=1e-12)


@pytest.mark.parametrize("latency", [0.0, 2e-6, 7e-6])
def test_what_messages_take_beyond_infiniband_counts_for_every_step_and_twice_for_simple(latency):
    """2 us are in NCCL's constants. 3 nodes of 2: a chunk of an all-reduce makes 10 steps, 5 of them between nodes."""
    machine = replace(NODE, latency=latency, inside_latency=4e-6)
    beyond, made = max(0.0, latency - 2e-6), times((3, 2), machine=machine)
    assert WITHIN_CONSTANTS == 2e-6
    steps = (LL, 6.6, 0.6, 2.7, 1), (LL128, 14, 1.9, 4, 1), (SIMPLE, 8.4, 4, 14, 2)
    for protocol, base, inside, across, twice in steps:
        right = 1e-6 * (base + 5 * inside + 5 * across) + 5 * twice * beyond
        limit = 64 * made.known.channels * 6
        found = made.start_up(RING, protocol, np.array([limit - 1.0, limit]))
        longer = 1.4 if protocol == SIMPLE else 1  # from 64 B for every channel and rank on
        np.testing.assert_allclose(found, [right, longer * right], rtol=1e-12)
    named = replace(machine, terms=LibraryTerms(hop_latency={"LL": 3e-6}))
    taken = 1e-6 * (6.6 + 5 * 0.6 + 5 * 5.7)
    assert times((3, 2), machine=named).start_up(RING, LL, np.ones(1))[0] == pytest.approx(taken, rel=1e-12)
    farther = LibraryTerms(hop_latency={"LL": 3e-6}, latency=1e-6)
    found = times((3, 2), machine=replace(machine, terms=farther)).start_up(RING, LL, np.ones(1))
    assert found[0] == pytest.approx(taken + max(-15e-6, 5 * (latency - 1e-6)), rel=1e-12)
    known_call = times((3, 2), machine=replace(machine, start_up_measured=True))
    taken = 1e-6 * (5 * 0.6 + 5 * 2.7) + 5 * beyond
    assert known_call.start_up(RING, LL, np.ones(1))[0] == pytest.approx(taken, rel=1e-12)


@pytest.mark.parametrize(("nodes", "steps"), [(2, 1), (3, 2), (4, 2), (64, 6)])
@pytest.mark.parametrize("primitive", ["all_gather", "reduce_scatter"])
def test_every_step_of_pat_takes_a_whole_message(nodes, steps, primitive):
    """NCCL takes 8 us, 14/3.5 for each of floor(log2 N) levels and 2.8 for each rank; 436 us are 434 more a message."""
    made = times((nodes, 1), primitive, replace(NODE, latency=436e-6)).start_up(PAT, SIMPLE, np.ones(1))
    known = 8 + (nodes.bit_length() - 1) * 4 + nodes * 2.8
    assert made[0] == pytest.approx(1e-6 * (known + steps * 434), rel=1e-12)
    assert made[0] > steps * 436e-6


def test_on_one_node_steps_are_those_inside_whatever_the_network_takes():
    """8 GPUs: 14 steps of an all-reduce; 64 B for every channel and rank make nothing longer there."""
    machine = replace(NODE, latency=1.0, terms=LibraryTerms(step_overhead=((1e3, 1.0), (1e6, 1.0))))
    found = times((1, 8), machine=machine)
    for protocol, base, hop in ((LL, 6.6, 0.6), (LL128, 14.0, 1.9), (SIMPLE, 8.4, 3.4)):
        np.testing.assert_allclose(found.start_up(RING, protocol, SIZES), 1e-6 * (base + 14 * hop), rtol=1e-12)


def test_the_measured_time_of_a_step_is_that_of_rings_and_of_trees_but_for_ll():
    machine = replace(NODE, terms=LibraryTerms(step_overhead=((1e3, 1.0), (1e6, 1.0))))
    found = times((2, 8), machine=machine)
    for pair in ((TREE, LL), (NVLS_TREE, SIMPLE), (COLLNET, SIMPLE)):
        assert found.start_up(*pair, np.array([1e9]))[0] < 1e-3
        assert found.efficiency(*pair, np.array([1e9]))[0] == times((2, 8)).efficiency(*pair, np.array([1e9]))[0] < 1
    for pair in ((RING, LL), (RING, LL128), (RING, SIMPLE), (TREE, LL128), (TREE, SIMPLE)):
        assert found.start_up(*pair, np.array([1e9]))[0] > 1
        assert found.efficiency(*pair, np.array([1e9])).tolist() == [1]
    for primitive in ("broadcast", "reduce"):
        assert times((2, 8), primitive, machine).start_up(RING, SIMPLE, np.array([1e9]))[0] < 1e-3


def test_far_switches_count_once_for_each_way():
    """8 nodes of 2: of 30 steps of an all-reduce each chunk makes 15 between nodes, of 8 that lead around the ring."""
    far = replace(NODE, far_latency=1.0)

    def beyond(algorithm, primitive):
        there, here = (times((8, 2), primitive, machine).start_up(algorithm, LL, np.ones(1)) for machine in (far, NODE))
        return float((there - here)[0])

    assert beyond(RING, "all_reduce") == pytest.approx(15 / 8, rel=1e-9)
    assert beyond(RING, "all_gather") == pytest.approx(7.5 / 8, rel=1e-9)
    assert beyond(TREE, "all_reduce") == pytest.approx(1, rel=1e-9)
    assert beyond(PAT, "all_gather") == beyond(RING, "all_gather")  # forward past the nodes, never back
    assert beyond(TREE, "broadcast") == beyond(TREE, "reduce") == pytest.approx(0.5, rel=1e-9)


@pytest.mark.parametrize(
    ("pair", "layout", "options", "share"),
    [
        ((RING, LL), (2, 8), {}, 39 / 200), ((RING, LL), (2, 8), {"inter_bandwidth": 60e9}, 0.5),
        ((RING, LL), (2, 8), {"inter_bandwidth": 60e9, "version": "2.18"}, 0.5),  # half are flags, whatever it expects
        ((RING, LL128), (1, 8), {}, 0.92), ((RING, LL128), (1, 8), {"channels": 2}, 2 * 36.7 / 400),
        ((RING, SIMPLE), (2, 8), {}, 1), ((TREE, SIMPLE), (2, 8), {"channels": 8}, 0.92),
        ((TREE, SIMPLE), (2, 8), {"channels": 2}, 2 * 41.4 / 200), ((TREE, SIMPLE), (2, 1), {}, 0.92 * 0.85),
        ((TREE, SIMPLE), (1, 8), {}, 1), ((TREE, LL128), (1, 8), {}, 7 / 9), ((TREE, LL), (1, 8), {}, 1 / 3.8),
        ((NVLS, SIMPLE), (1, 8), {}, 0.85), ((NVLS, SIMPLE), (1, 8), {"gpu": "ampere"}, 1),
        ((NVLS_TREE, SIMPLE), (2, 8), {}, 0.92), ((COLLNET, SIMPLE), (2, 8), {}, 0.85),
        ((PAT, SIMPLE), (2, 1), {}, 0.75),
    ],
)  # fmt: skip
def test_a_protocol_leaves_its_share_of_the_links(pair, layout, options, share):
    """At 64 B trees get 1, 1 and 0.9 of it by LL, LL128 and Simple on many nodes, and all on one."""
    left = (1, 1, 0.9)[pair[1]] if pair[0] == TREE and layout[0] > 1 else 1
    found = times(layout, **options).efficiency(*pair, np.array([1.0, 64.0]))
    np.testing.assert_allclose(found, [share, share * left], rtol=1e-12)
    measured = replace(NODE, terms=LibraryTerms(efficiency={"ring LL": 0.3, "tree Simple": 0.9, "nvls Simple": 0.6}))
    named = {(RING, LL): 0.3, (TREE, SIMPLE): 0.9, (NVLS, SIMPLE): 0.6}.get(pair)
    if named:
        assert times(layout, machine=measured, **options).efficiency(*pair, np.ones(1)).tolist() == [named]


@pytest.mark.parametrize(("generation", "weight"), [("hopper", 0.92 / 0.85), ("blackwell", 0.92 / 0.74), ("volta", 1)])
def test_bytes_in_the_switch_count_for_what_it_reaches(generation, weight):
    """Every GPU sends all and an eighth; a switch that cannot add counts like the network's trees."""
    machine = replace(NODE, generation=generation)
    for algorithm in ("nvls_tree", "collnet"):
        (item,) = Channels(algorithm, machine).all_reduce(np.array([8e6]), Layout(2, 8))
        inside = item.src // 8 == item.dst // 8
        np.testing.assert_allclose(item.nbytes[0, inside], weight * 9e6, rtol=1e-12)
        # Up to the network's switches and back, or along two trees: each of four NICs a quarter.
        sent = np.bincount(item.src[~inside], weights=item.nbytes[0, ~inside])
        np.testing.assert_allclose(sent[np.unique(item.src[~inside])], 2e6, rtol=1e-12)


def test_sums_in_the_switch_go_on_by_the_nics_of_every_node():
    """Inside a node from each GPU to the next; between 3 nodes from each NIC to its own of the next, or along trees."""
    layout, size = Layout(3, 8), 8.0

    def between(algorithm):
        (item,) = Channels(algorithm, NODE).all_reduce(np.array([size]), layout)
        made: dict[tuple[int, int], float] = {}
        for pair, nbytes in zip(zip(item.src.tolist(), item.dst.tolist(), strict=True), item.nbytes[0], strict=True):
            made[pair] = made.get(pair, 0) + nbytes  # both trees may join a pair
        circle = {(node * 8 + gpu, node * 8 + (gpu + 1) % 8) for node in range(3) for gpu in range(8)}
        assert {pair for pair in made if pair[0] // 8 == pair[1] // 8} == circle
        return {pair: nbytes for pair, nbytes in made.items() if pair[0] // 8 != pair[1] // 8}

    right = {(node * 8 + nic, (node + 1) % 3 * 8 + nic): size / 4 for node in range(3) for nic in range(4)}
    assert between("collnet") == right
    edges = trees(NODE, layout)
    up = edges.src // 8 != edges.dst // 8
    both: dict[tuple[int, int], float] = {}
    for child, parent, share in zip(edges.src[up].tolist(), edges.dst[up].tolist(), edges.share[up], strict=True):
        for pair in ((child, parent), (parent, child)):
            both[pair] = both.get(pair, 0) + size * share
    assert between("nvls_tree") == pytest.approx(both)
