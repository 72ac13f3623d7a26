"""Where compute hides the dense exchange no method pays, whatever its kernels cost, and no measurement is asked for."""

from random import Random

import pytest
from long_examples import few_first
from small_advice import LAYERS, scenario

from simulator.scenario.changes import with_value
from simulator.scenario.named_parts import read_gpu, read_runtime
from simulator.studies.advice.advice import advise
from simulator.studies.advice.candidates import Candidate, Grid

RUNTIMES = ("pytorch-ddp", "horovod-0.19", "ideal")
GPUS = ("v100", "a100", "h100", "rtx2080ti")
METHODS = ({"kind": "topk", "density": 0.01}, {"kind": "randomk", "density": 0.001}, {"kind": "powersgd"})


def hidden(number):
    """A small model on a fast network: its backward pass hides all but a small last bucket."""
    random = Random(number)
    layers = [dict(each, backward=each["backward"] * random.uniform(2, 5)) for each in LAYERS]
    own = random.choice(("dense", *METHODS))
    spec = scenario(
        bandwidth=10 ** random.uniform(10.7, 12),
        latency=10 ** random.uniform(-7, -6),
        gpu=read_gpu(f"gpus/{random.choice(GPUS)}"),
        layers=layers,
        sparsifier=own,
        cluster={"nodes": random.choice((2, 4))},
        scheduler=random.choice(("wfbp", "bucketed")),
    )
    spec = with_value(spec, "cluster.runtime", read_runtime(f"runtimes/{random.choice(RUNTIMES)}"))
    dense = Candidate({"kind": "dense"}) if own != "dense" else Candidate()
    methods = (Candidate(), dense, *(Candidate(each) for each in METHODS if each != own))
    return spec, Grid(tuple(dict.fromkeys(methods)), (None,), (None,))


@pytest.mark.parametrize("number", few_first(range(50), 4))
def test_nothing_pays_and_nothing_is_measured_where_the_dense_exchange_is_hidden(number):
    spec, grid = hidden(number)
    made = advise(spec, grid=grid, processes=1, whole=False)
    terms = made.dense.breakdown
    exposed = terms["communication_exposed"] + terms["slowdown"]
    assert exposed <= 0.01 * made.dense.iteration_time  # what the question is about
    assert made.verdict in ("no", "alike") and made.value_of_information == []
    assert "easure" not in made.summary.do + made.summary.gain + made.summary.change


def test_where_it_is_not_hidden_the_answer_is_that_of_the_methods():
    spec, grid = hidden(1)
    made = advise(with_value(spec, "cluster.network.bandwidth", 1e7), grid=grid, processes=1, whole=False)
    assert made.verdict in ("yes", "undecided")
