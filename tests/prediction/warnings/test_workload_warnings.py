"""Warnings about layer times of another device or precision, and about an optimiser that is assumed."""

import pytest

from simulator.hardware.gpu import Gpu
from simulator.prediction.run import run
from simulator.prediction.warnings.workload import is_other_device
from simulator.scenario.scenario import Scenario

CARD = {
    "name": "card",
    "device": "NVIDIA A100-PCIE-40GB",
    "kernels": {"elementwise": {"curve": "affine", "slope": 1e-11}},
}


def predicted(gpu=CARD, **workload):
    layers = [{"name": "a", "numel": 4_000_000, "forward": 1e-3, "backward": 2e-3}]
    return run(
        Scenario.model_validate(
            {
                "workload": {"batch_size": 1, "layers": layers, **workload},
                "cluster": {"nodes": 2, "gpu": gpu, "network": {"kind": "single_switch", "bandwidth": 1e9}},
                "topology": "ring",
                "sparsifier": "dense",
                "scheduler": "sequential",
            }
        )
    ).document


def rows(document, part):
    return [row for row in document["warning_sizes"] if part in row["text"]]


@pytest.mark.parametrize(
    ("device", "gpu", "other"),
    [
        ("Tesla V100", "Tesla V100-SXM2", False),
        ("NVIDIA H100", "NVIDIA_H100_80GB_HBM3", False),
        ("NVIDIA H100 PCIe", "NVIDIA_H100_80GB_HBM3", True),
        ("A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB", False),
        ("GeForce RTX 2080 Ti", "RTX 2080", True),
        ("Tesla V100", "NVIDIA A100-PCIE-40GB", True),
        ("CPU (AMD EPYC), 1 thread", "Tesla V100-SXM2", True),
        ("", "Tesla V100-SXM2", False),
    ],
)
def test_devices_are_told_apart_by_their_model(device, gpu, other):
    assert is_other_device(device, Gpu(name="card", device=gpu)) == other
    assert is_other_device(device, Gpu(name=gpu)) == other


def test_layer_times_of_another_device_are_said_to_be_so():
    (row,) = rows(predicted(device="Tesla V100"), "measured on Tesla V100")
    assert "this GPU is NVIDIA A100-PCIE-40GB" in row["text"]
    assert row["seconds"] == pytest.approx(3e-3)
    for document in (
        predicted(device="Tesla A100"),
        predicted(device="Tesla V100", compute_time=4e-3),
        predicted(),
        predicted(gpu={"name": "ideal", "ideal": True}, device="Tesla V100"),
    ):
        assert not rows(document, "measured on")


def test_an_optimiser_that_is_not_stated_has_the_size_of_other_optimisers():
    document = predicted()
    (row,) = rows(document, "does not state its optimiser, and momentum is assumed")
    (least, most) = (
        predicted(optimiser={"kind": kind})["iteration_time_s"] - document["iteration_time_s"]
        for kind in ("sgd", "lamb")
    )
    assert (-row["less_s"], row["more_s"]) == pytest.approx((least, most))
    assert row["direction"] == "either way"
    assert row["seconds"] == document["breakdown_s"]["update"]


def test_an_optimiser_that_is_stated_or_inside_a_measured_time_needs_no_warning():
    for document in (predicted(optimiser="momentum"), predicted(update_time=1e-3)):
        assert not [text for text in document["warnings"] + document["notes"] if "optimiser" in text]
    inside = predicted(compute_time=4e-3)
    assert not rows(inside, "optimiser")
    assert [text for text in inside["notes"] if "optimiser" in text]


@pytest.mark.parametrize(
    ("made", "asked", "direction"),
    [("fp32", "bf16", "too slow"), ("bf16", "fp32", "too fast"), ("fp16", "bf16", "either way")],
)
def test_times_of_a_format_with_more_bits_are_too_slow(made, asked, direction):
    (row,) = rows(predicted(precision=asked, measured_precision=made), "layer times of")
    assert row["direction"] == direction
    assert row["seconds"] == pytest.approx(3e-3)
