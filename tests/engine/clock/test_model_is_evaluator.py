"""The fast evaluator against the clock, which is the reference: start and end of every task, to the last bit."""

import math
import sys
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
import pytest
from long_examples import few_first
from places import ROOT

from simulator.engine.clock.evaluate import evaluate
from simulator.engine.clock.graphs import graph_of
from simulator.engine.clock.numbers import ALIKE, Draws, number_tasks
from simulator.engine.clock.run_points import needs_clock, run_in_a_row, run_point, run_points
from simulator.engine.clock.simulation import Simulation, simulate_all
from simulator.errors import InputError
from simulator.prediction.draws import draw_differences
from simulator.prediction.simulated import simulate_scenario
from simulator.records import replace
from simulator.scenario.reading import load
from simulator.scenario.scenario import Scenario

sys.path.insert(0, str(Path(__file__).parents[2] / "invariants"))

from random_scenarios import scenario

SHIPPED = sorted((ROOT / "scenarios").glob("*.yaml"))
NUMBERS, MORE = [range(part, 300, 10) for part in range(10)], [range(1000 + part, 3000, 20) for part in range(20)]
"""Random scenarios, of which half have prices for all exchanges: of the default run, and of the long one."""
LONG = [pytest.param(each, marks=pytest.mark.long) for each in MORE]


def evaluated(spec):
    """The plan of a scenario, and how its workers differ in some iterations; None where the clock is needed."""
    plan = simulate_scenario(spec).plan
    if spec.other_jobs or needs_clock(graph_of(plan), plan):
        return None
    return plan, [*islice(draw_differences(spec, plan, False), 4)]


def random_scenario(number):
    """A random scenario that is valid and that the evaluator can run, or None."""
    try:
        return evaluated(Scenario.model_validate(scenario(Random(f"twins {number}"))))
    except (InputError, ValueError):
        return None


def figures(iteration):
    names = ("time", "breakdown", "communication_total", "communication_added_up", "waiting")
    return [getattr(iteration, name) for name in names]


def on_clock(plan, draws):
    """The intervals of one iteration as SimPy runs it."""
    simulation = Simulation(plan, [draws])
    return simulation.env.run(until=simulation.env.process(simulation.job.iterate(draws)))


def check_twins(plan, draws):
    """All tasks at the same times; of periods, which go on until they repeat themselves, the same figures."""
    graph = graph_of(plan)
    if graph.periodic:
        assert [*map(figures, run_in_a_row(plan, draws))] == [*map(figures, simulate_all(plan, draws))]
        return
    for each in draws[:2]:
        fast, reference = evaluate(graph, number_tasks(graph, [(plan, each)])), on_clock(plan, each)
        for place, task in enumerate(graph.tasks):
            for what in ("start", "end") if task.sends else ("end",):  # what sends nothing has no start
                pair = np.broadcast_arrays(*(np.ravel(getattr(ran, what)[place]) for ran in (fast, reference)))
                assert pair[0].tolist() == pair[1].tolist(), (what, place, task)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_scenarios_run_as_on_the_clock(path):
    made = evaluated(load(path))
    if made is None:
        pytest.skip("its exchanges have no prices, so that there is the clock only")
    check_twins(*made)


@pytest.mark.parametrize("numbers", [*few_first(NUMBERS, 3), *LONG])
def test_random_scenarios_run_as_on_the_clock(numbers):
    made = [found for number in numbers if (found := random_scenario(number))]
    assert len(made) > len(numbers) / 4, "most have no prices"
    for plan, draws in made:
        check_twins(plan, draws)


def test_random_iterations_side_by_side_are_each_by_itself():
    """Of each plan and of one whose exchanges take other times, with all workers alike and with three sets of draws."""
    points, rng = [], np.random.default_rng(0)
    for plan, _ in (found for number in range(60) if (found := random_scenario(number))):
        seconds = plan.prices.seconds * rng.uniform(0.2, 5, plan.prices.seconds.shape)
        workers = plan.wiring.layout.workers
        draws = [Draws(1 + 0.3 * rng.random(workers), rng.standard_normal(workers)) for _ in range(3)]
        plans = plan, replace(plan, prices=replace(plan.prices, seconds=seconds))
        points += [(each, own) for each in plans for own in (ALIKE, *draws)]
    assert len(points) > 150
    alone = [figures(run_point(*point)) for point in points]
    assert [figures(each) for each in run_points(points)] == alone
    assert [figures(each) for each in run_points(points[::-1])] == alone[::-1]


def test_the_terms_of_every_random_iteration_add_up_to_its_time():
    made = [found for number in range(60, 120) if (found := random_scenario(number))]
    assert len(made) > 15, "most have no prices"
    for iteration in run_points([(plan, each) for plan, draws in made for each in draws]):
        assert math.fsum(iteration.breakdown.values()) == pytest.approx(iteration.time, rel=1e-9, abs=1e-15)
        assert min(iteration.breakdown.values()) >= -1e-12 * iteration.time
