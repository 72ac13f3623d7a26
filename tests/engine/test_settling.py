"""What is called settled: transients are left out, movement is told from noise, and errors hold autocorrelation."""

import math

import numpy as np
import pytest

from simulator.engine.replay import ReplayedStep
from simulator.engine.settling import _BATCHES, UNKNOWN_WIDTH, _movement, settle, truncation
from simulator.models.exchange import Selection


def steps(aggregated, largest=None, numbers=None):
    """A replay that aggregated so much, on two workers."""
    largest = np.full(len(aggregated), 7.0) if largest is None else largest
    numbers = range(len(aggregated)) if numbers is None else numbers
    return [
        ReplayedStep(t, Selection(np.ones(2), float(a), float(m), 1.0), 1.0, 0.0, 0.0, 0.0, 1000.0)
        for t, a, m in zip(numbers, aggregated, largest, strict=True)
    ]


def noise(count, seed=0, carried=0.0):
    """Autoregressive noise of variance 1: a share of it is carried over to the next iteration."""
    fresh, out = np.random.default_rng(seed).standard_normal(count), []
    for value in fresh:
        out.append(value if not out else carried * out[-1] + math.sqrt(1 - carried**2) * value)
    return np.array(out)


@pytest.mark.parametrize("length", [30, 100, 200])
def test_the_transient_is_left_out_and_nothing_more(length):
    series = 200 + 800 * np.exp(-np.arange(500) / (length / 5)) + 4 * noise(500)
    found = settle(steps(series))
    assert found.reason == ""
    assert 0.4 * length <= found.first <= min(250, 2 * length)
    assert found.iterations == 500 - found.first
    kept = series[found.first :]
    assert found.error == pytest.approx(4 / 200 / math.sqrt(len(kept)), rel=0.8)
    assert 1 / found.width <= kept.mean() / 200 <= found.width < 1.03


def test_what_never_changes_is_known_exactly():
    found = settle(steps([5.0] * 40))
    assert (found.first, found.iterations, found.error, found.change, found.width) == (0, 40, 0, 0, 1)
    assert settle(steps([0.0] * 40, [0.0] * 40)).width == 1


@pytest.mark.parametrize("gap", [1, 5])
def test_a_method_that_still_moves_has_not_settled_and_its_slope_is_per_iteration_of_training(gap):
    """A growth of 0.1 % per iteration, over recorded iterations that are `gap` apart."""
    numbers = gap * np.arange(300)
    found = settle(steps(1000 + numbers + 3 * noise(300), numbers=numbers.tolist()))
    assert found.reason.startswith("what it sends still changes by ")
    assert (found.first, found.iterations) == (gap * 240, 60)  # the last fifth, nearest to what would follow
    assert found.change == pytest.approx(100 / (1000 + numbers[150:].mean()), rel=0.1)
    assert found.moved == pytest.approx((numbers[-1] - found.first) / (1000 + numbers[240:].mean()), rel=0.1)
    assert found.width > 1 + 1.5 * abs(found.moved)


def test_the_largest_selection_decides_as_well():
    still, moving = 100 + noise(200), 100 * np.exp(-np.arange(200) / 100)
    assert settle(steps(still)).reason == ""
    found = settle(steps(still, moving))
    assert found.change < -0.3
    assert "still changes by -" in found.reason
    assert settle(steps(100 + 60 * noise(200), 100 - 0.1 * np.arange(200))).reason  # little movement beside much noise


@pytest.mark.parametrize("count", [4, 16, 19])
def test_few_iterations_are_never_called_settled(count):
    found = settle(steps(100 + noise(count)))
    assert found.iterations >= count // 2
    assert found.reason.startswith(f"{found.iterations} iterations are too few to tell")
    assert settle(steps(np.exp(-np.arange(16))), 0).width > settle(steps([1.0] * 16), 0).width == 1
    alone = settle(steps([3.0]))
    assert (alone.iterations, alone.error, alone.width) == (1, None, UNKNOWN_WIDTH)


def test_a_stated_start_is_taken():
    series, numbers = np.r_[np.full(50, 900.0), 100 + noise(50)], [*range(50), *range(200, 250)]
    assert settle(steps(series, numbers=numbers)).first == 200
    for since, first, count in ((0, 0, 100), (30, 30, 70), (60, 200, 50), (249, 249, 1)):
        found = settle(steps(series, numbers=numbers), since)
        assert (found.first, found.iterations) == (first, count)
    assert settle(steps(series, numbers=numbers), 0).reason


@pytest.mark.parametrize(("carried", "count"), [(0.0, 200), (0.5, 200), (0.9, 500)])
def test_noise_is_rarely_called_movement_and_the_width_holds_the_mean(carried, count):
    """Of 100 series that do not move; nine in ten is what a width promises."""
    found = [settle(steps(100 + 10 * noise(count, seed, carried))) for seed in range(100)]
    series = [100 + 10 * noise(count, seed, carried) for seed in range(100)]
    means = [values[item.first :].mean() / 100 for item, values in zip(found, series, strict=True)]
    assert sum(bool(item.reason) for item in found) <= 10
    assert sum(1 / item.width <= mean <= item.width for item, mean in zip(found, means, strict=True)) >= 85


def test_truncation_is_in_the_first_half():
    assert truncation([1.0]) == truncation([2.0, 2.0]) == 0
    assert truncation(list(range(40, 0, -1))) <= 20
    assert truncation([float(10 * (i < 103)) for i in range(400)]) == 105


def test_the_change_is_in_per_cent_of_the_mean_per_iteration():
    """Of an exact line; both are those of its last half."""
    numbers = np.arange(400)
    found = settle(steps(1000.0 + 2 * numbers))
    assert found.change == pytest.approx(100 * 2 / (1000 + 2 * numbers[200:].mean()), rel=2e-3)


def test_the_error_of_the_change_is_that_of_a_line_through_batch_means():
    """In per cent of the mean, as numpy's own fit of a line has it."""
    numbers = np.arange(400)
    values = 1000 + 0.1 * numbers + 5 * noise(400)
    found = _movement(numbers.tolist(), values.tolist())
    at, of = ([part.mean() for part in np.array_split(each, _BATCHES)] for each in (numbers, values))
    (slope, _), covariance = np.polyfit(at, of, 1, cov=True)
    expected = (100 * slope / np.mean(of), 100 * np.sqrt(covariance[0, 0]) / np.mean(of))
    assert (found.change, found.change_error) == pytest.approx(expected, rel=1e-6)
