"""Sites over a wide area: the way of a message, closed forms, fair shares of lines, limits of streams, and errors."""

import itertools

import numpy as np
import pytest
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.prices import price_steps
from simulator.engine.rounds.fold import fold
from simulator.engine.rounds.fold_validity import reasons_against_fold
from simulator.engine.rounds.network import follow_flows
from simulator.fabrics.sites import expected_latest, stream_rate
from simulator.fabrics.wide_area import WideArea
from simulator.models.exchange import AllReduce, Layout, Round
from simulator.prediction.run import run
from simulator.scenario.changes import with_value
from simulator.scenario.scenario import Scenario
from simulator.studies.variants.crossing import with_infinite_network
from simulator.topologies.nccl import Nccl
from simulator.topologies.parameter_server import ParameterServer
from simulator.topologies.ring import Ring

NIC, LAN, WAY, S = 1.25e9, 30e-6, 0.02, 1e7
UP, DOWN = 50e6 / 8, 1e9 / 8
HOME = {"up": UP, "down": DOWN}
"""A line of 1 Gbit/s down and 50 Mbit/s up."""


def wide_area(*sites, **values):
    """Sites `a`, `b`, ... of so many nodes, or as given."""
    named = [
        {"name": name, **(site if isinstance(site, dict) else {"nodes": site})}
        for name, site in zip("abcdef", sites, strict=False)
    ]
    return WideArea(**{"bandwidth": NIC, "latency": LAN, "sites": named, "between": {"latency": WAY}} | values)


def way(fabric, nodes, src, dst, servers=0):
    """The names of the links on the way of a message, and its start-up."""
    wiring = fabric.wire(Layout(nodes, 1, servers))
    route = wiring.route(np.array([src]), np.array([dst]))
    links = [route.first[0], *route.middle[0], route.last[0]]
    return [wiring.names[link] for link in links if link >= 0], float(route.latency[0])


def seconds(fabric, nodes, src, dst, servers=0):
    """When the last of messages of S bytes that start together has arrived."""
    wiring = fabric.wire(Layout(nodes, 1, servers))
    item = Round(np.array(src), np.array(dst), np.full((1, len(src)), S))
    return follow_flows([item], wiring, np.zeros(nodes + servers)).max()


def test_a_message_crosses_uplink_line_and_downlink():
    fabric = wide_area(2, 1, 2)
    assert way(fabric, 5, 0, 1) == (["node 0 NIC out", "node 1 NIC in"], LAN)
    crossing = ["node 1 NIC out", "a up", "a to c", "c down", "node 3 NIC in"]
    assert way(fabric, 5, 1, 3) == (crossing, WAY)
    assert fabric.wire(Layout(5, 1)).route(np.array([2]), np.array([0])).latency.tolist() == [WAY]


def test_a_relay_passes_on_what_two_sites_send():
    fabric = wide_area(1, 1, 1, pairs=[{"sites": ["a", "b"], "latency": 0.05}, {"sites": ["c", "a"], "through": "b"}])
    links = ["node 0 NIC out", "a up", "a to b", "b down", "b up", "b to c", "c down", "node 2 NIC in"]
    assert way(fabric, 3, 0, 2) == (links, 0.05 + WAY)
    back = ["node 2 NIC out", "c up", "c to b", "b down", "b up", "b to a", "a down", "node 0 NIC in"]
    assert way(fabric, 3, 2, 0) == (back, 0.05 + WAY)
    assert way(fabric, 3, 0, 1)[0] == ["node 0 NIC out", "a up", "a to b", "b down", "node 1 NIC in"]
    assert "a up" in way(wide_area(1, 1, 1, pairs=[{"sites": ["b", "c"], "through": "a"}]), 3, 1, 2)[0]
    assert not [name for name in fabric.wire(Layout(3, 1)).names if name in ("a to c", "c to a")]


def test_a_relay_has_to_carry_the_bytes_twice():
    """The relay's own message and the one that it passes on share its uplink."""
    fabric = wide_area(1, {"nodes": 1, "up": UP}, 1, pairs=[{"sites": ["a", "c"], "through": "b"}])
    assert seconds(fabric, 3, [0], [2]) == pytest.approx(2 * WAY + S / UP)
    assert seconds(fabric, 3, [0, 1], [2, 2]) == pytest.approx(2 * WAY + 2 * S / UP)


@pytest.mark.parametrize(("site", "rate"), [(HOME, UP), ({"up": 2 * DOWN, "down": UP}, DOWN), ({}, NIC)])
def test_a_message_takes_its_start_up_and_the_narrowest_link(site, rate):
    fabric = wide_area({"nodes": 2, **site}, {"nodes": 2, "down": min(DOWN, rate) if site else NIC})
    assert seconds(fabric, 4, [0], [2]) == pytest.approx(WAY + S / rate, rel=1e-12)
    assert seconds(fabric, 4, [0], [1]) == pytest.approx(LAN + S / NIC, rel=1e-12)


def test_messages_share_uplinks_lines_and_downlinks_fairly():
    fabric = wide_area({"nodes": 2, **HOME}, 2, 2, between={"latency": WAY, "rate": UP / 4})
    # Two over one line of UP/4 each get half of it; a third one to another site has a line of its own.
    assert seconds(fabric, 6, [0, 1], [2, 3]) == pytest.approx(WAY + 2 * S / (UP / 4))
    assert seconds(fabric, 6, [0, 1], [2, 4]) == pytest.approx(WAY + S / (UP / 4))
    wider = wide_area({"nodes": 2, **HOME}, 2, 2)
    assert seconds(wider, 6, [0, 1], [2, 4]) == pytest.approx(WAY + 2 * S / UP)
    assert seconds(wider, 6, [2, 4], [0, 1]) == pytest.approx(WAY + 2 * S / DOWN)


def test_each_way_has_its_rate():
    fabric = wide_area(1, 1, between={"rate": UP, "back": DOWN, "latency": WAY})
    assert seconds(fabric, 2, [0], [1]) == pytest.approx(WAY + S / UP)
    assert seconds(fabric, 2, [1], [0]) == pytest.approx(WAY + S / DOWN)
    turned = wide_area(1, 1, pairs=[{"sites": ["b", "a"], "rate": UP, "back": DOWN}])
    assert seconds(turned, 2, [1], [0]) == pytest.approx(WAY + S / UP)
    assert seconds(turned, 2, [0], [1]) == pytest.approx(WAY + S / DOWN)


@pytest.mark.parametrize("sites", [["a", "b"], ["b", "a"]])
@pytest.mark.parametrize("given", [{}, {"streams": 2}, {"rate": 4e6}, {"back": 4e6}])
def test_a_pair_has_the_rates_of_between_whatever_its_order(sites, given):
    fabric = wide_area(1, 1, **MANY | {"between": {"rate": 5e6, "back": 7e6}, "pairs": [{"sites": sites, **given}]})
    forth, back = ("rate", "back") if sites == ["a", "b"] else ("back", "rate")
    both = {"back": given["rate"], **given} if "rate" in given else given
    wanted = both.get(forth, 5e6), both.get(back, 7e6)
    for made, factor in ((fabric, 1), (fabric.model_copy(update=fabric.times(3.0, 1.0, 1.0)), 3)):
        rates = rates_of(made)
        assert (rates["a to b"], rates["b to a"]) == pytest.approx([factor * rate for rate in wanted])


@pytest.mark.parametrize("sites", [(HOME, {}), ({}, HOME), (HOME, HOME)])
def test_a_ring_of_two_sites_with_asymmetric_lines(sites):
    """Two steps of S/2 each way: the second waits for the data and for the link, whichever is later."""
    fabric = wide_area(*({"nodes": 1, **site} for site in sites))
    ways = [min(one.get("up", NIC), other.get("down", NIC)) for one, other in itertools.permutations(sites)]
    wiring = fabric.wire(Layout(2, 1))
    found = follow_flows(Ring().all_reduce(np.array([S]), Layout(2, 1)), wiring, np.zeros(2)).max()
    assert found == pytest.approx(max(2 * WAY + sum(S / 2 / rate for rate in ways), WAY + S / min(ways)), rel=1e-9)


@pytest.mark.parametrize(("streams", "law"), [(1, "mathis"), (4, "cubic"), (64, "bbr")])
def test_one_message_gets_no_more_than_its_streams(streams, law):
    tcp = {"latency": WAY, "loss": 1e-4, "window": 1e6, "law": law, "streams": streams}
    fabric = wide_area(4, 4, between=tcp | {"rate": DOWN})
    one = streams * stream_rate(law, 2 * WAY, 1e-4, 1e6)
    assert seconds(fabric, 8, [0], [4]) == pytest.approx(WAY + S / min(one, DOWN))
    # Messages of other pairs bring streams of their own, until the line is full.
    assert seconds(fabric, 8, [0, 1, 2], [4, 5, 6]) == pytest.approx(WAY + S / min(one, DOWN / 3))
    assert seconds(fabric, 8, [0], [1]) == pytest.approx(LAN + S / NIC)


def test_messages_inside_a_node_use_no_stream():
    fabric = wide_area(2, 2, between={"latency": WAY, "window": 1e5}, intra_node={"bandwidth": 4 * NIC, "latency": 0.0})
    wiring = fabric.wire(Layout(4, 2))
    for (src, dst), expected in zip(((0, 1), (1, 4)), (S / (4 * NIC), WAY + S / (1e5 / (2 * WAY))), strict=True):
        item = Round(np.array([src]), np.array([dst]), np.array([[S]]))
        assert follow_flows([item], wiring, np.zeros(8)).max() == pytest.approx(expected)
    # A second communication stream of a slow transport holds one message on every link between nodes.
    assert wiring.with_ceiling(1e3).ceiling[: wiring.offset].max() == 1e3


def test_a_pipelined_library_is_held_by_its_streams_too():
    """NCCL's ring crosses each way once per step: 2(p-1)/p S over one message's share of the line."""
    fabric = wide_area(2, 2, between={"latency": WAY, "window": 1e5, "rate": DOWN})
    network = NetworkSetup(Nccl(algorithm="ring", protocol="Simple"), fabric, fabric.wire(Layout(4, 1)))
    prices = price_steps([AllReduce(S)], [(0, 0)], network)
    assert prices.seconds[0] > 1.5 * S / (1e5 / (2 * WAY))
    assert prices.obstacles == ["one message cannot fill every link by itself"]


def test_jitter_adds_the_latest_of_the_messages_of_all_sites():
    line = {"latency": WAY, "jitter": 0.003}
    for nodes in (2, 3):
        _, latency = way(wide_area(*[1] * nodes, between=line), nodes, 0, 1)
        assert latency == pytest.approx(WAY + 0.003 * expected_latest(nodes))
    store = wide_area(4, between=line, store={"bandwidth": NIC, "latency": 0.1, "jitter": 0.01})
    assert way(store, 4, 0, 4, servers=1)[1] == pytest.approx(0.1 + 0.01 * expected_latest(4))


def test_servers_stand_at_the_store():
    fabric = wide_area({"nodes": 4, **HOME}, 2, store={"bandwidth": 3e8, "latency": 0.05, "streams": 2, "window": 1e6})
    links = ["node 1 NIC out", "a up", "a to store", "node 2 NIC in"]
    # Two of the four nodes of the first site are in use; the server is outside all the same.
    assert way(fabric, 2, 1, 2, servers=1) == (links, 0.05)
    assert seconds(fabric, 6, [4], [6], servers=1) == pytest.approx(0.05 + S / (2 * 1e6 / 0.1))
    assert way(fabric, 6, 6, 7, servers=2)[0] == ["node 6 NIC out", "node 7 NIC in"]
    assert "node 0 NIC in" in fabric.wire(ParameterServer(servers=2, colocated=True).layout(6, 1)).names


def test_the_fold_is_used_where_it_is_exact_and_equals_flows():
    """One node per site, with lines as wide as its NIC: no message waits for another."""
    wiring, layout = wide_area(1, 1, 1, 1).wire(Layout(4, 1)), Layout(4, 1)
    rounds = Ring().all_reduce(np.array([S]), layout)
    src, dst = (np.concatenate([getattr(item, end) for item in rounds]) for end in ("src", "dst"))
    assert reasons_against_fold(rounds, [wiring], src, dst, [wiring.route(src, dst)])[0] == ""
    folded, flowed = fold(rounds, wiring, np.zeros(4)).max(), follow_flows(rounds, wiring, np.zeros(4)).max()
    assert folded == pytest.approx(flowed, rel=1e-12) == pytest.approx(6 * (WAY + S / 4 / NIC))
    for narrow, said in (
        ({"latency": WAY, "rate": UP}, "more may cross a to b than it carries"),
        ({"latency": WAY, "window": 1e6}, "one message cannot fill its links over a to b"),
    ):
        wiring = wide_area(1, 1, 1, 1, between=narrow).wire(layout)
        assert reasons_against_fold(rounds, [wiring], src, dst, [wiring.route(src, dst)])[0] == said


def scenario(fabric, **values):
    """Four workers that send 40 MB after a backward pass of 10 ms."""
    layers = [{"name": "all", "numel": 10_000_000, "forward": 0.01, "backward": 0.01}]
    cluster = {"nodes": 4, "gpu": {"name": "x", "ideal": True}, "network": fabric}
    parts = {"topology": "ring", "sparsifier": "dense", "scheduler": "sequential", "ignore_memory": True}
    return Scenario.model_validate(
        {"workload": {"batch_size": 1, "layers": layers}, "cluster": cluster, **parts} | values
    )


def test_bytes_of_every_link_are_exact():
    document = run(scenario(wide_area({"nodes": 2, **HOME}, 2)), intervals=False).document
    sent = 2 * 3 / 4 * 40e6
    carried = {item["name"]: item["bytes"] for item in document["links"]}
    assert {name: carried[name] for name in ("a up", "a down", "a to b", "b to a", "node 1 NIC out")} == pytest.approx(
        dict.fromkeys(("a up", "a down", "a to b", "b to a", "node 1 NIC out"), sent)
    )


def test_an_infinite_network_leaves_compute_alone():
    tcp = {"latency": WAY, "jitter": 0.01, "loss": 0.01, "window": 1e5, "rate": UP}
    pair = {"sites": ["a", "b"], "loss": 0.1, "streams": 2}
    fabric = wide_area({"nodes": 2, **HOME}, 2, between=tcp, pairs=[pair], store={"bandwidth": 1e6})
    for topology in ("ring", "object_store", {"kind": "parameter_server", "servers": 2}):
        document = run(with_infinite_network(scenario(fabric, topology=topology)), intervals=False).document
        assert document["breakdown_s"]["communication_exposed"] < 1e-6, topology


def test_a_slower_network_is_slower_in_the_interval():
    """Rates are as uncertain as those of other described networks, the rates of streams with them."""
    spec = scenario(wide_area(2, 2, between={"latency": WAY, "window": 1e5}))
    card = spec.cluster.gpu.model_copy(update={"ideal": False, "memory_bandwidth": 1e12, "fp32_rate": 1e13})
    document = run(with_value(spec, "cluster.gpu", card)).document
    low, high = document["iteration_time_interval_s"]
    assert low < 0.7 * document["iteration_time_s"]
    assert high > 1.4 * document["iteration_time_s"]


MANY = {
    "between": {"rate": 5e6, "back": 7e6, "latency": WAY, "jitter": 0.004},
    "pairs": [{"sites": ["a", "b"], "rate": 3e6}, {"sites": ["a", "c"], "through": "b"}],
    "store": {"bandwidth": 11e6, "latency": 0.1},
}


def rates_of(fabric):
    """What every link of a network with a node at each site carries, by name."""
    wiring = fabric.wire(Layout(sum(site.nodes for site in fabric.sites), 1, 1))
    return dict(zip(wiring.names, wiring.capacity.tolist(), strict=True))


def test_groups_share_sites_and_lines_and_nodes_of_theirs_have_a_part_of_the_nics():
    """Six groups, three in a node with two NICs: each has every second node, two thirds of a NIC, a sixth of lines."""
    whole = wide_area({"nodes": 2, **HOME}, 4, 2, nics_per_node=2, **MANY)
    part = whole.shared_by(6, 3)
    assert [site.nodes for site in part.sites] == [1, 2, 1]
    one, all_of_it = rates_of(part), rates_of(whole)
    assert one["node 0 NIC out"] == pytest.approx(NIC * 2 / 3)
    for name in ("a up", "a down", "a to b", "b to a", "b to c", "c to b", "a to store", "store to c"):
        assert one[name] == pytest.approx(all_of_it[name] / 6), name
    assert (whole.groups_on("a to b", part, 6), whole.groups_on("node 0 NIC out", part, 6)) == (6, pytest.approx(1.5))
    with pytest.raises(PydanticCustomError, match="expected sites of a multiple of 2 nodes, got 2, 3") as caught:
        wide_area(2, 3).shared_by(2, 1)
    assert caught.value.message().endswith("one GPU of 2 nodes exchanges with one of each other 2")


def test_rates_streams_and_start_ups_of_all_lines_are_multiplied():
    """What an interval asks: rates thrice, start-ups half; a pair with a relay has no line of its own."""
    whole = wide_area({"nodes": 1, **HOME}, 1, 1, **MANY)
    made = whole.model_copy(update=whole.times(3.0, 1.0, 0.5))
    before, after = rates_of(whole), rates_of(made)
    for name, rate in before.items():
        assert after[name] == pytest.approx(rate if rate == NIC else 3 * rate), name
    for src, dst in ((0, 1), (1, 2), (0, 2), (0, 3)):
        links, start_up = way(whole, 3, src, dst, servers=1)
        assert way(made, 3, src, dst, servers=1) == (links, pytest.approx(start_up / 2))


def test_sites_without_nodes_are_warned_of():
    assert wide_area(4, 2, 2).empty_sites(4) == ["b", "c"]
    assert wide_area(4, 2, 2).empty_sites(7) == []
    warnings = run(scenario(wide_area(4, 2, 2))).document["warnings"]
    assert [text for text in warnings if text.startswith("no node is at b and c: 4 nodes fill the sites of the")]
    assert not [text for text in run(scenario(wide_area(3, 1))).document["warnings"] if "no node is at" in text]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"sites": [{"name": "a", "nodes": 1}] * 2}, "expected a name of its own for each site, got a"),
        ({"sites": [{"name": "store", "nodes": 1}]}, "`store` is not the name of a site"),
        ({"pairs": [{"sites": ["a", "bb"]}]}, "expected the name of a site, got 'bb': did you mean 'b'?"),
        ({"pairs": [{"sites": ["a", "b"]}, {"sites": ["b", "a"]}]}, "expected each pair of sites once, got a and b"),
        (
            {"pairs": [{"sites": ["a", "b"], "through": "c"}, {"sites": ["a", "c"], "through": "b"}]},
            "expected a relay that both sites reach directly, got c: only one relay may lie between two sites",
        ),
    ],
)
def test_networks_that_cannot_be_are_refused(values, said):
    with pytest.raises(ValidationError) as caught:
        wide_area(1, 1, 1, **values)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (Layout(5, 1), "expected at most 4 nodes, as the sites have, got 5 nodes: raise `nodes` of a site"),
        (
            Layout(4, 1, 1),
            "expected at most 4 nodes without a `store`, got 5 nodes: servers on machines of their own stand at the "
            "`store`, co-located ones in the sites",
        ),
    ],
)
def test_what_does_not_fit_is_said(layout, said):
    with pytest.raises(PydanticCustomError) as caught:
        wide_area(2, 2).wire(layout)
    assert caught.value.message() == said
