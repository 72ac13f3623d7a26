"""Rings over the links of a mesh, and what a collective takes beside the wires."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from synthetic_logs import ring_seconds

from simulator.cli import main
from simulator.component import build
from simulator.engine.plan.phases import collective_rounds
from simulator.fabrics.base import Fabric
from simulator.models.exchange import Layout
from simulator.topologies.base import Topology

DGX1 = (
    *((0, 1, 1), (0, 2, 1), (0, 3, 2), (0, 4, 2), (1, 2, 2), (1, 3, 1), (1, 5, 2), (2, 3, 2)),
    *((2, 6, 1), (3, 7, 1), (4, 5, 1), (4, 6, 1), (4, 7, 2), (5, 6, 2), (5, 7, 1), (6, 7, 2)),
)
MESH = {"kind": "nvlink_mesh", "bandwidth": 25e9, "links": DGX1, "host": 1e10}
SCENARIO = """
name: beside the wires
workload: {batch_size: 1, layers: [{name: all, numel: 25000000, forward: 0 s, backward: 0 s}]}
cluster:
  nodes: 1
  gpus_per_node: 4
  gpu: gpus/ideal
  network: {kind: nvswitch, bandwidth: 100 GB/s, latency: 5 us, collective_start_up: 40 us, copy_bandwidth: 500 GB/s}
  runtime: runtimes/ideal
topology: ring
sparsifier: dense
scheduler: {kind: sequential}
"""


def traffic(primitive, payload, workers):
    """Bytes (p, p) from each sender to each receiver over all rounds."""
    layout = Layout(1, workers)
    rounds = collective_rounds(primitive, payload, build(Topology, "ring"), build(Fabric, MESH), layout)
    made = np.zeros((workers, workers))
    for item in rounds:
        np.add.at(made, (item.src, item.dst), item.repeat * item.nbytes[0])
    return made


@pytest.mark.parametrize("workers", [2, 3, 4, 8])
def test_rings_use_direct_links_in_proportion_to_their_number(workers):
    links = {(a, b): n for x, y, n in DGX1 for a, b in ((x, y), (y, x))}
    made = traffic("all_reduce", np.array([1e6]), workers)
    assert made.sum(axis=0) == pytest.approx(2 * (workers - 1) / workers * 1e6)
    used = {(a, b): made[a, b] / links[a, b] for a, b in zip(*np.nonzero(made), strict=True)}
    widest = {2: 1, 3: 2, 4: 4, 8: 6}[workers]
    assert max(used.values()) == pytest.approx(2 * (workers - 1) / workers * 1e6 / widest)


def test_unequal_blocks_reach_everyone_once():
    sizes = np.array([[1.0, 20.0, 300.0, 4000.0]])
    assert traffic("all_gather", sizes, 4).sum(axis=0) == pytest.approx(sizes.sum() - sizes[0])


def test_a_broadcast_follows_links():
    made = traffic("broadcast", np.array([7.0]), 4)
    assert (made.sum(axis=0)[1:] == 7.0).all()
    assert np.count_nonzero(made) == 3


def test_start_up_and_copy_come_on_top_of_the_wires(tmp_path):
    scenario = tmp_path / "s.yaml"
    scenario.write_text(SCENARIO)
    result = CliRunner().invoke(main, ["run", str(scenario), "--json"], catch_exceptions=False)
    expected = ring_seconds(1e8, 4, 1e11, 5e-6) + 40e-6 + 1e8 / 5e11
    assert json.loads(result.stdout)["iteration_time_s"] == pytest.approx(expected, rel=1e-9)


def test_one_worker_pays_nothing_beside_the_wires(tmp_path):
    scenario = tmp_path / "s.yaml"
    scenario.write_text(SCENARIO.replace("gpus_per_node: 4", "gpus_per_node: 1"))
    result = CliRunner().invoke(main, ["run", str(scenario), "--json"], catch_exceptions=False)
    assert json.loads(result.stdout)["breakdown_s"]["communication_exposed"] == 0.0
