"""The law between settings: found where there is one, simple where there is none, refused outside of what was run."""

import math

import numpy as np
import pytest
from made_trainings import TARGET, write_study

from simulator.errors import InputError
from simulator.records import replace
from simulator.studies.quality.law import Law, LawForm, LawPoints, fit_law, left_out_errors
from simulator.studies.quality.observations import Target
from simulator.studies.quality.study import Noise, Steps, Study, Typical, leave_out, read_study
from simulator.trainings.runs import Recipe, Setting

RECIPE = Recipe("made", 10, "topk", "{}", True, 1, "fp32")
GRID = [
    Setting(RECIPE, density, workers, batch)
    for density in (0.1, 0.01, 0.001)
    for workers in (2, 4, 8)
    for batch in (4, 16)
]


def points(log_of, noise=0.05, seed=0):
    random = np.random.default_rng(seed)
    logs = [log_of(setting) + noise * random.normal() for setting in GRID]
    return LawPoints(tuple(GRID), tuple(logs), (True,) * len(GRID))


def delayed(setting):
    return math.log(80 * (1 + 20 / (setting.workers * setting.batch_size) + 2e-3 * (1 / setting.density - 1)))


def test_a_known_law_is_found():
    law = fit_law(points(delayed, noise=0.02))
    assert str(law.form) == "S (1 + b / B + c (1 / density - 1))"
    assert math.exp(law.scale) == pytest.approx(80, rel=0.1) and law.factors["c"] == pytest.approx(2e-3, rel=0.2)
    assert law.factors["b"] == pytest.approx(20, rel=0.3)
    between = Setting(RECIPE, 0.003, 6, 8)
    assert law.log(between) == pytest.approx(delayed(between), abs=0.06)


def test_noise_gets_no_factors():
    assert [fit_law(points(lambda _: 5.0, noise=0.1, seed=seed)).form.parameters for seed in range(20)].count(1) >= 15


def test_few_settings_have_no_law():
    made = points(delayed)
    assert fit_law(LawPoints(made.settings[:4], made.logs[:4], made.own[:4])) is None


@pytest.mark.parametrize("factor", "bcpw")
def test_a_factor_needs_settings_that_differ_in_its_axis(factor):
    alike = LawPoints((GRID[0],) * 6, (5.0,) * 6, (True,) * 6)
    form = LawForm(factor)
    assert left_out_errors(form, points(delayed)) is not None and left_out_errors(form, alike) is None


def test_trainings_are_predicted_between_settings(tmp_path):
    methods = [{"kind": "dense"}, *({"kind": "topk", "density": density} for density in (0.1, 0.01, 0.002))]
    folder = write_study(tmp_path, methods, 2, workers=(2, 8), batch_size=(4, 16))
    study = read_study(str(folder), Target("loss", TARGET))
    setting = next(each for each in study.groups if each.recipe.kind == "topk")
    between = replace(setting, density=0.005, workers=4, batch_size=8)
    steps = study.steps(between)
    assert between not in study.typical
    assert math.exp(steps.low) <= 80 * (1 + 8 / 32 + 2e-3 * 199) <= math.exp(steps.high)
    rows = leave_out(study, setting.recipe)
    assert len(rows) >= 6 and np.median([abs(math.log(row.factor)) for row in rows]) < math.log(1.15)


def made_study(laws, typical):
    return Study("here", Target("loss", 0.5), {setting: [] for setting in typical}, Noise((0.1,), 1), typical, laws)


LAW = Law(LawForm("bc"), math.log(80), {"b": 20.0, "c": 2e-3}, 0.1, 5, {"density": (0.001, 0.1), "workers": (2, 8)})
NEAR = replace(GRID[0], density=0.01, workers=5, batch_size=4)


@pytest.mark.parametrize(
    ("law", "change", "message"),
    [
        (LAW, {"density": 1e-4}, "density from 0.001 to 0.1, the range that was run, got 0.0001"),
        (LAW, {"workers": 16}, "workers from 2 to 8, the range that was run, got 16"),
        (replace(LAW, scale=math.log(1e4)), {}, "at most 700 iterations, as many as were run, got about 21,980 by the"),
        (None, {}, "a setting that was run: topk 0.01 with 4 workers and batch 4, topk 0.1 with 2 workers and batch 4"),
        (LAW, {"workers": 4}, r"reached with 4 workers, batch 4, got not within 300 iterations in any of 3 trainings"),
    ],
)
def test_iterations_that_nobody_saw_are_refused_with_what_was_run(law, change, message):
    lost = replace(GRID[0], density=0.01, workers=4)
    typical = {GRID[0]: Typical(6.0, 5.9, 6.1, 3, 3, 700), lost: Typical(None, 5.7, math.inf, 0, 3, 300)}
    with pytest.raises(InputError, match=message):
        made_study({RECIPE: law}, typical).steps(replace(NEAR, **change))


def test_iterations_are_those_that_were_seen_and_in_between_those_of_the_law():
    """ln(80 (1 + 20 / (5 x 4) + 0.002 x 99)) = ln 175.84, within 0.1 times Student's 95 % quantile of 5: 2.015."""
    typical = {GRID[0]: Typical(6.0, 5.9, 6.2, 3, 3, 700)}
    study = made_study({RECIPE: LAW}, typical)
    assert study.steps(GRID[0]) == Steps(6.0, 5.9, 6.2)
    log = math.log(175.84)
    found = study.steps(NEAR)
    assert (found.log, found.low, found.high) == pytest.approx((log, log - 0.2015, log + 0.2015), abs=1e-4)


@pytest.mark.parametrize(("factors", "w", "p"), [("w", 0.5, 0), ("p", 0, 0.2), ("pw", -0.3, 0.1), ("", 0, 0)])
def test_plain_powers_without_noise_are_found_exactly(factors, w, p):
    law = fit_law(points(lambda s: 4 + w * math.log(s.workers) - p * math.log(s.density), noise=0.0))
    assert law.form == LawForm(factors) and law.scale == pytest.approx(4, abs=1e-6)
    assert law.log(NEAR) == pytest.approx(4 + w * math.log(5) - p * math.log(0.01))
    found = law.factors.get("w", 0), law.factors.get("p", 0), law.deviation
    assert found == pytest.approx((w, p, 0), abs=1e-6)
    assert law.range == {"density": (0.001, 0.1), "workers": (2, 8), "batch_size": (4, 16)}


def test_the_deviation_of_a_law_is_that_of_settings_that_were_left_out():
    """Of six values off by 0.1 the mean of the others is 0.02 further off; one factor was fitted to them.

    A setting of dense is part of the mean, and not of the errors.
    """
    alike = (GRID[0],) * 6
    law = fit_law(LawPoints(alike, (5.1, 4.9) * 3, (True,) * 6))
    assert (law.scale, law.freedom) == (pytest.approx(5.0), 5)
    assert law.deviation == pytest.approx(math.sqrt(0.12**2 * 6 / 5))
    with_dense = LawPoints(alike, (5.1, 4.9) * 3, (True,) * 5 + (False,))
    assert left_out_errors(LawForm(), with_dense)[0] == pytest.approx([0.12, -0.12, 0.12, -0.12, 0.12])


@pytest.mark.parametrize("factor", "bc")
def test_settings_are_left_out_as_if_the_rest_were_fitted_anew(factor):
    known = points(delayed, noise=0.1, seed=4)
    sums = known.grid[factor][1]
    expected = []
    for place, log in enumerate(known.logs):
        rest = np.arange(len(GRID)) != place
        left = np.array(known.logs)[rest] - sums[:, rest]
        best = np.argmin(((left - left.mean(axis=1, keepdims=True)) ** 2).sum(axis=1))
        expected.append(log - sums[best, place] - left[best].mean())
    assert left_out_errors(LawForm(factor), known)[0] == pytest.approx(expected)


def test_two_values_of_an_axis_and_two_settings_to_spare_are_enough_for_a_factor():
    two = [Setting(RECIPE, 0.1, workers, 4) for workers in (2, 4, 2, 4)]
    for count, enough in ((4, True), (3, False)):
        made = LawPoints(tuple(two[:count]), (5.0, 5.5, 5.1, 5.6)[:count], (True,) * count)
        assert (left_out_errors(LawForm("w"), made) is not None) == enough


@pytest.mark.parametrize("seed", range(3))
def test_left_out_settings_are_predicted_and_intervals_hold(seed):
    known, errors, held = points(delayed, seed=seed), [], 0
    for place, setting in enumerate(GRID):
        law = fit_law(known.without(place))
        if not law.outside(setting):
            errors.append(abs(known.logs[place] - law.log(setting)))
            held += errors[-1] <= law.half_width
    assert math.exp(np.median(errors)) < 1.08 and held >= 0.8 * len(errors)
