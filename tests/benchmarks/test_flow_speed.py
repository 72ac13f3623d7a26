"""Speed bars of contention and scale, on the median: `pytest tests/benchmarks -o addopts=`. One free core of a laptop.

Figures of others for the same questions: ASTRA-sim 23-36 s for the 54 buckets; SimGrid 4.1 18.5 s
for the push and 8.7 s for the ring with random compute.
"""

import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import simpy

from simulator.engine.rounds.compiled_loop import load_library
from simulator.engine.rounds.equivalence_classes import structure
from simulator.engine.rounds.fold import fold
from simulator.engine.rounds.network import Network, follow_flows
from simulator.fabrics.single_switch import SingleSwitch
from simulator.models.exchange import Layout, Round
from simulator.prediction.run import run
from simulator.scenario.reading import load
from simulator.topologies.parameter_server import ParameterServer
from simulator.topologies.ring import Ring

FABRIC = SingleSwitch(bandwidth=1.25e9, latency=50e-6)
MIB = 2.0**20


def median(benchmark):
    """Seconds."""
    return float(benchmark.stats.stats.median)


@pytest.mark.parametrize("layout", [Layout(256, 1), Layout(64, 4)], ids=["256x1", "64x4"])
def test_54_buckets_over_256_workers_flow_in_a_second(benchmark, layout):
    wiring, sizes = FABRIC.wire(layout), 25 * MIB + np.arange(54.0)
    rounds, ready = Ring().all_reduce(sizes, layout), np.zeros(layout.places)
    times = benchmark.pedantic(lambda: follow_flows(rounds, wiring, ready).max(axis=1), rounds=3)
    np.testing.assert_allclose(times, fold(rounds, wiring, ready).max(axis=1), rtol=1e-9)
    assert median(benchmark) <= 1.0


def pushed(tensors, start, workers=1024):
    """Seconds until one server has what every worker pushes, tensor after tensor."""
    topology = ParameterServer(servers=1)
    layout = topology.layout(workers, 1)
    wiring = FABRIC.wire(layout)
    push = [topology.push_pull(np.array([size]), np.array([size]), layout)[0] for size in tensors]
    env = simpy.Environment()
    network = Network(env, wiring, [structure(rounds)[0] for rounds in push], colours=start)
    transfers = [network.start(structure(rounds), start) for rounds in push]
    env.run()
    assert all(transfer.left == 0 for transfer in transfers)
    return env.now


def pushed_apart(workers):
    """The end of a push in which no two workers are alike, 50 messages of each, and its processor seconds."""
    tensors = np.random.default_rng(0).uniform(1e4, 1e7, 50)
    began = time.process_time()
    end = pushed(tensors, np.random.default_rng(1).uniform(0, 1e-3, workers + 1), workers)
    seconds = time.process_time() - began
    assert end >= workers * tensors.sum() / FABRIC.bandwidth
    return end, seconds


def test_push_of_50_tensors_from_1024_workers_in_2_seconds(benchmark):
    tensors = np.random.default_rng(0).uniform(1e4, 1e7, 50)
    seconds = benchmark.pedantic(pushed, args=(tensors, np.zeros(1025)), rounds=3)
    assert seconds == pytest.approx(1024 * tensors.sum() / FABRIC.bandwidth + FABRIC.latency, rel=1e-9)
    assert median(benchmark) <= 2.0


@pytest.mark.parametrize(("workers", "bar", "mebibytes"), [(1024, 1.2, 200), (16384, 60.0, 1024)])
def test_push_from_workers_that_start_apart(workers, bar, mebibytes):
    """No two workers alike: each of their messages is followed by itself. In a process of its own, for its memory."""
    code = f"from test_flow_speed import pushed_apart; import resource; print(pushed_apart({workers})[1], "
    code += "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    run_it = [sys.executable, "-c", code]
    made = subprocess.run(run_it, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    seconds, used = map(float, made.stdout.split())
    print(f"{workers:,} workers apart: {seconds:.2f} s, {used:.0f} MiB")
    assert seconds <= bar
    assert used <= mebibytes


@pytest.mark.skipif(load_library() is None, reason="not compiled here: python hatch_build.py")
def test_the_compiled_loop_is_faster_than_the_reference(monkeypatch):
    """A ratio in one run, so that a noisy machine does not decide; the ends are the same to the last bit."""
    fast = min(pushed_apart(512) for _ in range(3))
    monkeypatch.setattr("simulator.engine.rounds.compiled_loop.load_library", lambda: None)
    slow = pushed_apart(512)
    print(f"512 workers apart: compiled {fast[1]:.3f} s, reference {slow[1]:.3f} s, {slow[1] / fast[1]:.1f} times")
    assert slow[0] == fast[0]
    assert slow[1] >= 5 * fast[1]


def test_a_ring_with_random_compute_over_1024_workers_in_100_ms(benchmark):
    layout = Layout(1024, 1)
    wiring, rounds = FABRIC.wire(layout), Ring().all_reduce(np.array([1e8]), layout)
    ready = np.random.default_rng(0).uniform(0, 0.1, 1024)
    times = benchmark(lambda: fold(rounds, wiring, ready))
    stepped = [Round(item.src, item.dst, item.nbytes) for item in rounds for _ in range(item.repeat)]
    np.testing.assert_allclose(times, fold(stepped, wiring, ready), rtol=1e-9)
    assert median(benchmark) <= 0.1


def test_16384_workers_with_jitter_in_5_seconds(benchmark):
    changes = ("cluster.nodes=2048", "cluster.gpus_per_node=8", "topology=hierarchical", "sparsifier=dense")
    changes += ("cluster.stragglers.jitter=0.02", "iterations=1", "warmup=0")
    scenario = load("quickstart", changes)
    result = benchmark.pedantic(run, args=(scenario,), rounds=3)
    assert result.document["workers"] == 16384
    assert result.document["idle_s"]["waiting_for_slowest"] > 0
    assert median(benchmark) <= 5.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 <= 1 * 2**30


@pytest.mark.parametrize("workers", [256, 1024, 4096, 16384])
def test_cost_of_the_fold_in_workers(benchmark, workers):
    layout = Layout(workers, 1)
    wiring, rounds = FABRIC.wire(layout), Ring().all_reduce(np.array([1e8]), layout)
    benchmark(lambda: fold(rounds, wiring, np.zeros(workers)))
    assert benchmark.stats.stats.min <= 2e-6 * workers + 5e-4  # linear in workers


@pytest.mark.parametrize("workers", [256, 1024, 4096])
def test_cost_of_flows_in_workers(benchmark, workers):
    layout = Layout(workers, 1)
    wiring, rounds = FABRIC.wire(layout), Ring().all_reduce(np.array([1e8]), layout)
    benchmark.pedantic(lambda: follow_flows(rounds, wiring, np.zeros(workers)), rounds=3)
    assert benchmark.stats.stats.min <= 2e-5 * workers + 5e-3  # linear while workers are alike
