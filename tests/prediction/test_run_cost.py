"""A run beside other jobs that would take minutes is refused before it starts."""

import time

import pytest
from small_inputs import SCENARIO

from simulator.errors import InputError
from simulator.loading.documents import parse_document
from simulator.prediction.run import run
from simulator.scenario.reading import load

WORKLOAD = "{batch_size: 1, layers: [{name: a, numel: 1, backward: 1 ms}]}"
OTHER = "{nodes: [0, 1], workload: %s, topology: ring, sparsifier: dense, scheduler: wfbp}"


def beside(other=WORKLOAD, **changes):
    data = parse_document(SCENARIO).data | {"iterations": 2, "warmup": 0, "sparsifier": "dense"}
    return load(data | {"other_jobs": [parse_document(OTHER % other).data]}, changes)


def test_a_short_run_beside_another_job_is_predicted():
    assert run(beside()).document["iteration_time_s"] > 1e-3


@pytest.mark.parametrize(
    "changes",
    [
        {"workload.input_time": 1e6},
        {"workload.input_time": 1000.0},
        {"workload.layers.0.backward": 1e3},
        {"cluster.network.bandwidth": 1e-3, "other_jobs.0.workload.layers.0.numel": 1},
    ],
    ids=str,
)
def test_a_long_iteration_beside_a_short_one_is_refused_with_the_reason(changes):
    began = time.process_time()
    with pytest.raises(InputError, match=r"exchanges of other jobs during this one, got about .* iterations of"):
        run(beside(**{"iterations": 20, **changes}))
    assert time.process_time() - began < 5


def test_a_neighbour_whose_iterations_take_next_to_no_time_is_refused():
    with pytest.raises(InputError, match="exchanges of other jobs"):
        run(beside(WORKLOAD.replace("1 ms", "1 ps"), **{"cluster.network.latency": 1e-12}))
