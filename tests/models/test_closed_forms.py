"""Small models against their definitions: overlap at its limits, patterns, periods, formats and intervals."""

import math
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from simulator.models.exchange import Layout, merge_tree, ring_rounds, rotations
from simulator.models.graph import Event, Fragment, Period
from simulator.models.largest import find_above, largest, largest_elements
from simulator.models.operators import (
    ARITHMETIC_BYTES,
    DescribedTensor,
    Description,
    Operator,
    flops_of,
    product,
    row_wise,
    streaming,
)
from simulator.models.overlap import ScaleMixture, union_density
from simulator.models.precision import Precision, PrecisionField
from simulator.models.sampling import count_at, mean_of, moments_of, quantile_of, sums_of_squares
from simulator.models.small_cache import MOST, LatestResults, cache_small_results
from simulator.models.timeline import BREAKDOWN, merge_intervals, split_idle


def test_nobody_selects_nothing_under_every_law():
    for law in (0.0, 10.0, math.inf, ScaleMixture(1.0, 0.2)):
        assert union_density(0.5, 0, law) == 0
        assert union_density(0.0, 3, law) == 0


@pytest.mark.parametrize("workers", [1, 2, 50])
def test_a_scale_mixture_at_its_limits(workers):
    """One scale and no core is independence; with silent coordinates the most that can be selected is rho^g."""
    alone = 1 - 0.9**workers
    assert union_density(0.1, workers, ScaleMixture(0.0, 0.0)) == pytest.approx(alone)
    awake = 0.1**0.25
    expected = awake * (1 - (1 - 0.1 / awake) ** workers)
    assert union_density(0.1, workers, ScaleMixture(0.0, 0.0, 0.25)) == pytest.approx(expected)
    # Nobody but one worker's selection is awake, or all of it is the core: no worker adds anything.
    for law in ((1.0, 0.0, 1.0), (1.0, 0.5, 1.0), (0.0, 1.0), (40, 1.0)):
        assert union_density(0.1, workers, ScaleMixture(*law)) == pytest.approx(0.1)
    assert 0.1 * (1 - 1e-9) <= union_density(0.1, workers, ScaleMixture(40.0, 0.0)) <= alone * (1 + 1e-9)


def rounds(made):
    """Pairs of sender and receiver, bytes and repetitions of each round."""
    pairs = [list(zip(item.src.tolist(), item.dst.tolist(), strict=True)) for item in made]
    return [(ends, item.nbytes.tolist(), item.repeat) for ends, item in zip(pairs, made, strict=True)]


def test_a_merge_tree_of_four_workers():
    """3 merges into 2 and 1 into 0, then 2 into 0; the result goes back the same way."""
    up = [([(1, 0), (3, 2)], [[5.0, 5.0]], 1), ([(2, 0)], [[5.0]], 1)]
    down = [([(0, 2)], [[5.0]], 1), ([(0, 1), (2, 3)], [[5.0, 5.0]], 1)]
    assert rounds(merge_tree(np.array([5.0]), Layout(2, 2))) == up + down
    assert merge_tree(np.array([5.0]), Layout(1, 1)) == []


def test_rings_and_rotations_of_three_workers():
    ring = [(0, 1), (1, 2), (2, 0)]
    assert rounds(ring_rounds(np.array([5.0, 5.0, 3.0]), Layout(3, 1))) == [
        (ring, [[5.0] * 3], 2),
        (ring, [[3.0] * 3], 1),
    ]
    made = rounds(rotations(np.array([[1.0, 2.0, 3.0]]), Layout(3, 1)))
    assert made == [(ring, [[1, 2, 3]], 1), ([(0, 2), (1, 0), (2, 1)], [[1, 2, 3]], 1)]


def test_events_of_a_period_wait_for_what_came_before_first_and_for_their_own_start_last():
    period = Period(4, (Fragment(3, 3), Fragment(3, 5), Fragment(1, 3), Fragment(4, 4)))
    assert period.events() == [
        Event(1, 1, True, True), Event(1, 2, False), Event(3, 2, True), Event(3, 0, False), Event(3, 1, False),
        Event(3, 0, True), Event(4, 3, False), Event(4, 3, True),
    ]  # fmt: skip
    assert period.crosses
    assert not Period(4, (Fragment(3, 4), Fragment(4, 4))).crosses
    assert Period(4, (Fragment(3, 4),)).events() == [Event(3, 0, False), Event(4, 0, True, False)]


@pytest.mark.parametrize(
    ("given", "nbytes", "master", "scaled", "said"),
    [
        ("fp32", (4, 4), False, False, "fp32"),
        ("fp16", (2, 2), True, True, "fp16"),
        ("bf16", (2, 2), True, False, "bf16"),
        ({"travels": "bf16"}, (4, 2), False, False, "fp32 sent as bf16"),
        ({"gradients": "fp16", "travels": "fp32", "master_weights": False}, (2, 4), False, True, "fp16 sent as fp32"),
        ({"master_weights": True, "loss_scaling": True}, (4, 4), False, True, "fp32"),
        ({"gradients": "fp16", "loss_scaling": False}, (2, 2), True, False, "fp16"),
    ],
)
def test_formats_have_the_bytes_and_the_extra_work_of_their_bits(given, nbytes, master, scaled, said):
    made = TypeAdapter(PrecisionField).validate_python(given)
    assert (made.gradient_bytes, made.value_bytes) == nbytes
    assert (made.has_master_weights, made.scales_loss, made.described()) == (master, scaled, said)


def test_indices_are_those_of_the_released_code_or_as_stated():
    assert [Precision(indices=kind).index_bytes(6) for kind in ("auto", "int32", "int64")] == [6, 4, 8]
    assert TypeAdapter(PrecisionField).validate_python(Precision(residuals="bf16")).residuals == "bf16"
    mixed = ({"gradients": "fp16", "residuals": "bf16"}, {"gradients": "fp16", "travels": "bf16", "residuals": "fp16"})
    for wrong, text in ((3, "a format, such as bf16"), *((each, "one 16-bit format") for each in mixed)):
        with pytest.raises(ValidationError, match=re.escape(text)):
            TypeAdapter(PrecisionField).validate_python(wrong)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 6)), max_size=8))
def test_merged_intervals_cover_the_same_time_and_keep_apart(pairs):
    """Half-steps tell intervals that touch from those with a gap; touching ones are one."""
    intervals = [(2 * start, 2 * (start + length)) for start, length in pairs]
    made = merge_intervals(intervals)
    assert {t for a, b in made for t in range(a, b + 1)} == {t for a, b in intervals for t in range(a, b + 1)}
    assert all(before[1] < after[0] for before, after in pairwise(made))


def test_operators_count_two_for_each_product_of_a_pair_of_numbers():
    made = product("a", 2, 7, 5, 2, batch=3, calls=4)
    assert (made.name, made.kind, made.flops) == ("a", "product", 4 * 3 * 2 * (2 * 7 * 5))
    assert made.nbytes == 3 * 2 * (2 * 5 + 5 * 7 + 2 * 7)  # each operand once for every matrix of a batch
    assert Operator("b", "product", 8.0, 1.5, 2, 3, 4, 5).flops == 5 * 1.5 * 2 * 24
    assert {"fp32": 4, "tf32": 4} | dict.fromkeys(("fp16", "bf16", "mixed", "fp8"), 2) == ARITHMETIC_BYTES
    assert [made.multiplies_in(each) for each in ("tf32", "fp8")] == ["tf32", "bf16"]
    assert Operator("b", "product", 8.0, fp8=True).multiplies_in("bf16") == "fp8"
    assert product("d", 2, 3, 5, 4).flops == 2 * 2 * 3 * 5
    for kind, other in (("streaming", streaming("c", 9.0, eager=5.0)), ("rows", row_wise("c", 9.0, eager=5.0))):
        assert (other.name, other.kind, other.nbytes, other.eager, other.flops) == ("c", kind, 9, 5, 0)
    tensors = [
        DescribedTensor("x", (3,), forward=[made]),
        DescribedTensor("y", (4,), forward=[made], backward=[made] * 3),
    ]
    whole = Description(tensors, 0.0, "fp32")
    assert (whole.numel, flops_of(whole.forward), flops_of(whole.backward)) == (7, 2 * 1680, 3 * 1680)


def test_moments_of_float32_are_taken_in_float64():
    """1e30 squared is more than float32 holds; 1 is lost beside 2^24 there, too."""
    huge, near = np.array([1e30, 1e30], dtype=np.float32), np.array([2.0**24, 2.0**24 + 2, 1.0], dtype=np.float32)
    assert sums_of_squares(huge[None], None) == pytest.approx(2e60, rel=1e-6)
    assert sums_of_squares(huge[None], np.array([1.0, 2.0])) == pytest.approx(3e60, rel=1e-6)
    assert mean_of(near, None) == (2.0**25 + 3) / 3
    assert moments_of(np.array([1e30, -1e30], dtype=np.float32), None)[1] == pytest.approx(1e60, rel=1e-6)
    assert moments_of(np.array([1e30, -1e30], dtype=np.float32), np.ones(2))[1] == pytest.approx(1e60, rel=1e-6)
    assert (mean_of(np.zeros(0), None), mean_of(np.zeros(0), np.zeros(0))) == (0, 0)
    assert (count_at(np.array([0, 2]), None), count_at(np.array([0, 2]), np.array([5.0, 6.0, 7.0]))) == (2, 12)


def test_weighted_quantiles_by_hand():
    """1, 2 and 3 stand for 2, 1 and 1 elements, whose middles 1, 2.5 and 3.5 are at 0, 0.6 and 1 of their range."""
    values, weight = np.array([3.0, 1.0, 2.0]), np.array([1.0, 2.0, 1.0])
    assert quantile_of(values, weight, np.array([0.0, 0.3, 0.6, 0.8, 1.0])).tolist() == [1, 1.5, 2, 2.5, 3]
    assert quantile_of(values, None, np.array([0.25])).tolist() == [1.5]
    assert quantile_of(np.array([5.0]), np.array([3.0]), np.array([0.1, 0.9])).tolist() == [5, 5]


@pytest.mark.parametrize("length", [0, 1, 2**15 - 1, 2**15, 2**15 + 1, 2**17])
def test_magnitudes_above_a_threshold_are_found_in_every_chunk(length):
    row = np.random.default_rng(length).integers(-3, 4, length).astype(np.float32)
    for threshold in (1.0, 2.0, 1e-60, 1e60):
        expected = np.flatnonzero((np.abs(row.astype(float)) >= threshold) & (row != 0))
        found = find_above(row, threshold)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == np.int64


def test_nothing_is_taken_where_nothing_is_wanted_and_of_many_equal_ones_the_first():
    """A draw of 0 is below every share but that of nothing; 100 equal magnitudes, of which the first 7 are taken."""
    values, lowest = np.ones((1, 100)), lambda rows, places: np.zeros(len(rows))
    assert largest_elements(values, np.ones(100), 0.0, lowest)[0].tolist() == []
    assert largest_elements(values, np.ones(100), 7.0, lowest)[0].tolist() == list(range(7))
    assert largest_elements(values, np.full(100, 2.0), 7.0, lowest)[0].tolist() == list(range(4))
    assert largest(np.array([3.0]), 0).dtype == np.int64
    assert largest(np.array([3.0, 0.0, 2.0, 0.0]), 3).tolist() == [0, 2]


def test_results_are_kept_up_to_the_length_that_is_small():
    numbers = cache_small_results(lambda n: [0] * n)
    assert numbers(MOST) is numbers(MOST)
    assert numbers(MOST + 1) is not numbers(MOST + 1)
    results = LatestResults(2)
    results.get("a", lambda: 1)
    assert "a" in results
    assert "b" not in results
    results.clear()
    assert "a" not in results


def test_idle_time_is_shown_as_its_parts_and_all_else_as_it_is():
    breakdown = {term: float(number) for number, term in enumerate(BREAKDOWN)}
    made = split_idle(breakdown, {"waiting_for_slowest": 0.5, "data_loading": 0.25})
    assert made == {term: seconds for term, seconds in breakdown.items() if term != "idle"} | {
        "waiting_for_slowest": 0.5, "waiting_for_host": 0.0, "waiting_for_stages": 0.0, "communication_of_stages": 0.0,
        "data_loading": 0.25,
    }  # fmt: skip
