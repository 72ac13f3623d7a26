"""Data loading that the GPUs of a node share, by hand: forward and backward take 1 s each.

A million elements between two GPUs of one node at 4 MB/s without start-up: an all-reduce takes 1 s.
"""

import pytest
from small_scenarios import small_scenario

from simulator.prediction.run import plan_of, run


def made(gpus=2, loading=None, nodes=1, scheduler="wfbp", links=(), **workload):
    layers = [{"name": "a", "numel": 1_000_000, "forward": 1.0, "backward": 1.0}]
    network = {"bandwidth": 4e6, "intra_node": {"bandwidth": 4e6, "latency": 0}}
    cluster = {"gpus_per_node": gpus, "links": links, **({"loading": loading} if loading else {})}
    workload = {"batch_size": 6, "layers": layers, **workload}
    return small_scenario(workload, {"name": "ideal", "ideal": True}, network, nodes, cluster, scheduler=scheduler)


@pytest.mark.parametrize(
    ("prefetched", "rate", "gpus", "waits"),
    [
        (False, 4, 1, 1.5),
        (False, 4, 2, 3.0),  # twelve samples for two GPUs
        (True, 6, 2, 0.0),  # 2 s of loading pass while an iteration of 3 s runs
        (True, 3, 2, 1.0),
        (True, 2, 1, 1.0),  # 3 s of loading, 2 s of compute
    ],
)
def test_the_gpus_of_a_node_share_its_rate(prefetched, rate, gpus, waits):
    found = run(made(gpus, {"rate": rate, "prefetched": prefetched}))
    rest = 2.0 + (gpus > 1)
    assert found.document["iteration_time_s"] == pytest.approx(rest + waits, rel=1e-9)
    assert found.document["idle_s"]["data_loading"] == pytest.approx(waits, abs=1e-9)
    assert sum(found.document["breakdown_s"].values()) == pytest.approx(rest + waits, rel=1e-9)
    alone = 2 + (max(0, 6 / rate - 2) if prefetched else 6 / rate)
    assert plan_of(made(gpus, {"rate": rate, "prefetched": prefetched})).single_gpu_time == pytest.approx(alone)


def test_each_node_has_a_loader_of_its_own_and_the_workloads_own_wait_comes_on_top():
    two = run(made(1, {"rate": 6, "prefetched": False}, nodes=2, input_time=0.5)).document
    assert two["iteration_time_s"] == pytest.approx(3 + 1 + 0.5, rel=1e-9)


@pytest.mark.parametrize("rate", [1, 3, 4, 6])
@pytest.mark.parametrize("scheduler", ["priority", "tictac", "decoupled"])
def test_exchanges_that_go_on_while_an_iteration_waits_do_not_make_it_shorter_than_the_loading(scheduler, rate):
    """All of the exchange's 1 s is under way while the iteration waits for its data."""
    found = run(made(2, {"rate": rate, "prefetched": True}, scheduler=scheduler)).document
    assert found["iteration_time_s"] == pytest.approx(max(3.0, 12 / rate), rel=1e-9)
    assert sum(found["breakdown_s"].values()) == pytest.approx(found["iteration_time_s"], rel=1e-9)


def test_a_wait_beside_a_link_that_is_down_makes_no_iteration_longer_until_the_link_is_back():
    """Ready after 2 s, the exchange starts at 9 s and takes 1 s between two nodes: the batches are there at 10.1 s."""
    down = [{"link": "node 1", "factor": 0, "until": "9 s"}]
    found = run(made(1, {"rate": 6 / 10.1, "prefetched": True}, nodes=2, links=down)).document
    assert found["iteration_time_s"] == pytest.approx(10.1, rel=1e-9)
    assert found["idle_s"]["data_loading"] == pytest.approx(7.1, rel=1e-9)
