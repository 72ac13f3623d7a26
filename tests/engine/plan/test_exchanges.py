"""Exchanges of buckets do not depend on the GPU, and are made once for several of them."""

from simulator.engine.plan.work import exchanges
from simulator.prediction.run import run
from simulator.prediction.simulated import simulate_scenario
from simulator.scenario.reading import load


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
