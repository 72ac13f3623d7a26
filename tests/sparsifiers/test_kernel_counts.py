"""Kernels after a selection, and padded gathers, from closed forms: how many calls, of how many elements."""

import numpy as np
import pytest
from replayed import select

from simulator.component import build
from simulator.engine.replay import replay
from simulator.models.exchange import AllGather, Bucket, Compute, PushPull, Selection
from simulator.models.gradients import Block, find_above
from simulator.models.overlap import INDEPENDENT
from simulator.prediction.growth import common_elements, own_padding
from simulator.sparsifiers.base import Sparsifier

BUCKET, WORKERS = Bucket(0, (1000, 240), 0), 4
SELECTED = Selection(np.array([100.0, 110, 120, 150]), 400.0, 150.0, 124.0)


def method(kind, **changes):
    return build(Sparsifier, {"kind": kind, "density": 0.1, **changes})


def kernels(steps, name):
    return [step for step in steps if isinstance(step, Compute) and step.kernel == name]


@pytest.mark.parametrize("kind", ["topk", "zen", "omnireduce", "cltk", "gtopk"])
def test_what_a_sort_selected_is_cleared_from_the_residual_by_one_call_a_tensor(kind):
    for granularity, counts in (("layer", (100.0, 24.0)), ("bucket", (124.0,))):
        (clear,) = kernels(method(kind, granularity=granularity).compute(SELECTED, BUCKET, WORKERS), "residual_clear")
        assert (clear.elements, clear.calls, clear.times) == (counts, len(counts), 1)


@pytest.mark.parametrize(("kind", "calls"), [("dgc", 2), ("gaussiank", 2), ("redsync", 2), ("sidco", 2), ("sage", 1)])
def test_what_a_scan_selected_is_cleared_as_the_largest_selection(kind, calls):
    (clear,) = kernels(method(kind).compute(SELECTED, BUCKET, WORKERS), "residual_clear")
    assert (clear.elements, clear.calls) == ((75.0, 75.0), 2 * calls)


def test_a_hard_threshold_clears_the_expected_count():
    (clear,) = kernels(method("threshold", selected_density=0.2).compute(SELECTED, BUCKET, WORKERS), "residual_clear")
    assert (clear.elements, clear.calls) == (pytest.approx((200.0, 48.0)), 2)


@pytest.mark.parametrize("kind", ["micro", "deft", "exdyna"])
def test_disjoint_selections_are_cleared_and_added_once_for_the_whole_sum(kind):
    steps = method(kind).exchange(SELECTED, BUCKET, WORKERS, "collective")
    (clear,), (add,) = kernels(steps, "residual_clear"), kernels(steps, "scatter_add")
    assert (clear.elements, clear.calls) == ((400.0,), 1)
    assert (add.elements, add.calls) == ((400.0,), 3)


@pytest.mark.parametrize("kind", ["topk", "dgc", "gaussiank", "redsync", "sidco"])
def test_the_pairs_of_every_worker_are_added_tensor_by_tensor(kind):
    member = method(kind)
    (add,) = kernels(member.exchange(SELECTED, BUCKET, WORKERS, "collective"), "scatter_add")
    assert (add.elements, add.times, add.calls) == ((75.0, 75.0), WORKERS, 3 * 2 * WORKERS)
    (add,) = kernels(member.exchange(SELECTED, BUCKET, WORKERS, "push_pull"), "scatter_add")
    assert (add.elements, add.times, add.calls) == ((200.0, 200.0), 1, 3 * 2)


def test_a_hard_threshold_adds_every_padded_unit_by_six_calls():
    member = method("threshold")
    steps = member.exchange(SELECTED, BUCKET, WORKERS, "collective")
    (add,), (_, pairs) = kernels(steps, "scatter_add"), [step for step in steps if isinstance(step, AllGather)]
    assert (add.elements, add.calls) == ((75.0,) * 8, 6 * 8)
    assert pairs.sizes(WORKERS).tolist() == [8 * 150.0] * WORKERS
    pushed = member.exchange(SELECTED, BUCKET, WORKERS, "push_pull")[0]
    assert pushed == PushPull(8 * 120.0, 8 * 400.0)


def test_a_gather_of_unequal_sizes_is_padded_to_the_largest():
    values, indices, _ = method("topk").exchange(SELECTED, BUCKET, WORKERS, "collective")
    for gather in (values, indices):
        assert gather.sizes(WORKERS).tolist() == [4 * 150.0] * WORKERS


@pytest.mark.parametrize("padding", [1.0, 1.5, 1e6])
def test_the_stated_padding_is_the_largest_count_over_the_mean(padding):
    hard = method("threshold", padding=padding).expect(BUCKET, WORKERS, INDEPENDENT)
    assert hard.largest == pytest.approx(min(1240.0, padding * 124.0))
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
    assert (common_elements(known, 2), own_padding(known, 2)) == (10.0, 1.5)


@pytest.mark.parametrize("threshold", [0, 1e31, 1e300])
@pytest.mark.parametrize("kind", ["threshold", "sage"])
def test_a_threshold_beyond_any_gradient_is_refused(kind, threshold):
    with pytest.raises(ValueError, match=r"should be (greater|less) than"):
        method(kind, threshold=threshold)


def test_a_threshold_that_float32_rounds_to_zero_selects_no_zeros():
    values = np.array([0.0, 1e-45, -1.0], dtype=np.float32)
    assert find_above(values, 1e-300).tolist() == [1, 2]
    assert find_above(values, 1e300).tolist() == []


def test_eight_bit_codes_take_two_calls_for_the_scale_and_seventeen_for_the_search():
    steps = build(Sparsifier, {"kind": "eight_bit"}).compute(SELECTED, BUCKET, WORKERS)
    calls = {name: [(item.elements, item.calls) for item in kernels(steps, name)] for name in ("norm", "quantise")}
    assert calls == {"norm": [((1000.0, 240.0), 2 * 2)], "quantise": [((1000.0, 240.0), 17 * 2)]}


def test_dgc_as_a_baseline_scans_twice_and_reads_once_per_tensor():
    """A comparison and the places of what is above; the number of these is read."""
    (scan,) = kernels(
        method("dgc", implementation="baseline").carry_out(SELECTED, BUCKET, WORKERS, "collective")[0], "threshold_scan"
    )
    assert (scan.elements, scan.calls, scan.reads) == ((1000.0, 240.0), 2 * 2, 2)


def test_the_target_of_a_threshold_is_its_density_of_the_elements():
    """Beside what it selects, which `padding` widens for the largest worker."""
    member = build(Sparsifier, {"kind": "threshold", "density": 0.1, "padding": 2})
    made = member.expect(Bucket(0, (300, 100), 0), 4, INDEPENDENT)
    assert (made.target, made.largest, made.selected.tolist()) == (40.0, 80.0, [40.0] * 4)
