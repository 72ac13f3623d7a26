"""Warnings about NICs that a job leaves idle."""

import json

import pytest
from click.testing import CliRunner

from simulator.cli import main

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
    options = [part for item in overrides for part in ("--set", item)]
    made = CliRunner().invoke(main, ["run", str(path), *options, "--json"], catch_exceptions=False)
    return json.loads(made.stdout)


def idle(document):
    return [text for text in document["warnings"] if "NICs of a node" in text]


def test_one_ring_over_eight_nics_says_what_it_costs(tmp_path):
    """One ring moves 2 (p - 1) / p of 1 GiB over one NIC; over eight it takes an eighth, and NCCL's start-ups."""
    document = result(tmp_path)
    (warning,) = idle(document)
    assert warning.startswith("ring uses 1 of 8 NICs of a node: its exchanges take 86.69 ms in an iteration")
    assert document["iteration_time_s"] == pytest.approx(2 * 31 / 32 * 2**30 / 24e9, rel=0.01)
    wide = result(tmp_path, "topology=nccl")
    assert not idle(wide)
    assert f"topology nccl sends, {1e3 * wide['iteration_time_s']:.4g} ms" in warning


@pytest.mark.parametrize(
    "changes", [("topology=hierarchical",), ("cluster.network.nics_per_node=1",), ("cluster.nodes=1",)]
)
def test_no_warning_where_every_nic_is_used_or_there_is_one(tmp_path, changes):
    assert not idle(result(tmp_path, *changes))
