"""Where all workers are alike, the slowest one does what each does, without its waits."""

import pytest
from worked_scenarios import worked

from examples import example
from simulator.component import discover
from simulator.engine.clock.run_points import run_point
from simulator.prediction.run import plan_of
from simulator.scenario.scenario import Scenario
from simulator.schedulers.base import Scheduler

KERNELS = {"elementwise": (1e-2, 1e-8), "topk": (2e-2, 1e-7), "scatter_add": (3e-2, 1e-7)}
CURVES = {name: {"curve": "affine", "intercept": start, "slope": slope} for name, (start, slope) in KERNELS.items()}
CARD = {"name": "card", "kernels": CURVES}
LAYERS = [(1, 0.2, 0.5), (0.6, 0.1, 0.3), (0.2, 0.3, 0.2)]
LOCAL = ("decoupled_diloco", "diloco", "local_sgd", "overlapped_diloco", "streaming_diloco")
KINDS = sorted(set(discover(Scheduler)) - {*LOCAL})


def shown(spans, stream="compute"):
    """What is computed, when and for which bucket, without waits and roundings."""
    kept = [span for span in spans if span.stream == stream and span.duration > 1e-9]
    return [
        (span.label, pytest.approx(span.start), pytest.approx(span.end), span.bucket)
        for span in sorted(kept, key=lambda span: span.start)
        if not span.label.startswith("waiting") and span.label != "kernels of an exchange"
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("method", ["dense", {"kind": "topk", "density": 0.1}], ids=["dense", "topk"])
def test_alike_workers_show_the_spans_of_the_slowest(kind, passes, method):
    if kind in ("fsdp", "megatron", "zero"):  # which exchange nothing that a method could choose from
        method = "dense"
    chosen = {"kind": "topk", "density": 0.1} if kind in ("lags", "omgs") else method
    workload, scheduler = {"batch_size": 2, "micro_batches": passes}, example(Scheduler, kind)
    parts = {"latency": 1e-3, "gpu": CARD, "workload": workload, "scheduler": scheduler, "sparsifier": chosen}
    plan = plan_of(Scenario.model_validate(worked(LAYERS, **parts)))
    iteration = run_point(plan)
    slowest, own = (shown(spans) for spans in (iteration.spans(), iteration.spans_of(1)))
    if plan.setup.scheduler.gated:  # a layer's parts belong to no single bucket
        slowest, own = ([item[:3] for item in each] for each in (slowest, own))
    assert {"forward", "backward", "update"} <= {item[0] for item in own}
    assert slowest == own
    assert shown(iteration.spans(), "communication") == shown(iteration.spans_of(1), "communication")
