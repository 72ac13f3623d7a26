"""PyTorch DDP on V100 with two sizes of buckets, of which no row was fitted (pytorch, benchmarks/distributed/ddp)."""

import pytest
from places import ROOT

from simulator.prediction.run import time_batch
from simulator.studies.validate.measured_rows import read_measured


@pytest.fixture(scope="module")
def rows():
    """Scenario, predicted and measured seconds of every row, by model, bucket and GPUs."""
    made = {}
    samples = read_measured([ROOT / "scenarios" / "validation" / "ddp-v100" / "rows.csv"]).samples
    for scenario, seconds in zip(samples, time_batch(samples), strict=True):
        key = (scenario.workload.name, scenario.scheduler.bucket_size, scenario.cluster.workers)
        made[key] = seconds, scenario.measured.iteration_time
    return made


def test_copies_alone_explain_what_ddp_costs_on_one_gpu(rows):
    alone = [(predicted, measured) for (_, _, workers), (predicted, measured) in rows.items() if workers == 1]
    assert len(alone) == 4 and max(abs(predicted / measured - 1) for predicted, measured in alone) < 0.01


def test_small_buckets_are_slower_on_every_number_of_gpus_as_measured(rows):
    pairs = [
        (rows[model, bucket, workers], rows[model, 25 * 2**20, workers])
        for model, bucket, workers in rows
        if bucket == 2**20
    ]
    assert len(pairs) == 10 and all(small[0] > large[0] and small[1] > large[1] for small, large in pairs)


def test_iterations_but_those_of_a_full_node_are_within_four_percent(rows):
    off = {key: abs(predicted / measured - 1) for key, (predicted, measured) in rows.items()}
    assert sum(error < 0.04 for error in off.values()) >= 17
    assert max(error for (_, _, workers), error in off.items() if workers != 8) < 0.04 and max(off.values()) < 0.06
