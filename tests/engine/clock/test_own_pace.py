"""Workers that differ and push to servers: each starts when it is ready itself, by hand.

A server of 4 MB/s takes 1 s for what a worker pushes of a million elements, and 1 s for what it sends back.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_heterogeneity import ONE, PAIRS, card, mapping
from worked_scenarios import exact

from simulator.engine.clock import workers as own_pace
from simulator.prediction.draws import draw_differences
from simulator.prediction.run import run
from simulator.scenario.reading import load
from simulator.scenario.scenario import Scenario

SERVERS = {"kind": "parameter_server", "servers": 1, "local_aggregation": False}


def prediction(layers=ONE, topology=SERVERS, **parts):
    made = run(Scenario.model_validate(mapping(layers, topology=topology, **parts)))
    assert sum(made.document["breakdown_s"].values()) == exact(made.document["iteration_time_s"])
    return made


def document(*args, **parts):
    return prediction(*args, **parts).document


def slow(factors):
    return {"slow": [{"worker": number, "factor": factor} for number, factor in enumerate(factors)]}


def queue_end(starts, service):
    """When the last of some jobs leaves a single server that is never idle while one waits (Lindley 1952)."""
    end = 0.0
    for start in sorted(starts):
        end = max(end, start) + service
    return end


@given(st.lists(st.floats(0.1, 5), min_size=2, max_size=5), st.sampled_from(["auto", "flows"]))
def test_pushes_that_start_apart_end_as_a_queue_at_the_server(factors, fidelity):
    """Each worker computes for 2 s times its factor. However rates are shared, the server's NIC is never idle.

    Then all pull at once.
    """
    made = document(nodes=len(factors), stragglers=slow(factors), fidelity=fidelity)
    assert made["iteration_time_s"] == exact(queue_end([2 * factor for factor in factors], 1.0) + len(factors) * 1.0)


def test_a_fast_worker_pushes_while_the_slow_one_computes():
    """Ready at 2 and 3: pushed at 3 and 4, pulled at 6; from the slowest's time on it would be 3 + 2 + 2."""
    made = document(stragglers=slow([1, 1.5]))
    assert made["iteration_time_s"] == exact(6)
    assert made["breakdown_s"]["idle"] == exact(0.5)  # the mean over both of what they wait for the slow one's compute
    assert (made["breakdown_s"]["communication_exposed"], made["waiting_s"]) == (exact(3), 0)


def test_a_collective_still_waits_for_the_slowest():
    assert document(stragglers=slow([1, 1.5]), topology="ring")["iteration_time_s"] == exact(3 + 1)


def test_gpus_that_sum_inside_their_node_push_when_the_slowest_of_the_node_is_ready():
    """Two nodes of two, no time inside them: ready at 4 and 2 s, pushed by 3 and 5, pulled two times 1 s later."""
    parts = {"gpus_per_node": 2, "network": {"intra_node": {"bandwidth": "1e15 B/s", "latency": 0}}}
    made = document(topology=SERVERS | {"local_aggregation": True}, stragglers=slow([1, 2, 1, 1]), **parts)
    assert made["iteration_time_s"] == pytest.approx(5 + 2, rel=1e-6)


@pytest.mark.parametrize(("gpus", "lost"), [(1, 0), (2, 1)])
def test_compute_is_slower_beside_kernels_inside_a_node_and_not_while_hosts_push_and_pull(gpus, lost):
    """From 1 s on two GPUs of a node sum for 1 s, which half of a second of compute takes, servers have 2 s for what
    both nodes push and 2 s for what they pull, and the GPUs gather for 1 s. One GPU a node has no kernels for that."""
    parts = {"gpus_per_node": gpus, "network": {"intra_node": {"bandwidth": "2 MB/s", "latency": 0}}}
    runtime = {"name": "slowed", "compute_slowdown": 1.0}
    made = document([(1e-6, 0, 9), (1, 0, 1)], SERVERS | {"local_aggregation": True}, runtime=runtime, **parts)
    assert made["breakdown_s"]["slowdown"] == pytest.approx(lost, rel=1e-5)
    assert made["breakdown_s"]["backward"] == exact(10)


def test_another_gpu_pushes_later():
    """Selection takes 1 s on one and 3 s on the other: ready at 3 and 5; half as pairs is as much as dense."""
    made = document(
        sparsifier=PAIRS,
        gpu=card("fast", topk=1),
        other_gpus=[{"nodes": [1], "gpu": card("slow", topk=3), "factor": 1}],
    )
    alone = document(sparsifier=PAIRS, gpu=card("slow", topk=3), nodes=2)
    assert made["iteration_time_s"] < alone["iteration_time_s"] - 0.9


def test_hosts_launch_each_by_itself():
    """A launch of 0.25 s before each push: 2.25 and 3.25 instead of 2 and 3."""
    runtime = {"name": "launched", "collective_launch": "0.25 s"}
    assert document(stragglers=slow([1, 1.5]), runtime=runtime)["iteration_time_s"] == exact(6.25)


@pytest.mark.parametrize("kind", ["priority", "wfbp"])
@given(factors=st.lists(st.floats(0.5, 2), min_size=2, max_size=4), layers=st.integers(1, 3))
def test_nobody_is_slower_than_if_all_waited(kind, factors, layers):
    """Nor faster than if all were as fast as the fastest."""
    parts, tensors = {"nodes": len(factors), "scheduler": kind}, [(1, 0.5, 0.5)] * layers
    made = document(tensors, stragglers=slow(factors), **parts)["iteration_time_s"]
    both = [
        document(tensors, stragglers=slow([factor] * len(factors)), **parts)["iteration_time_s"]
        for factor in (min(factors), max(factors))
    ]
    assert both[0] * (1 - 1e-9) <= made <= both[1] * (1 + 1e-9)


def test_it_does_not_matter_which_worker_is_slow_nor_how_many_are_alike():
    times = {
        document(nodes=4, stragglers={"slow": [{"worker": number, "factor": 2}]})["iteration_time_s"]
        for number in range(4)
    }
    assert max(times) == exact(min(times))
    np.testing.assert_allclose(list(times), 6 + 4)  # the server is busy from 2 to 6


def test_with_jitter_each_iteration_is_that_of_its_draws():
    made = prediction(nodes=3, stragglers={"jitter": 0.3}, iterations=20)
    draws = list(draw_differences(made.scenario, made.plan, consecutive=False))
    ends = [queue_end(2 * each.compute, 1.0) + 3 for each in draws]
    assert len(draws) == 20
    assert made.document["iteration_time_s"] == exact(np.mean(ends))


@pytest.mark.long
def test_too_many_pushes_start_with_the_slowest_and_the_result_says_so(monkeypatch):
    changes = ("cluster.nodes=4", "cluster.stragglers.jitter=0.2", "iterations=5", "topology=parameter_server")
    own = run(load("quickstart", changes)).document
    monkeypatch.setattr(own_pace, "_MOST_PUSHES", 1)
    together = run(load("quickstart", changes)).document
    assert "too many to be followed" not in own["fidelity"]["reason"]
    assert "workers that differ push with the slowest of them" in together["fidelity"]["reason"]
    assert (own["waiting_s"], together["waiting_s"] > 0) == (0, True)
