"""Flows against the fold, against closed forms of fair sharing, and against a slow twin."""

import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st
from test_fold import fewer, rounds_of

from examples import example, pairs, switch
from simulator.engine.rounds.disturbances import Disturbances, LinkChange
from simulator.engine.rounds.equivalence_classes import classify, structure
from simulator.engine.rounds.fold import fold
from simulator.engine.rounds.fold_validity import reasons_against_fold
from simulator.engine.rounds.link_sharing import MaxMinRates
from simulator.engine.rounds.network import Network, Stalled, TooManyMessages, follow_flows
from simulator.fabrics.base import Fabric
from simulator.fabrics.leaf_spine import LeafSpine
from simulator.fabrics.single_switch import SingleSwitch
from simulator.models.exchange import Layout, Round
from simulator.records import replace
from simulator.topologies.parameter_server import ParameterServer
from simulator.topologies.ring import Ring

ALPHA, B, S = 50e-6, 1.25e9, 1e8
# Nothing, or at least a byte and a nanosecond: below, the network takes what is left of a message for rounding.
bandwidths, latencies = st.floats(1e6, 1e11), st.one_of(st.just(0.0), st.floats(1e-9, 1e-2))
sizes = st.one_of(st.just(0.0), st.floats(1, 1e9))
starts = st.one_of(st.just(0.0), st.floats(1e-9, 1))
PAYLOAD = {"size": sizes, **dict.fromkeys(("wire", "local"), st.tuples(bandwidths, latencies))}
"""Bytes, and bandwidth and latency between the nodes and inside them."""


def why_not(rounds, wiring):
    """Why the fold would not be exact."""
    src, dst = (np.concatenate([getattr(item, end) for item in rounds]) for end in ("src", "dst"))
    return reasons_against_fold(rounds, [wiring], src, dst, [wiring.route(src, dst)])[0]


def message(src, dst, nbytes):
    """One message, or several that start together."""
    src, dst, nbytes = (np.atleast_1d(np.asarray(value)) for value in (src, dst, nbytes))
    return [Round(src, dst, nbytes.astype(float)[None, :])]


def together(wiring, exchanges, **options):
    """When each of several exchanges ends that start at the given times."""
    env = simpy.Environment()
    network = Network(env, wiring, [structure(rounds)[0] for _, rounds in exchanges], **options)
    ends = [0.0] * len(exchanges)

    def run(index, start, rounds):
        yield env.timeout(start)
        yield network.start(structure(rounds)).done
        ends[index] = env.now

    for index, (start, rounds) in enumerate(exchanges):
        env.process(run(index, start, rounds))
    env.run(until=1e6)
    return np.array(ends), network


@pytest.mark.parametrize(("kind", "primitive"), pairs())
@fewer
@given(nodes=st.integers(1, 9), gpus=st.integers(1, 4), uneven=st.booleans(), **PAYLOAD)
def test_flows_equal_the_fold_where_it_is_valid(*, kind, primitive, nodes, gpus, size, uneven, wire, local):
    wiring = switch(nodes, gpus, *wire, local)
    payload = size * np.linspace(0.1, 1, nodes * gpus) if uneven and primitive == "all_gather" else size
    rounds = rounds_of(kind, primitive, payload, wiring.layout)
    if not rounds or why_not(rounds, wiring):
        return
    law = fold(rounds, wiring, ready := np.zeros(nodes * gpus))
    for step in (False, True):
        np.testing.assert_allclose(follow_flows(rounds, wiring, ready, step=step), law, rtol=1e-9)


SMALL = {"torus": {"dimensions": (3, 4)}, "leaf_spine": {"nodes_per_leaf": 3, "oversubscription": 2.0}}


@pytest.mark.parametrize("fabric", ["direct_ring", "fat_tree", "leaf_spine", "torus"])
@given(
    pair=st.sampled_from(pairs()),
    nodes=st.integers(2, 12),
    gpus=st.integers(1, 2),
    nics=st.integers(1, 2),
    size=sizes,
    wire=st.tuples(bandwidths, latencies),
)
def test_flows_equal_the_fold_on_every_fabric(*, fabric, pair, nodes, gpus, nics, size, wire):
    spec = {"bandwidth": wire[0], "latency": wire[1], "nics_per_node": nics, **SMALL.get(fabric, {})}
    wiring = example(Fabric, fabric, **spec).wire(Layout(nodes, gpus))
    rounds = rounds_of(*pair, size, wiring.layout)
    ready, crossed = np.zeros(nodes * gpus), np.zeros(len(wiring.capacity))
    shared = follow_flows(rounds, wiring, ready)
    for item in rounds:
        route = wiring.route(item.src, item.dst)
        middle = [] if route.middle is None else list(route.middle.T)
        for links in (route.first, *middle, route.last):
            on = links >= 0
            np.add.at(crossed, links[on], item.repeat * item.nbytes[0][on])
    assert shared.max() >= (crossed / wiring.capacity).max() * (1 - 1e-9)
    if not why_not(rounds, wiring):
        np.testing.assert_allclose(shared, fold(rounds, wiring, ready), rtol=1e-9)


def test_a_place_waits_for_the_last_of_a_round_that_comes_by_links_of_their_own():
    """On a ring of direct links, two neighbours send to one place at once, by links that do not meet."""
    wiring = example(Fabric, "direct_ring", bandwidth=B, latency=0.01).wire(Layout(3, 1))
    rounds = rounds_of("double_binary_tree", "broadcast", 2**20 + 1.0, wiring.layout)
    assert not why_not(rounds, wiring)
    np.testing.assert_allclose(follow_flows(rounds, wiring, np.zeros(3)), fold(rounds, wiring, np.zeros(3)), rtol=1e-9)


@pytest.mark.parametrize("oversubscription", [1.0, 1.5, 2.0, 4.0])
def test_what_a_sender_puts_on_an_uplink_at_once_adds_up(oversubscription):
    """Worker 0 sends to three others at once; its leaf's only uplink carries all three messages."""
    wiring = LeafSpine(bandwidth=B, nodes_per_leaf=1, spines=1, oversubscription=oversubscription).wire(Layout(4, 1))
    rounds = rounds_of("all_to_all", "broadcast", S, wiring.layout)
    ready = np.zeros(4)
    assert follow_flows(rounds, wiring, ready).max() == pytest.approx(3 * oversubscription * S / B, rel=1e-9)
    assert fold(rounds, wiring, ready).max() == pytest.approx(3 * S / B, rel=1e-9)
    narrow = "" if oversubscription == 1 else "more may cross leaf 0 to spine 0 than it carries"
    assert why_not(rounds, wiring) == narrow


def test_rounds_that_share_a_nic_leave_each_message_its_share_of_an_uplink():
    """Two senders into one receiver halve their pace there, so that only the last uplink is short."""
    wiring = LeafSpine(bandwidth=B, nodes_per_leaf=1, spines=1, oversubscription=2.0).wire(Layout(4, 1))
    assert why_not(message([0, 1], [2, 2], [S, S]), wiring).startswith("more may cross spine 0 to leaf 2")
    assert why_not(message([0, 1], [2, 3], [S, S]), wiring).startswith("more may cross leaf 0 to spine 0")
    one_by_one = [*message(0, 2, S), *message(0, 3, S)]
    assert why_not(one_by_one, replace(wiring, capacity=np.where(wiring.capacity < B, B, wiring.capacity))) == ""


@pytest.mark.parametrize("kind", ["ring", "nccl", "hierarchical", "recursive_doubling", "halving_doubling"])
@pytest.mark.parametrize("shape", [(8, 1), (4, 4), (16, 2)], ids=str)
def test_the_fold_is_valid_on_what_is_regular(kind, shape):
    wiring = switch(*shape, B, ALPHA, (5 * B, ALPHA / 10))
    assert why_not(rounds_of(kind, "all_reduce", S, wiring.layout), wiring) == ""


@given(p=st.integers(2, 10), size=sizes, wire=st.tuples(bandwidths, latencies), ready=st.data(), over=latencies)
def test_a_ring_with_unequal_starts_equals_the_fold(*, p, size, wire, ready, over):
    """On a ring nobody shares a link, whoever comes late."""
    wiring = switch(p, 1, *wire)
    begin = np.array(ready.draw(st.lists(starts, min_size=p, max_size=p)))
    rounds = rounds_of("ring", "all_reduce", size, wiring.layout)
    expected = fold(rounds, wiring, begin, overhead=over)
    np.testing.assert_allclose(follow_flows(rounds, wiring, begin, overhead=over), expected, rtol=1e-9)


def test_when_rounds_ended_is_known_only_once_all_have():
    wiring, env, rounds = switch(2, 1, B, ALPHA), simpy.Environment(), message([0], [1], S)
    transfer = Network(env, wiring, [structure(rounds)[0]]).start(structure(rounds))
    with pytest.raises(RuntimeError, match="under way"):
        transfer.round_ends()
    env.run()
    assert transfer.round_ends()[0] == pytest.approx(S / B)


@given(p=st.integers(2, 8), size=sizes, data=st.data(), latency=latencies)
def test_links_that_all_differ_equal_the_fold(*, p, size, data, latency):
    wiring = switch(p, 1, B, latency)
    capacity = data.draw(st.lists(bandwidths, min_size=2 * p, max_size=2 * p))
    wiring = replace(wiring, capacity=np.array([*capacity, *wiring.capacity[2 * p :]]))
    rounds = rounds_of("ring", "all_reduce", size, wiring.layout)
    np.testing.assert_allclose(follow_flows(rounds, wiring, np.zeros(p)), fold(rounds, wiring, np.zeros(p)), rtol=1e-9)


@pytest.mark.parametrize(("kind", "primitive"), pairs())
@pytest.mark.parametrize(
    "shape",
    [pytest.param((5, 1), marks=pytest.mark.long), (3, 3), pytest.param((4, 2), marks=pytest.mark.long)],
    ids=str,
)
def test_alike_messages_as_one_flow_equal_one_by_one(kind, primitive, shape):
    """Without symmetry (every place told apart), the same times come out."""
    wiring = switch(*shape, B, ALPHA, (3 * B, ALPHA / 9))
    rounds = rounds_of(kind, primitive, S, wiring.layout)
    if not rounds:
        return
    places = len(wiring.node)
    lumped = follow_flows(rounds, wiring, np.zeros(places))[0]
    env = simpy.Environment()
    network = Network(env, wiring, [structure(rounds)[0]], colours=np.arange(places, dtype=float))
    transfer = network.start(structure(rounds))
    env.run()
    np.testing.assert_allclose(network.times(transfer), lumped, rtol=1e-9)


@pytest.mark.parametrize(("workers", "seconds"), [(8, 0.140700), (64, 0.163800), (256, 0.184875), (1024, 0.262143)])
def test_ring_equals_simgrid(workers, seconds):
    """SimGrid 4.1, CM02 without cross-traffic: 100 MB, 1.25 GB/s, 50 us end to end."""
    wiring = switch(workers, 1, B, ALPHA)
    rounds = Ring().all_reduce(np.array([S]), wiring.layout)
    assert follow_flows(rounds, wiring, np.zeros(workers)).max() == pytest.approx(seconds, rel=1e-5)
    assert fold(rounds, wiring, np.zeros(workers)).max() == pytest.approx(seconds, rel=1e-5)


def push_pull(workers, servers, nbytes, **fabric):
    """Seconds of one push and pull of `nbytes` from every worker, by fair sharing."""
    topology = ParameterServer(servers=servers)
    layout = topology.layout(workers, 1)
    wiring = SingleSwitch(bandwidth=B, latency=ALPHA, **fabric).wire(layout)
    phases = topology.push_pull(np.array([nbytes]), np.array([nbytes]), layout)
    env = simpy.Environment()
    network = Network(env, wiring, [structure(phase)[0] for phase in phases])

    def run():
        for phase in phases:
            yield network.start(structure(phase)).done

    env.run(until=env.process(run()))
    return env.now


@pytest.mark.parametrize(("workers", "seconds"), [(8, 1.2801), (64, 10.2401), (256, 40.9601), (1024, 163.8401)])
def test_push_pull_equals_simgrid(workers, seconds):
    assert push_pull(workers, 1, S) == pytest.approx(seconds, rel=1e-5)


@pytest.mark.parametrize(("workers", "servers"), [(8, 1), (1024, 1), (8, 2), (12, 4), (8, 8), (32, 4)])
def test_push_pull_takes_what_the_incast_formula_says(workers, servers):
    assert push_pull(workers, servers, S) == pytest.approx(2 * (ALPHA + workers * S / (servers * B)), rel=1e-9)


def test_incast_efficiency_over_fan_in():
    """With 8 senders half of the NIC is left, with one all of it: the push takes twice as long, the pull does not."""
    expected = pytest.approx(2 * ALPHA + 8 * S / (0.5 * B) + 8 * S / B, rel=1e-9)
    assert push_pull(8, 1, S, incast=((1, 1.0), (8, 0.5))) == expected


def test_each_message_costs_its_endpoint():
    wiring = switch(9, 1, B, ALPHA)
    rounds = message(np.arange(8), np.full(8, 8), np.full(8, S))
    seconds = follow_flows(rounds, wiring, np.zeros(9), overhead=1e-3).max()
    assert seconds == pytest.approx(ALPHA + 8 * (S / B + 1e-3), rel=1e-9)


def test_an_oversubscribed_leaf_spine_slows_exactly_the_flows_that_cross():
    """Two leaves of four nodes on one spine, uplinks at a quarter: one by one, four at once across and four inside."""
    wiring = LeafSpine(bandwidth=B, latency=ALPHA, nodes_per_leaf=4, oversubscription=4.0).wire(Layout(8, 1))
    inside, across = ([0, 1, 4, 5], [2, 3, 6, 7]), ([0, 1, 2, 3], [4, 5, 6, 7])
    alone = follow_flows(message([0], [4], S), wiring, np.zeros(8)).max()
    assert alone == pytest.approx(ALPHA + S / B, rel=1e-9)
    assert follow_flows(message(*inside, np.full(4, S)), wiring, np.zeros(8)).max() == pytest.approx(alone, rel=1e-9)
    four = follow_flows(message(*across, np.full(4, S)), wiring, np.zeros(8)).max()
    assert four == pytest.approx(ALPHA + 4 * S / B, rel=1e-9)
    # Nodes 0 to 2 cross to leaf 1, node 3 stays: it alone keeps the whole NIC.
    mixed = follow_flows(message([0, 1, 2, 3], [4, 5, 6, 2], np.full(4, S)), wiring, np.zeros(8))[0]
    np.testing.assert_allclose(mixed[[4, 5, 6]], ALPHA + 3 * S / B, rtol=1e-9)
    assert mixed[2] == pytest.approx(ALPHA + S / B, rel=1e-9)


@pytest.mark.parametrize("ratio", [1.0, 2.0, 8.0])
def test_oversubscription_makes_the_fold_invalid_only_where_it_blocks(ratio):
    wiring = LeafSpine(bandwidth=B, nodes_per_leaf=4, oversubscription=ratio).wire(Layout(8, 1))
    # One flow each way crosses a ring's leaf boundary, and the uplink carries 4 B / ratio.
    assert bool(why_not(rounds_of("ring", "all_reduce", S, wiring.layout), wiring)) == (ratio > 4)
    assert bool(why_not(rounds_of("halving_doubling", "all_reduce", S, wiring.layout), wiring)) == (ratio > 1)


def test_a_dead_link_is_named_at_once_though_others_go_on():
    wiring = switch(4, 1, B, 0.0)
    down = Disturbances((LinkChange(0.0, (wiring.names.index("node 1 NIC in"),), 0.0),))
    with pytest.raises(Stalled) as caught:
        together(wiring, [(0.0, message(2, 3, 1e3 * S)), (0.0, message(0, 1, S))], disturbances=down)
    assert caught.value.args[0] == ["node 1 NIC in"]


def test_more_messages_than_memory_are_refused():
    wiring = switch(2, 1, B, 0.0)
    ((item),) = message(0, 1, S)
    with pytest.raises(TooManyMessages):
        follow_flows([Round(item.src, item.dst, item.nbytes, 10**9)], wiring, np.zeros(2), step=True)


def filled_slowly(capacity, ways):
    """Max-min by the textbook: raise all by a little at a time until a link is full."""
    rates, fixed = np.zeros(len(ways)), np.zeros(len(ways), dtype=bool)
    while not fixed.all():
        load = np.array([sum(rates[i] for i, way in enumerate(ways) if link in way) for link in range(len(capacity))])
        counts = [sum(not fixed[i] for i, way in enumerate(ways) if link in way) for link in range(len(capacity))]
        room = [(c - used) / n if n else np.inf for c, used, n in zip(capacity, load.tolist(), counts, strict=True)]
        step = min(room)
        rates[~fixed] += step
        tight = {link for link, each in enumerate(room) if each <= step * (1 + 1e-9)}
        fixed |= np.array([bool(tight & set(way)) for way in ways])
    return rates


@given(capacity=st.lists(st.floats(1, 1e3), min_size=2, max_size=6), data=st.data())
def test_rates_are_max_min_fair(capacity, data):
    links = range(len(capacity))
    ways = data.draw(
        st.lists(st.sets(st.sampled_from(links), min_size=1, max_size=3).map(sorted), min_size=1, max_size=7)
    )
    entries = [(number, link) for number, way in enumerate(ways) for link in way]
    type_of, link_of = (np.array(column) for column in zip(*entries, strict=True))
    none = np.zeros(len(capacity))
    sharing = MaxMinRates(np.array(capacity), type_of, link_of, np.ones(len(entries)), np.full(len(ways), np.inf), none)
    rates = sharing.rates(np.ones(len(ways)))
    np.testing.assert_allclose(rates, filled_slowly(capacity, ways), rtol=1e-6)
    load = sharing.load(np.ones(len(ways)), rates)
    assert (load <= np.array(capacity) * (1 + 1e-9)).all()
    for number, way in enumerate(ways):
        # Fair: on some link of its way, which is full, nobody has more.
        assert any(
            load[link] >= capacity[link] * (1 - 1e-9)
            and rates[number] >= max(rates[i] for i, other in enumerate(ways) if link in other) * (1 - 1e-9)
            for link in way
        )


@given(
    shape=st.tuples(st.integers(1, 5), st.integers(1, 3)),
    kinds=st.lists(st.sampled_from(pairs()), min_size=1, max_size=3),
)
def test_classes_carry_the_same_load_on_every_link(shape, kinds):
    wiring = switch(*shape, B, ALPHA, (3 * B, 0))
    rounds = [item for kind, primitive in kinds for item in rounds_of(kind, primitive, S, wiring.layout)]
    if not rounds:
        return
    shape_of, scales = structure(rounds)
    classes = classify([shape_of], wiring.route, np.zeros(len(wiring.node)), wiring.capacity)
    for (items, _), item, scale in zip(classes.programmes[shape_of].rounds, rounds, scales, strict=True):
        route, exact = wiring.route(item.src, item.dst), np.zeros(len(wiring.capacity))
        for links in (route.first, route.last):
            np.add.at(exact, links, item.nbytes[0])
        by_class = np.zeros(int(classes.of_link.max()) + 1)
        for each in items:
            on = classes.type_of == each.type
            by_class[classes.link_of[on]] += classes.messages[on] * each.size * scale
        np.testing.assert_allclose(by_class[classes.of_link], exact, rtol=1e-9)


@pytest.mark.parametrize(("kind", "primitive"), pairs())
@fewer
@given(nodes=st.integers(1, 5), gpus=st.integers(1, 3), **PAYLOAD)
def test_no_flow_beats_its_bottleneck_and_more_bandwidth_helps(*, kind, primitive, nodes, gpus, size, wire, local):
    wiring = switch(nodes, gpus, *wire, local)
    rounds = rounds_of(kind, primitive, size, wiring.layout)
    if not rounds:
        return
    ready, crossed = np.zeros(nodes * gpus), np.zeros(len(wiring.capacity))
    total = follow_flows(rounds, wiring, ready).max()
    for item in rounds:
        route = wiring.route(item.src, item.dst)
        for links in (route.first, route.last):
            np.add.at(crossed, links, item.repeat * item.nbytes[0])
    assert total >= (crossed / wiring.capacity).max() * (1 - 1e-9)
    assert follow_flows(rounds, replace(wiring, capacity=2 * wiring.capacity), ready).max() <= total * (1 + 1e-9)


def test_an_exchange_of_nothing_ends_when_it_starts():
    ends, network = together(switch(2, 1, B, ALPHA), [(0.5, []), (0.25, [])])
    assert ends.tolist() == [0.5, 0.25]
    assert network.dead_links() == []
    ends, _ = together(switch(2, 1, B, 0.0), [(0.5, []), (0.25, message(0, 1, S))])
    assert ends == pytest.approx([0.5, 0.25 + S / B], rel=1e-9)


def test_payloads_that_are_equal_take_the_same_time():
    item = message(0, 1, S)[0]
    rounds = [Round(item.src, item.dst, np.array([[S], [2 * S], [S]]))]
    made = follow_flows(rounds, switch(2, 1, B, ALPHA), np.zeros(2))
    assert made[:, 1] == pytest.approx([ALPHA + f * S / B for f in (1, 2, 1)], rel=1e-9)


def test_on_one_node_nothing_arrives_from_others():
    assert SingleSwitch(bandwidth=B, incast=((2, 0.5),)).wire(Layout(1, 3)).arriving().tolist().count(1.0) == 0
    two = SingleSwitch(bandwidth=B, incast=((2, 0.5),)).wire(Layout(2, 1))
    assert two.arriving().tolist() == [1.0 if name.endswith("NIC in") else 0.0 for name in two.names]
    assert two.arriving().sum() == 2


def test_rates_do_not_depend_on_how_many_are_remembered(monkeypatch):
    """A flow over both links, of 3 and 4 bytes/s, and one over the second."""
    ways = np.array([0, 0, 1]), np.array([0, 1, 1]), np.ones(3), np.full(2, np.inf), np.zeros(2)
    sharing = [MaxMinRates(np.array([3.0, 4.0]), *ways) for _ in range(2)]
    sets = [np.array(item, dtype=float) for item in ([1, 1], [1, 0], [0, 1], [1, 1], [2, 1], [1, 0])]
    usual = [sharing[0].rates(active).tolist() for active in sets]
    monkeypatch.setattr("simulator.engine.rounds.link_sharing._REMEMBERED", 1)
    assert [sharing[1].rates(active).tolist() for active in sets] == usual
    assert usual[:3] == [[2, 2], [3, 0], [0, 4]]


TOGETHER = message([0, 1], [2, 2], [S, S])
INCAST, BUCKETS = {"incast": ((2, 0.5),)}, {"burst": 1e6}
MANY = "several senders meet at one NIC, whose bandwidth depends on their number"
UNLIKE_ENDS = "the links of a message differ in bandwidth or token bucket"


@pytest.mark.parametrize(
    ("fabric", "slower", "rounds", "said"),
    [
        ({}, "", TOGETHER, ""),
        ({}, "", message([0, 1], [2, 2], [S, 2 * S]), "messages of different workers meet on node 2 NIC in"),
        (INCAST, "", TOGETHER, MANY),
        (INCAST, "", message([0, 1], [1, 2], [S, S]), ""),
        (BUCKETS, "", TOGETHER, "messages share the token bucket of a link"),
        (BUCKETS, "", message([0, 1], [2, 0], [S, S]), ""),
        (BUCKETS, "node 1 NIC in", message(0, 1, S), UNLIKE_ENDS),
        (BUCKETS, "node 1 NIC in", message(0, 2, S), ""),
    ],
)
def test_what_meets_at_a_nic_is_folded_where_nothing_depends_on_who_meets(fabric, slower, rounds, said):
    wiring = SingleSwitch(bandwidth=B, **fabric).wire(Layout(3, 1))
    halved = wiring.capacity * [0.5 if name == slower else 1 for name in wiring.names]
    assert why_not(rounds, replace(wiring, capacity=halved)) == said


def test_messages_that_come_over_two_distances_are_not_folded():
    """Under leaf 0 stand nodes 0 and 1, and 2 under another; what leaves a NIC may go over any distance."""
    wiring = LeafSpine(bandwidth=B, latency=ALPHA, hop_latency=ALPHA, nodes_per_leaf=2).wire(Layout(4, 1))
    far_first = [*message(2, 1, S), *message(0, 1, S)]
    assert why_not(far_first, wiring) == "messages reach a link with different start-ups, so that they can overtake"
    assert why_not([*message(0, 2, S), *message(0, 1, S)], wiring) == ""


def test_the_first_link_of_all_may_be_short_and_one_that_nobody_uses_never_is():
    """On a ring of five, what goes from node 4 to 1 crosses link 0, from node 0 to 1."""
    wiring = example(Fabric, "direct_ring", bandwidth=B).wire(Layout(5, 1))
    assert wiring.names[0] == "node 0 to node 1 out"
    short = "more may cross node 0 to node 1 out than it carries"
    assert why_not([*message(4, 1, S), *message(0, 1, S)], wiring) == short
    capacity = wiring.capacity.copy()
    capacity[wiring.names.index("node 2 to node 3 out")] = 0.0
    assert why_not(message(4, 1, S), replace(wiring, capacity=capacity)) == ""


def test_a_round_repeated_less_often_than_a_node_has_gpus_is_followed_to_its_end():
    """On two nodes of four GPUs, a second inside a node and ten between them: the NIC's wait has come one GPU far."""
    wiring, order = switch(2, 4, 1e8, 0.0, (1e9, 0.0)), np.arange(8)
    rounds = [Round(order, (order + 1) % 8, np.full((1, 8), 1e9), 2)]
    assert follow_flows(rounds, wiring, np.zeros(8))[0] == pytest.approx([20, 11, 2, 2] * 2, rel=1e-9)


@pytest.mark.parametrize("how", [follow_flows, fold])
def test_one_that_only_receives_or_only_sends_keeps_its_own_time(how):
    """40 messages of half a second, two at a time from worker 1: worker 2 comes late, but its last one is later still.
    Then 40 of a second from worker 1, which waits for nobody."""
    wiring = switch(3, 1, 1e9, 0.0)
    late = [Round(np.array([0, 1, 1]), np.array([1, 0, 2]), np.full((1, 3), 5e8), 40)]
    assert how(late, wiring, np.array([0, 0, 30.0]))[0] == pytest.approx([40, 39.5, 40], rel=1e-9)
    alone = [Round(np.array([1]), np.array([0]), np.full((1, 1), 1e9), 40)]
    assert how(alone, wiring, np.array([0, 3.0, 30]))[0] == pytest.approx([43, 3, 30], rel=1e-9)


def test_two_jobs_on_one_link_get_the_fair_share():
    """Job 1 sends 2 S from t = 0, job 2 sends S from t = S/B: they share until job 2 is done."""
    wiring = switch(3, 1, B, 0.0)
    unit = S / B
    # Job 1 has S left when job 2 comes; both move at B/2 and end together.
    ends, _ = together(wiring, [(0.0, message(0, 2, 2 * S)), (unit, message(1, 2, S))])
    np.testing.assert_allclose(ends, [3 * unit, 3 * unit], rtol=1e-9)
    # Bytes are conserved, and the one that came late and is short leaves first.
    ends, network = together(wiring, [(0.0, message(0, 2, 2 * S)), (unit, message(1, 2, S / 2))], keep=True)
    np.testing.assert_allclose(ends, [2.5 * unit, 2 * unit], rtol=1e-9)
    use = network.link_use()
    carried = np.diff([*use.times, ends.max()]) @ use.rates
    arriving = wiring.names.index("node 2 NIC in")
    assert carried[use.of_link[arriving]] == pytest.approx(2.5 * S, rel=1e-9)
    assert use.rates.max() <= B * (1 + 1e-12)


def test_one_connection_is_first_in_first_out():
    """Two exchanges between the same two places go one after the other, as bytes on a connection do."""
    wiring = switch(2, 1, B, 0.0)
    ends, _ = together(wiring, [(0.0, message(0, 1, S)), (0.0, message(0, 1, S))])
    np.testing.assert_allclose(ends, [S / B, 2 * S / B], rtol=1e-9)


def test_a_link_that_fails_and_comes_back():
    """Half is through at S/2B; then nothing until 10 S/B; then half the bandwidth."""
    wiring, unit = switch(2, 1, B, 0.0), S / B
    link = (wiring.names.index("node 0 NIC out"),)
    changes = (LinkChange(unit / 2, link, 0.0), LinkChange(10 * unit, link, 0.5))
    seconds = follow_flows(message(0, 1, S), wiring, np.zeros(2), disturbances=Disturbances(changes)).max()
    assert seconds == pytest.approx(11 * unit, rel=1e-9)
