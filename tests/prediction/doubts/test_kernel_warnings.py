"""Warnings about kernels: what was timed at other sizes counts only with the calls that are outside."""

import math

import pytest
from small_scenarios import small_scenario
from stretched import in_interval

from simulator.models.curves import Affine
from simulator.models.widths import curve_width
from simulator.prediction.doubts.kernels import SMALL_CALLS
from simulator.prediction.run import run

SIZES = (100, 1_000_000, 3_000_000)
TIMED = Affine(intercept=1e-4, slope=1e-9, held_out_mape=0.05, range=(1_000, 1_000_000))


def prediction(**topk):
    layers = [{"name": str(size), "numel": size, "backward": 1e-3} for size in SIZES]
    exact = {"curve": "affine", "slope": 1e-12, "held_out_mape": 0.01}
    kernels = {name: exact for name in ("elementwise", "residual_clear", "scatter_add", "update", "residual_add")}
    gpu = {"name": "card", "kernels": {**kernels, "topk": TIMED.model_copy(update=topk)}}
    workload, method = {"layers": layers, "optimiser": "sgd"}, {"kind": "topk", "density": 0.01}
    return run(small_scenario(workload, gpu, {"bandwidth": 1e9}, sparsifier=method))


def test_only_the_calls_outside_are_touched():
    made = prediction()
    (row,) = (row for row in made.document["warning_sizes"] if "other sizes" in row["text"])
    assert row["text"] == (
        "timed on card at other sizes: topk time extrapolated for 2 of 3 calls "
        "(100 to 3,000,000 elements; measured from 1,000 to 1,000,000)"
    )
    outside, every = (sum(float(TIMED.time(size)) for size in sizes) for sizes in ((100, 3_000_000), SIZES))
    assert row["seconds"] == pytest.approx(outside)
    whole, small = (item for item in made.inputs if item.what.startswith("kernel topk"))
    time = made.spread.time
    of_curve, of_small = math.log(1 + whole.more / time) * outside / every, math.log(1 + small.more / time)
    both = time * math.expm1(math.hypot(of_curve, of_small))
    assert row["more_s"] == pytest.approx(in_interval(both, time), rel=1e-3)


def test_a_small_call_takes_no_longer_than_the_smallest_that_was_measured():
    (small,) = (item for item in prediction().inputs if item.what.endswith(SMALL_CALLS))
    seconds, most = float(TIMED.time(100)), float(TIMED.time(1000))
    inside = curve_width(TIMED, 1000)
    assert small.more == pytest.approx(seconds * (math.exp(math.hypot(math.log(inside), math.log(most / seconds))) - 1))
    assert seconds + small.more <= most * inside


def test_a_small_call_starts_no_later_than_small_calls_were_timed_with_the_host():
    far = {"range": (500_000, 1_000_000), "intercept": 1e-5}
    free, known = (
        next(item for item in prediction(**far, **more).inputs if item.what.endswith(SMALL_CALLS))
        for more in ({}, {"smallest_call": 1.5e-5})
    )
    curve = TIMED.model_copy(update=far)
    seconds, inside = float(curve.time(100)), curve_width(curve, 500_000)
    most = 1 + (1.5e-5 - 1e-5) / seconds
    assert known.width == pytest.approx(math.exp(math.hypot(math.log(inside), math.log(most))))
    assert known.width < 1.6 and free.width > 10


def test_a_kernel_that_is_carried_over_was_timed_at_no_size_here():
    document = prediction(derived=True).document
    texts = document["warnings"] + document["notes"]
    assert not [text for text in texts if "other sizes" in text]
    assert any(text.startswith("not timed on card, transferred from other") and "topk" in text for text in texts)


def test_nothing_is_said_of_sizes_that_were_measured():
    document = prediction(range=(1, 1e9)).document
    assert not [text for text in document["warnings"] + document["notes"] if "topk" in text]
