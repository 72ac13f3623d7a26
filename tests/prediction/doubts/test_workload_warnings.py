"""Warnings about layer times of another device or precision, and about an optimiser that is assumed."""

import pytest
from small_scenarios import small_scenario
from stretched import in_interval

from simulator.hardware.widths import OTHER_GPU, SMALLER_PASSES
from simulator.models.optimisers import UNKNOWN_OPTIMISER
from simulator.prediction.run import run, with_responses
from simulator.scenario.reading import load

CARD = {
    "name": "card",
    "device": "NVIDIA A100-PCIE-40GB",
    "kernels": {"elementwise": {"curve": "affine", "slope": 1e-11}},
}


def predicted(gpu=CARD, sparsifier="dense", overlap_concentration=None, parts=None, **workload):
    layers = [{"name": "a", "numel": 4_000_000, "forward": 1e-3, "backward": 2e-3}]
    common = {"sparsifier": sparsifier, "overlap_concentration": overlap_concentration, "scheduler": "sequential"}
    made = run(small_scenario({"layers": layers, **workload}, gpu, {"bandwidth": 1e9}, **common | (parts or {})))
    return with_responses(made).document


def rows(document, part):
    return [row for row in document["warning_sizes"] if part in row["text"]]


def test_layer_times_of_another_device_are_said_to_be_so():
    document = predicted(device="Tesla V100")
    (row,) = rows(document, "measured on Tesla V100, and this GPU is NVIDIA A100-PCIE-40GB")
    assert row["seconds"] == pytest.approx(3e-3)
    # Nearly all that may be wrong of compute: the factor of another GPU, and the shares of the layers beside it.
    assert row["more_s"] >= in_interval(3e-3 * (OTHER_GPU - 1), document["iteration_time_s"]) * 0.999
    low, high = document["iteration_time_interval_s"]
    assert low <= document["iteration_time_s"] - row["less_s"]
    assert document["iteration_time_s"] + row["more_s"] <= high


def test_times_of_other_machines_with_this_device_and_of_no_device_are_less_wrong():
    other = rows(predicted(device="Tesla V100"), "measured on Tesla V100")[0]
    for device, words in (("Tesla A100", "on another Tesla A100"), ("", "on a device that is not stated")):
        (row,) = rows(predicted(device=device), "layer times were measured")
        assert words in row["text"] and 0 < row["more_s"] < other["more_s"]


def test_a_measured_time_leaves_the_proportions_of_another_device():
    document = predicted(device="Tesla V100", compute_time=4e-3)
    assert not rows(document, "layer times were measured")
    every = document["warnings"] + document["notes"]
    assert [text for text in every if text.startswith("the proportions of the layer times are those of Tesla V100")]
    described = load("quickstart", ("workload={trace: workloads/gpt2, compute_time: 100 ms}",))
    (row,) = rows(run(described).document, "proportions of the layer times are estimates")
    assert "the operators of GPT-2 small" in row["text"]
    here = predicted(device="A100", compute_time=4e-3)
    assert not [text for text in here["warnings"] + here["notes"] if "layer times" in text]


def test_nothing_is_assumed_of_an_ideal_gpu():
    document = predicted(gpu={"name": "ideal", "ideal": True}, device="Tesla V100")
    assert not document["warnings"] + document["notes"]


def test_an_optimiser_that_is_not_stated_has_the_size_of_other_optimisers():
    document = predicted()
    (row,) = rows(document, "does not state its optimiser, and momentum is assumed")
    (least, most) = (
        predicted(optimiser=each.model_dump())["iteration_time_s"] - document["iteration_time_s"]
        for each in UNKNOWN_OPTIMISER
    )
    ends = [in_interval(end, document["iteration_time_s"]) for end in (least, most)]
    assert (-row["less_s"], row["more_s"]) == pytest.approx(ends, rel=1e-3)
    assert row["direction"] == "either way" and row["seconds"] == document["breakdown_s"]["update"]


def test_an_optimiser_that_is_stated_or_inside_a_measured_time_needs_no_warning():
    for changes in ({"optimiser": "momentum"}, {"update_time": 1e-3}, {"compute_time": 4e-3}):
        document = predicted(**changes)
        assert not [text for text in document["warnings"] + document["notes"] if "optimiser" in text]


def test_selections_that_nobody_recorded_overlap_as_in_recorded_networks():
    topk = {"kind": "topk", "density": 0.01}
    document = predicted(sparsifier=topk)
    (text,) = (text for text in document["warnings"] + document["notes"] if "select the same elements" in text)
    assert "give a recorded trace" in text
    stated = predicted(sparsifier=topk, overlap_concentration=7)
    assert not [text for text in stated["warnings"] + stated["notes"] if "select the same elements" in text]


@pytest.mark.parametrize(
    ("made", "asked", "direction"),
    [("fp32", "bf16", "too slow"), ("bf16", "fp32", "too fast"), ("fp16", "bf16", "either way")],
)
def test_times_of_a_format_with_more_bits_are_too_slow(made, asked, direction):
    (row,) = rows(predicted(precision=asked, measured_precision=made), "layer times of")
    assert row["direction"] == direction and row["seconds"] == pytest.approx(3e-3)


SLICES = {"kind": "dense", "indexed_slices": True}


@pytest.mark.parametrize(
    ("sparsifier", "parts", "why"),
    [
        ("dense", {}, "`sparsifier.indexed_slices: true` gathers them, as Horovod does for TensorFlow"),
        ({"kind": "topk", "density": 0.5}, {}, "topk takes whole tensors in this implementation"),
        (SLICES, {"scheduler": {"kind": "fsdp", "shard": 2}}, "fsdp shards whole tensors"),
        (SLICES, {"scheduler": {"kind": "diloco", "inner_steps": 2}}, "several local steps change many rows"),
        (SLICES, {"topology": "parameter_server"}, "servers sum whole tensors"),
        (SLICES, {"scheduler": {"kind": "priority", "partition": 1e6}}, "priority cuts them into slices"),
        (SLICES, {}, None),
        ("dense", {"nodes": 1}, None),
    ],
)
def test_rows_that_change_nothing_are_said_to_with_the_reason(sparsifier, parts, why):
    """Two embeddings and a tensor between; of all of them only those with rows are named."""
    rows = {"count": 7, "width": 200}
    names = ("words", {"rows": rows}), ("plain", {}), ("places", {"rows": rows})
    layers = [{"name": name, "numel": 1_000_000, "forward": 1e-3, "backward": 2e-3, **more} for name, more in names]
    made = predicted(sparsifier=sparsifier, parts=parts, layers=layers)
    said = [text for text in made["warnings"] + made["notes"] if "`rows` change nothing" in text]
    first = "the gradients of words and places are exchanged as dense tensors, and their `rows` change nothing: "
    assert [text.startswith(f"{first}{why}") for text in said] == [True] * (why is not None)


def test_passes_that_share_the_times_of_a_batch_may_take_longer_together_but_not_less():
    """Nine in ten are within m^0.38 (`SMALLER_PASSES`); the compute of 3 ms, and additions beside it."""
    document = predicted(batch_size=16, micro_batches=4, compute_width=1.0)
    (row,) = rows(document, "the 4 passes over 4 samples share the times that were measured with 16")
    longer = in_interval(0.9 * 3e-3 * (4**SMALLER_PASSES - 1), document["iteration_time_s"])
    assert row["less_s"] == 0 and row["more_s"] == pytest.approx(longer, rel=0.25)
    assert not rows(predicted(batch_size=16), "passes over")
    estimated = {"width": 1.5, "reason": "an estimate of one pass"}
    assert not rows(predicted(batch_size=16, micro_batches=4, estimated=estimated), "passes over")
