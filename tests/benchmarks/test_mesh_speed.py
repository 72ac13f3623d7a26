"""Speed of meshes: `pytest tests/benchmarks/test_mesh_speed.py -o addopts=`. All bars are ratios in one process."""

import gc
import time

import pytest

from simulator.models.small_cache import LatestResults
from simulator.prediction.run import run
from simulator.scenario.reading import load


def seconds(name, *overrides, rounds=5):
    """The least CPU seconds of several runs, each with nothing remembered but what scenarios are read from."""
    scenario, best = load(name, ("versus=none", *overrides)), float("inf")
    for _ in range(rounds):
        for item in gc.get_objects():
            if isinstance(item, LatestResults):
                item.clear()
        began = time.process_time()
        run(scenario, intervals=False)
        best = min(best, time.process_time() - began)
    return best


def test_70_b_on_16384_gpus_takes_as_long_as_on_1024():
    """Ranks are not simulated one by one: only the numbers of the links grow."""
    few, many = (seconds("megatron_llama3_70b", f"cluster.nodes={nodes}") for nodes in (128, 2048))
    print(f"\n{1e3 * few:.0f} and {1e3 * many:.0f} ms")
    assert many <= 1.5 * few


@pytest.mark.parametrize("passes", [16, 64])
def test_micro_batches_without_exchanges_between_replicas_take_as_long_as_few(passes):
    few, many = (
        seconds("zero3_network", f"workload.batch_size={count}", f"workload.micro_batches={count}")
        for count in (4, passes)
    )
    print(f"\n{1e3 * few:.0f} and {1e3 * many:.0f} ms")
    assert many <= 1.5 * few
