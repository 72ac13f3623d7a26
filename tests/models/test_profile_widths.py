"""The tilt of a layer profile."""

import math
from itertools import accumulate

import pytest

from simulator.models.layers import Layer, Workload
from simulator.models.widths import TILT, tilt_profile
from simulator.records import replace

WORKLOAD = Workload(
    batch_size=1,
    layers=tuple(Layer(name=str(i), numel=10, forward=1.0, backward=0.5 + i % 3, forward_host=0.1) for i in range(40)),
)


def ready(workload):
    """When each gradient is ready, the first one first."""
    return list(accumulate(layer.backward for layer in reversed(workload.layers)))


@pytest.mark.parametrize("tilt", [TILT, -TILT, 1.3, -8.0])
def test_the_backward_pass_keeps_its_length_and_all_else(tilt):
    tilted = tilt_profile(WORKLOAD, tilt)
    assert tilted.backward_time == pytest.approx(WORKLOAD.backward_time)
    assert tilted.forward_time == WORKLOAD.forward_time
    same = [replace(layer, backward=0.0) for layer in tilted.layers]
    assert same == [replace(layer, backward=0.0) for layer in WORKLOAD.layers]


def test_a_positive_tilt_makes_every_gradient_ready_earlier_and_a_negative_one_later():
    now, early, late = (ready(tilt_profile(WORKLOAD, tilt))[:-1] for tilt in (0.0, TILT, -TILT))
    assert all(a < b < c for a, b, c in zip(early, now, late, strict=True))
    assert (now[19] - early[19]) / WORKLOAD.backward_time == pytest.approx(0.12, abs=0.01)


def test_no_tilt_and_no_times_change_nothing():
    assert tilt_profile(WORKLOAD, 0.0) is WORKLOAD
    bare = Workload(batch_size=1, layers=(Layer(name="a", numel=10),))
    assert tilt_profile(bare, 1.0) is bare


def test_every_tensor_is_stretched_by_the_middle_of_its_time():
    """Two tensors of 1 s each lie at 1/4 and 3/4 of the backward pass, the last one first: exp(-s/2) and exp(s/2)."""
    layers = [Layer(name=name, numel=1, forward=0.0, backward=1.0) for name in "ab"]
    made = tilt_profile(Workload(batch_size=1, layers=layers), 0.6)
    first, second = math.exp(-0.3), math.exp(0.3)
    assert [layer.backward for layer in reversed(made.layers)] == pytest.approx(
        [2 * first / (first + second), 2 * second / (first + second)]
    )
