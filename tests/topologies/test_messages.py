"""Where the messages of MPI and the channels of NCCL go, by walking each; MPICH's decisions at their limits.

The rules are those of the docstrings, written with sets and dictionaries of pairs (sender, receiver).
"""

from itertools import pairwise

import numpy as np
import pytest

from simulator.fabrics.intra_node import pack_rings
from simulator.hardware.machine import Machine
from simulator.models.exchange import Layout, Round
from simulator.topologies.double_binary_tree import two_trees
from simulator.topologies.mpi import alike_payloads, with_rendezvous
from simulator.topologies.mpi_algorithms import choose
from simulator.topologies.nccl_channels import Channels, rings, trees

LIMIT, QUEUE = 100.0, 250.0
NVLINKS = (
    *((0, 1, 1), (0, 2, 1), (0, 3, 2), (1, 2, 2), (1, 3, 1), (2, 3, 2)),
    *((4, 5, 1), (4, 6, 1), (4, 7, 2), (5, 6, 2), (5, 7, 1), (6, 7, 2)),
    *((0, 4, 2), (1, 5, 2), (2, 6, 1), (3, 7, 1)),
)
"""Of a DGX-1 with V100: GPUs, and how many links join them."""


def by_pair(item, row=0):
    """Bytes by (sender, receiver)."""
    made = dict(zip(zip(item.src.tolist(), item.dst.tolist(), strict=True), item.nbytes[row].tolist(), strict=True))
    assert len(made) == len(item.src)
    return made


def summed_by_pair(item):
    """Bytes by (sender, receiver) of connections of which several may join a pair."""
    made = {}
    for pair, nbytes in zip(zip(item.src.tolist(), item.dst.tolist(), strict=True), item.nbytes[0], strict=True):
        made[pair] = made.get(pair, 0) + nbytes
    return made


def round_of(sizes):
    src, dst = np.array(list(sizes)).T
    return Round(src, dst, np.array([[float(size) for size in sizes.values()]]))


# MPI.


@pytest.mark.parametrize(
    ("primitive", "workers", "bounds", "names"),
    [
        ("all_reduce", 8, [2049], "recursive_doubling rabenseifner"),  # short: up to 2048
        ("all_reduce", 9, [2049], "recursive_doubling rabenseifner"),
        ("reduce", 8, [2049], "binomial rabenseifner"),
        ("reduce_scatter", 9, [524288], "recursive_halving pairwise"),  # long from 512 KiB on
        ("broadcast", 7, [], "binomial"),
        ("broadcast", 8, [12288, 524288], "binomial scatter_all_gather scatter_ring_all_gather"),
        ("broadcast", 9, [12288], "binomial scatter_ring_all_gather"),
        ("all_gather", 1, [524288], "recursive_doubling ring"),
        ("all_gather", 8, [524288], "recursive_doubling ring"),
        ("all_gather", 9, [81920], "bruck ring"),
        ("all_gather", 12, [81920], "bruck ring"),
    ],
)
def test_mpich_decides_anew_exactly_at_the_sizes_that_it_names(primitive, workers, bounds, names):
    """MPIR_CVAR_*_SHORT_MSG_SIZE and *_LONG_MSG_SIZE of src/mpi/coll, v3.4 (2021), in bytes of the whole vector."""
    for bound, before, after in zip(bounds, names.split(), names.split()[1:], strict=False):
        sizes = np.array([bound - 1, bound - 0.5, bound, bound + 1.0])
        assert choose("mpich", primitive, sizes, workers) == [before, before, after, after]
    assert choose("mpich", primitive, np.array([0, 1e15]), workers) == [names.split()[0], names.split()[-1]]


def test_payloads_are_alike_if_the_same_messages_are_above_the_limit():
    """A message of exactly the limit is sent at once."""
    first = Round(np.array([0]), np.array([1]), np.array([[99.0], [100.0], [101.0], [100.0], [500.0]]))
    other = Round(np.array([1]), np.array([0]), np.array([[1.0], [100.0], [1.0], [101.0], [99.0]]))
    assert [group.tolist() for group in alike_payloads([first, other], 5, LIMIT)] == [[0, 1], [2, 4], [3]]
    assert [group.tolist() for group in alike_payloads([], 3, LIMIT)] == [[0, 1, 2]]


def test_only_large_messages_ask_first():
    """Of a round with both kinds; one with small messages alone stays as it is, and the first round asks at once."""
    both, small = round_of({(0, 1): 100, (2, 3): 101}), round_of({(1, 0): 100, (3, 2): 1})
    asking, answer, data, last = with_rendezvous([both, small], LIMIT, None)
    assert (by_pair(asking), by_pair(answer)) == ({(2, 3): 0}, {(3, 2): 0})
    assert by_pair(data) == by_pair(both)
    assert last is small


def waiting(sizes):
    """The five parts of a later round: requests, answers, first data, answers that waited, and the data left."""
    large = {pair for pair, size in sizes.items() if size > LIMIT}
    odd = {(a, b) for a, b in sizes if a // abs(b - a) % 2 == 1}
    busy = {a for a, b in large - odd}
    late = {(a, b) for a, b in large & odd if b in busy}
    if not late:
        return [dict.fromkeys(large, 0), {(b, a): 0 for a, b in large}, sizes]
    ahead = {}
    for (a, b), size in sizes.items():
        queued = min(size, QUEUE)
        ahead[a, b] = size if (b, a) in sizes else queued * (1 - queued / (2 * max(size, 1)))
    early = {pair for pair in sizes if pair not in late}
    rest = {pair: size if pair in late else size - ahead[pair] for pair, size in sizes.items()}
    return [
        dict.fromkeys(large, 0),
        {(b, a): 0 for a, b in large - late},
        {pair: ahead[pair] for pair in early},
        {(b, a): 0 for a, b in late},
        {pair: left for pair, left in rest.items() if left > 0 or pair in late},
    ]


def test_answers_wait_behind_the_data_of_the_worker_that_answers():
    """Random messages between seven workers, of which some are small, some fit into the queue and some go both ways."""
    draw, late = np.random.default_rng(5), 0
    for _ in range(300):
        pairs = [(a, b) for a in range(7) for b in range(7) if a != b]
        chosen = draw.choice(len(pairs), int(draw.integers(1, 8)), replace=False)
        sizes = {pairs[i]: float(draw.choice([0.5, 100, 101, 240, 1000])) for i in chosen}
        right = waiting(sizes)
        found = with_rendezvous([round_of({(0, 1): 1}), round_of(sizes)], LIMIT, QUEUE)[1:]
        if max(sizes.values()) <= LIMIT:
            right = [sizes]
        assert [by_pair(item) for item in found] == [pytest.approx(part, rel=1e-12) for part in right]
        late += len(right) == 5
    assert late > 50


# NCCL's channels.


@pytest.mark.parametrize("nics", [1, 2, 3, 4])
def test_rings_enter_and_leave_a_node_by_different_nics(nics):
    """Each of `nics` rings over 3 nodes of 4 enters every node at its own GPU and leaves by the one before it."""
    edges = rings(Machine(nics=nics), Layout(3, 4))
    between = edges.src // 4 != edges.dst // 4
    assert (edges.dst[between] // 4 == (edges.src[between] // 4 + 1) % 3).all()
    pairs = set(zip((edges.src[between] % 4).tolist(), (edges.dst[between] % 4).tolist(), strict=True))
    assert pairs == ({((nic - 1) % nics, nic) for nic in range(nics)} if nics > 1 else {(3, 0)})
    for end in (edges.src, edges.dst):  # all channels together pass every worker once
        np.testing.assert_allclose(np.bincount(end, weights=edges.share, minlength=12), 1, rtol=1e-12)


def test_a_ring_visits_the_gpus_of_a_node_in_turn():
    """From its NIC's GPU to the one it leaves by: 0 1 2 3 with one NIC; with two 0 2 3 1, and 1 2 3 0."""
    for nics, orders in ((1, [(0, 1, 2, 3)]), (2, [(0, 2, 3, 1), (1, 2, 3, 0)])):
        edges, right = rings(Machine(nics=nics), Layout(2, 4)), {}
        for order in orders:
            for pair in pairwise([*order, *(gpu + 4 for gpu in order), order[0]]):
                right[pair] = right.get(pair, 0) + 1 / nics
        assert by_pair(Round(edges.src, edges.dst, edges.share[None])) == right


def test_no_two_rings_over_direct_links_leave_a_node_by_the_same_nic():
    """GPUs 0 and 2 have NIC 0. In turn, 0 1 2 3 and 1 0 2 3 both leave by NIC 1. Of the rings to the next NIC, 0 1 2 3
    comes first, and beside it 1 0 3 2 uses each link once, whereas 1 2 3 0 would share that from 1 to 2."""
    machine = Machine(nics=2, cycles=(((0, 1, 2, 3), 1.0), ((0, 2, 3, 1), 1.0)))
    edges, right = rings(machine, Layout(2, 4)), {}
    for order in ((0, 1, 2, 3), (1, 0, 3, 2)):
        for pair in pairwise([*order, *(gpu + 4 for gpu in order), order[0]]):
            right[pair] = right.get(pair, 0) + 1 / 2
    assert by_pair(Round(edges.src, edges.dst, edges.share[None])) == right


def test_a_quarter_of_a_payload_enters_and_leaves_a_dgx_1_by_each_of_four_nics():
    """GPUs n and n + 4 have NIC n; NVLinks, twice as fast as NICs, carry two rings at most."""
    cycles = pack_rings(NVLINKS, 8)
    edges = rings(Machine(nics=4, cycles=cycles), Layout(3, 8))
    between = edges.src // 8 != edges.dst // 8
    for end in (edges.src, edges.dst):
        each = np.bincount(end[between] % 4, weights=edges.share[between])
        np.testing.assert_allclose(each, 3 / 4)
    links = {pair: count for a, b, count in NVLINKS for pair in ((a, b), (b, a))}
    ends = zip((edges.src % 8)[~between].tolist(), (edges.dst % 8)[~between].tolist(), strict=True)
    for pair, share in zip(ends, edges.share[~between].tolist(), strict=True):
        assert share <= 2 / 4 * links[pair]


@pytest.mark.parametrize("nics", [1, 2])
@pytest.mark.parametrize("nodes", [2, 3, 8])
def test_trees_go_up_the_nodes_by_every_nic_and_to_its_gpu_inside(nics, nodes):
    """Half of each NIC's channels along either tree; in a node a chain ends at the GPU of each NIC."""
    edges, right = trees(Machine(nics=nics), Layout(nodes, 4)), {}
    for nic in range(nics):
        for tree in two_trees(nodes):
            for child, parent in zip(tree.node.tolist(), tree.parent.tolist(), strict=True):
                if parent >= 0:
                    pair = (child * 4 + nic, parent * 4 + nic)
                    right[pair] = right.get(pair, 0) + 0.5 / nics
        for first in range(0, 4 * nodes, 4):
            for parent, child in pairwise((nic + step) % 4 for step in range(4)):
                pair = (first + child, first + parent)
                right[pair] = right.get(pair, 0) + 1 / nics
    assert by_pair(Round(edges.src, edges.dst, edges.share[None])) == right
    two = trees(Machine(), Layout(1, 2))
    assert by_pair(Round(two.src, two.dst, two.share[None])) == {(1, 0): 0.5, (0, 1): 0.5}


def test_rings_inside_a_node_follow_the_direct_links():
    """In turn without them; two rings of 3 and 1 links carry 3/4 and 1/4."""
    turn = rings(Machine(), Layout(1, 4))
    assert by_pair(Round(turn.src, turn.dst, turn.share[None])) == {(0, 1): 1, (1, 2): 1, (2, 3): 1, (3, 0): 1}
    both = rings(Machine(cycles=(((0, 1, 2, 3), 3.0), ((0, 2, 1, 3), 1.0))), Layout(1, 4))
    assert by_pair(Round(both.src, both.dst, both.share[None])) == {
        (0, 1): 0.75, (1, 2): 0.75, (2, 3): 0.75, (3, 0): 1, (0, 2): 0.25, (2, 1): 0.25, (1, 3): 0.25,
    }  # fmt: skip


def test_trees_inside_a_node_are_chains_from_every_gpu():
    """From children to parents. In turn each pair of neighbours is in 3 of 4 chains; over links each step counts twice.

    Along rings that close, the chain of a GPU starts at it and follows the ring whose turn it is.
    """
    turn = trees(Machine(), Layout(1, 4))
    assert by_pair(Round(turn.src, turn.dst, turn.share[None])) == {
        pair: 0.75 for pair in ((1, 0), (2, 1), (3, 2), (0, 3))
    }
    links = trees(Machine(chains=(((0, 1, 2), 3.0), ((2, 0, 1), 1.0))), Layout(1, 3))
    assert by_pair(Round(links.src, links.dst, links.share[None])) == {(1, 0): 2.0, (2, 1): 1.5, (0, 2): 0.5}
    closed = trees(Machine(cycles=(((0, 1, 2, 3), 1.0), ((0, 2, 1, 3), 1.0))), Layout(1, 4))
    right: dict[tuple[int, int], float] = {}
    for chain in ((0, 1, 2, 3), (1, 3, 0, 2), (2, 3, 0, 1), (3, 0, 2, 1)):
        for parent, child in pairwise(chain):
            right[child, parent] = right.get((child, parent), 0) + 0.25
    assert by_pair(Round(closed.src, closed.dst, closed.share[None])) == right


@pytest.mark.parametrize("layout", [Layout(1, 2), Layout(2, 1), Layout(1, 4), Layout(3, 4), Layout(5, 1)])
def test_every_step_of_a_ring_carries_what_its_receiver_lacks(layout):
    machine, p = Machine(nics=min(2, layout.gpus_per_node)), layout.workers
    edges, sizes = rings(machine, layout), np.arange(1.0, p + 1)
    (gather,) = Channels("ring", machine).all_gather(sizes[None], layout)
    assert (gather.src.tolist(), gather.dst.tolist()) == (edges.src.tolist(), edges.dst.tolist())
    np.testing.assert_allclose(gather.nbytes[0], edges.share * (sizes.sum() - sizes[edges.dst]), rtol=1e-12)
    for primitive, passes in (("all_reduce", 2), ("reduce_scatter", 1)):
        (item,) = getattr(Channels("ring", machine), primitive)(np.array([p * 10.0]), layout)
        np.testing.assert_allclose(item.nbytes[0], edges.share * passes * (p - 1) * 10, rtol=1e-12)
    (down,) = Channels("ring", machine).broadcast(np.array([6.0]), layout)  # nothing goes back to worker 0
    np.testing.assert_allclose(down.nbytes[0], 6 * edges.share * (edges.dst != 0), rtol=1e-12)
    both = Channels("tree", machine).all_reduce(np.array([2.0]), layout)[0]
    up, right = trees(machine, layout), {}
    for a, b, share in zip(up.src.tolist(), up.dst.tolist(), up.share.tolist(), strict=True):
        for pair in ((a, b), (b, a)):  # sums up, and results down
            right[pair] = right.get(pair, 0) + 2 * share
    assert summed_by_pair(both) == pytest.approx(right)


@pytest.mark.parametrize("algorithm", ["tree", "nvls_tree"])
@pytest.mark.parametrize("nodes", range(2, 34))
def test_each_message_between_nodes_is_that_of_one_tree(algorithm, nodes):
    """A pair of nodes that both trees use has a connection for each, with a fair share of the links of its own."""
    layout = Layout(nodes, 2)
    (item,) = Channels(algorithm, Machine(nics=2)).all_reduce(np.array([1.0]), layout)
    between = item.src // 2 != item.dst // 2
    assert between.sum() == 2 * 2 * 2 * (nodes - 1)  # of two NICs in two trees, up and down
    assert set(item.nbytes[0, between].tolist()) == {0.25}
