"""Exchanges of buckets do not depend on the GPU, and are made once for several of them."""

import pytest

from simulator.engine.plan.work import exchanges
from simulator.models.exchange import Bucket, Compute
from simulator.models.precision import Precision
from simulator.prediction.run import run
from simulator.prediction.simulated import simulate_scenario
from simulator.scenario.reading import load
from simulator.sparsifiers.dense import Dense
from simulator.sparsifiers.topk import TopK


def test_another_gpu_has_the_exchanges_of_the_first_one(monkeypatch):
    """Their prices differ; the selections are the very same objects."""
    monkeypatch.setattr(exchanges, "_known", exchanges.ResultsOfObjects(64))
    one, other = (
        simulate_scenario(load("quickstart", (f"cluster.gpu=gpus/{gpu}",))).plan.work for gpu in ("v100", "a100")
    )
    assert one.selections is other.selections
    assert one.kernels["topk"].seconds != other.kernels["topk"].seconds


def test_what_is_remembered_does_not_reach_another_method_or_precision(monkeypatch):
    """Each result is the one of a process that remembers nothing."""
    changes = "sparsifier=dense", "workload.precision.gradients=fp16", "cluster.nodes=2", "sparsifier.density=0.1"
    scenarios = [load("quickstart", asked) for asked in ((), *((change,) for change in changes))]
    for scenario, known in zip(scenarios, [run(scenario) for scenario in scenarios], strict=True):
        monkeypatch.setattr(exchanges, "_known", exchanges.ResultsOfObjects(64))
        assert run(scenario).document == known.document


@pytest.mark.parametrize(
    ("method", "formats", "steps"),
    [
        (TopK(density=0.01), ("bf16", "fp32", None), ["cast 10", "AllGather 20", "AllGather 40"]),
        (TopK(density=0.01), ("bf16", "fp32", "fp32"), ["AllGather 40", "cast 40", "AllGather 40"]),
        (TopK(density=0.01), ("fp32", "fp32", "bf16"), ["cast 10", "AllGather 20", "cast 40", "AllGather 40"]),
        (TopK(density=0.01), ("bf16", "bf16", None), ["AllGather 20", "AllGather 40"]),
        (Dense(), ("bf16", "fp32", None), ["AllReduce 2000"]),
        (Dense(), ("bf16", "fp32", "fp32"), ["cast 1000", "AllReduce 4000", "cast 1000"]),
        (Dense(), ("fp32", "fp32", "bf16"), ["cast 1000", "AllReduce 2000", "cast 1000"]),
    ],
)
def test_values_are_cast_from_what_a_worker_keeps_and_to_what_gradients_are(method, formats, steps):
    """Ten of 1,000 elements on each of four workers, with indices of 4 bytes; dense gradients have no residual."""
    gradients, residuals, travels = formats
    precision = Precision(gradients=gradients, residuals=residuals, **({"travels": travels} if travels else {}))
    bucket = exchanges.in_precision(Bucket(0, (1000,), 0, (0,)), precision)
    selection = method.expect(bucket, 4, 1.0)
    made = exchanges.steps_with_casts(method, selection, bucket, 4, "collective", precision=precision)[1]
    told = [
        f"{step.kernel} {step.elements[0]:g}" if isinstance(step, Compute) else f"{type(step).__name__} {step.nbytes:g}"
        for step in made
    ]
    assert [text for text in told if "scatter" not in text] == steps
