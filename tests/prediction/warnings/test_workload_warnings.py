"""Warnings about layer times of another device or precision, and about an optimiser that is assumed."""

import pytest

from simulator.models.optimisers import UNKNOWN_OPTIMISER
from simulator.prediction.run import run
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
        predicted(optimiser=each.model_dump())["iteration_time_s"] - document["iteration_time_s"]
        for each in UNKNOWN_OPTIMISER
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
