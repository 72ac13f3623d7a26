"""What NCCL knows of the hardware, and what its collectives take on it: closed forms, and chunks halved one by one.

Constants are those of NVIDIA/nccl, src/graph/tuning.cc, v2.30.7 (2025).
"""

from dataclasses import replace

import numpy as np
import pytest

from simulator.hardware.machine import LibraryTerms, Machine
from simulator.models.exchange import Layout
from simulator.topologies.nccl_channels import Channels
from simulator.topologies.nccl_tables import COLLNET, LL, LL128, NVLS, NVLS_TREE, PAT, RING, SIMPLE, TREE
from simulator.topologies.nccl_times import WITHIN_CONSTANTS, NcclTimes
from simulator.topologies.nccl_tuning import NcclTuning

NODE = Machine(generation="hopper", nics=4, reported=50e9, port=400e9, inside="nvlink", switched=True, latency=2e-6)
KIB = 2.0**10


def known(layout, machine=NODE, **options):
    return NcclTuning(**options).known(machine, Layout(*layout))


# What NCCL knows.


@pytest.mark.parametrize(
    ("layout", "options", "ring", "tree"),
    [
        ((1, 8), {}, 400e9, 400e9),  # one GPU's links
        ((2, 8), {}, 200e9, 200e9),  # four NICs
        ((1, 8), {"intra_bandwidth": 70e9}, 70e9, 70e9),
        ((2, 8), {"intra_bandwidth": 70e9, "inter_bandwidth": 30e9}, 70e9, 70e9),  # as inside, on two nodes
        ((3, 8), {"intra_bandwidth": 70e9, "inter_bandwidth": 30e9}, 30e9, 30e9),
        ((3, 8), {"intra_bandwidth": 70e9}, 70e9, 70e9),
        ((1, 8), {"inter_bandwidth": 30e9}, 400e9, 400e9),
        ((2, 8), {"inter_bandwidth": 30e9}, 30e9, 30e9),
    ],
)
def test_channels_carry_what_the_links_do_or_what_is_said(layout, options, ring, tree):
    assert (known(layout, **options).ring, known(layout, **options).tree) == (ring, tree)


def test_channels_between_nodes_carry_no_more_than_those_inside():
    """Four NICs of 50 GB/s could carry 200; of chains, the trees carry more than rings that leave the direct links."""
    chain = (((0, 1, 2, 3), 2), ((3, 1, 0, 2), 1))
    slow = replace(NODE, port=30e9, chains=chain, host=5e9)
    assert (known((1, 4), slow).ring, known((1, 4), slow).tree) == (5e9, 90e9)
    assert (known((1, 4), replace(slow, host=None)).ring, known((1, 4), slow).tree) == (pytest.approx(3e9), 90e9)
    assert (known((2, 4), slow).ring, known((2, 4), slow).tree) == (90e9, 90e9)
    cycles = replace(slow, cycles=chain)  # a ring that closes carries the sum of its links, trees too
    assert (known((1, 4), cycles).ring, known((1, 4), cycles).tree) == (90e9, 90e9)


@pytest.mark.parametrize(
    ("layout", "machine", "count"),
    [
        # Across nodes two for each NIC of 20 GB/s or more, one for each slower one, 32 at most.
        ((2, 8), replace(NODE, reported=20e9), 8), ((2, 8), replace(NODE, reported=19.9e9), 4),
        ((2, 8), replace(NODE, nics=16), 32), ((2, 8), replace(NODE, nics=17), 32),
        ((2, 8), replace(NODE, nics=32, reported=1e9), 32), ((2, 8), replace(NODE, nics=33, reported=1e9), 32),
        # On one node one for every 20 GB/s, the rate of an NVLink (src/graph/topo.h), 1 to 32.
        ((1, 8), NODE, 20), ((1, 8), replace(NODE, port=640e9), 32), ((1, 8), replace(NODE, port=900e9), 32),
        ((1, 8), replace(NODE, port=31e9), 2), ((1, 8), replace(NODE, port=29e9), 1),
        ((1, 2), replace(NODE, port=1), 1),
        ((1, 4), replace(NODE, port=30e9, chains=(((0, 1, 2, 3), 2),), host=5e9), 3),  # trees carry the most
    ],
)  # fmt: skip
def test_channels_are_as_many_as_the_search_finds(layout, machine, count):
    assert known(layout, machine).channels == count
    assert known(layout, machine, channels=7).channels == 7


def test_lines_of_128_bytes_and_sums_in_the_switch_where_the_hardware_has_them():
    pci = replace(NODE, inside="pci")
    assert [known(layout, machine).ll128 for layout, machine in (((2, 8), NODE), ((2, 8), pci), ((2, 1), pci))] == [
        True, False, True,
    ]  # fmt: skip
    assert known((2, 8), pci, intra="nvlink").ll128
    never, always = (replace(NODE, inside=kind, terms=LibraryTerms(ll128=kind == "pci")) for kind in ("nvlink", "pci"))
    assert [known((2, 8), machine).ll128 for machine in (never, always)] == [False, True]
    assert [known((2, 8), machine, ll128=machine is never).ll128 for machine in (never, always)] == [True, False]
    for generation, there in (("volta", False), ("ampere", False), ("hopper", True), ("blackwell", True)):
        assert known((1, 8), replace(NODE, generation=generation)).nvls is there
        assert known((1, 8), gpu=generation).nvls is there
    assert [known(layout).nvls for layout in ((1, 2), (2, 2), (4, 1))] == [True, True, False]
    assert not known((1, 8), replace(NODE, switched=False)).nvls
    assert known((1, 8), replace(NODE, switched=False), nvls=True).nvls


def test_fewer_channels_carry_their_share():
    few = known((1, 8)).with_channels(5, 0.25)
    assert (few.channels, few.ring, few.tree, few.port) == (5, 100e9, 100e9, 400e9)


# What collectives take.


def times(layout, primitive="all_reduce", machine=NODE, **options):
    return NcclTimes(known(layout, machine, **options), machine, primitive, Layout(*layout))


SIZES = np.array([1.0, 32 * KIB, 2**20, 2.0**24, 2.0**27 - 1, 2.0**27, 2.0**31])


@pytest.mark.parametrize("layout", [(2, 1), (2, 8), (3, 2), (8, 8)])
@pytest.mark.parametrize("channels", [1, 6])
def test_every_chunk_of_a_tree_takes_its_time_between_nodes(layout, channels):
    """From 512 KiB a channel, chunks are halved down to 32 KiB while there are fewer than 8 for a level of the tree.

    Two nodes send the payload once over a link, more nodes twice; of every GPU one chunk is on the way at once.
    """
    nodes, each = layout
    points = ((1e3, 10e-6), (1e6, 30e-6), (1e8, 90e-6))
    machine = replace(NODE, terms=LibraryTerms(step_overhead=points))
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
    machine = replace(NODE, latency=4e-6, terms=terms)
    steps = passes * (layout[0] * layout[1] - 1)
    across = steps / layout[1]
    for protocol, base, hop in ((LL, 6.6, 0.6), (LL128, 14.0, 1.9), (SIMPLE, 8.4, 3.4)):
        right = 1e-6 * (base + (steps - across) * hop + across * 13)
        found = times(layout, primitive, machine).start_up(RING, protocol, np.array([0.0, 1.0, 1e9]))
        np.testing.assert_allclose(found, [0, right, right], rtol=1e-12)
    # A network that is nearer than the measured one by more than the step took leaves nothing.
    near = replace(machine, latency=1e-6, terms=terms.model_copy(update={"latency": 50e-6}))
    found = times(layout, primitive, near).start_up(RING, SIMPLE, np.ones(1))
    assert found[0] == pytest.approx(1e-6 * (8.4 + (steps - across) * 3.4), rel=1e-12)


@pytest.mark.parametrize("latency", [0.0, 2e-6, 7e-6])
def test_what_messages_take_beyond_infiniband_counts_for_every_step_and_twice_for_simple(latency):
    """2 us are in NCCL's constants. 3 nodes of 2: a chunk of an all-reduce makes 10 steps, 5 of them between nodes."""
    machine = replace(NODE, latency=latency, inside_latency=4e-6)
    beyond = max(0.0, latency - 2e-6)
    made = times((3, 2), machine=machine)
    assert WITHIN_CONSTANTS == 2e-6
    for protocol, base, inside, across, twice in (
        (LL, 6.6, 0.6, 2.7, 1),
        (LL128, 14, 1.9, 4, 1),
        (SIMPLE, 8.4, 4, 14, 2),
    ):
        right = 1e-6 * (base + 5 * inside + 5 * across) + 5 * twice * beyond
        limit = 64 * made.known.channels * 6
        found = made.start_up(RING, protocol, np.array([limit - 1.0, limit]))
        longer = 1.4 if protocol == SIMPLE else 1  # from 64 B for every channel and rank on
        np.testing.assert_allclose(found, [right, longer * right], rtol=1e-12)
    named = replace(machine, terms=LibraryTerms(hop_latency={"LL": 3e-6}))
    assert times((3, 2), machine=named).start_up(RING, LL, np.ones(1))[0] == pytest.approx(
        1e-6 * (6.6 + 5 * 0.6 + 5 * 5.7), rel=1e-12
    )
    known_call = times((3, 2), machine=replace(machine, start_up_measured=True))
    assert known_call.start_up(RING, LL, np.ones(1))[0] == pytest.approx(
        1e-6 * (5 * 0.6 + 5 * 2.7) + 5 * beyond, rel=1e-12
    )


def test_far_switches_count_once_for_each_way():
    """8 nodes of 2: of 30 steps of an all-reduce each chunk makes 15 between nodes, of 8 that lead around the ring."""
    far = replace(NODE, far_latency=1.0)

    def beyond(algorithm, primitive):
        there, here = (times((8, 2), primitive, machine).start_up(algorithm, LL, np.ones(1)) for machine in (far, NODE))
        return float((there - here)[0])

    assert beyond(RING, "all_reduce") == pytest.approx(15 / 8, rel=1e-9)
    assert beyond(RING, "all_gather") == pytest.approx(7.5 / 8, rel=1e-9)
    assert beyond(TREE, "all_reduce") == pytest.approx(1, rel=1e-9)
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
        np.testing.assert_allclose(item.nbytes[0, ~inside], 2e6, rtol=1e-12)
