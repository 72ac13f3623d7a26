"""Compute that exchanges slow down: the recurrence of exchanges in turn against the clock that follows events."""

import pytest
from simulator.engine.clock.serial_stream import goes_in_turn

from simulator.engine.clock import job
from simulator.prediction.run import plan_of, run
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
@pytest.mark.parametrize("slowdown", [0.3, 2.0])
def test_exchanges_in_turn_slow_compute_down_as_events_do(monkeypatch, scheduler, sparsifier, slowdown):
    changes = (
        *CHANGES,
        f"scheduler={SCHEDULERS[scheduler]}",
        f"sparsifier={sparsifier}",
        f"cluster.runtime={{name: slowed, compute_slowdown: {slowdown}, collective_launch: 50 us}}",
    )
    scenario = load("quickstart", changes)
    assert goes_in_turn(plan_of(scenario))
    in_turn = run(scenario).document
    monkeypatch.setattr(job, "goes_in_turn", lambda plan: False)
    by_events = run(scenario).document
    assert in_turn["iteration_time_s"] == pytest.approx(by_events["iteration_time_s"], rel=1e-12)
    assert in_turn["breakdown_s"] == pytest.approx(by_events["breakdown_s"], rel=1e-9, abs=1e-12)
    free = run(with_value(scenario, "cluster.runtime.compute_slowdown", 0.0)).document
    assert in_turn["breakdown_s"]["backward"] > free["breakdown_s"]["backward"]  # with the same draws


@pytest.mark.parametrize("scheduler", ["priority", "{kind: wfbp, streams: 2}"])
def test_other_orders_are_followed_by_events(scheduler):
    assert not goes_in_turn(plan_of(load("quickstart", (f"scheduler={scheduler}",))))
