"""Compute that exchanges slow down: the recurrence of exchanges in turn against the clock that follows events."""

from itertools import islice

import pytest
from long_examples import few_first

from simulator.engine.clock.graphs import graph_of
from simulator.engine.clock.run_points import needs_clock, run_points
from simulator.engine.clock.simulation import simulate
from simulator.prediction.draws import draw_differences
from simulator.prediction.run import plan_of
from simulator.scenario.changes import with_value
from simulator.scenario.reading import load

CHANGES = ("cluster.nodes=4", "cluster.gpus_per_node=2", "cluster.stragglers.jitter=5 %", "iterations=3")
SCHEDULERS = {
    "wfbp": "{kind: wfbp}",
    "fusion in cycles": "{kind: bucketed, rule: horovod, bucket_size: 4 MiB, cycle_time: 5 ms}",
    "merged": "{kind: mg_wfbp, startup: 1 ms, per_byte: 1 ns}",
    "halves": "{kind: decoupled}",
}


@pytest.mark.parametrize("sparsifier", ["dense", "{kind: topk, density: 0.01}"])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("slowdown", few_first([2.0, 0.3]))
def test_exchanges_in_turn_slow_compute_down_as_events_do(scheduler, sparsifier, slowdown):
    changes = (
        *CHANGES,
        f"scheduler={SCHEDULERS[scheduler]}",
        f"sparsifier={sparsifier}",
        f"cluster.runtime={{name: slowed, compute_slowdown: {slowdown}, collective_launch: 50 us}}",
    )
    scenario = load("quickstart", changes)
    plan = plan_of(scenario)
    assert plan.slowdown == slowdown
    assert not needs_clock(graph_of(plan), plan)
    draws = list(islice(draw_differences(scenario, plan, False), 3))
    unslowed = plan_of(with_value(scenario, "cluster.runtime.compute_slowdown", 0.0))
    free = run_points([(unslowed, each) for each in draws])
    for each, in_turn, without in zip(draws, run_points([(plan, each) for each in draws]), free, strict=True):
        by_events = simulate(plan, each)
        assert in_turn.time == by_events.time
        assert in_turn.breakdown == pytest.approx(by_events.breakdown, rel=1e-9, abs=1e-12)
        assert in_turn.breakdown["slowdown"] > 0
        assert in_turn.breakdown["backward"] == pytest.approx(without.breakdown["backward"])  # with the same draws


@pytest.mark.parametrize("scheduler", ["priority", "{kind: wfbp, streams: 2}"])
def test_other_orders_are_followed_by_events(scheduler):
    plan = plan_of(load("quickstart", (f"scheduler={scheduler}", "cluster.runtime.compute_slowdown=0.3")))
    assert not graph_of(plan).in_turn
    assert needs_clock(graph_of(plan), plan)
