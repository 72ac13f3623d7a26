"""Speed bars, on the median: `pytest tests/benchmarks -o addopts=`. They assume one free core of a laptop."""

from itertools import count

import numpy as np
from pytest_benchmark.fixture import BenchmarkFixture
from validation_rows import row_of

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.prices import price_steps
from simulator.engine.rounds.fold import fold
from simulator.fabrics.single_switch import SingleSwitch
from simulator.models.exchange import AllReduce, Layout
from simulator.prediction.run import run, with_responses
from simulator.scenario.changes import with_value
from simulator.scenario.reading import load
from simulator.studies.compare.opponent import add_comparison
from simulator.topologies.ring import Ring

FABRIC = SingleSwitch(bandwidth=1.25e9, latency=50e-6)
MIB = 2.0**20


def median(benchmark: BenchmarkFixture) -> float:
    """Seconds."""
    return float(benchmark.stats.stats.median)


def test_a_ring_over_1024_workers_folds_in_20_ms(benchmark):
    layout, size = Layout(1024, 1), 1e8
    wiring, topology = FABRIC.wire(layout), Ring()

    def folded():
        return fold(topology.all_reduce(np.array([size]), layout), wiring, np.zeros(layout.places)).max()

    seconds = benchmark(folded)
    assert np.isclose(seconds, 2 * 1023 * (FABRIC.latency + size / (1024 * FABRIC.bandwidth)), rtol=1e-9)
    assert median(benchmark) <= 0.020


def test_54_buckets_over_256_workers_are_priced_in_50_ms(benchmark):
    layout = Layout(64, 4)
    wiring, topology = FABRIC.wire(layout), Ring()
    steps = [AllReduce(25 * MIB + index) for index in range(54)]
    uses = [(index, index) for index in range(54)]
    prices = benchmark(lambda: price_steps(steps, uses, NetworkSetup(topology, FABRIC, wiring)))
    assert prices.folded == 54
    assert (np.diff(prices.seconds) > 0).all()
    assert median(benchmark) <= 0.050


def test_resnet50_runs_500_scenarios_a_second(benchmark):
    """Every run has a bandwidth of its own, so that no answer is an old one."""
    scenario = row_of("rtx2080ti-10gbe-allreduce", "ResNet-50, WFBP, all-reduce, 32 GPUs on 10 GbE")
    network, numbers = scenario.cluster.network, count(1)

    def varied():
        changed = network.model_copy(update={"bandwidth": network.bandwidth * (1 + 1e-4 * next(numbers))})
        cluster = scenario.cluster.model_copy(update={"network": changed})
        return (scenario.model_copy(update={"cluster": cluster}),), {}

    result = benchmark.pedantic(run, setup=varied, rounds=300, warmup_rounds=5)
    assert result.document["iteration_time_s"] > 0
    assert median(benchmark) <= 1 / 500


def test_interval_verdict_and_value_of_information_of_a_folded_run_take_400_ms(benchmark):
    """With the search for the opponent; every round has a bandwidth of its own."""
    scenario, numbers = load("quickstart"), count(1)

    def plain():
        bandwidth = scenario.cluster.network.bandwidth * (1 + 1e-4 * next(numbers))
        return (run(with_value(scenario, "cluster.network.bandwidth", bandwidth), intervals=False),), {}

    def judged(prediction):
        made = with_responses(run(prediction.scenario))
        add_comparison(made, "quickstart")
        return made.document["comparison"]

    comparison = benchmark.pedantic(judged, setup=plain, rounds=10, warmup_rounds=1)
    assert comparison["value_of_information"]
    assert median(benchmark) <= 0.4
