"""Warnings about NICs that a job leaves idle."""

import pytest
from command_line import answered

SCENARIO = """
name: eight NICs
workload: {batch_size: 1, layers: [{name: all, numel: 268435456, forward: 0 s, backward: 0 s}]}
cluster:
  nodes: 4
  gpus_per_node: 8
  gpu: gpus/ideal
  network:
    kind: single_switch
    bandwidth: 24 GB/s
    latency: 3 us
    nics_per_node: 8
    intra_node: {bandwidth: 235 GB/s, latency: 3 us}
  runtime: runtimes/ideal
topology: ring
sparsifier: dense
scheduler: {kind: sequential}
"""


def result(tmp_path, *overrides):
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO)
    return answered("run", path, *[part for item in overrides for part in ("--set", item)])


def idle(document):
    return [text for text in document["warnings"] if "NICs of a node" in text]


def test_one_ring_over_eight_nics_says_what_it_costs(tmp_path):
    """One ring moves 2 (p - 1) / p of 1 GiB over one NIC; over eight it takes an eighth, and NCCL's start-ups."""
    document = result(tmp_path)
    (warning,) = idle(document)
    assert warning.startswith("ring uses 1 of 8 NICs of a node: its exchanges take 86.69 ms in an iteration")
    assert document["iteration_time_s"] == pytest.approx(2 * 31 / 32 * 2**30 / 24e9, rel=0.01)
    wide = result(tmp_path, "topology=nccl")
    assert not idle(wide) and f"topology nccl sends, {1e3 * wide['iteration_time_s']:.4g} ms" in warning


@pytest.mark.parametrize(
    "changes", [("topology=hierarchical",), ("cluster.network.nics_per_node=1",), ("cluster.nodes=1",)]
)
def test_no_warning_where_every_nic_is_used_or_there_is_one(tmp_path, changes):
    assert not idle(result(tmp_path, *changes))


def test_idle_nics_are_too_slow_by_what_all_of_them_would_save(tmp_path):
    document, wide = result(tmp_path), result(tmp_path, "topology=nccl")
    (row,) = (row for row in document["warning_sizes"] if "NICs of a node" in row["text"])
    assert row["direction"] == "too slow"
    assert row["less_s"] == pytest.approx(document["iteration_time_s"] - wide["iteration_time_s"])
    assert row["more_s"] == 0 and row["seconds"] == pytest.approx(document["breakdown_s"]["communication_exposed"])


SERVERS = "topology={kind: parameter_server, servers: 2, local_aggregation: false}"


def test_dedicated_servers_say_that_they_use_one_nic_of_several(tmp_path):
    """Of four NICs one carries what four could: at most three quarters of the exchange are saved."""
    document = result(tmp_path, SERVERS, "cluster.network.nics_per_node=4")
    exposed = document["breakdown_s"]["communication_exposed"]
    (row,) = (row for row in document["warning_sizes"] if "a server uses 1 of 4 NICs of its node" in row["text"])
    assert (row["direction"], row["more_s"], row["seconds"]) == ("too slow", 0, pytest.approx(exposed))
    assert row["less_s"] == pytest.approx(3 / 4 * exposed)


@pytest.mark.parametrize(
    "changes",
    [
        (SERVERS, "cluster.network.nics_per_node=1"),
        (SERVERS, "cluster.network.nics_per_gpu=8"),
        (SERVERS, "cluster.runtime.server_bandwidth=20 GB/s"),
        ("topology={kind: parameter_server, servers: 4, colocated: true}",),
    ],
)
def test_servers_with_one_nic_or_a_stated_bandwidth_leave_none_idle(tmp_path, changes):
    document = result(tmp_path, *changes)
    assert not [text for text in (*document["warnings"], *document["notes"]) if "a server uses" in text]


CARD = "cluster.gpu=gpus/v100"


def law(document):
    return [text for text in document["warnings"] + document["notes"] if "was not measured as it is used here" in text]


def test_a_link_law_that_nobody_measured_is_one_warning_with_the_size_of_its_inputs(tmp_path):
    document = result(tmp_path, CARD)
    (text,) = law(document)
    laws = [item for item in document["calibration"] if item["what"] == "link law"]
    assert laws and [item for item in laws if f"{item['id'].rpartition('/')[2]} ({item['width']:.2g})" in text]
    (row,) = (row for row in document["warning_sizes"] if row["text"] in text)
    assert row["direction"] == "either way"
    low, high = document["iteration_time_interval_s"]
    time = document["iteration_time_s"]
    assert low <= time - row["less_s"] < time < time + row["more_s"] <= high
    assert not law(result(tmp_path, CARD, "cluster.nodes=1", "cluster.gpus_per_node=1"))


def test_a_network_without_a_name_is_this_network(tmp_path):
    document = result(tmp_path, CARD)
    texts = [*document["warnings"], *document["notes"]]
    assert [text for text in texts if text.startswith("this network was not measured as it is used here")]
    assert not [text for text in texts if text != text.lstrip()]
