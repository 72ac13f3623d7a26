"""How far measured curves may be off, inside and beyond their sizes."""

import math

import pytest

from simulator.models.curves import Affine, NLogN, Piecewise
from simulator.models.widths import PER_DOUBLING, UNSTATED_ERROR, curve_width, nine_in_ten, width_of_mape
from simulator.scenario.named_parts import shipped_gpus

SIZES = {"range": (1e3, 1e6), "held_out_mape": 0.05}
CURVES = [
    Affine(intercept=1e-6, slope=1e-9, **SIZES),
    NLogN(coefficient=1e-10, **SIZES),
    Piecewise(points=((1e3, 1e-6), (1e6, 1e-3)), **SIZES),
]


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.curve)
def test_inside_the_width_is_that_of_the_held_out_error_and_grows_with_every_doubling(curve):
    inside = width_of_mape(0.05)
    assert curve_width(curve, 1e3) == curve_width(curve, 1e6) == pytest.approx(inside)
    larger = [curve_width(curve, 1e6 * 2**i) for i in range(6)]
    smaller = [curve_width(curve, 1e3 / 2**i) for i in range(6)]
    assert larger == sorted(set(larger))
    assert smaller == sorted(set(smaller))
    assert curve_width(curve, 1e300) == pytest.approx(1000)


def test_beyond_the_sizes_both_errors_count():
    doubled = math.hypot(math.log(width_of_mape(0.05)), 3 * math.log(PER_DOUBLING["affine", "larger"]))
    assert math.log(curve_width(CURVES[0], 8e6)) == pytest.approx(doubled)


def test_a_curve_that_states_no_error_is_as_far_off_as_nine_in_ten_that_do():
    stated = {
        (gpu.device, name): curve.held_out_mape
        for gpu in shipped_gpus().values()
        for name, curve in gpu.kernels.items()
        if curve.held_out_mape is not None and not curve.derived
    }
    assert nine_in_ten(list(stated.values())) == pytest.approx(UNSTATED_ERROR, rel=0.05)
    assert curve_width(Affine(slope=1e-9), 1e6) == pytest.approx(width_of_mape(UNSTATED_ERROR))
    assert curve_width(Affine(slope=1e-9), 0.0) == pytest.approx(width_of_mape(UNSTATED_ERROR))
