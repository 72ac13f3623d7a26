"""How links are shared, by hand: rates, token buckets, unlike ends of messages, and where the fold holds."""

import numpy as np
import pytest

from examples import switch
from simulator.engine.rounds.equivalence_classes import classify, structure
from simulator.engine.rounds.fold import fold
from simulator.engine.rounds.fold_validity import busiest_link_decides, messages_share_no_link
from simulator.engine.rounds.link_sharing import MaxMinRates, TokenBuckets
from simulator.models.exchange import Round, Route
from simulator.records import replace

INCAST = np.array([[1.0, 1.0], [3.0, 0.5]])


def rates(ways, capacity, limit=None, incast=None, arriving=None):
    """Flows of so many messages (link, messages) over links."""
    entries = [(number, link, count) for number, way in enumerate(ways) for link, count in way]
    type_of, link_of, messages = (np.array(column) for column in zip(*entries, strict=True))
    return MaxMinRates(
        np.array(capacity, dtype=float),
        type_of,
        link_of,
        messages.astype(float),
        np.full(len(ways), np.inf) if limit is None else np.array(limit, dtype=float),
        np.zeros(len(capacity)) if arriving is None else np.array(arriving, dtype=float),
        incast,
    )


def test_a_flow_at_its_limit_leaves_the_rest_to_the_others():
    """A link of 12 for three flows: 4 each, or 1 for the limited one and 5.5 for both others."""
    ways = [[(0, 1)], [(0, 1)], [(0, 1)]]
    assert rates(ways, [12]).rates(np.ones(3)).tolist() == [4, 4, 4]
    limited = rates(ways, [12], limit=[np.inf, 1, np.inf])
    assert limited.rates(np.ones(3)).tolist() == [5.5, 1, 5.5]
    assert limited.rates(np.array([0.0, 1.0, 0.0])).tolist() == [0, 1, 0]
    assert rates(ways, [12], limit=[4, 4, 4]).rates(np.ones(3)).tolist() == [4, 4, 4]
    assert limited.load(np.ones(3), limited.rates(np.ones(3))).tolist() == [12]


def test_messages_and_flows_count_as_often_as_they_are():
    """Two flows of the first type, of three messages each, and one of the second: seven shares of 14."""
    shared = rates([[(0, 3), (1, 1)], [(0, 1)]], [14, 100])
    assert shared.rates(np.array([2.0, 1.0])).tolist() == [2, 2]
    assert shared.load(np.array([2.0, 1.0]), np.array([2.0, 2.0])).tolist() == [14, 4]
    # A link that lets through 1 in all leaves 0.5 for each of two; the other gets the rest, 14 less 3.
    narrow = rates([[(0, 3), (1, 1)], [(0, 1)]], [14, 1])
    assert narrow.rates(np.array([2.0, 1.0])).tolist() == [0.5, 11]
    assert narrow.narrowest_capacities(2).tolist() == [1, 14]


@pytest.mark.parametrize(("senders", "kept"), [(1, 1.0), (2, 0.75), (3, 0.5), (9, 0.5)])
def test_nics_lose_by_the_number_of_senders_where_messages_arrive(senders, kept):
    """Shares between the numbers that were measured are in proportion; only arriving links lose."""
    active, ways = np.ones(senders), [[(0, 1), (1, 1)]] * senders
    for arriving, left in (([1, 0], kept), ([0, 0], 1.0)):
        made = rates(ways, [18, 1e9], incast=INCAST, arriving=arriving).rates(active)
        np.testing.assert_allclose(made, 18 * left / senders)


def test_changed_capacities_count_once_the_rates_are_forgotten():
    made = rates([[(0, 1)]], [12])
    assert made.rates(np.ones(1)).tolist() == [12]
    made.capacity[:] = 5
    made.forget()
    assert made.rates(np.ones(1)).tolist() == [5]


def test_what_starts_together_shares_a_bucket_and_leaves_what_it_does_not_need():
    """Links hold 12, 20 and 6; flow 0 puts two messages on link 0, flow 1 one on links 0 and 1."""
    shared = rates([[(0, 2)], [(0, 1), (1, 1)], [(2, 1)]], [1, 1, 1])
    buckets = TokenBuckets(np.array([12.0, 20.0, 6.0]), shared)
    # Four each on link 0: the messages of flow 0 need 3 of them, that of flow 1 more.
    assert (buckets.take([0, 1], [3.0, 100.0]), buckets.content.tolist()) == ([3, 4], [2 * (4 - 3), 0, 6])
    assert (buckets.take([2], [5.0]), buckets.content.tolist()) == ([5], [2, 0, 1])
    # Link 0 is used at 0.75 of its rate for 2 s, link 1 at more than all, link 2 not at all: up to what they held.
    buckets.fill(np.array([1.0, 1.0, 0.0]), np.array([0.0, 0.75, 0.0]), 2.0)
    assert buckets.content.tolist() == [2.5, 0.5, 3]
    buckets.fill(np.array([0.0, 2.0, 0.0]), np.array([0.0, 0.75, 0.0]), 2.0)
    assert buckets.content.tolist() == [2.5, 0.5, 5]
    buckets.fill(np.zeros(3), np.zeros(3), 100.0)
    assert buckets.content.tolist() == [12, 20, 6]


def test_a_flow_with_a_limit_is_a_type_of_its_own_on_the_same_way():
    wiring = switch(3, 1, 1e9)
    shape = structure([Round(np.array([0, 1]), np.array([1, 2]), np.array([[1.0, 5.0]]))])[0]
    made = classify([shape], wiring.route, np.arange(3.0), wiring.capacity)
    more = made.with_types([1, 0, 1])

    def way(classes, number):
        on = classes.type_of == number
        return classes.link_of[on].tolist(), classes.messages[on].tolist()

    assert (made.types, more.types) == (2, 5)
    ways = [way(more, number) for number in range(5)]
    assert ways == [way(made, number) for number in (0, 1, 1, 0, 1)]
    assert ways[0] != ways[1]


def changed(wiring, **factors):
    """The wiring with other capacities of some links."""
    return replace(wiring, capacity=wiring.capacity * [factors.get(name.replace(" ", "_"), 1) for name in wiring.names])


@pytest.mark.parametrize(
    ("factors", "ends"),
    [
        ({}, [0, 1, 0, 2]),
        ({"node_3_NIC_in": 0.25}, [0, 1, 0, 8]),
        ({"node_2_NIC_out": 0.25}, [0, 1, 0, 8]),
        ({"node_0_NIC_out": 0.5, "node_3_NIC_in": 0.25}, [0, 2, 0, 8]),
        ({"node_1_NIC_in": 0.5, "node_0_NIC_out": 4, "node_2_NIC_out": 2, "node_3_NIC_in": 2}, [0, 2, 0, 1]),
    ],
)
def test_a_message_takes_as_long_as_the_slower_of_its_ends(factors, ends):
    """1 s from 0 to 1 and 2 s from 2 to 3 in one round, where only one of them may have unlike ends."""
    rounds = [Round(np.array([0, 2]), np.array([1, 3]), np.array([[1e9, 2e9]]))]
    assert fold(rounds, changed(switch(4, 1, 1e9), **factors), np.zeros(4))[0].tolist() == pytest.approx(ends)


def test_links_that_were_busy_before_delay_and_are_busy_afterwards():
    """The sender's link is free at 3 s and the receiver's at 4 s; with 0.5 s of latency 1 s of bytes arrives by 5 s."""
    wiring = switch(2, 1, 1e9, 0.5)
    out, into = wiring.names.index("node 0 NIC out"), wiring.names.index("node 1 NIC in")
    links = np.zeros((1, len(wiring.capacity)))
    links[0, [out, into]] = 3.0, 4.0
    rounds = [Round(np.array([0]), np.array([1]), np.array([[1e9]]))]
    assert fold(rounds, wiring, np.array([1.0, 0.0]), links=links)[0].tolist() == [1.0, 5.0]
    assert links[0, [out, into]].tolist() == [4.5, 5.0]
    assert fold(rounds, wiring, np.zeros(2), overhead=0.25, factor=np.array([2.0]))[0].tolist() == [0.0, 0.5 + 2 + 0.25]


def test_messages_meet_nobody_where_each_link_serves_one_place_once_a_round():
    def alone(*rounds):
        made = [
            Round(*(np.array(end) for end in zip(*pairs, strict=True)), np.ones((1, len(pairs)))) for pairs in rounds
        ]
        src, dst = (np.concatenate([getattr(item, end) for item in made]) for end in ("src", "dst"))
        return messages_share_no_link(made, src, dst, Route(src // 2, 5 + dst // 2, np.zeros(len(src))))

    assert alone([(0, 2)], [(0, 2)])
    assert not alone([(0, 2), (0, 4)])  # its first link twice in one round
    assert not alone([(0, 2), (4, 2)])  # its last link twice
    assert alone([(0, 2)], [(0, 4)], [(4, 2)])
    assert not alone([(0, 2)], [(1, 4)])  # two places that leave by one link
    assert not alone([(0, 2)], [(4, 3)])  # two places that are reached by one link


@pytest.mark.parametrize(
    ("middle", "decides"),
    [
        (None, True),
        # Both cross link 4 of 2, where each has 1: 6 s for the larger one, and (2 + 6) / 2 = 4 s for the link.
        ([[4], [4]], False),
        # The larger one alone on a link of 2 takes 3 s, as long as that link.
        ([[-1], [4]], True),
        ([[5], [4]], True),
    ],
)
def test_the_busiest_link_decides_where_nobody_is_slower_than_it(middle, decides):
    """Messages of 2 and 6 bytes on ends of their own of 100 bytes/s."""
    rounds = [Round(np.array([0, 1]), np.array([2, 3]), np.array([[2.0, 6.0]]))]
    way = Route(np.array([0, 1]), np.array([2, 3]), np.zeros(2), None if middle is None else np.array(middle))
    assert busiest_link_decides(rounds, way, np.array([100.0, 100.0, 100.0, 100.0, 2.0, 2.0])) is decides
