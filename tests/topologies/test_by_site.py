"""Exchanges by site: closed forms, bytes of lines, sites that differ, and that everyone gets everything."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import PydanticCustomError
from reference import walked

from examples import switch
from simulator.engine.plan.phases import traffic_of
from simulator.engine.rounds.fold import fold
from simulator.engine.rounds.network import follow_flows
from simulator.fabrics.wide_area import WideArea
from simulator.models.exchange import Layout
from simulator.topologies.by_site import BySite
from simulator.topologies.hierarchical import Hierarchical

NIC, LAN, LINE, WAY, S = 1.25e9, 2e-5, 2.5e7, 0.02, 6e7


def joined(*nodes):
    """Sites of so many nodes, with a line of their own between any two."""
    sites = [{"name": f"site{number}", "nodes": count} for number, count in enumerate(nodes)]
    return WideArea(bandwidth=NIC, latency=LAN, sites=sites, between={"rate": LINE, "latency": WAY})


def seconds(topology, primitive, nodes, payload):
    layout = Layout(sum(nodes), 1)
    rounds = getattr(topology, primitive)(payload, layout)
    return follow_flows(rounds, joined(*nodes).wire(layout), np.zeros(layout.workers)).max()


def inside(n, heads):
    """Seconds from the workers of a site to its heads, or back."""
    gathered = LAN + (n - heads) / (heads * n) * S / NIC if n > heads else 0.0
    return (n - 1) * (LAN + S / (n * NIC)) + gathered


@pytest.mark.parametrize("sites", [2, 3, 4])
@pytest.mark.parametrize(("n", "heads"), [(1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4)])
def test_an_all_reduce_takes_what_its_formula_says(sites, n, heads):
    topology = BySite(nodes_per_site=n, heads=heads)
    formula = 2 * inside(n, heads) + 2 * (sites - 1) * (WAY + S / (sites * LINE))
    assert seconds(topology, "all_reduce", [n] * sites, np.array([S])) == pytest.approx(formula, rel=1e-9)


@pytest.mark.parametrize(
    ("nodes", "inter", "across"), [((4, 2), "ring", S / 2), ((2, 2), "tree", S), ((2, 2), "halving_doubling", S / 2)]
)
def test_sites_and_topologies_between_the_heads_may_differ(nodes, inter, across):
    """Two heads each; of 4 and 2 nodes the larger site takes longer inside, the smaller one waits for it."""
    topology, formula = BySite(nodes_per_site=nodes, inter=inter), 2 * inside(nodes[0], 2) + 2 * (WAY + across / LINE)
    assert seconds(topology, "all_reduce", list(nodes), np.array([S])) == pytest.approx(formula, rel=1e-9)


def test_a_gather_takes_what_its_formula_says():
    """Blocks inside a site, the site's blocks to the other site, a half by each head, and then inside again."""
    n, block = 2, 1e7
    formula = (LAN + block / NIC) + (WAY + n * block / LINE) + (LAN + n * block / 2 / NIC)
    found = seconds(BySite(nodes_per_site=n), "all_gather", [n, n], np.full((1, 4), block))
    assert found == pytest.approx(formula, rel=1e-9)


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_lines_carry_every_byte_once_whatever_the_number_of_heads(heads):
    layout = Layout(8, 1)
    topology, wiring = BySite(nodes_per_site=(3, 5), heads=heads), joined(3, 5).wire(layout)
    for primitive, payload, carried in (
        ("all_reduce", np.array([S]), (S, S)),
        ("all_gather", np.arange(1.0, 9.0)[None, :], (1 + 2 + 3, 4 + 5 + 6 + 7 + 8)),
        ("broadcast", np.array([S]), (S, 0.0)),
    ):
        links = traffic_of(getattr(topology, primitive)(payload, layout), wiring).links
        found = [links[wiring.names.index(name)] for name in ("site0 to site1", "site1 to site0")]
        assert found == pytest.approx(carried), primitive


@given(
    nodes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    gpus=st.integers(1, 3),
    heads=st.integers(1, 3),
    inter=st.sampled_from(["ring", "halving_doubling", "tree"]),
)
def test_everyone_gets_what_everyone_has(nodes, gpus, heads, inter):
    heads = min(heads, gpus * min(nodes))
    given_nodes = tuple(nodes) if len(nodes) > 1 else (nodes[0],)
    topology, layout = BySite(nodes_per_site=given_nodes, heads=heads, inter=inter), Layout(sum(nodes), gpus)
    p = layout.workers
    for primitive in ("all_reduce", "all_gather"):
        payload = np.full((1, p), S) if primitive == "all_gather" else np.array([S])
        assert walked(getattr(topology, primitive)(payload, layout), np.eye(p, dtype=bool)).all()
    assert walked(topology.broadcast(np.array([S]), layout), np.eye(p, dtype=bool))[:, 0].all()


def test_sites_of_one_node_are_the_hierarchy_of_nodes():
    wiring, layout = switch(4, 2, local=(5e9, 1e-6)), Layout(4, 2)
    times = [
        fold(topology.all_reduce(np.array([S]), layout), wiring, np.zeros(8)).max()
        for topology in (BySite(nodes_per_site=1), Hierarchical())
    ]
    assert times[0] == pytest.approx(times[1], rel=1e-12)


@pytest.mark.parametrize(
    ("values", "nodes", "said"),
    [
        ({"nodes_per_site": (2, 2)}, 5, "expected sites of 5 nodes together, got 4: `nodes_per_site` lists every site"),
        (
            {"nodes_per_site": (1, 3), "heads": 2},
            4,
            "expected at most 1 heads, as the smallest site has workers, got 2: lower `heads`",
        ),
    ],
)
def test_what_does_not_fit_is_said(values, nodes, said):
    with pytest.raises(PydanticCustomError) as caught:
        BySite(**values).all_reduce(np.array([S]), Layout(nodes, 1))
    assert caught.value.message() == said


def test_one_number_stands_for_all_sites_and_the_last_may_be_smaller():
    layout = Layout(5, 1)
    one, other = (BySite(nodes_per_site=given).all_reduce(np.array([S]), layout) for given in (2, (2, 2, 1)))
    assert [(item.src.tolist(), item.dst.tolist()) for item in one] == [
        (item.src.tolist(), item.dst.tolist()) for item in other
    ]
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        BySite(nodes_per_site=0)


def test_there_are_at_most_1024_sites():
    assert len(BySite(nodes_per_site=(1,) * 1024).nodes_per_site) == 1024
    for sites in ((), (1,) * 1025):
        with pytest.raises(ValidationError):
            BySite(nodes_per_site=sites)
