"""What a prediction costs beside its simulation: `pytest tests/benchmarks/test_prediction_speed.py -o addopts=`.

Bars are ratios to a fixed loop in the same process, which takes about 0.1 ms, so that a noisy machine does not decide.
"""

import math
import time
from functools import partial

import numpy as np
from places import ROOT

from simulator.loading.documents import parse_document
from simulator.prediction.run import _describe, run, with_responses
from simulator.prediction.simulated import simulate_batch
from simulator.scenario.changes import with_value, without_randomness
from simulator.scenario.reading import load, scenario_of
from simulator.studies.storage.row_table import row_of


def fixed_loop():
    return math.fsum(math.exp(-number / 1000) for number in range(1000))


def fastest(work, rounds=7):
    """The least CPU seconds of several rounds."""
    best = math.inf
    for _ in range(rounds):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def loops(work, points):
    """CPU seconds of each point over those of the fixed loop."""
    each, loop = fastest(work) / points, fastest(lambda: [fixed_loop() for _ in range(20)]) / 20
    print(f"\n{1e3 * each:.3f} ms a point, {each / loop:.1f} fixed loops", end="")
    return each / loop


def bandwidths(count):
    scenario = without_randomness(load("quickstart"))
    return [with_value(scenario, "cluster.network.bandwidth", rate) for rate in np.geomspace(1e8, 1e10, count).tolist()]


def test_what_is_said_of_a_point_of_100_bandwidths_takes_6_fixed_loops():
    simulated = simulate_batch(bandwidths(100))
    described = partial(_describe, simulated, True, [None] * len(simulated))
    assert loops(lambda: [row_of(made.result_without_lists) for made in described()], 100) <= 6


def test_both_ends_of_every_input_take_5_runs():
    scenario = load("quickstart")
    made = run(scenario)
    responses, single = fastest(lambda: with_responses(made)), fastest(lambda: run(scenario).document)
    print(f"\n{1e3 * responses:.1f} ms for both ends of all inputs, {1e3 * single:.1f} ms for a run", end="")
    assert responses <= 5 * single


def test_a_scenario_of_named_parts_is_built_in_6_fixed_loops():
    """Its document is parsed before; the files that it names are read, and looked at for changes, each time."""
    text = (ROOT / "scenarios" / "quickstart.yaml").read_text()
    documents = [parse_document(f"{text}\nseed: {seed}\n", "scenario.yaml") for seed in range(50)]
    built = [scenario_of(item.data, item, None) for item in documents]
    assert len({item.digest for item in built}) == len(built)
    assert loops(lambda: [scenario_of(item.data, item, None) for item in documents], len(documents)) <= 6
