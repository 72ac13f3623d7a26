"""Doubts about the training framework: what a method does on the CPU, and nobody measured there."""

import pytest

from simulator.hardware.widths import largest_known
from simulator.prediction.run import run, with_responses
from simulator.scenario.reading import load

K = 10_000
GTOPK = (
    "workload={batch_size: 8, layers: [{name: w, numel: 1000000, forward: 1 ms, backward: 2 ms}]}",
    "sparsifier={kind: gtopk, density: 0.01}",
    "scheduler=sequential",
)


def host_ends(*overrides):
    """Seconds by which the iteration is shorter and longer at the ends of what the host may take for an element."""
    made = with_responses(run(load("quickstart", (*GTOPK, *overrides))))
    found = [item for item in made.spread.responses if any(each.id.endswith("host_element") for each in item.doubts)]
    return [made.spread.time * end for item in found for end in (item.low, item.high)]


def test_merges_on_the_host_are_a_doubt_where_nobody_measured_them():
    """Of 32 workers five rounds merge k elements, each at most as long as the slowest set-up that is known."""
    assert host_ends() == pytest.approx([0, 5 * K * largest_known("host_element")], rel=0.01)
    less, more = host_ends("cluster.runtime.host_element=2 ns")
    assert less < 0 < more
    assert not host_ends("sparsifier={kind: topk, density: 0.01}")
