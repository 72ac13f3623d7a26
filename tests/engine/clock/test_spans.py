"""How long the spans of an iteration can be asked for."""

import pytest

from simulator.engine.clock.numbers import ALIKE
from simulator.engine.clock.run_points import run_in_a_row
from simulator.prediction.job_setup import plans_of
from simulator.scenario.reading import load

CHANGES = ("cluster.nodes=2", "cluster.stragglers.jitter=0.2", "workload.input_time=5 ms", "iterations=1", "warmup=0")
CHANGES += ("sparsifier={kind: topk, density: 0.01}", "cluster.network.bandwidth=2 Gbit/s")


@pytest.mark.parametrize("followed", [False, True], ids=["evaluated", "on the clock"])
def test_spans_last_until_the_next_iteration_unless_they_are_kept(followed):
    plan, _ = plans_of(load("quickstart", CHANGES), followed=followed)
    first, last = run_in_a_row(plan, [ALIKE, ALIKE])
    with pytest.raises(RuntimeError, match="the spans of this iteration were not kept: run with keep_iterations"):
        first.spans()
    assert last.spans()
    first, last = run_in_a_row(plan, [ALIKE, ALIKE], keep=True)
    assert first.spans() == last.spans()
