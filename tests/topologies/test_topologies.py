"""Topologies one by one: closed forms, the double binary tree's pipeline, and what NCCL would choose."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from number_fields import all_specs, unbounded
from pydantic import ValidationError
from reference import walked

from examples import example, switch
from simulator import topologies
from simulator.component import build, discover
from simulator.engine.rounds.fold import fold
from simulator.errors import InputError
from simulator.loading.documents import parse_document
from simulator.models.exchange import Layout, ReduceScatter, Round
from simulator.scenario.reading import scenario_of
from simulator.topologies.base import Topology, merge_rounds
from simulator.topologies.double_binary_tree import two_trees
from simulator.topologies.nccl import MAX_ROWS, TunerRow, read_tuner
from simulator.topologies.nccl_tuning import NcclTuning
from simulator.topologies.ring import Ring

ALPHA, B, S = 50e-6, 1.25e9, 1e8
POWERS = [2, 4, 8, 64]
MANY = 16_384


def rounds_of(topology, primitive, layout, size=S):
    payload = np.broadcast_to(np.asarray(size, dtype=float), (layout.workers,))
    return getattr(topology, primitive)(payload[None, :] if primitive == "all_gather" else payload[:1], layout)


def seconds(topology, primitive, nodes, size=S, *, gpus=1, local=(0, 0)):
    topology = example(Topology, topology) if isinstance(topology, str) else topology
    wiring = switch(nodes, gpus, B, ALPHA, local)
    return fold(rounds_of(topology, primitive, wiring.layout, size), wiring, np.zeros(nodes * gpus)).max()


def received(rounds, places):
    total = np.zeros(places)
    for item in rounds:
        np.add.at(total, item.dst, item.repeat * item.nbytes[0])
    return total


@pytest.mark.parametrize("p", POWERS)
def test_halving_and_doubling_formulas(p):
    half = np.log2(p) * ALPHA + (p - 1) / p * S / B
    for primitive, formula in {"all_reduce": 2 * half, "reduce_scatter": half, "broadcast": 2 * half}.items():
        assert seconds("halving_doubling", primitive, p) == pytest.approx(formula, rel=1e-9), primitive
    gather = np.log2(p) * ALPHA + (p - 1) * S / B
    assert seconds("halving_doubling", "all_gather", p) == pytest.approx(gather, rel=1e-9)


@pytest.mark.parametrize("p", POWERS)
def test_recursive_doubling_formulas(p):
    levels = np.log2(p)
    formulas = {
        "all_reduce": levels * (ALPHA + S / B),
        "all_gather": levels * ALPHA + (p - 1) * S / B,
        "reduce_scatter": levels * ALPHA + (p - 1) / p * S / B,
        "broadcast": levels * (ALPHA + S / B),
    }
    for primitive, formula in formulas.items():
        assert seconds("recursive_doubling", primitive, p) == pytest.approx(formula, rel=1e-9), primitive


@pytest.mark.parametrize("p", [3, 5, 7, 13, 60])
def test_workers_too_many_hand_in_first_and_receive_last(p):
    m = 1 << (p.bit_length() - 1)
    levels, outside = np.log2(m), 2 * (ALPHA + S / B)
    halved = 2 * (levels * ALPHA + (m - 1) / m * S / B)
    assert seconds("halving_doubling", "all_reduce", p) == pytest.approx(halved + outside, rel=1e-9)
    doubled = levels * (ALPHA + S / B)
    took = seconds("recursive_doubling", "all_reduce", p)  # start-ups hide behind a link that still receives
    assert doubled + outside - levels * ALPHA <= took * (1 + 1e-9) <= (doubled + outside) * (1 + 2e-9)


@pytest.mark.parametrize("p", [2, 3, 8, 13, 64])
def test_all_to_all_formulas(p):
    formulas = {
        "all_reduce": 2 * (p - 1) * (ALPHA + S / (p * B)),
        "reduce_scatter": (p - 1) * (ALPHA + S / (p * B)),
        "all_gather": (p - 1) * (ALPHA + S / B),
        "broadcast": ALPHA + (p - 1) * S / B,
    }
    for primitive, formula in formulas.items():
        assert seconds("all_to_all", primitive, p) == pytest.approx(formula, rel=1e-9), primitive


@pytest.mark.parametrize("kind", ["halving_doubling", "recursive_doubling", "all_to_all", "hierarchical", "ring"])
@given(sizes=st.lists(st.floats(0, 1e6), min_size=1, max_size=24), gpus=st.integers(1, 4))
def test_a_gather_brings_everyone_the_others_blocks_and_no_more(kind, sizes, gpus):
    nodes = max(1, len(sizes) // gpus)
    blocks = np.array((sizes * gpus)[: nodes * gpus])
    got = received(rounds_of(example(Topology, kind), "all_gather", Layout(nodes, gpus), blocks), nodes * gpus)
    np.testing.assert_allclose(got, blocks.sum() - blocks, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("inter", ["ring", "halving_doubling", "tree"])
def test_a_gather_may_be_equal_for_one_rank_alone(inter):
    """The blocks of rank 0 are alike, so its ring repeats one round; those of rank 1 are not."""
    topology, blocks = example(Topology, "hierarchical", inter=inter), np.array([1.0, 2.0, 1.0, 3.0, 1.0, 2.0])
    got = received(rounds_of(topology, "all_gather", Layout(3, 2), blocks), 6)
    assert (got >= blocks.sum() - blocks).all()
    if inter == "ring":
        np.testing.assert_allclose(got, blocks.sum() - blocks)


@given(p=st.integers(1, 70))
def test_scatters_by_halving_send_no_more_than_they_must(p):
    """Everyone ends with its part; only the vectors of workers too many travel beside it."""
    many = p - (1 << (p.bit_length() - 1))
    total = received(rounds_of(example(Topology, "halving_doubling"), "reduce_scatter", Layout(p, 1)), p).sum()
    assert total == pytest.approx((p - many - 1) * S + many * (S + S / p))


@pytest.mark.parametrize("kind", ["halving_doubling", "double_binary_tree"])
def test_very_many_workers_make_few_rounds(kind):
    topology = example(Topology, kind)
    for primitive in ("all_reduce", "broadcast"):
        assert len(rounds_of(topology, primitive, Layout(MANY, 1))) <= 4 * 14 + 2


def test_no_number_of_a_topology_is_without_bounds():
    assert not unbounded(all_specs(topologies))


def test_only_servers_sum_on_hosts():
    assert [kind for kind, each in discover(Topology).items() if each.sums_on_hosts] == ["parameter_server"]


# The double binary tree.


@given(n=st.integers(1, 300))
def test_no_node_is_inner_in_both_trees(n):
    inner = []
    for tree in two_trees(n):
        assert sorted(tree.node) == list(range(n))
        parent = dict(zip(tree.node.tolist(), tree.parent.tolist(), strict=True))
        children = Counter(above for above in parent.values() if above >= 0)
        assert max(children.values(), default=0) <= 2
        inner.append(set(children))
        assert [node for node, above in parent.items() if above < 0] == tree.node[tree.depth == 0].tolist()
        depth = dict(zip(tree.node.tolist(), tree.depth.tolist(), strict=True))
        height = dict(zip(tree.node.tolist(), tree.height.tolist(), strict=True))
        for node, above in parent.items():
            if above >= 0:
                assert depth[node] == depth[above] + 1
                assert height[node] < height[above]
        assert tree.depth.max() <= tree.height.max() == int(np.log2(n))
    assert not inner[0] & inner[1]


NAMES = ["all_reduce", "broadcast"]


def moves(rounds):
    """How often each (sender, receiver, time) occurs, repeats written out."""
    count, now = Counter(), 0
    for item in rounds:
        for _ in range(item.repeat):
            count.update(zip(item.src.tolist(), item.dst.tolist(), [now] * len(item.src), strict=True))
            now += 1
    return count


@pytest.mark.parametrize("shape", [(3, 1), (8, 1), (1, 4), (5, 2)], ids=str)
def test_one_chunk_goes_up_and_down_double_binary_trees_to_everyone(shape):
    topology, layout = example(Topology, "double_binary_tree", max_chunks=1), Layout(*shape)
    holds = {name: walked(rounds_of(topology, name, layout), np.eye(layout.workers, dtype=bool)) for name in NAMES}
    assert holds["all_reduce"].all() and holds["broadcast"][:, 0].all()


@pytest.mark.parametrize("primitive", NAMES)
@pytest.mark.parametrize("shape", [(2, 1), (3, 1), (8, 1), (13, 1), (1, 4), (2, 3), (5, 2)], ids=str)
def test_every_chunk_goes_the_first_ones_way_a_round_later(primitive, shape):
    """That one chunk arrives everywhere is tested for every topology; so all do."""
    layout, chunks = Layout(*shape), 8
    one = moves(rounds_of(example(Topology, "double_binary_tree", max_chunks=1), primitive, layout))
    all_chunks = moves(rounds_of(example(Topology, "double_binary_tree", max_chunks=chunks), primitive, layout))
    later = Counter()
    for (src, dst, now), count in one.items():
        for chunk in range(chunks):
            later[src, dst, now + chunk] += count
    assert all_chunks == later


@pytest.mark.parametrize("p", [2, 3, 8, 13, 64, pytest.param(1000, marks=pytest.mark.long)])
@pytest.mark.parametrize("chunks", [1, 16, 1024])
def test_double_binary_tree_bounds(p, chunks):
    """Exact for two workers, who only exchange halves; elsewhere between what a NIC must carry and the formula."""
    topology = example(Topology, "double_binary_tree", max_chunks=chunks, chunk=1.0)
    height = int(np.log2(p))
    reduced, spread = seconds(topology, "all_reduce", p), seconds(topology, "broadcast", p)
    if p == 2:
        assert reduced == pytest.approx((chunks + 1) * ALPHA + S / B, rel=1e-9)
    busiest = {2: 1.0, 3: 1.5}.get(p, 2.0)
    formula = (chunks + 2 * height) * (ALPHA + 2 * S / (chunks * B))
    assert busiest * S / B <= reduced * (1 + 1e-9) <= formula * (1 + 2e-9)
    assert S / B <= spread * (1 + 1e-9) <= (chunks + height + 1) * (ALPHA + S / (chunks * B)) * (1 + 2e-9)


@pytest.mark.long
@pytest.mark.parametrize("p", [8, 64])
def test_double_binary_tree_tends_to_twice_the_payload(p):
    topology = example(Topology, "double_binary_tree", max_chunks=2**14)
    assert 2 <= seconds(topology, "all_reduce", p, 1e12) * B / 1e12 <= 2.01
    assert 1 <= seconds(topology, "broadcast", p, 1e12) * B / 1e12 <= 1.01


@pytest.mark.parametrize("p", [2, 64, 1000])
def test_double_binary_tree_takes_few_start_ups(p):
    levels = 2 * int(np.log2(p))
    assert seconds("double_binary_tree", "all_reduce", p, 1.0) == pytest.approx(levels * ALPHA, rel=0.05, abs=ALPHA)


def test_a_nic_carries_the_trees_of_its_node_once_however_many_gpus():
    """Four GPUs per node on fast links: the same chunks as with one, and a longer chain to fill."""
    topology, local = example(Topology, "double_binary_tree", max_chunks=1024), (100 * B, 0.0)
    alone = seconds(topology, "all_reduce", 16, 1e10)
    assert seconds(topology, "all_reduce", 16, 1e10, gpus=4, local=local) == pytest.approx(alone, rel=0.01)


def test_chunks_follow_the_payload():
    topology = example(Topology, "double_binary_tree", chunk=1e6, max_chunks=100)
    sizes = np.array([0.0, 2e6, 2.1e6, 16e6, 1e12])
    groups = {choice.mask.tobytes(): choice.topology for choice in topology.choices("all_reduce", sizes, Layout(2, 1))}
    assert len(groups) == 4
    turns = [max(item.repeat for item in topology.all_reduce(np.array([size]), Layout(2, 1))) for size in sizes]
    assert turns == [1, 1, 1, 7, 63]  # chunks 1, 1, 2, 8, 64: one more than the steady round is repeated


# Hierarchical.


@pytest.mark.parametrize("g", [1, 4])
@pytest.mark.parametrize("nodes", [2, 8])
def test_hierarchical_with_another_topology_across(nodes, g):
    local, levels = (5 * B, ALPHA / 10), np.log2(nodes)
    inside = (g - 1) * (local[1] + S / (g * local[0]))
    across = {
        "ring": 2 * (nodes - 1) * (ALPHA + S / (nodes * B)),
        "halving_doubling": 2 * (levels * ALPHA + (nodes - 1) / nodes * S / B),
        "tree": 2 * levels * (ALPHA + S / B),
    }
    for inter, formula in across.items():
        took = seconds(example(Topology, "hierarchical", inter=inter), "all_reduce", nodes, gpus=g, local=local)
        assert took == pytest.approx(2 * inside + formula, rel=1e-9), inter


@pytest.mark.parametrize("g", [1, 4])
@pytest.mark.parametrize("nodes", [2, 8])
def test_hierarchical_scatters_gathers_and_broadcasts(nodes, g):
    """A NIC carries what all GPUs of its node scatter or gather, and a broadcast once; then comes the node."""
    local, levels = (5 * B, ALPHA / 10), np.log2(nodes)
    share, block = (nodes - 1) / nodes * S / B, (nodes - 1) * g * S / B
    inside = {
        "reduce_scatter": (g - 1) * (local[1] + S / (g * local[0])),
        "all_gather": (g - 1) * (local[1] + nodes * S / local[0]),
        "broadcast": (g - 1) * (local[1] + S / local[0]),
    }
    across = {
        ("ring", "reduce_scatter"): (nodes - 1) * ALPHA + share,
        ("ring", "all_gather"): (nodes - 1) * ALPHA + block,
        ("ring", "broadcast"): (nodes - 1) * (ALPHA + S / B),
        ("halving_doubling", "reduce_scatter"): levels * ALPHA + share,
        ("halving_doubling", "all_gather"): levels * ALPHA + block,
        ("halving_doubling", "broadcast"): 2 * (levels * ALPHA + share),
        # To the root and its parts back; what the root gathered goes back whole.
        ("tree", "reduce_scatter"): levels * (ALPHA + S / B) + levels * ALPHA + share,
        ("tree", "all_gather"): levels * ALPHA + block + levels * (ALPHA + nodes * g * S / B),
        ("tree", "broadcast"): levels * (ALPHA + S / B),
    }
    for (inter, primitive), formula in across.items():
        took = seconds(example(Topology, "hierarchical", inter=inter), primitive, nodes, gpus=g, local=local)
        assert took == pytest.approx(formula + inside[primitive], rel=1e-9), (inter, primitive)


def sent(rounds):
    """Bytes from each sender to each receiver."""
    total = Counter()
    for item in rounds:
        for src, dst, nbytes in zip(item.src.tolist(), item.dst.tolist(), item.nbytes[0].tolist(), strict=True):
            total[src, dst] += item.repeat * nbytes
    return dict(total)


def test_a_tree_gathers_the_blocks_of_whole_subtrees_and_scatters_their_parts():
    """Two nodes of two GPUs: node 1 hands over both of its blocks, and every node the block of its second GPU."""
    tree, layout = example(Topology, "tree"), Layout(2, 2)
    gathered = sent(rounds_of(tree, "all_gather", layout, np.array([1.0, 2.0, 4.0, 8.0])))
    assert gathered == {(1, 0): 2, (3, 2): 8, (2, 0): 12, (0, 2): 15, (0, 1): 15, (2, 3): 15}
    scattered = sent(rounds_of(tree, "reduce_scatter", layout, 8.0))
    assert scattered == {(1, 0): 8, (3, 2): 8, (2, 0): 8, (0, 2): 4, (0, 1): 2, (2, 3): 2}


def test_a_tree_over_eight_gathers_unequal_blocks_level_by_level():
    """Binomial: 4 to 7 hang below 0 to 3, these in pairs below 0 and 1, and 1 below 0."""
    blocks = 2.0 ** np.arange(8)
    rounds = rounds_of(example(Topology, "tree"), "all_gather", Layout(8, 1), blocks)
    up = [sent([item]) for item in rounds[:3]]
    assert up == [
        {(4, 0): 16, (5, 1): 32, (6, 2): 64, (7, 3): 128},
        {(2, 0): 4 + 64, (3, 1): 8 + 128},
        {(1, 0): 2 + 32 + 8 + 128},
    ]
    assert received(rounds[3:], 8).tolist() == [0.0, *[blocks.sum()] * 7]


@pytest.mark.parametrize("inter", ["ring", "tree"])
def test_a_hierarchical_broadcast_crosses_to_every_other_node_once(inter):
    nodes, g = 4, 3
    rounds = rounds_of(example(Topology, "hierarchical", inter=inter), "broadcast", Layout(nodes, g))
    into = received(rounds, nodes * g).reshape(nodes, g)
    np.testing.assert_allclose(into[:, 1:], S)
    np.testing.assert_allclose(into[1:, 0], S)
    for (src, dst), nbytes in sent(rounds).items():
        across = src // g != dst // g
        assert (src % g, dst % g) == (0, 0) if across else (dst - src, nbytes) == (1, S)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("servers", [1, 3])
def test_servers_receive_a_gradient_of_every_node_or_of_every_gpu(servers, together):
    """Of n nodes of g GPUs each of s servers gets n S / s where a node sums first, and n g S / s where not."""
    nodes, g = 3, 4
    topology = example(Topology, "parameter_server", servers=servers, local_aggregation=together)
    layout = topology.layout(nodes, g)
    phases = topology.push_pull(np.array([S]), np.array([S]), layout)
    push, pull = (phases[1], phases[2]) if together else phases
    pushed = received(push, layout.workers + servers)
    np.testing.assert_allclose(pushed[layout.workers :], nodes * (1 if together else g) * S / servers)
    pulled = received(pull, layout.workers + servers)
    np.testing.assert_allclose(pulled[: layout.workers], S / (g if together else 1))
    assert not pushed[: layout.workers].any() and not pulled[layout.workers :].any()
    assert len(phases) == (4 if together else 2)


@pytest.mark.parametrize(("pulled", "pushed"), [(S / 2, S), (S, S), (3 * S, 3 * S), (20 * S, 4 * S)])
def test_a_node_pushes_what_its_gpus_chose_at_most_the_sum_of_all(pulled, pushed):
    """Four GPUs push S each: elements that all chose are pushed once, others with those of the GPU that chose them."""
    topology = example(Topology, "parameter_server", local_aggregation=True)
    layout = topology.layout(3, 4)
    inside, push, *_ = topology.push_pull(np.array([S]), np.array([pulled]), layout)
    np.testing.assert_allclose(received(push, layout.workers + 1)[-1], 3 * pushed)
    np.testing.assert_allclose(received(inside, layout.workers), 3 / 4 * S)


@pytest.mark.parametrize("g", [2, 4])
def test_gpus_behind_a_parameter_server_sum_and_spread_on_their_nodes_ring(g):
    """The same messages as a ring of that node alone has, for what is pushed and for what is pulled."""
    topology = example(Topology, "parameter_server", local_aggregation=True)
    layout = topology.layout(3, g)
    first, *_, last = topology.push_pull(np.array([S]), np.array([2 * S]), layout)
    for phase, size in ((first, S), (last, 2 * S)):
        (inside,) = phase
        (alone,) = Ring().reduce_scatter(np.array([size]), Layout(1, g))
        found = {(a, b): n for a, b, n in zip(inside.src.tolist(), inside.dst.tolist(), inside.nbytes[0], strict=True)}
        ring = zip(alone.src.tolist(), alone.dst.tolist(), alone.nbytes[0], strict=True)
        assert inside.repeat == alone.repeat
        assert found == {(node * g + a, node * g + b): n for a, b, n in list(ring) for node in range(3)}


# What NCCL chooses.

V100S = NcclTuning(gpu="volta", intra="nvlink", channels=2, intra_bandwidth=24e9)


def labels(topology, primitive, sizes, layout):
    """The label of each payload's choice; every payload has exactly one."""
    nbytes, found = np.array(sizes, dtype=float), np.full(len(sizes), "", dtype=object)
    for choice in topology.choices(primitive, nbytes, layout):
        assert not found[choice.mask].any()
        found[choice.mask] = choice.label
    assert all(found)
    return found.tolist()


def test_nccl_tuning_picks_trees_for_small_and_rings_for_large():
    nccl, sizes = example(Topology, "nccl", tuning=V100S), [256, 8e3, 1e9]
    assert labels(nccl, "all_reduce", sizes, Layout(16, 8)) == ["tree LL", "tree LL", "ring Simple"]
    assert "LL128" in labels(nccl, "all_reduce", [1e6], Layout(16, 8))[0]
    assert labels(nccl, "all_reduce", sizes, Layout(1, 2))[0] == "ring LL"
    for primitive in ("all_gather", "reduce_scatter", "broadcast"):
        chosen = labels(nccl, primitive, sizes, Layout(16, 8))
        assert (chosen[0], chosen[2]) == ("ring LL", "ring Simple")
    without = example(Topology, "nccl", tuning=V100S.model_copy(update={"ll128": False}))
    grid = np.geomspace(1, 1e10, 200)
    assert not any("LL128" in label for label in labels(without, "all_reduce", grid, Layout(16, 8)))


@pytest.mark.parametrize("gpu", ["volta", "ampere", "hopper", "blackwell"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 8), (2, 8), (3, 1), (64, 8)], ids=str)
def test_every_payload_is_carried_once_and_in_the_rounds_of_its_choice(gpu, shape):
    nccl = example(Topology, "nccl", tuning=NcclTuning(gpu=gpu, channels=8, intra_bandwidth=2e11, inter_bandwidth=5e10))
    layout, sizes = Layout(*shape), np.geomspace(1, 1e10, 40)
    assert all(label.split()[1] in ("LL", "LL128", "Simple") for label in labels(nccl, "all_reduce", sizes, layout))
    for choice in nccl.choices("all_reduce", sizes, layout):
        share = choice.efficiency[choice.mask]
        assert ((share > 0) & (share <= 1)).all()
        assert (choice.start_up[choice.mask] > 0).all() or layout.workers == 1
        some = sizes[choice.mask][:1]
        direct, chosen = nccl.all_reduce(some, layout), choice.topology.all_reduce(some, layout)
        assert sum(item.nbytes.sum() for item in direct) == sum(item.nbytes.sum() for item in chosen)


def test_a_threshold_puts_a_tree_and_one_ring_in_place_of_nccl_s_model():
    nccl = example(Topology, "nccl", tree_up_to=8192)
    assert labels(nccl, "all_reduce", [1, 8192, 8193], Layout(2, 2)) == ["tree", "tree", "ring"]
    assert labels(nccl, "all_gather", [1, 8193], Layout(2, 2)) == ["ring", "ring"]
    assert all(choice.efficiency is None for choice in nccl.choices("all_reduce", np.ones(1), Layout(2, 2)))


TUNER = """# collective, sizes, algorithm, protocol, channels, nodes, ranks, operations, registered buffers
allreduce,0,65536,tree,ll128,2,-1,-1,-1,1
allreduce,0,65536,ring,simple,4,4,32,-1,0

allreduce, 0, 1048576, tree, ll, -1, 4
allgather,0,18446744073709551615,tree,simple
allgather,0,18446744073709551615,ring,ll128
"""


@pytest.fixture
def tuner(tmp_path):
    path = tmp_path / "tuner.csv"
    path.write_text(f"collective_type,min_bytes,max_bytes,algorithm,protocol\n{TUNER}")
    return path


def test_the_first_row_that_fits_decides(tuner):
    rows = read_tuner(tuner)
    assert len(rows) == 5
    assert rows[1] == TunerRow(
        collective="allreduce", max_bytes=65536.0, algorithm="ring", protocol="simple",
        channels=4, nodes=4, ranks=32, registered=0,
    )  # fmt: skip
    nccl, sizes = example(Topology, "nccl", tuner=rows), [0, 65536, 65537, 2e6]
    assert labels(nccl, "all_reduce", sizes, Layout(4, 8)) == ["ring Simple", "ring Simple", "tree LL", "ring LL"]
    assert labels(nccl, "all_reduce", sizes, Layout(4, 4)) == ["tree LL", "tree LL", "tree LL", "ring LL"]
    assert labels(nccl, "all_reduce", sizes, Layout(3, 4)) == ["tree LL", "ring LL", "ring LL", "ring Simple"]
    assert labels(nccl, "all_gather", sizes, Layout(4, 8)) == 4 * ["ring LL128"]
    tuned = example(Topology, "nccl", tuner=rows, tuning=V100S)
    assert labels(tuned, "all_reduce", [1e3, 1e9], Layout(4, 8)) == ["ring Simple", "ring Simple"]
    assert labels(tuned, "all_reduce", [1e3, 1e9], Layout(3, 8)) == ["tree LL", "ring Simple"]
    assert build(Topology, tuned.described("json"), {"units_required": True}) == tuned


def test_a_tuner_file_is_found_beside_the_one_that_names_it(tuner):
    assert build(Topology, {"kind": "nccl", "tuner": "tuner.csv"}, {"near": tuner.parent}).tuner == read_tuner(tuner)
    for name in ("none.csv", "tuner", ""):
        with pytest.raises(ValidationError, match=r"expected rows, or the name of a \.csv file in the folder of"):
            build(Topology, {"kind": "nccl", "tuner": name}, {"near": tuner.parent})


BAD = {
    "allredce,0,1,ring,ll": ("2: collective: expected a known collective, got 'allredce': did you mean 'allreduce'?",),
    "allreduce,0,1,nvls,ll": ("2: algorithm: expected a known algorithm, got 'nvls': valid: ring, tree",),
    "allreduce,0,1,ring,ll12": ("2: protocol: expected a known protocol, got 'll12': did you mean 'll128'?",),
    "allreduce,x,-1,ring,ll": (
        "2: min_bytes: expected a whole number, 0 or more, got 'x'",
        "2: max_bytes: expected a whole number, 0 or more, got '-1'",
    ),
    "allreduce,0,1,ring,ll,-2,1.5": (
        "2: channels: expected a whole number, -1 or more, got '-2'",
        "2: nodes: expected a whole number, -1 or more, got '1.5'",
    ),
    "allreduce,0,1,ring,ll,1,1,1,1,2": ("2: registered: expected -1, 0 or 1, got '2'",),
    "allreduce,2,1,ring,ll": ("2: max_bytes: expected at least 2, the `min_bytes`, got 1",),
    "allreduce,0": ("2: expected 5 to 10 columns, got 2: in this order: collective, min_bytes,",),
    "allreduce,0,1,ring,ll,1,1,1,1,1,1": ("2: expected 5 to 10 columns, got 11",),
}


@pytest.mark.parametrize("line", BAD)
def test_a_wrong_line_is_named(tmp_path, line):
    path = tmp_path / "tuner.csv"
    path.write_text(f"# a comment\n{line}\nallreduce,0,1,ring,ll\n")
    with pytest.raises(InputError) as caught:
        read_tuner(path)
    assert len(caught.value.problems) == len(BAD[line])
    for problem, text in zip(caught.value.problems, BAD[line], strict=True):
        assert str(problem).startswith(f"{path}:{text}")


def test_a_file_that_is_no_csv_is_an_input_error(tmp_path):
    path = tmp_path / "tuner.csv"
    for content in (b"\xff\xfe\x00", b"allreduce,0,1,ring,ll\n" * (MAX_ROWS + 1)):
        path.write_bytes(content)
        with pytest.raises(InputError, match=str(path)):
            read_tuner(path)
    with pytest.raises(InputError, match="a readable CSV file"):
        read_tuner(tmp_path)


SCENARIO = """name: small
workload: {batch_size: 1, layers: [{name: a, numel: 1000, backward: 1 ms}]}
cluster: {nodes: 4, gpu: gpus/ideal, network: {kind: single_switch, bandwidth: 10 Gbit/s}}
topology: {kind: nccl, tuner: tuner.csv}
sparsifier: dense
scheduler: wfbp
"""


def test_a_scenario_reads_its_tuner_and_says_what_is_wrong_with_it(tuner):
    document = parse_document(SCENARIO, "run.yaml")
    assert len(scenario_of(document.data, document, tuner.parent).topology.tuner) == 5
    tuner.write_text("allreduce,0,1,ring,ll\nallreduce,0,1,rng,ll\n")
    with pytest.raises(InputError) as caught:
        scenario_of(document.data, document, tuner.parent)
    assert str(caught.value) == f"{tuner}:2: algorithm: expected a known algorithm, got 'rng': did you mean 'ring'?"
    tuner.unlink()
    with pytest.raises(InputError, match=r"run\.yaml:4:\d+: topology\.tuner: expected rows, or the name of a \.csv"):
        scenario_of(document.data, document, tuner.parent)


def test_rows_written_in_a_scenario_need_units_and_an_order():
    row = {"collective": "allreduce", "max_bytes": "64 KiB", "algorithm": "tree", "protocol": "ll"}
    assert build(Topology, {"kind": "nccl", "tuner": [row]}, {"units_required": True}).tuner[0].max_bytes == 65536
    for wrong in ({"max_bytes": 65536}, {"min_bytes": "1 MB"}, {"algorithm": "nvls"}, {"nodes": -2}):
        with pytest.raises(ValidationError):
            build(Topology, {"kind": "nccl", "tuner": [row | wrong]}, {"units_required": True})


def test_a_scatter_alone_is_the_first_half_of_an_all_reduce():
    ring, layout = example(Topology, "ring"), Layout(4, 1)
    (rounds,) = ring.rounds(ReduceScatter(S), layout)
    assert sum(float(item.nbytes.sum()) * item.repeat for item in rounds) == pytest.approx(3 * S)
    with pytest.raises(ValueError, match="a topology with reduce-scatter"):
        example(Topology, "parameter_server").rounds(ReduceScatter(S), layout)


def test_rounds_of_groups_that_repeat_alike_still_repeat():
    """Repeats are written out only where groups differ in them."""

    def one(place, repeat):
        return Round(np.array([place]), np.array([place + 1]), np.array([[8.0]]), repeat)

    (alike,) = merge_rounds([[one(0, 5)], [one(2, 5)]])
    assert (alike.src.tolist(), alike.dst.tolist(), alike.repeat) == ([0, 2], [1, 3], 5)
    differing = merge_rounds([[one(0, 2), one(0, 1)], [one(2, 1), one(4, 2)]])
    assert [(item.src.tolist(), item.repeat) for item in differing] == [([0, 2], 1), ([0, 4], 1), ([0, 4], 1)]
