"""What travels, counted by hand: places of a cluster, sizes of a gather, and selections."""

import numpy as np
import pytest

from simulator.models.exchange import AllGather, Bucket, Layout, Selection, alike, all_to_all


def test_dedicated_servers_are_on_nodes_of_their_own_after_those_of_the_workers():
    """Two nodes of three GPUs, then servers on nodes 2 to 4, each alone there."""
    layout = Layout(2, 3, servers=3)
    placed = layout.placement()
    assert (layout.workers, layout.places, placed.places) == (6, 9, 9)
    assert placed.node.tolist() == [0, 0, 0, 1, 1, 1, 2, 3, 4]
    assert (placed.rank.tolist(), placed.servers.tolist()) == ([0, 1, 2, 0, 1, 2, 0, 0, 0], [2, 3, 4])
    assert placed.nodes == 5


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_servers_beside_workers_take_turns_on_the_nodes_and_need_none_of_their_own(nodes):
    placed = Layout(nodes, 2, servers=4, colocated=True).placement()
    assert placed.node[2 * nodes :].tolist() == [server % nodes for server in range(4)]
    assert placed.rank[2 * nodes :].tolist() == [2 + server // nodes for server in range(4)]
    assert (placed.servers.tolist(), placed.nodes) == ([], nodes)


def test_a_gather_sends_what_each_worker_has_or_the_largest():
    """Sizes are numbers of bytes that shares are taken of, so that they are floats whatever they were made from."""
    for made, sizes in (
        (AllGather(3), [3, 3]),
        (AllGather((1, 5), padded=False), [1, 5]),
        (AllGather((1, 5)), [5, 5]),
        (AllGather((5, 1)), [5, 5]),
    ):
        found = made.sizes(2)
        assert (found.tolist(), found.dtype) == (sizes, float)


def test_without_overlap_disjoint_parts_add_up_and_others_are_all_the_same():
    """Disjoint selections of 2 and 4 make 6; without build-up all select what one does, 3 in the mean."""
    counts = {"selected": np.array([2.0, 4.0]), "aggregated": 5.0, "largest": 4.0, "target": 3.0}
    assert Selection(**counts).without_overlap == 3
    assert Selection(**counts, exclusive=True).without_overlap == 6


def test_one_number_stands_for_all_workers():
    made = alike(3, 2)
    assert made.tolist() == [2.0, 2.0, 2.0]
    assert made.strides == (0,)


def test_a_bucket_has_the_elements_of_its_pieces_in_fp32_with_32_bit_indices():
    """4 bytes a value and an index, 8 bytes an int64 index, unless it is said otherwise."""
    bucket = Bucket(0, (3, 4), 1)
    assert (bucket.numel, bucket.value_bytes, bucket.index_bytes, bucket.long_index_bytes) == (7, 4, 4, 8)
    assert (bucket.offset, bucket.fragment) == (0, 0)


@pytest.mark.parametrize(("nodes", "gpus"), [(1, 5), (6, 1), (2, 8), (3, 4)])
def test_of_all_pairs_no_message_in_a_node_waits_behind_one_between_nodes(nodes, gpus):
    """All p (p - 1) messages once; in a round every worker sends and receives one, and all or none leave their node."""
    layout, seen = Layout(nodes, gpus), set()
    rounds = all_to_all(np.ones(1), layout)
    for item in rounds:
        assert sorted(item.src) == sorted(item.dst) == list(range(layout.workers))
        assert len(set((item.src // gpus == item.dst // gpus).tolist())) == 1
        seen |= set(zip(item.src.tolist(), item.dst.tolist(), strict=True))
    assert len(rounds) == layout.workers - 1 and len(seen) == layout.workers * (layout.workers - 1)
    assert [bool(item.src[0] // gpus == item.dst[0] // gpus) for item in rounds].count(True) == gpus - 1
