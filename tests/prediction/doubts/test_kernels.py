"""What results say of kernels that nobody timed on the GPU, and how wide that makes their intervals."""

import pytest
from small_scenarios import small_scenario

from simulator.hardware.gpu import Gpu
from simulator.models.curves import Affine
from simulator.models.widths import mape_of_width
from simulator.prediction.run import run

CURVE = Affine(intercept=1e-5, slope=1e-11, held_out_mape=0.01)
TIMED = {kernel: CURVE for kernel in ("topk", "elementwise", "residual_clear", "scatter_add", "update")}


def prediction(gpu, **runtime):
    layers = [{"name": "a", "numel": 4_000_000, "forward": 1e-3, "backward": 2e-3}]
    parts = {"sparsifier": {"kind": "topk", "density": 0.01}, "scheduler": "sequential"}
    parts["cluster"] = {"runtime": {"name": "r", **runtime}}
    return run(small_scenario({"layers": layers}, gpu, {"bandwidth": 1e9, "latency": 1e-5}, nodes=4, **parts))


def width(made):
    low, high = made.document["iteration_time_interval_s"]
    return high - low


def entries(made):
    return {item.what: item for item in made.inputs if item.what.startswith("kernel")}


def test_what_was_not_timed_is_named_with_its_factor_and_widens_the_interval():
    timed = Gpu(name="timed", memory_bandwidth=5e11, kernels=TIMED)
    one_left_out = {name: curve for name, curve in TIMED.items() if name != "topk"}
    mostly = Gpu(name="mostly", memory_bandwidth=5e11, kernels=one_left_out)
    carried = Gpu(name="c", memory_bandwidth=5e11, kernels=TIMED | {"topk": CURVE.model_copy(update={"derived": True})})
    exact, estimated, derived = (prediction(gpu) for gpu in (timed, mostly, carried))
    assert not [text for text in exact.document["warnings"] if "not timed" in text]
    for made, gpu in ((estimated, mostly), (derived, carried)):
        (text,) = (text for text in made.document["warnings"] if "not timed" in text)
        assert f"topk ({gpu.width('topk'):.2g})" in text
        assert f"not timed on {gpu.name}, transferred from other GPUs" in text
        item = entries(made)["kernel topk, transferred"]
        assert item.held_out_mape == pytest.approx(mape_of_width(gpu.width("topk"))) and not item.in_range
        assert width(made) > width(exact)
    assert derived.document["iteration_time_s"] == exact.document["iteration_time_s"]
    # A curve that was carried over and compared states its own width.
    stated = CURVE.model_copy(update={"derived": True, "width": 1.5})
    compared = Gpu(name="c", memory_bandwidth=5e11, kernels=TIMED | {"topk": stated})
    assert compared.width("topk") == 1.5 and width(exact) < width(prediction(compared)) < width(derived)


def test_launches_that_the_host_decides_do_not_carry_the_error_of_a_kernel():
    """A kernel that may take w times as long adds nothing as long as the host's launches still take longer."""
    bare = Gpu(name="bare", memory_bandwidth=5e11)
    free, bound = prediction(bare), prediction(bare, kernel_launch=1.0)
    added = entries(free)["kernel residual_add, transferred"].more
    own, factor = float(bare.kernel_time("residual_add", 4e6)), bare.width("residual_add")
    assert added == pytest.approx((factor - 1) * own)
    assert entries(bound)["kernel residual_add, transferred"].more == 0
    between = entries(prediction(bare, kernel_launch=0.5 * (1 + factor) * own))["kernel residual_add, transferred"].more
    assert between == pytest.approx(0.5 * added)


def test_a_gpu_of_which_nothing_is_known_says_so():
    document = prediction(Gpu(name="g")).document
    (row,) = (row for row in document["warning_sizes"] if "nothing is known" in row["text"])
    assert row["text"].endswith("on g, so that they take no time; give its memory_bandwidth")
    assert (row["seconds"], row["less_s"], row["more_s"], row["direction"]) == (None, 0.0, None, "too fast")
    assert document["warnings"][0] == f"{row['text']}: this iteration may be longer, by how much is not known"


def test_errors_of_one_gpu_are_drawn_together():
    """All kernels that nobody timed on a GPU are one response; those that were timed are one each."""
    bare = prediction(Gpu(name="bare", memory_bandwidth=5e11))
    (together,) = [item for item in bare.spread.responses if item.key[0] == "shared"]
    names = {item.what.split()[1].strip(",") for item in together.doubts}
    assert names == {"residual_add", "residual_clear", "scatter_add", "topk"}
    timed = prediction(Gpu(name="timed", memory_bandwidth=5e11, kernels=TIMED))
    kernels = [item for item in timed.spread.responses if item.doubts[0].what.startswith("kernel")]
    # An addition in place has the curve of the element-wise kernel.
    assert {item.key[1].split("/")[1] for item in kernels} == {"elementwise", "residual_clear", "scatter_add", "topk"}
