"""How far compute times may be off, by where they were measured."""

import math

import pytest

from simulator.hardware.gpu import Gpu
from simulator.hardware.widths import OTHER_GPU, OTHER_GPU_SCALED, compute_width, measured_elsewhere, same_device
from simulator.models.layers import Estimated, Layer, Workload
from simulator.scenario.named_parts import shipped_gpus

TIMED = (Layer(name="a", numel=10, forward=1e-3, backward=2e-3),)
V100 = Workload(name="w", batch_size=1, device="Tesla V100", layers=TIMED)
A100 = Gpu(name="a", device="NVIDIA A100-PCIE-40GB")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Tesla V100", "Tesla V100-SXM2", True),
        ("V100-PCIE-32GB", "V100-SXM2-16GB", False),
        ("GeForce RTX 2080 Ti", "rtx 2080ti", True),
        ("RTX 3080", "RTX 3080 Ti", False),
        ("P100", "P102-100", False),
        ("A100", "A10", False),
        ("NVIDIA A100 80 GB", "A100-SXM4-40GB", True),
        ("L40S", "L40", False),
    ],
)
def test_names_of_one_model_of_gpu(one, other, same):
    assert same_device(one, other) == same_device(other, one) == same


def test_every_shipped_device_is_told_from_every_other():
    devices = {gpu.device for gpu in shipped_gpus().values() if gpu.device}
    alike = {frozenset((a, b)) for a in devices for b in devices if a != b and same_device(a, b)}
    models = {"V100", "A100", "H100"}
    assert all(any(all(model in name for name in pair) for model in models) for pair in alike), alike


def test_times_of_another_gpu_are_told_and_wider_than_those_of_this_one():
    own = Gpu(name="v", device="Tesla V100-SXM2")
    assert measured_elsewhere(V100, A100)
    assert not measured_elsewhere(V100, own)
    stated = V100.model_copy(update={"compute_time": 0.1})
    assert not measured_elsewhere(stated, A100)
    widths = [compute_width(stated, A100), compute_width(V100, own), compute_width(V100, A100)]
    known = [widths[0].width, widths[1].width, OTHER_GPU_SCALED, widths[2].width]
    assert known == sorted(set(known))
    assert [item.level for item in widths] == ["measured", "transferred", "transferred"]


def test_a_device_that_nobody_named_is_taken_to_be_this_one_and_ideal_gpus_are_no_device():
    nameless = V100.model_copy(update={"device": ""})
    assert not measured_elsewhere(nameless, A100)
    assert compute_width(nameless, A100).level == "estimated"
    assert not measured_elsewhere(V100, Gpu(name="i", device="ideal", ideal=True))
    assert compute_width(Workload(batch_size=1, layers=(Layer(name="a", numel=10),)), A100)[:2] == (1, "measured")


def test_an_estimate_is_no_surer_on_another_gpu_and_less_sure_where_sequences_are_divided():
    made = V100.model_copy(update={"estimated": Estimated(width=1.5, reason="as tests have it")})
    assert compute_width(made, Gpu(name="v", device="V100")) == (1.5, "estimated", "as tests have it")
    assert compute_width(made, A100)[:2] == (OTHER_GPU, "estimated") and 2.6 < OTHER_GPU < 4.4  # of those pairs
    width = compute_width(made, Gpu(name="v", device="V100"), divided=True).width
    assert math.log(width) ** 2 == pytest.approx(math.log(1.5) ** 2 + math.log(1.25) ** 2)
    assert compute_width(made.model_copy(update={"compute_width": 1.2}), A100)[:2] == (1.2, "measured")
