"""Fabrics against drawings made by hand: which links a message takes, what they carry, and what does not fit."""

import itertools
import math

import numpy as np
import pytest
from number_fields import numbers
from pydantic import ValidationError
from pydantic_core import PydanticCustomError, PydanticUndefined

from simulator.fabrics.collectives import MeasuredCollective
from simulator.fabrics.direct_ring import DirectRing
from simulator.fabrics.fat_tree import FatTree
from simulator.fabrics.intra_node import IntraNode
from simulator.fabrics.leaf_spine import LeafSpine, spread
from simulator.fabrics.nvlink_mesh import NvlinkMesh
from simulator.fabrics.nvswitch import NvSwitch
from simulator.fabrics.single_switch import SingleSwitch
from simulator.fabrics.sites import Line, Pair
from simulator.fabrics.torus import Torus
from simulator.fabrics.transport import Shaper, Transport
from simulator.hardware.machine import LibraryTerms, Machine
from simulator.models.exchange import Layout, Route
from simulator.records import replace

B, ALPHA, HOP = 1e9, 5e-6, 1e-6
# NVLinks of a DGX-1 with V100: two rings of double links on each board, six links at every GPU.
DGX1 = (
    *((0, 1, 1), (0, 2, 1), (0, 3, 2), (1, 2, 2), (1, 3, 1), (2, 3, 2)),
    *((4, 5, 1), (4, 6, 1), (4, 7, 2), (5, 6, 2), (5, 7, 1), (6, 7, 2)),
    *((0, 4, 2), (1, 5, 2), (2, 6, 1), (3, 7, 1)),
)
PINNED = [789, 730, 856, 535, 110, 53, 700, 519, 561, 679, 590, 951]  # worked out in Python's own integers
SWITCHED = [
    pytest.param(LeafSpine(bandwidth=B, nodes_per_leaf=4, spines=3, latency=ALPHA, hop_latency=HOP), id="leaf_spine"),
    pytest.param(FatTree(bandwidth=B, k=4, latency=ALPHA, hop_latency=HOP), id="fat_tree"),
]


def every_pair(places):
    """All (src, dst) of different places."""
    return np.array(list(itertools.permutations(range(places), 2))).T


def ways(fabric, nodes, src, dst, gpus_per_node=1):
    """The names of the links on the way from `src` to each of `dst`, and the seconds of start-up."""
    wiring = fabric.wire(Layout(nodes, gpus_per_node))
    route = wiring.route(np.full(len(dst), src), np.array(dst))
    middle = np.full((len(dst), 0), -1) if route.middle is None else route.middle
    rows = np.column_stack([route.first, middle, route.last])
    return [[wiring.names[link] for link in row if link >= 0] for row in rows], route.latency.tolist()


def capacities(fabric, layout, part):
    """Capacity of every link whose name has `part` in it."""
    wiring = fabric.wire(layout)
    return wiring.capacity[[part in name for name in wiring.names]]


def refusal(make, *args, **options):
    """What a person reads when something does not fit."""
    with pytest.raises((PydanticCustomError, ValidationError)) as caught:
        make(*args, **options)
    error = caught.value
    return error.message() if isinstance(error, PydanticCustomError) else error.errors()[0]["msg"]


def test_the_spread_of_pairs_is_pinned():
    """The same in any process, on any machine: documents of earlier runs depend on it."""
    src, dst = every_pair(4)
    assert spread(src, dst, 1000).tolist() == PINNED
    assert spread(src[::-1], dst[::-1], 1000).tolist() == PINNED[::-1]
    assert spread(src, dst, 1).tolist() == [0] * 12


@pytest.mark.parametrize("ways", [2, 3, 4, 7, 16, 64])
@pytest.mark.parametrize("nodes", [64, 200])
def test_the_spread_uses_every_way_about_equally(nodes, ways):
    src, dst = every_pair(nodes)
    count = np.bincount(spread(src, dst, ways), minlength=ways)
    mean = len(src) / ways
    assert len(count) == ways
    assert np.abs(count - mean).max() < 5 * math.sqrt(mean)
    # Nor does one sender's traffic, or that of one shift of all nodes, crowd on a few.
    for some in (src == 0, dst == 5, (dst - src) % nodes == 1):
        mean = some.sum() / ways
        assert np.bincount(spread(src[some], dst[some], ways), minlength=ways).max() < mean + 6 * math.sqrt(mean) + 1


@pytest.mark.parametrize("fabric", SWITCHED)
def test_a_way_through_switches_is_connected(fabric):
    """Each link begins where the one before ended, the first at the sender's switch, the last at the receiver's."""
    for src, dst in every_pair(16).T:
        ((first, *middle, last),), _ = ways(fabric, 16, src, [dst])
        assert (first, last) == (f"node {src} NIC out", f"node {dst} NIC in")
        if not middle:
            continue
        steps = [way.split(" to ") for way in middle]
        assert all(one[1] == other[0] for one, other in itertools.pairwise(steps))
        where = {LeafSpine: "leaf {0}", FatTree: "pod {1} edge {2}"}[type(fabric)]
        for end, node in ((steps[0][0], src), (steps[-1][1], dst)):
            assert end == where.format(node // 4, node // 4, node % 4 // 2)


def test_leaf_spine_crosses_one_spine_or_none():
    fabric = LeafSpine(bandwidth=B, nodes_per_leaf=2, spines=2, latency=ALPHA, hop_latency=HOP)
    spines = spread(np.zeros(3, dtype=np.int64), np.array([1, 2, 5]), 2)
    links, latency = ways(fabric, 6, 0, [1, 2, 5])
    assert links == [
        ["node 0 NIC out", "node 1 NIC in"],
        ["node 0 NIC out", f"leaf 0 to spine {spines[1]}", f"spine {spines[1]} to leaf 1", "node 2 NIC in"],
        ["node 0 NIC out", f"leaf 0 to spine {spines[2]}", f"spine {spines[2]} to leaf 2", "node 5 NIC in"],
    ]
    assert latency == pytest.approx([ALPHA, ALPHA + 2 * HOP, ALPHA + 2 * HOP])


def test_every_uplink_of_leaves_and_trees_is_used():
    for fabric in (LeafSpine(bandwidth=B, nodes_per_leaf=16, spines=8), FatTree(bandwidth=B, k=8)):
        wiring = fabric.wire(Layout(128, 1))
        first, last, _, middle = wiring.route(*every_pair(128))
        used = np.unique(np.concatenate([first, last, middle[middle >= 0]]))
        across = wiring.offset
        assert used.tolist() == list(range(across))


def test_fat_tree_of_4_ports():
    """16 nodes, 2 under each edge, 4 in each pod; cores 0 and 1 behind aggregation 0, 2 and 3 behind aggregation 1."""
    fabric = FatTree(bandwidth=B, k=4, latency=ALPHA, hop_latency=HOP)
    wiring = fabric.wire(Layout(16, 1))
    assert len(wiring.names[: wiring.offset]) == 2 * 16 + 4 * 16
    core = spread(np.full(3, 5), np.array([4, 6, 15]), 4)
    one, two = core[1] // 2, core[2] // 2
    links, latency = ways(fabric, 16, 5, [4, 6, 15])
    assert links == [
        ["node 5 NIC out", "node 4 NIC in"],
        [
            "node 5 NIC out",
            f"pod 1 edge 0 to pod 1 aggregation {one}",
            f"pod 1 aggregation {one} to pod 1 edge 1",
            "node 6 NIC in",
        ],
        [
            "node 5 NIC out",
            f"pod 1 edge 0 to pod 1 aggregation {two}",
            f"pod 1 aggregation {two} to core {core[2]}",
            f"core {core[2]} to pod 3 aggregation {two}",
            f"pod 3 aggregation {two} to pod 3 edge 1",
            "node 15 NIC in",
        ],
    ]
    assert latency == pytest.approx([ALPHA, ALPHA + 2 * HOP, ALPHA + 4 * HOP])


@pytest.mark.parametrize(("nodes", "k"), [(1, 2), (2, 2), (3, 4), (16, 4), (17, 6), (54, 6), (55, 8), (1024, 16)])
def test_a_fat_tree_without_k_is_the_smallest_that_fits(nodes, k):
    left_out, given = (FatTree(bandwidth=B, k=ports).wire(Layout(nodes, 1)) for ports in (None, k))
    assert left_out.names == given.names
    if k > 2:
        assert f"at most {(k - 2) ** 3 // 4} nodes" in refusal(FatTree(bandwidth=B, k=k - 2).wire, Layout(nodes, 1))


@pytest.mark.parametrize("nics", [1, 2])
@pytest.mark.parametrize("ratio", [1.0, 2.0, 3.5])
def test_oversubscription_is_what_nodes_send_over_what_uplinks_carry(ratio, nics):
    options = {"bandwidth": B, "nics_per_node": nics, "oversubscription": ratio}
    layout, sent = Layout(16, 2), 16 * nics * B
    leaves = LeafSpine(nodes_per_leaf=4, spines=3, **options)
    for part in (" to spine", " to leaf"):
        found = capacities(leaves, layout, part)
        assert found == pytest.approx(np.full(4 * 3, 4 * nics * B / (ratio * 3)), rel=1e-12)
        assert found.sum() == pytest.approx(sent / ratio, rel=1e-12)
    found = capacities(FatTree(k=4, **options), layout, " to ")
    assert found == pytest.approx(np.full(4 * 16, nics * B / ratio), rel=1e-12)
    assert found.sum() == pytest.approx(4 * sent / ratio, rel=1e-12)  # two layers, both directions


@pytest.mark.parametrize("fabric", SWITCHED)
def test_uplinks_of_ones_own_and_capped_endpoints(fabric):
    own, layout = fabric.model_copy(update={"uplink": 7e8}), Layout(16, 1)
    wiring = own.wire(layout, 1e6)
    switches = np.array([" to " in name for name in wiring.names])
    nics = np.array([" NIC " in name for name in wiring.names])
    assert (set(wiring.capacity[switches]), set(wiring.capacity[nics])) == ({7e8}, {1e6})
    assert set(fabric.wire(layout).capacity[nics]) == {B}


def test_ring_of_5_takes_the_shorter_way():
    links, latency = ways(DirectRing(bandwidth=B, latency=ALPHA), 5, 0, [1, 2, 3, 4])
    assert links == [
        ["node 0 to node 1 out", "node 0 to node 1 in"],
        ["node 0 to node 1 out", "node 1 to node 2 out", "node 1 to node 2 in"],
        ["node 0 to node 4 out", "node 4 to node 3 out", "node 4 to node 3 in"],
        ["node 0 to node 4 out", "node 0 to node 4 in"],
    ]
    assert latency == pytest.approx([ALPHA, 2 * ALPHA, 2 * ALPHA, ALPHA])


def test_ring_of_4_goes_forward_at_a_tie_and_of_2_has_one_link_each_way():
    links, latency = ways(DirectRing(bandwidth=B, latency=ALPHA, hop_latency=HOP), 4, 3, [1])
    assert links == [["node 3 to node 0 out", "node 0 to node 1 out", "node 0 to node 1 in"]]
    assert latency == pytest.approx([ALPHA + HOP])
    two = DirectRing(bandwidth=B).wire(Layout(2, 1))
    assert two.names[:4] == tuple(f"node {a} to node {b} {end}" for end in ("out", "in") for a, b in ((0, 1), (1, 0)))
    assert DirectRing(bandwidth=B).wire(Layout(1, 4)).offset == 0


def test_through_traffic_of_a_ring_shares_the_links_between():
    first, _, _, middle = DirectRing(bandwidth=B).wire(Layout(6, 1)).route(np.array([0, 1]), np.array([2, 2]))
    assert (middle[0].tolist(), middle[1].tolist()) == ([first[1]], [-1])


def test_torus_of_4_by_4():
    """Node 4 i + j at (i, j): the first dimension first, round the corner where that is shorter."""
    links, latency = ways(Torus(bandwidth=B, latency=ALPHA, hop_latency=HOP, dimensions=(4, 4)), 16, 0, [15, 10, 3, 13])
    assert links == [
        ["node 0 to node 12 out", "node 12 to node 15 out", "node 12 to node 15 in"],
        [
            "node 0 to node 4 out",
            "node 4 to node 8 out",
            "node 8 to node 9 out",
            "node 9 to node 10 out",
            "node 9 to node 10 in",
        ],
        ["node 0 to node 3 out", "node 0 to node 3 in"],
        ["node 0 to node 12 out", "node 12 to node 13 out", "node 12 to node 13 in"],
    ]
    assert latency == pytest.approx([ALPHA + HOP, ALPHA + 3 * HOP, ALPHA, ALPHA + HOP])


@pytest.mark.parametrize("nics", [1, 2])
@pytest.mark.parametrize("shape", [(7,), (2, 3), (3, 1, 2), (2, 2, 2), (4, 3, 2), (5, 4)], ids=str)
def test_a_way_on_a_torus_is_connected_and_as_short_as_can_be(shape, nics):
    size = math.prod(shape)
    fabric = Torus(bandwidth=B, dimensions=shape, nics_per_node=nics, latency=ALPHA, hop_latency=HOP)
    neighbours = sum((2 if length > 2 else length - 1) for length in shape)
    assert fabric.wire(Layout(size, 2)).offset == 2 * nics * size * neighbours
    places = np.indices(shape).reshape(len(shape), -1).T
    for src in range(0, 2 * size, 3):
        targets = [place for place in range(2 * size) if place // 2 != src // 2]
        for dst, links, latency in zip(targets, *ways(fabric, size, src, targets, 2), strict=True):
            apart = np.abs(places[src // 2] - places[dst // 2])
            hops = int(np.minimum(apart, np.array(shape) - apart).sum())
            assert len(links) == hops + 1
            assert latency == pytest.approx(ALPHA + (hops - 1) * HOP)
            steps = [link.split() for link in links]
            assert [step[-1] for step in steps] == ["out"] * hops + ["in"]
            assert {" ".join(step[5:-1]) for step in steps} == {f"link {src % 2}" if nics > 1 else ""}
            nodes = [int(step[1]) for step in steps[:-1]] + [int(steps[-1][4])]
            assert (nodes[0], nodes[-1]) == (src // 2, dst // 2)
            assert [int(step[4]) for step in steps[:-1]] == nodes[1:]
            assert steps[-1][:5] == steps[-2][:5]
            turns = [int(np.flatnonzero(places[a] != places[b])[0]) for a, b in itertools.pairwise(nodes)]
            assert turns == sorted(turns)


def test_a_ring_is_the_torus_of_one_dimension():
    ring, torus = DirectRing(bandwidth=B).wire(Layout(9, 1)), Torus(bandwidth=B, dimensions=(9,)).wire(Layout(9, 1))
    assert ring.names == torus.names
    for one, other in zip(ring.route(*every_pair(9)), torus.route(*every_pair(9)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_torus_may_be_larger_than_the_job():
    links, _ = ways(Torus(bandwidth=B, dimensions=(8,)), 6, 0, [5])
    assert links == [["node 0 to node 7 out", "node 7 to node 6 out", "node 6 to node 5 out", "node 6 to node 5 in"]]


def test_nvswitch_has_a_port_per_gpu_and_direction():
    links, latency = ways(NvSwitch(bandwidth=B, latency=ALPHA), 1, 2, [0, 3], 4)
    assert links == [["place 2 local out", f"place {dst} local in"] for dst in (0, 3)]
    assert latency == [ALPHA, ALPHA]
    assert set(capacities(NvSwitch(bandwidth=B), Layout(1, 4), " local ")) == {B}


@pytest.mark.parametrize("nodes", [1, 2])
def test_pairs_with_links_use_them_and_the_others_the_host(nodes):
    """The same inside the nodes of another fabric as on a node alone."""
    inside = {"bandwidth": B, "latency": ALPHA, "host": 2e8}
    fabric = NvlinkMesh(links=DGX1, **inside)
    if nodes > 1:
        fabric = SingleSwitch(bandwidth=1e7, intra_node=IntraNode(mesh=DGX1, **inside))
    wiring = fabric.wire(Layout(nodes, 8))
    assert [sum(n for a, b, n in DGX1 if gpu in (a, b)) for gpu in range(8)] == [6] * 8
    joined = {pair: n for a, b, n in DGX1 for pair in ((a, b), (b, a))}
    used = []
    for src, dst in every_pair(8).T.tolist():
        place = 8 * (nodes - 1)
        first, last, latency, _ = wiring.route(np.array([place + src]), np.array([place + dst]))
        carries = joined[src, dst] * B if (src, dst) in joined else 2e8
        assert wiring.capacity[[*first, *last]].tolist() == [carries, carries]
        assert latency.tolist() == [ALPHA]
        names = [wiring.names[first[0]], wiring.names[last[0]]]
        if (src, dst) in joined:
            assert names == [f"node {nodes - 1} NVLink {src} to {dst} {end}" for end in ("out", "in")]
            used += [*first, *last]
        else:
            assert names == [f"place {place + src} host out", f"place {place + dst} host in"]
    assert len(set(used)) == 2 * len(joined)


@pytest.mark.parametrize(("link", "name"), [(None, "NVLink"), ("xgmi", "xGMI"), ("pci", "PCIe")])
def test_direct_links_have_the_name_of_their_kind(link, name):
    inside = IntraNode(bandwidth=B, mesh=((0, 1, 1),), link=link)
    names = SingleSwitch(bandwidth=B, intra_node=inside).wire(Layout(1, 2)).names
    assert names[-4:] == tuple(f"node 0 {name} {pair} {end}" for pair in ("0 to 1", "1 to 0") for end in ("out", "in"))


def test_every_gpu_of_the_largest_node_may_have_a_nic():
    """72 GPUs with a NIC each, as of GB200 NVL72."""
    many = SingleSwitch(bandwidth=B, nics_per_node=72, nics_per_gpu=1)
    assert (many.rails, len(capacities(many, Layout(2, 72), " NIC"))) == (72, 2 * 2 * 72)


def test_a_mesh_joins_every_pair_by_default():
    wiring = NvlinkMesh(bandwidth=B).wire(Layout(1, 5))
    first, last, _, _ = wiring.route(*every_pair(5))
    assert len({*first, *last}) == 2 * 5 * 4
    assert set(wiring.capacity[first]) == set(wiring.capacity[last]) == {B}


def test_gpus_that_are_not_there_need_no_links():
    assert sum("NVLink" in name for name in NvlinkMesh(bandwidth=B, links=DGX1).wire(Layout(1, 4)).names) == 2 * 12


@pytest.mark.parametrize(
    ("mesh", "said"),
    [
        ([(0, -1, 1)], "expected numbers of GPUs, 0 or more, got [0, -1, 1]: the GPUs of a node count from 0"),
        ([(2, 2, 1)], "expected two different GPUs, got [2, 2, 1]: a link joins a GPU to another one"),
        ([(0, 1, 0)], "expected 1 link or more, got [0, 1, 0]: leave out the pairs that no link joins"),
        (
            [(0, 1, 1), (1, 0, 2)],
            "expected each pair once, got [1, 0, 2]: "
            "a link carries both directions, and [a, b, n] stands for n of them",
        ),
    ],
)
def test_a_mesh_that_can_not_be(mesh, said):
    assert refusal(IntraNode, bandwidth=B, mesh=mesh) == said
    assert refusal(NvlinkMesh, bandwidth=B, links=mesh) == said


def test_a_pair_without_a_link_needs_the_host():
    said = (
        "expected a link between GPUs 0 and 5 of node {}, or `host`, got neither: "
        "`host` is the bandwidth through host memory; co-located servers are numbered after the GPUs"
    )
    assert refusal(NvlinkMesh(bandwidth=B, links=DGX1).wire, Layout(1, 8)) == said.format(0)
    within = SingleSwitch(bandwidth=B, intra_node=IntraNode(bandwidth=B, mesh=DGX1))
    assert refusal(within.wire, Layout(3, 8)) == said.format(0)
    beside = NvlinkMesh(bandwidth=B, links=((0, 1, 1),))
    assert "GPUs 0 and 2 of node 0" in refusal(beside.wire, Layout(1, 2, servers=1, colocated=True))


OTHER_FABRIC = "for several nodes, choose a fabric between nodes and describe this one as its `intra_node`"


@pytest.mark.parametrize(
    ("said", "make", "values"),
    [
        (
            f"expected one node on fabric nvswitch, got 2 nodes: {OTHER_FABRIC}; "
            "dedicated parameter servers are nodes too, co-located ones are not",
            NvSwitch(bandwidth=B).wire,
            {"layout": Layout(2, 4)},
        ),
        (
            f"expected one node on fabric nvlink_mesh, got 3 nodes: {OTHER_FABRIC}; "
            "dedicated parameter servers are nodes too, co-located ones are not",
            NvlinkMesh(bandwidth=B).wire,
            {"layout": Layout(1, 4, servers=2)},
        ),
        (
            "expected no `intra_node`, got one: "
            "nvswitch is the inside of a node: its `bandwidth` and `latency` are those between the GPUs",
            NvSwitch,
            {"bandwidth": B, "intra_node": {"bandwidth": B}},
        ),
        (
            "expected at most 16 nodes on a fat tree of 4-port switches, got 17 nodes: "
            "raise `k`, or leave it out for the smallest tree that fits",
            FatTree(bandwidth=B, k=4).wire,
            {"layout": Layout(17, 1)},
        ),
        (
            "expected an even number of ports, got 5: half of a switch's ports lead down, half up",
            FatTree,
            {"bandwidth": B, "k": 5},
        ),
        (
            "expected `uplink` or `oversubscription`, got `uplink` and `oversubscription: 2`: "
            "one follows from the other",
            LeafSpine,
            {"bandwidth": B, "nodes_per_leaf": 2, "uplink": B, "oversubscription": 2},
        ),
        (
            "expected at most 6 nodes on a torus of 2 x 3, got 7 nodes: "
            "raise `dimensions`; dedicated servers are nodes, too",
            Torus(bandwidth=B, dimensions=(2, 3)).wire,
            {"layout": Layout(6, 1, servers=1)},
        ),
        (
            "expected dimensions of at most 131072 nodes, got [512, 512]: the number of nodes is their product",
            Torus,
            {"bandwidth": B, "dimensions": (512, 512)},
        ),
    ],
)
def test_what_does_not_fit_is_said(said, make, values):
    assert refusal(make, **values) == said


def test_a_mesh_none_of_whose_links_join_gpus_that_are_there_is_its_host():
    wiring = NvlinkMesh(bandwidth=B, links=[(6, 7, 1)], host=2e8, latency=ALPHA).wire(Layout(1, 4))
    assert not [name for name in wiring.names if "NVLink" in name]
    first, last, _, _ = wiring.route(*every_pair(4))
    assert set(wiring.capacity[[*first, *last]]) == {2e8}


def test_messages_inside_nodes_and_between_them_go_the_ways_that_they_go_alone():
    """Under a leaf of two nodes of two GPUs: inside a node, under one leaf, and over the spine; -1 fills the rows."""
    wiring = LeafSpine(bandwidth=1e9, nodes_per_leaf=2, intra_node=IntraNode(bandwidth=1e10)).wire(Layout(4, 2))
    src, dst = np.array([0, 0, 0, 6]), np.array([1, 2, 4, 7])
    route = wiring.route(src, dst)
    assert [wiring.names[link] for link in route.first.tolist()[1:3]] == ["node 0 NIC out"] * 2
    assert route.middle is not None
    crossed = [[wiring.names[link] for link in row if link >= 0] for row in route.middle.tolist()]
    assert crossed == [[], [], ["leaf 0 to spine 0", "spine 0 to leaf 1"], []]
    for place in range(4):
        one = wiring.route(src[place : place + 1], dst[place : place + 1])
        assert (one.first[0], one.last[0], one.latency[0]) == tuple(
            part[place] for part in (route.first, route.last, route.latency)
        )
    flat = SingleSwitch(bandwidth=1e9, intra_node=IntraNode(bandwidth=1e10)).wire(Layout(4, 2))
    assert flat.route(src, dst).middle is None


def test_links_between_the_ends_inside_a_node_are_numbered_behind_the_networks():
    """Two nodes of two GPUs, joined by GPU links 0 to 3 by way of link 5 where GPU 0 sends, and directly elsewhere."""

    def inside(src, dst):
        return Route(src, dst, np.zeros(len(src)), np.where(src == 0, 5, -1)[:, None])

    wiring = replace(SingleSwitch(bandwidth=1e9).wire(Layout(2, 2)), inside=inside, offset=10)
    assert wiring.route(np.array([0, 1]), np.array([1, 0])).middle.tolist() == [[15], [-1]]
    mixed = wiring.route(np.array([0, 1, 3]), np.array([1, 2, 2]))
    assert mixed.middle.tolist() == [[15], [-1], [-1]]
    assert (mixed.first[[0, 2]].tolist(), mixed.last[[0, 2]].tolist()) == ([10, 13], [11, 12])


INSIDE = IntraNode(bandwidth=B)
SMALL_FABRICS = {
    "single_switch": SingleSwitch(bandwidth=B, latency=ALPHA, intra_node=INSIDE),
    "leaf_spine": LeafSpine(bandwidth=B, nodes_per_leaf=2, latency=ALPHA, intra_node=INSIDE),
    "fat_tree": FatTree(bandwidth=B, latency=ALPHA, intra_node=INSIDE),
    "torus": Torus(bandwidth=B, dimensions=(2, 2), latency=ALPHA, intra_node=INSIDE),
}


@pytest.mark.parametrize("kind", SMALL_FABRICS)
@pytest.mark.parametrize(
    ("nics", "each", "rails"), [(32, None, 8), (16, 4, 4), (8, None, 8), (12, None, 12), (4, 4, 1)]
)
def test_the_nics_of_one_gpu_are_one_link_with_the_rate_of_all(kind, nics, each, rails):
    """32 NICs of 100 Gbit/s beside 8 GPUs are 8 of 400 Gbit/s; links above the nodes carry what all NICs send."""
    layout, rate = Layout(4, 8), nics // rails
    many = SMALL_FABRICS[kind].model_copy(update={"nics_per_node": nics, "nics_per_gpu": each})
    few = SMALL_FABRICS[kind].model_copy(update={"nics_per_node": rails, "nics_per_gpu": 1, "bandwidth": rate * B})
    assert (many.rails, many.nics_of_rail) == (rails, rate)
    one, other = many.wire(layout), few.wire(layout)
    assert one.names == other.names
    np.testing.assert_allclose(one.capacity, other.capacity)
    assert (many.machine(layout), many.carried(4)) == (few.machine(layout), few.carried(4))


def test_groups_that_share_a_node_share_its_rails():
    whole = SingleSwitch(bandwidth=B, nics_per_node=32)
    alone = whole.shared_by(8, 8)  # one GPU of every node in each group
    assert (alone.rails, alone.carried(2)) == (1, 4 * B)
    half = whole.shared_by(2, 2)
    assert (half.rails, half.carried(2)) == (4, 4 * B)
    crowded = SingleSwitch(bandwidth=B, nics_per_node=2).shared_by(8, 8)
    assert (crowded.rails, crowded.carried(2)) == (1, B / 4)


@pytest.mark.parametrize(("groups", "share"), [(2, 1), (4, 1), (8, 1 / 2)])
def test_groups_share_what_is_a_node_s_and_what_is_a_nic_s(groups, share):
    """Four NICs with a bucket and a way through memory each, and CPUs that copy for all of them."""
    whole = SingleSwitch(bandwidth=B, burst=6e3, nics_per_node=4, transport={"kind": "tcp", "staging": 3e8})
    part = whole.shared_by(groups, groups)
    assert (part.burst, part.carried(2)) == (share * 6e3, share * 3e8)
    slow = whole.model_copy(update={"transport": Transport(kind="tcp", cpu_bandwidth=4e8)})
    part = slow.shared_by(groups, groups)
    assert (slow.carried(2), part.rails * part.carried(2)) == (1e8, pytest.approx(4e8 / groups))


@pytest.mark.parametrize(("groups", "nics"), [(8, 8), (3, 4)])
@pytest.mark.parametrize("fabric", SWITCHED)
def test_groups_that_share_a_node_share_links_between_switches(fabric, groups, nics):
    """Each has an equal part of them, whichever way they were stated and however many NICs it has."""
    whole = fabric.model_copy(update={"nics_per_node": nics, "oversubscription": 4.0})
    (rate,) = set(capacities(whole, Layout(16, 1), " to "))
    stated = fabric.model_copy(update={"nics_per_node": nics, "uplink": rate})
    for network in (whole, stated):
        part = network.shared_by(groups, groups)
        assert capacities(part, Layout(16, 1), " to ") == pytest.approx(rate / groups)
        links = [name for name in part.wire(Layout(16, 1)).names if " to " in name]
        assert [network.groups_on(name, part, groups) for name in links] == pytest.approx([groups] * len(links))


MEASURED = LibraryTerms(version="2.18", reported_bandwidth=3 * B)
SQUARE = ((0, 1, 2), (1, 2, 2), (2, 3, 2), (0, 3, 2), (0, 4, 9))


def test_a_library_sees_the_hardware_that_a_fabric_describes():
    """Twelve NICs in pairs beside four GPUs; of a square of double links two rings of two links each, one each way."""
    leaves = LeafSpine(bandwidth=B, latency=ALPHA, hop_latency=HOP, nodes_per_leaf=2, nics_per_node=12, nics_per_gpu=2)
    inside = IntraNode(bandwidth=45e10, latency=HOP, host=4e9)
    seen = leaves.model_copy(update={"intra_node": inside}).machine(Layout(4, 4), "ideal")
    assert seen.far_latency == pytest.approx(4 * HOP)  # from 0 to 1, 2, 3 and back, two steps cross a spine
    common = {"latency": ALPHA, "inside_latency": HOP, "inside": "nvlink", "port": 45e10}
    expected = Machine(**common, generation="hopper", nics=4, reported=2 * B, switched=True, host=4e9)
    assert replace(seen, far_latency=0.0) == expected
    square = IntraNode(bandwidth=45e10, latency=HOP, mesh=SQUARE, host=B)
    alone = SingleSwitch(bandwidth=B, latency=ALPHA, intra_node=square, nccl=MEASURED, collective_start_up=ALPHA)
    seen = alone.machine(Layout(2, 4), "ideal")
    expected = Machine(**common, reported=3 * B, host=B, terms=MEASURED, start_up_measured=True)
    assert replace(seen, cycles=()) == expected
    assert sorted(seen.cycles) == [((0, 1, 2, 3), 2), ((0, 3, 2, 1), 2)]
    assert [square.joins_all_alike(gpus) for gpus in (2, 3, 4)] == [True, False, False]
    assert IntraNode(bandwidth=B, mesh=((0, 1, 2), (1, 2, 2), (0, 2, 2))).joins_all_alike(3)
    assert not IntraNode(bandwidth=B, mesh=((0, 1, 2), (1, 2, 2), (0, 2, 1))).joins_all_alike(3)
    assert [IntraNode(bandwidth=rate).joined_by for rate in (64e9, 65e9)] == ["pci", "nvlink"]
    assert IntraNode(bandwidth=B, link="xgmi").joined_by == "nvlink"


def test_what_a_collective_takes_beside_links_is_its_start_up_and_the_copy_of_its_bytes():
    fabric = SingleSwitch(bandwidth=B, collective_start_up=3e-6, copy_bandwidth=2e6)
    assert fabric.added_seconds(np.array([0.0, 0.5, 8.0])).tolist() == pytest.approx([0.0, 3.25e-6, 7e-6])
    assert SingleSwitch(bandwidth=B).added_seconds(np.array([8.0])).tolist() == [0.0]


@pytest.mark.parametrize(
    ("spec", "name", "default", "least", "most"),
    [
        (SingleSwitch, "nics_per_node", 1, 1, 1024), (SingleSwitch, "nics_per_gpu", None, 1, 64),
        (FatTree, "k", None, 2, 128), (LeafSpine, "spines", 1, 1, 4096), (Shaper, "sockets", 32, 1, 4096),
        (MeasuredCollective, "workers", PydanticUndefined, 2, 10**12), (Transport, "streams", 1, 1, 1024),
        (Transport, "prior_width", None, 1, 100), (Line, "streams", 1, 1, 1024), (Pair, "streams", None, 1, 1024),
    ],
)  # fmt: skip
def test_a_number_of_a_network_has_a_default_and_two_ends(spec, name, default, least, most):
    (number,) = (each for of, each, _ in numbers(spec) if of == name)
    assert (spec.model_fields[name].default, number.smallest, number.largest) == (default, least, most)
