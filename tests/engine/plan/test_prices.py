"""Prices of steps: seconds of each by itself, and what all of them send, by hand."""

import math

import numpy as np
import pytest
from sharded_scenarios import NUMEL, sharded

from simulator.engine.clock.graphs import graph_of
from simulator.engine.clock.run_points import run_point
from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.prices import price_steps
from simulator.engine.plan.work.division import price_costs
from simulator.fabrics.single_switch import SingleSwitch
from simulator.models.exchange import AllGather, AllReduce, Layout, Messages, ReduceScatter, Round
from simulator.prediction.run import plan_of
from simulator.topologies.ring import Ring


def test_steps_of_all_kinds_are_priced_each_by_itself_and_counted_by_how_often_they_are_used():
    """1 GB/s and 10 us on a ring of four: 6 or 3 steps of a quarter of the bytes, or of all; and a single message."""

    def one(sizes, layout):
        return [Round(np.array([0]), np.array([1]), np.asarray(sizes)[:, None])]

    fabric = SingleSwitch(bandwidth=1e9, latency=1e-5)
    network = NetworkSetup(Ring(), fabric, fabric.wire(Layout(4, 1)))
    swaps = Messages("swap", (1e6,), one), Messages("swap", (3e6,), one)
    steps = [AllReduce(4e6), swaps[0], AllReduce(8e6), AllGather(1e6), swaps[1], ReduceScatter(2e6)]
    made = price_steps(steps, [(0, 0), (0, 2), (1, 2), (2, 1), (2, 4), (2, 4), (3, 3)], network)
    assert made.seconds == pytest.approx([6.06e-3, 1.01e-3, 12.06e-3, 3.03e-3, 3.01e-3, 1.53e-3])
    assert made.traffic.sent.tolist() == [(6 + 2 * 12 + 3 + 1 + 2 * 3) * 1e6] + [(6 + 2 * 12 + 3) * 1e6] * 3
    counted = {("all_reduce", "ring"): 3, ("messages", "swap"): 3, ("all_gather", "ring"): 1}
    assert dict(made.algorithms) == counted | {("reduce_scatter", "ring"): 0}
    assert (made.folded, made.flowed, made.obstacles) == (6, 0, [])
    traffic, algorithms = price_steps(steps, (), network).count(np.array([1.0, 0, 0, 0, 2, 0]))
    assert traffic.sent.tolist() == [12e6, 6e6, 6e6, 6e6]
    assert (algorithms["all_reduce", "ring"], algorithms["messages", "swap"]) == (1, 2)


def test_stages_of_exchanges_that_are_repeated_take_all_of_their_time():
    """Of six micro-batches that all exchange their gradients, four are written down once."""
    plan = plan_of(sharded({"kind": "bucketed", "accumulate": "all"}, micro_batches=6))
    graph = graph_of(plan)
    seconds = [stage.seconds for place in graph.exchanges for stage in plan.stages_of(graph.tasks[place])]
    assert math.fsum(seconds) == pytest.approx(run_point(plan).communication_total)


def test_the_cost_of_a_bucket_has_the_software_of_its_collective():
    plain, slow = (
        price_costs(plan_of(sharded("mg_wfbp", runtime={"name": "own", "negotiation": wait})).setup)
        for wait in ("0 s", "2 ms")
    )
    numels = np.array([1.0, NUMEL])
    assert (slow.exchange(numels) - plain.exchange(numels)).tolist() == pytest.approx([2e-3, 2e-3], rel=1e-6)
