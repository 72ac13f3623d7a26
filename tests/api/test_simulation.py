"""`simulation`: with nothing added it gives the times of `run`."""

import pytest

from simulator.api.result import run
from simulator.api.simulating import simulation
from simulator.errors import InputError
from simulator.scenario.reading import load


@pytest.mark.parametrize(
    ("name", "iterations"),
    [
        ("quickstart", 3), ("slow_links", 2), ("two_jobs", 2), ("straggler", 1), ("mixed_gpus", 1), ("priority_p3", 1),
        ("priority_bytescheduler", 1), ("ps_incast", 1), ("ps_colocated", 1), ("failover", 1), ("oversubscription", 1),
    ],
)  # fmt: skip
def test_nothing_added_takes_the_time_of_run(name, iterations):
    period = load(name).scheduler.period
    counted = simulation(name, iterations=iterations).run()
    assert len(counted) == iterations
    assert {iteration.steps for iteration in counted} == {period.steps if period else 1}
    mean = sum(iteration.time / iteration.steps for iteration in counted) / len(counted)
    result = run(name, intervals="none", iterations=iterations, keep_iterations=True)
    assert mean == pytest.approx(result.iteration_time, rel=1e-12)
    assert {iteration.steps for iteration in result.iterations} == {iteration.steps for iteration in counted}


@pytest.mark.parametrize("messages", [False, True])
def test_what_was_measured_moves_it_as_it_moves_run(messages):
    job = load("quickstart", {"sparsifier": "dense", "measured": {"iteration_time": 0.4, "source": "a timer"}})
    changes = {"cluster.nodes": 2, "iterations": 1, "warmup": 0}
    (iteration,) = simulation(job, messages, **changes).run()
    flows = {"fidelity": "flows"} if messages else {}
    expected, free = (
        run(job, intervals="none", **changes, **flows, **known).iteration_time for known in ({}, {"measured": None})
    )
    assert iteration.time == pytest.approx(expected, rel=1e-12) and expected != pytest.approx(free, rel=1e-3)


@pytest.mark.long
def test_a_link_that_fails_does_so_once_in_all_iterations():
    first, second = simulation("failover", iterations=2).run()
    (alone,) = simulation("failover", iterations=1).run()
    assert first.time == pytest.approx(alone.time, rel=1e-12) and second.time != pytest.approx(alone.time, rel=1e-3)


@pytest.mark.parametrize("name", ["ring_check", "ps_incast"])
def test_with_messages_it_takes_the_time_of_flows(name):
    alike = {"iterations": 1, "warmup": 0}
    (iteration,) = simulation(name, messages=True, **alike).run()
    expected = run(name, intervals="none", fidelity="flows", **alike).iteration_time
    assert iteration.time == pytest.approx(expected, rel=1e-12)


def test_every_gpu_is_a_worker_and_links_are_there_where_messages_are_followed():
    opened = simulation("quickstart")
    cluster = load("quickstart").cluster
    assert [worker.number for worker in opened.workers] == list(range(cluster.workers))
    assert opened.workers[-1].node == cluster.nodes - 1 and opened.network is None
    assert "node 0 NIC out" in simulation("quickstart", messages=True).network.names


def test_a_wrong_scenario_is_refused():
    with pytest.raises(InputError, match="did you mean 'quickstart'"):
        simulation("quickstrt")
    with pytest.raises(InputError, match=r"scenario '.*': "):
        simulation("quickstart", **{"cluster.links": [{"link": "node 0 NC", "factor": 0.5}]})
