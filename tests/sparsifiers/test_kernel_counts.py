"""Kernels after a selection, and padded gathers, from closed forms: how many calls, of how many elements."""

import numpy as np
import pytest
from replayed import replay, select

from simulator.component import build
from simulator.models.exchange import Bucket, Compute, Selection
from simulator.models.gradients import Block, find_above
from simulator.models.overlap import INDEPENDENT
from simulator.prediction.extrapolation import common_elements, own_padding
from simulator.sparsifiers.base import Sparsifier

BUCKET, WORKERS = Bucket(0, (1000, 240), 0), 4
SELECTED = Selection(np.array([100.0, 110, 120, 150]), 400.0, 150.0, 124.0)


def method(kind, **changes):
    return build(Sparsifier, {"kind": kind, "density": 0.1, **changes})


def kernels(steps, name):
    return [step for step in steps if isinstance(step, Compute) and step.kernel == name]


def test_a_hard_threshold_clears_the_expected_count():
    (clear,) = kernels(method("threshold", selected_density=0.2).compute(SELECTED, BUCKET, WORKERS), "residual_clear")
    assert (clear.elements, clear.calls) == (pytest.approx((200.0, 48.0)), 2)


@pytest.mark.parametrize("padding", [1.0, 1.5, 1e6])
def test_the_stated_padding_is_the_largest_count_over_the_mean(padding):
    hard = method("threshold", padding=padding).expect(BUCKET, WORKERS, INDEPENDENT)
    assert hard.largest == pytest.approx(min(1240.0, padding * 124.0))
    assert (hard.target, hard.selected.tolist()) == (124.0, [124.0] * WORKERS)
    part = method("micro", padding=padding).expect(BUCKET, WORKERS, INDEPENDENT)
    assert part.largest == pytest.approx(min(124.0, padding * 31.0))


def test_the_padding_of_a_replay_is_the_largest_count_over_the_mean():
    """Workers with 1, 2, 3 and 6 magnitudes above the threshold: the largest is twice the mean of 3."""
    values = np.zeros((4, 10), dtype=np.float32)
    for row, count in zip(values, (1, 2, 3, 6), strict=True):
        row[:count] = 5
    block = Block(values, np.zeros(10, int), np.arange(10), np.ones(10), (10,))
    member = method("threshold", threshold=1.0)
    (step,) = replay(member, [block])
    row = step.row()
    assert {name: row[name] for name in ("padding", "imbalance", "smallest")} == pytest.approx(
        {"padding": 2.0, "imbalance": 2.0, "smallest": 1 / 3}
    )
    assert row["selected"] == pytest.approx(0.3)
    assert (row["aggregated"], row["build_up"], row["never_sent"]) == pytest.approx((0.6, 2.0, 0.4))
    _, selection, _, choice = select(member, member.start(block), block)
    assert (selection.largest, selection.aggregated) == (6, 6)
    assert choice.chosen.sum(axis=1).tolist() == [1, 2, 3, 6]


def test_elements_that_all_select_are_no_padding():
    """Of 10 + 10 and 10 + 30 with ten common elements: own selections of 10 and 30, 1.5 times their mean of 20."""
    known = Selection(np.array([20.0, 40.0]), 50.0, 40.0, 50.0, exclusive=True)
    assert (common_elements(known), own_padding(known)) == (10.0, 1.5)


@pytest.mark.parametrize("threshold", [0, 1e31, 1e300])
@pytest.mark.parametrize("kind", ["threshold", "sage"])
def test_a_threshold_beyond_any_gradient_is_refused(kind, threshold):
    with pytest.raises(ValueError, match=r"should be (greater|less) than"):
        method(kind, threshold=threshold)


def test_a_threshold_that_float32_rounds_to_zero_selects_no_zeros():
    values = np.array([0.0, 1e-45, -1.0], dtype=np.float32)
    assert find_above(values, 1e-300).tolist() == [1, 2]
    assert find_above(values, 1e300).tolist() == []
