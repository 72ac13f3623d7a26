"""Spans of a period: few local steps one by one, of many all forward passes as one span."""

import pytest
from worked_scenarios import worked

from simulator.engine.clock.run_points import run_point
from simulator.prediction.run import plan_of
from simulator.scenario.scenario import Scenario


def period_of(steps, passes=1, **more):
    """One worker, steps of 2 s forward, 3 s backward and 1 s of update, in equal passes."""
    workload = {"batch_size": 4, "micro_batches": passes, "update_time": 1.0, **more}
    scheduler = {"kind": "local_sgd", "inner_steps": steps}
    made = worked([(0.001, 2, 3)], bandwidth=1e6, workload=workload, scheduler=scheduler)
    return run_point(plan_of(Scenario.model_validate(made)))


def computed(iteration):
    return [span for span in iteration.spans_of(0) if span.stream == "compute" and not span.label.startswith("waiting")]


@pytest.mark.parametrize(("steps", "shown"), [(1, 1), (32, 32), (33, 1)])
def test_up_to_32_steps_in_a_row_are_shown_one_by_one(steps, shown):
    iteration, terms = period_of(steps), ("forward", "backward", "update")
    made = computed(iteration)
    assert [item.term for item in made] == list(terms) * shown
    assert [item.label for item in made[:3]] == [term if shown == steps else f"{term} of 33 steps" for term in terms]
    assert [(item.start, item.end) for item in made[:2]] == [
        (0.0, pytest.approx(2.0 * steps / shown)),
        (pytest.approx(2.0 * steps / shown), pytest.approx(5.0 * steps / shown)),
    ]
    assert made[-1].end == pytest.approx(6.0 * steps)
    assert iteration.time == pytest.approx(6.0 * steps + 0.004)  # an all-reduce of 4 kB


@pytest.mark.parametrize("steps", [4, 5])
def test_passes_of_steps_run_slower_beside_an_exchange_that_goes_on(steps):
    """Ten seconds of exchange hold 20/3 of compute at two thirds of its pace; the other passes take what they take."""
    scheduler = {"kind": "overlapped_diloco", "inner_steps": steps}
    made = worked([(10, 2, 3)], scheduler=scheduler, runtime={"name": "slowed", "compute_slowdown": 0.5})
    iteration = run_point(plan_of(Scenario.model_validate(made)))
    assert iteration.time == pytest.approx(5 * steps + 10 / 3)
    assert iteration.breakdown["slowdown"] == pytest.approx(10 / 3)


def test_passes_of_a_step_are_shown_one_by_one():
    """Two micro-batches: forward and backward, twice, of half the time each."""
    made = computed(period_of(2, passes=2))
    assert [item.term for item in made] == ["forward", "backward", "forward", "backward", "update"] * 2
    assert [item.duration for item in made[:5]] == pytest.approx([1, 1.5, 1, 1.5, 1])
    loaded = [item for item in period_of(2, input_time=0.5).spans_of(0) if item.label == "waiting for data"]
    assert [(item.start, item.end, item.term) for item in loaded] == [(0, 0.5, "idle"), (6.5, 7, "idle")]
