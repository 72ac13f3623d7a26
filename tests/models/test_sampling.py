"""Coordinates that stand for several elements: fair counts, moments, and draws by counter."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from long_examples import few_first

from simulator.models.gradients import Block, without_noise
from simulator.models.largest import largest, largest_elements, order_of_units
from simulator.models.sampling import (
    count_at,
    draw_elements,
    draw_uniformly,
    mean_of,
    moments_of,
    quantile_of,
    sums_of_squares,
)


@given(seed=st.integers(0, 99), m=st.integers(1, 40), k=st.integers(1, 40), draw=st.floats(0, 1, exclude_max=True))
def test_of_single_elements_the_largest_are_taken_whatever_is_drawn(seed, m, k, draw):
    values = np.abs(np.random.default_rng(seed).standard_normal((3, m)))
    signed = values * np.random.default_rng(seed).choice([-1, 1], values.shape)
    taken = largest_elements(signed, np.ones(m), k, lambda rows, _: np.full(len(rows), draw))
    for places, row in zip(taken, values, strict=True):
        np.testing.assert_array_equal(places, largest(row, k))


@pytest.mark.parametrize("k", few_first([7, 1, 30, 64]))
def test_coordinates_that_stand_for_many_elements_are_taken_so_that_k_holds_on_average(k):
    """Also k of 1 where the largest coordinate stands for 50."""
    weight, values = np.array([3.0, 50.0, 1.0, 10.0]), np.tile([2.0, 4.0, 1.0, 3.0], (200_000, 1))
    draws = np.random.default_rng(0).random(values.shape)
    taken = largest_elements(values, weight, k, lambda rows, places: draws[rows, places])
    assert np.array([weight[places].sum() for places in taken]).mean() == pytest.approx(k, rel=0.05)


def test_repeated_elements_have_the_moments_of_weighted_ones():
    values, weight = np.array([1.0, -2.0, 4.0]), np.array([2.0, 5.0, 3.0])
    repeated = np.repeat(values, weight.astype(int))
    assert mean_of(values, weight) == pytest.approx(mean_of(repeated, None))
    for ddof in (0, 1):
        assert moments_of(values, weight, ddof) == pytest.approx(moments_of(repeated, None, ddof))
    places = np.array([0, 2])
    assert count_at(places, weight) == 5
    assert count_at(places, None) == 2


def test_quantiles_of_even_weights_are_near_those_without():
    values, shares = np.random.default_rng(1).standard_normal(4001), np.linspace(0.01, 0.99, 21)
    np.testing.assert_allclose(quantile_of(values, np.full(4001, 7.0), shares), np.quantile(values, shares), atol=1e-12)
    assert quantile_of(values, np.where(values > 0, 1.0, 3.0), np.array([0.75]))[0] == pytest.approx(0.0, abs=0.05)


def test_elements_are_drawn_in_proportion_to_their_weights():
    assert draw_elements(np.array([1.0, 3.0]), 40_000, np.random.default_rng(0)).mean() == pytest.approx(0.75, abs=0.01)


def test_draws_are_uniform_and_differ_by_every_counter():
    places = np.arange(50_000)
    first, second = draw_uniformly(0, 0, np.arange(2)[:, None], places)
    assert 0 <= first.min() < first.max() < 1
    np.testing.assert_allclose(np.histogram(first, 10, (0, 1))[0], 5000, atol=300)
    for other in (second, draw_uniformly(1, 0, np.array([0]), places), draw_uniformly(0, 1, np.array([0]), places)):
        assert abs(np.corrcoef(first, other)[0, 1]) < 0.02
    np.testing.assert_array_equal(first[100:], draw_uniformly(0, 0, np.array([0]), places[100:]))


def test_a_block_draws_for_every_worker_and_iteration_anew():
    def at(iteration):
        values = np.zeros((2, 3), dtype=np.float32)
        block = Block(values, np.zeros(3, int), np.arange(3), np.full(3, 2.0), (6,), iteration)
        return block.draws_of(slice(1, 3))(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))

    assert len({*at(0).tolist(), *at(1).tolist()}) == 8
    np.testing.assert_array_equal(at(1), at(1))


def test_counts_lose_the_spread_of_their_errors_only():
    rng = np.random.default_rng(2)
    true = 1000 + 50 * rng.standard_normal(400)
    seen = true + 80 * rng.standard_normal(400)
    made = without_noise(seen, 80.0**2)
    assert made.std() == pytest.approx(true.std(), rel=0.15)
    assert made.sum() == pytest.approx(seen.sum())
    np.testing.assert_array_equal(without_noise(seen, 1e9), np.full(400, seen.mean()))


def test_squares_count_for_as_many_elements_as_they_stand_for():
    values, weight = np.array([1.0, -2.0, 3.0]), np.array([1.0, 10.0, 0.5])
    assert sums_of_squares(values[None], weight).tolist() == [1 + 40 + 4.5]
    assert sums_of_squares(values[None], None).tolist() == [14]


def test_of_many_equal_magnitudes_the_first_are_taken_whatever_is_drawn():
    """More ties than a sort that is not stable keeps in order."""
    rows = np.random.default_rng(3).integers(-4, 5, (3, 500)).astype(float)
    taken = largest_elements(rows, np.ones(500), 123.0, lambda rows, _: np.full(len(rows), 0.5))
    for places, row in zip(taken, rows, strict=True):
        np.testing.assert_array_equal(places, np.sort(np.lexsort((np.arange(500), -np.abs(row)))[:123]))


def test_units_are_ordered_alike_where_a_whole_number_is_too_short(monkeypatch):
    """Many equal magnitudes of both signs, in three units."""
    values = np.random.default_rng(5).integers(-4, 5, (3, 60)).astype(np.float32)
    unit = np.repeat([0, 1, 2], [7, 40, 13])
    packed = order_of_units(values, unit)
    monkeypatch.setattr("simulator.models.largest._SPARE_BITS", 0)
    np.testing.assert_array_equal(packed, order_of_units(values, unit))
    assert (unit[packed] == unit).all()
