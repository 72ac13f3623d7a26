"""The model's own error, fitted to set-ups whose errors are known."""

import math

import numpy as np
import pytest

from simulator.prediction.doubts.doubt import Doubt
from simulator.prediction.doubts.own_error import PARTS
from simulator.prediction.doubts.spread import Response, Spread, compare_spreads
from simulator.reporting.answers.validated import JudgedSign
from simulator.studies.validate.model_error import fit_model_error, measured_share


def off_by(group, error, part="compute", stated=0.0):
    """A row whose measured logarithm is so far from the prediction, all of which is one part of the iteration."""
    below, above = stated if isinstance(stated, tuple) else (stated, stated)
    parts = {"shares": dict.fromkeys(PARTS, 0.0) | {part: 1.0}, "below": below, "above": above}
    return {"group": group, "predicted": 1.0, "measured": math.exp(error), "parts": parts}


def test_a_model_error_by_hand():
    """Nine set-ups of one row, off by 1 to 9 %: nine in ten of those to come are within 9 %, half within 5 %."""
    rows = [off_by(f"set-up {number}", (-1) ** number * number / 100) for number in range(1, 10)]
    made = fit_model_error(rows)
    assert made.rows == 9
    assert math.log(made.errors.width) == pytest.approx(0.09, abs=1e-6)
    assert made.errors.stretch == pytest.approx({50: 5 / 9, 80: 8 / 9, 90: 1})
    # Of eight the largest holds 8 / 9 only, and nothing is known beyond it.
    assert math.log(made.of("set-up 9").width) == pytest.approx(0.08, abs=1e-6)
    # Where the widths of the inputs say as much already, nothing is left for the model.
    enough = fit_model_error([off_by("a", 0.05, stated=0.06), off_by("b", -0.05, stated=0.06)])
    assert enough.errors.width == 1 and enough.errors.stretch[90] == pytest.approx(5 / 6)
    # What was measured to take longer is judged by the upper end of the inputs, and the rest by the lower one.
    sided = fit_model_error([off_by("a", 0.05, stated=(0.02, 0.06)), off_by("b", -0.05, stated=(0.06, 0.02))])
    assert sided.errors == enough.errors


def test_the_share_of_what_was_measured_is_one_of_squares_of_the_further_ends():
    """0.3 of the model itself and 0.2 of a measured kernel, beside 0.4 that is assumed: 13 of 29 hundredths."""
    responses = []
    for key, level, low, high in (
        (("model", "x"), "transferred", -0.1, 0.3),
        (("kernel", "a"), "measured", -0.2, 0.1),
        (("kernel", "b"), "assumed", -0.4, 0.4),
    ):
        responses.append(Response(key, (Doubt(*key, level, 1.5),), low, high))
    assert measured_share(Spread(1.0, tuple(responses))) == pytest.approx(13 / 29)
    assert measured_share(Spread(1.0, ())) == 1.0


def test_the_models_own_error_is_that_of_rows_whose_inputs_are_known():
    """Set-ups with uncertain inputs that are right all the same narrow the intervals, and leave the own error alone."""
    known = [off_by(f"known {number}", 0.05) for number in range(9)]
    uncertain = [off_by(f"uncertain {number}", 0.05, stated=1.0) for number in range(18)]
    alone, both = fit_model_error(known).errors, fit_model_error([*known, *uncertain]).errors
    assert both.width == alone.width == pytest.approx(math.exp(0.05))
    assert alone.stretch[50] == pytest.approx(1) and both.stretch[90] == pytest.approx(1)
    assert both.stretch[50] == pytest.approx(0.05, rel=1e-2)


def sign(group, error, half):
    """A pair whose measured speed-up is so far from the predicted one, as logarithms, and how far it may be."""
    values = {"predicted_pays": True, "measured_pays": True, "probability": 1.0, "verdict": "yes", "used_in_fit": False}
    ends = (math.exp(-half), math.exp(half))
    return JudgedSign(group, "method", "dense", math.exp(error), 1.0, speed_up_interval=ends, **values)


def test_speed_ups_are_as_far_off_as_measured_ones(monkeypatch):
    """Nine in ten pairs are off by 1.5 of their half-widths: ten rows of one set-up weigh as much as one of another."""
    monkeypatch.setattr("simulator.studies.validate.model_error.model_error", lambda: None)
    rows = [off_by(group, 0.05) for group in "abc"]
    pairs = [*(sign("a", number / 100, 0.1) for number in range(1, 11)), sign("b", -0.15, 0.1), sign("c", 0.0, 0.1)]
    made = fit_model_error(rows, pairs)
    assert made.errors.speed_ups == pytest.approx(1.5)
    assert made.of("b").speed_ups == 1 and fit_model_error(rows).errors.speed_ups == 1
    ratio = compare_spreads(*(Spread(1.0, (Response((name, ""), (), -0.1, 0.1),), tails=made.errors) for name in "xy"))
    assert math.log(ratio.interval()[1]) == pytest.approx(1.5 * made.errors.stretch[90] * math.hypot(0.1, 0.1))


def test_a_set_up_is_judged_by_the_others():
    made = fit_model_error([*(off_by(group, 0.02) for group in "abc"), *(off_by("d", 0.2) for _ in range(5))])
    assert math.log(made.of("d").width) == pytest.approx(0.02, abs=1e-4) and made.of("a").width > made.of("d").width
    assert made.of("one that nobody measured") == made.errors


def test_a_set_up_of_many_rows_weighs_no_more_than_one_of_few():
    few, many = ([off_by("a", 0.01)] * 50 + [off_by("b", 0.08)] * count for count in (4, 200))
    assert fit_model_error(few).errors == fit_model_error(many).errors


def test_set_ups_of_two_or_three_rows_do_not_say_how_far_intervals_reach():
    """Their largest error is not that of nine in ten, so that they would make intervals narrow."""
    rows = [*(off_by(group, 0.05) for group in "abcde" for _ in range(4))]
    few, enough = ([off_by(group, 0.0, stated=1.0) for group in "fghijklm" for _ in range(n)] for n in (3, 4))
    assert fit_model_error([*rows, *few]).errors == fit_model_error(rows).errors
    assert fit_model_error([*rows, *enough]).errors.stretch != fit_model_error(rows).errors.stretch


def test_intervals_hold_what_they_say_of_set_ups_that_are_yet_to_come():
    """Set-ups whose errors are drawn from one wide distribution: intervals fitted to some hold the rows of others."""
    rng = np.random.default_rng(3)
    rows = [
        off_by(f"set-up {number}", float(error))
        for number in range(60)
        for error in rng.normal(0, rng.lognormal(-3, 0.5), 20)
    ]
    made = fit_model_error(rows[: 20 * 30]).errors
    for percent, least in ((50, 0.4), (80, 0.7), (90, 0.82)):
        half = made.stretch[percent] * math.log(made.width)
        inside = [abs(math.log(row["measured"])) <= half for row in rows[20 * 30 :]]
        assert least <= sum(inside) / len(inside) <= least + 0.22
