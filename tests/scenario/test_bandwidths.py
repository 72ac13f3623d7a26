"""What "bandwidth" means: the narrowest rate between nodes that can vary, for plans and for advice."""

import pytest

from simulator.scenario.bandwidths import met_rates
from simulator.scenario.reading import load
from simulator.studies.advice.crossings import bandwidth_axis
from simulator.studies.planning.targets import unknowns_of

LEAVES = "cluster.network={kind: leaf_spine, nodes_per_leaf: 1, bandwidth: 10 Gbit/s, uplink: %s}"


@pytest.mark.parametrize(("name", "changes", "key"), [
    ("slow_links", (), "cluster.network.bandwidth"),
    ("slow_links", (LEAVES % "200 Mbit/s",), "cluster.network.uplink"),
    ("slow_links", (LEAVES % "40 Gbit/s",), "cluster.network.bandwidth"),
    ("two_sites_wan", (), "cluster.network.between.rate"),
    ("two_sites_wan", ("cluster.network.between.rate=20 Gbit/s",), "cluster.network.bandwidth"),
    ("two_sites_wan", ("cluster.network.between.back=10 Mbit/s",), "cluster.network.between.back"),
])  # fmt: skip
def test_plans_and_advice_vary_the_narrowest_rate(name, changes, key):
    spec = load(name, changes)
    (unknown,) = unknowns_of(spec, ("bandwidth",))
    assert unknown.key == bandwidth_axis(spec).key == key


def test_inside_one_node_the_rate_there_counts():
    assert bandwidth_axis(load("quickstart", ("cluster.nodes=1",))).key == "cluster.network.intra_node.bandwidth"


def test_advice_tries_slower_lines_than_the_scenario_has():
    assert bandwidth_axis(load("slow_links", ("cluster.network.bandwidth=8 Mbit/s",))).tried[0] == 1e6


def test_lines_of_sites_are_met_and_cannot_vary():
    """A home line of 94.15 Mbit/s up is the narrowest; no message of a store goes from site to site."""
    changes = ("cluster.network=networks/home-peers", "topology=object_store", "cluster.network.between.rate=1 Mbit/s")
    first, *others = met_rates(load("two_sites_wan", changes))
    assert (first.rate, first.words, first.key) == (94.15e6 / 8, "uplink of site peer0", "")
    assert [item.key for item in others if item.key] == ["cluster.network.bandwidth", "cluster.network.store.bandwidth"]
