"""The scoreboard: errors, coverage and width of intervals, by hand."""

import pytest

from simulator.records import astuple
from simulator.studies.validate.scoreboard import LEVELS, errors_of, scoreboard


def row(measured, predicted=1.0, **more):
    """A row whose 50, 80 and 90 % intervals reach 10, 20 and 30 % to either side of the prediction."""
    shares = {"50": 0.1, "80": 0.2, "90": 0.3}
    intervals = {level: [predicted * (1 - share), predicted * (1 + share)] for level, share in shares.items()}
    made = {"group": "a", "quantity": "iteration_time", "measured": measured, "predicted": predicted}
    made |= {"signed_error": predicted / measured - 1, "baseline_signed_error": -0.5, "used_in_fit": False}
    made |= {"measured_share": 1.0}
    return made | {"intervals": intervals} | more


def test_coverage_and_width_by_hand():
    errors = errors_of([row(1.0), row(1.15), row(0.75), row(1.5)])
    assert [getattr(errors, f"coverage_{level}") for level in ("50", "80", "90")] == [0.25, 0.5, 0.75]
    assert errors.half_width == pytest.approx(0.3)
    assert errors.narrow_coverage_90 is None  # all are wider
    narrow = {"intervals": {level: [0.9, 1.1] for level in LEVELS}}
    assert errors_of([row(1.0), row(1.05, **narrow), row(1.5, **narrow)]).narrow_coverage_90 == 0.5
    assert errors.mape == pytest.approx((0 + 0.15 / 1.15 + 1 / 3 + 1 / 3) / 4)
    assert errors.bias == pytest.approx((0 - 0.15 / 1.15 + 1 / 3 - 1 / 3) / 4)
    assert errors.max_ape == pytest.approx(1 / 3) and errors.baseline_mape == 0.5


def test_the_ends_of_an_interval_are_inside():
    assert errors_of([row(1.1), row(0.9)]).coverage_50 == 1


def test_the_half_width_is_a_median_relative_to_the_prediction():
    wide = row(10.0, 10.0, intervals={level: [0.0, 40.0] for level in LEVELS})
    assert errors_of([row(1.0), row(2.0, 2.0), wide]).half_width == pytest.approx(0.3)


def test_rows_without_intervals_or_trivial_sum_count_where_they_can():
    errors = errors_of([row(1.0), row(2.0, intervals=None, baseline_signed_error=None)])
    assert (errors.n, errors.mape, errors.baseline_mape, errors.coverage_50) == (2, 0.25, 0.5, 1)


def test_without_rows_nothing_is_known():
    count, *errors = astuple(errors_of([]))
    assert count == 0
    assert set(errors) == {None}


def test_fitted_rows_do_not_count_and_throughputs_are_whole_iterations():
    rows = [
        row(1.0, quantity="throughput"),
        row(1.0, quantity="selection", group="b"),
        row(9.0, used_in_fit=True, group="c"),
    ]
    groups, iterations, _, overall = scoreboard(rows)
    assert {name: errors.n for name, errors in groups.items()} == {"a": 1, "b": 1, "c": 0}
    assert (iterations.n, overall.n) == (1, 2)
