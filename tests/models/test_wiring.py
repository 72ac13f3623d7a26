"""Routes of a fabric that is wired by hand: what is inside a node, between nodes, and on both at once."""

import numpy as np
import pytest

from simulator.models.exchange import Layout, Route
from simulator.models.wiring import Traffic, Wiring

NODE = np.array([0, 0, 1, 1, 2, 2])
"""Six places on three nodes; places send over links 0 to 5 and receive over 6 to 11, inside a node 20 further on."""


def way(latency, width, shift):
    """Routes whose links say who sends and who receives; between them those of the sender's and receiver's node."""

    def route(src, dst):
        middle = None
        if width:
            middle = np.full((len(src), width), -1)
            middle[:, 0] = np.where(src % 2 == 0, 12 + NODE[src] - shift, -1)
        return Route(src + 0, dst + 6, latency + 1e-3 * (10 * src + dst), middle)

    return route


def wired(between=2, within=0, **more):
    links = {"names": tuple(f"link {i}" for i in range(40)), "capacity": np.arange(1.0, 41.0), "offset": 20}
    ways = {"across": way(1.0, between, 0), "inside": way(2.0, within, 12)}
    return Wiring(layout=Layout(3, 2), node=NODE, **links, **ways, **more)


@pytest.mark.parametrize(("between", "within"), [(0, 0), (2, 0), (0, 2), (1, 2), (2, 1)])
@pytest.mark.parametrize(
    "pairs", [[(0, 1), (3, 2)], [(0, 2), (5, 1)], [(0, 2), (4, 5), (1, 0), (2, 5)]], ids=["inside", "between", "both"]
)
def test_each_message_goes_inside_its_node_or_between_nodes(between, within, pairs):
    """Message by message: links inside nodes come after the 20 between them, and -1 stays no link."""
    wiring, (src, dst) = wired(between, within), np.array(pairs).T
    found = wiring.route(src, dst)
    for number, (a, b) in enumerate(pairs):
        local = NODE[a] == NODE[b]
        one = (wiring.inside if local else wiring.across)(np.array([a]), np.array([b]))
        more = 20 if local else 0
        assert (found.first[number], found.last[number]) == (one.first[0] + more, one.last[0] + more)
        assert found.latency[number] == one.latency[0]
        kept = [] if one.middle is None else [int(link) + more for link in one.middle[0] if link >= 0]
        seen = [] if found.middle is None else found.middle[number].tolist()
        assert [link for link in seen if link >= 0] == kept
        assert set(seen) <= {-1, *kept}
    if not between and not within:
        assert found.middle is None
    elif found.middle is not None:
        assert found.middle.dtype == np.int64


def test_a_ceiling_holds_for_messages_between_nodes():
    wiring = wired().with_ceiling(5.0)
    assert wiring.ceiling.tolist() == [5.0] * 20 + [np.inf] * 20
    assert wiring.with_ceiling(3.0).ceiling.tolist() == [3.0] * 20 + [np.inf] * 20
    assert wiring.with_ceiling(7.0).ceiling.tolist() == wiring.ceiling.tolist()
    assert wired().ceiling is None


def test_links_by_which_messages_from_other_nodes_arrive():
    """Links 6 to 11 are those on which places receive; one node alone gets nothing from others."""
    assert np.flatnonzero(wired().arriving()).tolist() == [6, 7, 8, 9, 10, 11]
    assert set(wired().arriving().tolist()) == {0.0, 1.0}
    alone = Wiring(Layout(1, 2), np.zeros(2, int), np.ones(40), ("a",) * 40, way(1.0, 0, 0), way(2.0, 0, 0), 20)
    assert not alone.arriving().any()


def test_without_latency_messages_take_the_same_links():
    wiring, src, dst = wired(within=1), np.array([0, 0, 5]), np.array([1, 2, 1])
    instant, usual = wiring.instant().route(src, dst), wiring.route(src, dst)
    assert instant.latency.tolist() == [0, 0, 0]
    for made, known in ((instant.first, usual.first), (instant.last, usual.last), (instant.middle, usual.middle)):
        np.testing.assert_array_equal(made, known)


def test_traffic_counts_at_the_sender_and_on_every_link_of_the_way():
    """3 bytes from place 0 over links 0, 12 and 8; 5 and 7 from place 1 over links 1 and 8, and over 1 and 9."""
    traffic = Traffic(np.full(6, 100.0), np.full(20, 1000.0))
    src, dst, nbytes = np.array([0, 1, 1]), np.array([2, 2, 3]), np.array([3.0, 5.0, 7.0])
    traffic.add(src, wired().across(src, dst), nbytes)
    assert (traffic.sent - 100).tolist() == [3, 12, 0, 0, 0, 0]
    expected = np.zeros(20)
    expected[[0, 1, 8, 9, 12]] = 3, 12, 8, 7, 3
    assert (traffic.links - 1000).tolist() == expected.tolist()
    assert traffic.shared_by(1) is traffic
    half = traffic.shared_by(2)
    assert (half.sent.tolist(), half.links.tolist()) == ((traffic.sent / 2).tolist(), (traffic.links / 2).tolist())


def test_the_busiest_links_are_listed_without_idle_ones_and_equal_ones_in_their_order():
    wiring, share = wired(), np.zeros(40)
    share[[3, 7, 20, 30]] = 0.5, 0.5 * (1 + 1e-15), 0.9, 0.5 * (1 - 1e-15)
    assert wiring.busiest_links(share * wiring.capacity, 10).tolist() == [20, 3, 7, 30]
    assert wiring.busiest_links(share * wiring.capacity, 2).tolist() == [20, 3]
    assert wiring.busiest_links(np.zeros(40), 10).tolist() == []
