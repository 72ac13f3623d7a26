"""Titles that are made from a scenario."""

import pytest

from simulator.scenario.reading import load
from simulator.scenario.titles import cluster_name, leave_out_changes, make_title

SITES = "cluster.network={kind: leaf_spine, bandwidth: 10 Gbit/s, nodes_per_leaf: 4, uplink: 200 Mbit/s}"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ((), "32 GPUs over 9.394 Gbit/s"),
        (("cluster.nodes=1",), "4 GPUs"),
        (("cluster.nodes=1", "cluster.gpus_per_node=1"), "1 GPU"),
        ((SITES,), "32 GPUs over 10 Gbit/s and 200 Mbit/s between leaves"),
    ],
)
def test_the_cluster_is_its_gpus_and_the_network_between_them(overrides, words):
    assert cluster_name(load("quickstart", overrides)) == words


@pytest.mark.parametrize(
    "overrides",
    [
        ("cluster.nodes=16",),
        ("cluster.nodes=16", "sparsifier=dense"),
        (SITES, "sparsifier={kind: topk, density: 0.5}"),
        (f"cluster.stragglers.slow=[{', '.join(f'{{worker: {n}, factor: 2}}' for n in range(9))}]",),
    ],
)
def test_the_changes_can_be_left_out_of_a_title(overrides):
    scenario = load("quickstart", overrides)
    assert scenario.name != make_title(scenario)
    assert leave_out_changes(scenario.name) == make_title(scenario)


def test_titles_that_a_person_wrote_stay_whole():
    for name in ("mine (with care)", "a run (topk with density 0.01)", "ResNet-50, Top-k 0.1 %, 32 GPUs on 10 GbE"):
        assert leave_out_changes(name) == name
