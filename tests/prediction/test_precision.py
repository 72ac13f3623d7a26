"""What a precision changes in an iteration: the update, casts, buckets in bytes, and what the result says."""

import pytest
from pydantic import ValidationError

from simulator.models.precision import Precision
from simulator.prediction.run import plan_of, run
from simulator.scenario.scenario import Scenario

MEMORY = 1e11
CARD = {"name": "card", "kernels": {"elementwise": {"curve": "affine", "slope": 12 / MEMORY}}}
"""A GPU whose kernels move MEMORY bytes a second and start in no time."""
D = 3_000_000


def scenario(precision, sparsifier="dense", scheduler="sequential", workers=2, tensors=1, **changes):
    layer = {"numel": D // tensors, "forward": 0.01, "backward": 0.01 / tensors}
    made = {
        "workload": {
            "batch_size": 1,
            "layers": [{"name": str(number), **layer} for number in range(tensors)],
            "precision": precision,
        },
        "cluster": {
            "nodes": workers,
            "gpu": CARD,
            "network": {"kind": "single_switch", "bandwidth": 1e9},
            "runtime": {"host_read": 1e-5},
        },
        "topology": "ring",
        "sparsifier": sparsifier,
        "scheduler": scheduler,
    }
    made["workload"] |= changes
    return Scenario.model_validate(made)


@pytest.mark.parametrize(
    ("precision", "per_element", "reads"),
    [
        ("fp32", 20, 0),
        ("bf16", 6 + 20 + 6, 0),  # gradients become fp32, the optimiser's step, weights back to 16 bits
        ("fp16", 6 + 20 + 6, 1),  # the same, as gradients are checked and unscaled on their way to fp32
        ({"gradients": "bf16", "master_weights": False}, 10, 0),
        ({"gradients": "fp16", "master_weights": False}, 4 + 10, 1),
        ({"gradients": "fp32", "loss_scaling": True}, 8 + 20, 1),  # torch.autocast: gradients and weights are fp32
    ],
)
def test_the_update_moves_the_bytes_of_its_precision(precision, per_element, reads):
    """A fused step of SGD with momentum reads and writes 20 bytes per element in fp32."""
    result = run(scenario(precision, workers=1, optimiser={"kind": "momentum", "implementation": "fused"})).document
    assert result["breakdown_s"]["update"] == pytest.approx(per_element * D / MEMORY + reads * 1e-5, rel=1e-9)


@pytest.mark.parametrize(
    ("precision", "cast"),
    [("fp32", 0), ("bf16", 0), ({"travels": "bf16"}, 2 * D), ({"gradients": "fp16", "travels": "fp32"}, 2 * D)],
)
def test_gradients_are_cast_before_and_after_an_exchange_in_another_format(precision, cast):
    """One all-reduce over two workers sends each element once; a cast moves six bytes per element."""
    spec = scenario(precision)
    result, sent = run(spec).document, spec.workload.precision.value_bytes * D
    assert result["traffic"]["sent_bytes_per_worker"] == sent
    assert result["communication_total_s"] == pytest.approx(sent / 1e9)
    assert result["breakdown_s"]["combine"] == pytest.approx(6 * cast / MEMORY)


@pytest.mark.parametrize(
    ("sparsifier", "before", "after"),
    [
        ({"kind": "topk", "density": 0.01}, 0.01 * D, 4 * 0.01 * D),
        ({"kind": "topk", "density": 0.01, "exchange_by": "union_all_reduce"}, 0.01 * D, 0.01 * D),
        ({"kind": "oktopk", "density": 0.01}, 0.01 * D + 0.01 * D / 4, 0.01 * D + 0.01 * D),
        ({"kind": "powersgd", "rank": 1}, 1600 + 1875, 1600 + 1875),
        ("qsgd", 0, 0),
    ],
)
def test_methods_cast_the_values_that_they_send(sparsifier, before, after):
    """Values of fp32 that travel in fp16: what a worker sends, then what it is given; identical selections, K = k.

    Gradients in fp16 with a residual in fp32 are cast once, before they are sent.
    """
    change = {"workers": 4, "sparsifier": sparsifier}
    for precision, elements in (({"travels": "fp16"}, before + after), ("fp16", before)):
        spec = scenario(precision, **change).model_copy(update={"overlap_concentration": 0.0})
        used = plan_of(spec).work.kernels.get("cast")
        assert (used.seconds if used else 0) == pytest.approx(6 * elements / MEMORY, rel=1e-6)


def test_limits_in_bytes_hold_more_elements_of_16_bits():
    """DDP counts the bytes of gradients; Horovod, and slices of a partition, what travels."""
    ddp = {"kind": "bucketed", "bucket_size": 4e5, "first_bucket": 4e5}
    horovod = {"kind": "bucketed", "rule": "horovod", "bucket_size": 4e5, "cycle_time": 1.0}
    sliced = {"kind": "priority", "partition": 4e5}
    for name, counts in {"fp32": (30, 30, 30), "bf16": (15, 15, 15), "travels": (30, 15, 15)}.items():
        precision = {"travels": "bf16"} if name == "travels" else name
        plans = [
            plan_of(scenario(precision, scheduler=ddp, tensors=300)),
            plan_of(scenario(precision, scheduler=horovod, tensors=300)),
            plan_of(scenario(precision, scheduler=sliced)),
        ]
        assert tuple(len(plan.work.buckets) for plan in plans) == counts


def test_a_scheduler_by_costs_plans_for_one_worker_in_any_precision():
    sparsifier = {"kind": "topk", "density": 0.01}
    assert len(plan_of(scenario("fp16", sparsifier, "lags", workers=1, tensors=3)).work.buckets) == 3


def test_the_result_says_the_precision_and_that_times_are_those_of_another():
    result = run(scenario("bf16")).document
    assert result["precision"] == "bf16"
    assert [text for text in result["warnings"] if "measured_precision: bf16" in text]
    measured = run(scenario({"gradients": "bf16", "travels": "fp32"}, measured_precision="bf16")).document
    assert measured["precision"] == "bf16 sent as fp32"
    assert not [text for text in measured["warnings"] if "measured_precision" in text]


def test_a_curve_that_was_measured_in_fp32_says_that_it_is_scaled():
    """bf16 gradients on an fp32 residual: 10 of 12 bytes, so that n elements take what 10/12 n take in fp32."""
    curve = {"curve": "affine", "intercept": 1e-5, "slope": 1e-9, "range": (1e3, 1e7)}
    spec = scenario("bf16", {"kind": "topk", "density": 0.01})
    gpu = spec.cluster.gpu.model_validate({"name": "card", "kernels": {"residual_add": curve, "topk": curve}})
    changed = spec.model_copy(update={"cluster": spec.cluster.model_copy(update={"gpu": gpu})})
    assert plan_of(changed).work.kernels["residual_add"].seconds == pytest.approx(1e-5 + 1e-9 * D * 10 / 12)
    assert plan_of(changed).work.kernels["topk"].seconds == pytest.approx(1e-5 + 1e-9 * D)
    result = run(changed).document
    assert {"kernel residual_add, scaled from fp32", "kernel topk"} < {item["what"] for item in result["calibration"]}
    assert [text for text in result["warnings"] if text.startswith("measured in fp32 on card, and scaled")]


def test_two_16_bit_formats_at_once_are_refused_and_names_must_be_known():
    with pytest.raises(ValidationError, match="one 16-bit format"):
        Precision(gradients="bf16", travels="fp16")
    with pytest.raises(ValidationError, match="fp32"):
        scenario("fp8")
