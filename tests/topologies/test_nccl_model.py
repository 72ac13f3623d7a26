"""NCCL's model of its own collectives, against one written step by step as its source has it, and its tables.

All numbers are those of NVIDIA/nccl, src/graph/tuning.cc, v2.30.7 (2025), in its units: us and GB/s.
"""

from itertools import product
from math import inf, log2

import numpy as np
import pytest

from simulator.hardware.machine import Machine
from simulator.models.exchange import Layout
from simulator.records import replace
from simulator.topologies.nccl_times import NcclTimes
from simulator.topologies.nccl_tuning import (
    COLLNET,
    LL,
    LL128,
    LL_MOST_ACROSS,
    LL_MOST_INSIDE,
    NVLS,
    NVLS_EFFICIENCY,
    NVLS_TREE,
    PAT,
    POST,
    RING,
    RING_LL128,
    SIMPLE,
    TREE,
    TREE_LEFT,
    TREE_LL128,
    TREE_MOST,
    Knowledge,
    tables_of,
    tree_left,
)

BASE = {TREE: (6.8, 14.0, 8.4), RING: (6.6, 14.0, 8.4), PAT: (8, 8, 8)}
NET = {TREE: (5.0, 8.5, 14), RING: (2.7, 4.0, 14.0), COLLNET: 31, NVLS: 18, NVLS_TREE: 20.9, PAT: 14}
HOPS = {
    "nvlink": {TREE: (0.6, 1.25, 4.0), RING: (0.6, 1.9, 3.4), COLLNET: 3.7, NVLS: 25, NVLS_TREE: 25, PAT: 4.0},
    "pci": {TREE: (1.0, 1.9, 4.0), RING: (1.0, 2.5, 5.7), COLLNET: 3.7, NVLS: 0, NVLS_TREE: 0, PAT: 4.0},
    "net": NET,
}
GPUS = ("volta", "ampere", "hopper", "blackwell")
CPUS = ("intel", "amd")
LL_ONE_NODE = dict(zip(GPUS, (39.0, 87.7, 141.0, 282.0), strict=True))
LL_MORE_NODES = {"intel": (39.0, 20.4), "amd": (22.5, 19.0)}  # on two nodes, and on more
RING_CHANNEL = dict(zip(GPUS, (20.0, 20.0, 36.7, 40.0), strict=True))
TREE_LINES = dict(zip(GPUS, ((20.0,) * 3, (20.0,) * 3, (36.7, 36.7, 29.0), (55.6, 31.67, 20.0)), strict=True))
TREE_CHANNEL = dict(
    zip(GPUS, ((26.5, 18.5, 10.0), (24.0, 23.6, 17.8), (38.7, 41.4, 36.0), (70.0, 42.8, 24.0)), strict=True)
)
SWITCH = dict(zip(GPUS, (0.0, 0.0, 0.85, 0.74), strict=True))
LEFT = (
    (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1, 1),
    (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1, 1),
    (0.9,) * 7 + (0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9, 0.9),
)
SIZES = (1, 63, 64, 127, 2**17, 2**20, 2**29, 2**30, 2**34)
GATHERS = ("all_gather", "reduce_scatter")

NEW = Knowledge(
    tables_of("2.30"), "hopper", "intel", "nvlink", 16, 300e9, 280e9, 370e9, 2e-6, ll128=True, nvls=True, sharp=True
)


def hop(kind, algorithm, protocol):
    value = HOPS[kind][algorithm]
    return value[protocol] if isinstance(value, tuple) else value * (protocol == SIMPLE or algorithm == PAT)


def latency(known, pair, primitive, layout):
    """Microseconds before any byte, as `ncclTopoTuneModel` adds them."""
    (algorithm, protocol), nodes, each = pair, layout.nodes, layout.gpus_per_node
    ranks, levels, inside = nodes * each, int(log2(nodes)), hop(known.intra, algorithm, protocol)
    # With one GPU per node nothing hides the hops of a ring: the latency of the tree counts.
    across = hop("net", TREE if each == 1 and algorithm == RING else algorithm, protocol)
    across += 1e6 * known.net_latency * (2 if protocol == SIMPLE else 1)
    steps = (2 if primitive == "all_reduce" else 1) * (ranks - 1)
    between = (2 if primitive == "all_reduce" else 1) * (nodes - 1)
    if algorithm == RING and primitive in ("broadcast", "reduce"):
        made = inside if nodes == 1 else across
    elif algorithm == RING:
        post = {"intel": 1, "amd": 2}[known.cpu] * (3 if protocol == SIMPLE else 1) if nodes > 1 else 0
        made = (steps - between) * max(inside, post) + between * across
    else:
        made = {
            TREE: 2 * ((each - 1) * inside + levels * across),
            COLLNET: 2 * (min(1, each - 1) * inside + (each - 1) * 0.4) + across,
            NVLS: inside,
            NVLS_TREE: inside + 2 * levels * across,
            PAT: levels * across / 3.5 + 2.8 * ranks,
        }[algorithm]
    return BASE.get(algorithm, (0, 0, 0))[protocol] + made


def rate(known, pair, primitive, layout):
    """GB/s of payload, as `ncclTopoTuneModel` has them."""
    (algorithm, protocol), nodes, each = pair, layout.nodes, layout.gpus_per_node
    ranks, column, gpu = nodes * each, min(nodes, 3) - 1, known.gpu
    ring, tree, port = known.ring / 1e9, known.tree / 1e9, known.port / 1e9
    most = LL_ONE_NODE[gpu] if nodes == 1 else LL_MORE_NODES[known.cpu][column - 1]
    steps = {"all_reduce": 2 * (ranks - 1), "broadcast": ranks, "reduce": ranks}.get(primitive, ranks - 1)
    whole = min(0.92 * tree, known.channels * TREE_CHANNEL[gpu][column])
    lines = min(whole * (7 / 9 if nodes == 1 else 120 / 128), known.channels * TREE_LINES[gpu][column])
    by_tree = (min(whole / 3.8, most), lines, whole)[protocol] * (0.85 if each == 1 else 1) / 2
    by_ring = (min(most, 0.5 * ring), min(0.92 * ring, known.channels * RING_CHANNEL[gpu]), ring)[protocol]
    switch = 5 / 6 * SWITCH[gpu] * port
    return {
        RING: by_ring * ranks / max(1, steps),
        TREE: by_tree,
        NVLS: switch,
        # Between nodes the sums go along the trees, whose rate is theirs; two nodes reach what a switch does.
        NVLS_TREE: min(switch, whole / 2 if nodes > 2 else 5 / 6 * tree),
        COLLNET: 0.85 * tree,
        PAT: 0.75 * ring * ranks / max(1, steps),
    }[algorithm]


def seconds(known, pair, primitive, sizes, layout):
    """The time for each size in bytes, infinite where NCCL does not have the pair."""
    (algorithm, protocol), nodes, each, made = pair, layout.nodes, layout.gpus_per_node, []
    summed = primitive == "all_reduce"
    there = {
        RING: True,
        TREE: summed,
        COLLNET: known.sharp and nodes > 1 and summed,
        NVLS: known.nvls and nodes == 1 and (summed or primitive in GATHERS),
        NVLS_TREE: known.nvls and nodes > 1 and summed,
        PAT: nodes > 1 and each == 1 and primitive in GATHERS,
    }[algorithm]
    if not there or (algorithm not in (RING, TREE) and protocol != SIMPLE) or (protocol == LL128 and not known.ll128):
        return [inf] * len(sizes)
    before, speed = latency(known, pair, primitive, layout), rate(known, pair, primitive, layout)
    longer = (1.9 if known.gpu == "volta" else 1.4) if nodes > 1 else 1.0
    for size in sizes:
        plateau = (algorithm, protocol, primitive) == (RING, SIMPLE, "all_reduce")
        plateau = plateau and size / (known.channels * layout.workers) >= 64
        power = (int(size) // 64).bit_length() - 1
        left = LEFT[protocol][power] if algorithm == TREE and 0 <= power < 24 else 1.0
        made.append(1e-6 * before * (longer if plateau else 1) + (size / (1e9 * speed * left) if speed else inf))
    return made


KNOWN = [
    *(replace(NEW, gpu=gpu, cpu=cpu, intra=intra) for gpu, cpu, intra in product(GPUS, CPUS, ("nvlink", "pci"))),
    *(replace(NEW, gpu=gpu, cpu=cpu, channels=1) for gpu, cpu in product(GPUS, CPUS)),
    *(replace(NEW, gpu=gpu, channels=64, ring=20e9, tree=15e9, port=10e9) for gpu in GPUS),
    *(replace(NEW, gpu=gpu, cpu=cpu, channels=64, ring=4e12, tree=6e12, port=1e13) for gpu in GPUS for cpu in CPUS),
    *(replace(NEW, **{name: False}) for name in ("ll128", "nvls", "sharp")),
    replace(NEW, net_latency=0.0),
]


@pytest.mark.parametrize("primitive", ["all_reduce", *GATHERS, "broadcast", "reduce"])
@pytest.mark.parametrize("shape", [(1, 2), (1, 8), (2, 1), (2, 8), (3, 1), (3, 2), (4, 4), (9, 1), (64, 8)])
def test_times_are_those_of_the_source(primitive, shape):
    layout = Layout(*shape)
    limit = 64 * NEW.channels * layout.workers
    sizes = [*SIZES, limit - 1, limit]
    pairs = [*product((TREE, RING, COLLNET, NVLS, NVLS_TREE, PAT), (LL, LL128, SIMPLE))]
    for known in KNOWN:
        made = NcclTimes(known, Machine(), primitive, layout).expected(np.array(sizes, dtype=float))
        right = [seconds(known, pair, primitive, sizes, layout) for pair in pairs]
        np.testing.assert_allclose([made[pair] for pair in pairs], right, rtol=1e-12)


@pytest.mark.parametrize(
    ("versions", "constants"),
    [
        (("1.9", "2.0", "2.6.4", "2.11.4"), (4.4, 5.7, 0.25, True, 2)),
        (("2.12", "2.12.7", "2.20.3", "2.21"), (6.8, 3.4, 0.25, True, 5)),
        (("2.22", "2.30.7", "3.0"), (6.8, 3.4, 0.5, False, 6)),
    ],
)
def test_every_version_has_the_constants_of_the_newest_known_one_up_to_it(versions, constants):
    """Tree by LL, a ring's hop by Simple over NVLink, LL's share of a ring, steps of rings, and algorithms.

    tuning.cc of 2.6.4 (2020), 2.20 (2024) and 2.30.7 (2025); PAT and one step less between nodes are the newest.
    """
    base, hop, *rest = constants
    for version in versions:
        tables = tables_of(version)
        assert tables.base[TREE, LL] == pytest.approx(1e-6 * base, rel=1e-12)
        assert tables.hop["nvlink"][RING, SIMPLE] == pytest.approx(1e-6 * hop, rel=1e-12)
        assert [tables.ring_ll, tables.every_node, len(tables.algorithms)] == rest


@pytest.mark.parametrize(("primitive", "passes"), [("all_reduce", 2), ("all_gather", 1)])
def test_older_versions_count_a_step_between_nodes_for_every_node_of_an_all_reduce(primitive, passes):
    """v2.20: a ring's hop by LL takes 0.6 us, or the 1 us of posting it to a network, and 2.7 us between nodes."""
    old = replace(NEW, tables=tables_of("2.20"), net_latency=0.0)
    for nodes, each in ((1, 8), (2, 4), (3, 2), (16, 8)):
        steps, across = passes * (nodes * each - 1), nodes - 1
        if primitive == "all_reduce":
            across = 2 * nodes if nodes > 1 else 0
        right = 6.6 + (steps - across) * (1 if nodes > 1 else 0.6) + across * 2.7
        assert old.latency(primitive, Layout(nodes, each))[RING, LL] == pytest.approx(1e-6 * right, rel=1e-12)


def test_the_highest_rates_and_what_a_message_costs_are_those_of_the_source():
    def in_gigabytes(table):
        return {name: np.round(np.array(rates) / 1e9, 6).tolist() for name, rates in table.items()}

    assert in_gigabytes(LL_MOST_INSIDE) == LL_ONE_NODE
    assert in_gigabytes(RING_LL128) == RING_CHANNEL
    for table, right in ((LL_MOST_ACROSS, LL_MORE_NODES), (TREE_LL128, TREE_LINES), (TREE_MOST, TREE_CHANNEL)):
        assert in_gigabytes(table) == {name: list(rates) for name, rates in right.items()}
    assert (NVLS_EFFICIENCY, POST) == (SWITCH, {"intel": 1e-6, "amd": 2e-6})
    assert TREE_LEFT.tolist() == [list(row) for row in LEFT]


def test_trees_get_their_share_by_the_power_of_two_of_the_payload():
    """From 64 B, in steps of a factor of two, to 1 GiB; outside of the table they get all."""
    powers = 64 * 2.0 ** np.arange(24)
    np.testing.assert_array_equal(tree_left(powers), LEFT)
    np.testing.assert_array_equal(tree_left(2 * powers - 1), LEFT)
    np.testing.assert_array_equal(tree_left(np.array([0.0, 0.5, 1.0, 63.9, 2.0**30, 2.0**40])), np.ones((3, 6)))
