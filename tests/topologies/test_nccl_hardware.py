"""What NCCL knows of the hardware when it chooses: channels, what they carry, and what the hardware can do."""

import numpy as np
import pytest

from simulator.hardware.machine import LibraryTerms, Machine
from simulator.models.exchange import Layout
from simulator.records import replace
from simulator.topologies.nccl import Nccl
from simulator.topologies.nccl_times import NcclTimes
from simulator.topologies.nccl_tuning import RING, NcclTuning

NODE = Machine(generation="hopper", nics=4, reported=50e9, port=400e9, inside="nvlink", switched=True, latency=2e-6)


def known(layout, machine=NODE, **options):
    return NcclTuning(**options).knowledge(machine, Layout(*layout))


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


@pytest.mark.parametrize(
    ("version", "label", "constants", "share"),
    [("2.14", "ring Simple", (8.4, 3.4, 14), 1), ("2.20", "ring LL128", (14, 1.9, 4), 0.92)],
)
def test_gathers_of_512_hopper_gpus_by_old_and_newer_versions(version, label, constants, share):
    """403 MB over 64 nodes of 8: of the 511 steps of a chunk NCCL counts 63 between nodes when it chooses.

    A chunk crosses 511 / 8 nodes on average. LL128 would start in half of the time, but is not there up to 2.14.
    """
    layout, size, machine, (base, inside, across) = Layout(64, 8), np.array([403e6]), replace(NODE, nics=8), constants
    tuning = NcclTuning(version=version)
    (choice,) = Nccl(tuning=tuning).choices("all_gather", size, layout, machine)
    assert choice.label == label
    algorithm, protocol = RING, ("LL", "LL128", "Simple").index(label.split()[1])
    priced = NcclTimes(tuning.knowledge(machine, layout), machine, "all_gather", layout)
    expected = priced.expected(size)[algorithm, protocol, 0]
    hand = 1e-6 * (base + 448 * inside + 63 * across) + 403e6 * 511 / 512 / (share * 400e9)
    assert expected == pytest.approx(hand, rel=1e-12)
    hops = 1e-6 * (base + 511 * 7 / 8 * inside + 511 / 8 * across)
    assert priced.start_up(algorithm, protocol, size)[0] == pytest.approx(hops, rel=1e-12)


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
        assert known((2, 8), replace(NODE, generation=generation), version="2.14").ll128 is not there
        assert known((2, 8), replace(NODE, terms=LibraryTerms(version="2.14.3")), gpu=generation).ll128 is not there
        assert known((2, 8), gpu=generation, version="2.15").ll128
        assert known((1, 8), replace(NODE, generation=generation)).nvls is there
        assert known((1, 8), gpu=generation).nvls is there
    assert [known(layout).nvls for layout in ((1, 2), (2, 2), (4, 1))] == [True, True, False]
    assert not known((1, 8), replace(NODE, switched=False)).nvls
    assert known((1, 8), replace(NODE, switched=False), nvls=True).nvls


def test_fewer_channels_carry_their_share():
    few = Nccl(max_channels=5)._known(NODE, Layout(1, 8))
    assert (few.channels, few.ring, few.tree, few.port) == (5, 100e9, 100e9, 400e9)
