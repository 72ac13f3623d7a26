"""Iterations of many plans side by side are those of each by itself and of the clock: to the last bit, but for means
where only the foremost workers were followed."""

from itertools import product

import numpy as np
import pytest
from long_examples import few_first

from simulator.engine.clock.graphs import graph_of
from simulator.engine.clock.numbers import ALIKE, Draws, foremost_are_enough
from simulator.engine.clock.run_points import run_point, run_points
from simulator.engine.clock.simulation import simulate
from simulator.prediction.run import plan_of
from simulator.records import replace
from simulator.scenario.reading import load

SCHEDULERS = {
    "wfbp": "{kind: wfbp}",
    "sequential": "sequential",
    "fusion in cycles": "{kind: bucketed, rule: horovod, bucket_size: 4 MiB, cycle_time: 5 ms}",
    "merged": "{kind: mg_wfbp, startup: 1 ms, per_byte: 1 ns}",
    "buckets": "{kind: bucketed, bucket_size: 25 MiB}",
}
METHODS = ("dense", "{kind: topk, density: 0.01}", "{kind: oktopk, density: 0.02}")
RUNTIMES = (
    "ideal",
    "{name: slowed, compute_slowdown: 0.4}",
    "{name: slowed, compute_slowdown: 2.0, collective_launch: 50 us, cycle_time: 5 ms, negotiation: 1 ms}",
    "{name: host, exchange_element: 1 ns, gather_overhead: 300 us, fills_buckets: true}",
    "{name: launched, collective_launch: 50 us}",
    "{name: in cycles, cycle_time: 5 ms}",
)


NETWORKS = (("1 Gbit/s", 8), ("100 Gbit/s", 8), ("3 Gbit/s", 1))


def plans_with(scheduler, methods=METHODS, runtimes=RUNTIMES):
    plans = []
    for number, (method, runtime) in enumerate(product(methods, runtimes)):
        changes = f"scheduler={SCHEDULERS[scheduler]}", f"sparsifier={method}", "ignore_memory=true"
        changes += () if runtime == "ideal" else (f"cluster.runtime={runtime}",)
        for rate, nodes in (NETWORKS[number % 3], NETWORKS[(number + 1) % 3]):
            network = f"cluster.network.bandwidth={rate}", f"cluster.nodes={nodes}"
            plans.append(plan_of(load("quickstart", (*changes, *network))))
    return plans


def figures(iteration):
    names = ("time", "breakdown", "communication_total", "communication_added_up", "waiting", "start")
    return {name: getattr(iteration, name) for name in names} | {"computed": iteration.computed().tolist()}


def run_alike(plans):
    return run_points([(plan, ALIKE) for plan in plans])


@pytest.mark.parametrize("scheduler", few_first(SCHEDULERS))
def test_plans_run_side_by_side_as_each_by_itself(scheduler):
    plans = plans_with(scheduler)
    plans = [*plans, *(replace(plan, work=replace(plan.work, input_time=0.03)) for plan in plans)]
    for plan, together in zip(plans, run_alike(plans), strict=True):
        assert figures(together) == figures(run_point(plan)) == figures(simulate(plan))


@pytest.mark.parametrize("scheduler", ["wfbp", "sequential", "buckets"])
@pytest.mark.parametrize("slowed", few_first([False, True]))
def test_iterations_in_which_workers_differ_run_side_by_side_as_each_by_itself(scheduler, slowed):
    """The clock follows all workers, of whom the foremost are enough where nothing is slowed or cut."""
    plans = plans_with(scheduler, METHODS[1:2], RUNTIMES[1:3] if slowed else RUNTIMES[:1])
    normal = np.random.default_rng(0).standard_normal((6, 2, 8))
    points = [(plan, Draws(np.maximum(1 + 0.2 * a, 0.1), b)) for plan in plans for a, b in normal]
    cut = [(plans[0], Draws(np.array([1.0, 3.0]), np.array([0.0, -40.0])))]  # a selection that is cut at half
    for some in (points, [*points, *cut, (plans[0], ALIKE)]):
        for point, together in zip(some, run_points(some), strict=True):
            assert figures(together) == figures(run_point(*point))
            found, on_clock = figures(together), figures(simulate(*point))
            if foremost_are_enough(graph_of(point[0]), *point):  # the mean over all workers is taken in another order
                for name in ("breakdown", "waiting"):
                    assert found.pop(name) == pytest.approx(on_clock.pop(name), rel=1e-9, abs=1e-12)
            assert found == on_clock
    assert any(foremost_are_enough(graph_of(point[0]), *point) for point in points) is not slowed


def test_iterations_that_do_not_fit_into_memory_together_run_in_parts(monkeypatch):
    plans = plans_with("wfbp", METHODS[:1], RUNTIMES[:1])
    points = [(plan, Draws(1 + 0.1 * each, each)) for plan in plans for each in np.random.default_rng(1).random((9, 6))]
    whole = [figures(each) for each in run_points(points)]
    monkeypatch.setattr("simulator.engine.clock.run_points._MOST_NUMBERS", 1)
    assert [figures(each) for each in run_points(points)] == whole


def test_spans_of_an_iteration_among_others_are_those_of_the_clock():
    plans = plans_with("buckets", METHODS[:1], RUNTIMES[1:2])
    for plan, together in zip(plans, run_alike(plans), strict=True):
        alone = simulate(plan)
        assert (together.spans(), together.spans_of(0)) == (alone.spans(), alone.spans_of(0))


def test_more_communication_never_makes_an_iteration_shorter():
    plans = plans_with("buckets", METHODS[:1], RUNTIMES[:2]) * 8
    doubled = [replace(plan, prices=replace(plan.prices, seconds=2 * plan.prices.seconds)) for plan in plans]
    before, after = ([item.time for item in run_alike(each)] for each in (plans, doubled))
    assert (np.array(after) >= np.array(before)).all()
    assert after[0] > before[0]
