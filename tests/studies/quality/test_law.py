"""The law between settings: found where there is one, simple where there is none, refused outside of what was run."""

import math

import numpy as np
import pytest
from made_trainings import TARGET, write_study

from simulator.errors import InputError
from simulator.records import replace
from simulator.studies.quality.law import LawForm, LawPoints, fit_law, left_out_errors
from simulator.studies.quality.observations import Target
from simulator.studies.quality.study import leave_out, read_study
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


def test_a_power_is_found_where_there_is_one():
    law = fit_law(points(lambda setting: 4 - 0.2 * math.log(setting.density)))
    assert str(law.form) == "S density^-p" and law.factors["p"] == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize("seed", range(3))
def test_left_out_settings_are_predicted_and_intervals_hold(seed):
    known, errors, held = points(delayed, seed=seed), [], 0
    for place, setting in enumerate(GRID):
        law = fit_law(known.without(place))
        if not law.outside(setting):
            errors.append(abs(known.logs[place] - law.log(setting)))
            held += errors[-1] <= law.half_width
    assert math.exp(np.median(errors)) < 1.08 and held >= 0.8 * len(errors)


def test_few_settings_have_no_law():
    made = points(delayed)
    assert fit_law(LawPoints(made.settings[:4], made.logs[:4], made.own[:4])) is None


@pytest.mark.parametrize("factor", "bcpw")
def test_a_factor_needs_settings_that_differ_in_its_axis(factor):
    alike = LawPoints((GRID[0],) * 6, (5.0,) * 6, (True,) * 6)
    form = LawForm(factor)
    assert left_out_errors(form, points(delayed)) is not None and left_out_errors(form, alike) is None


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    methods = [{"kind": "dense"}, *({"kind": "topk", "density": density} for density in (0.1, 0.01, 0.002))]
    folder = write_study(tmp_path_factory.mktemp("study"), methods, 2, workers=(2, 8), batch_size=(4, 16))
    return read_study(str(folder), Target("loss", TARGET))


def test_trainings_are_predicted_between_settings(study):
    setting = next(each for each in study.groups if each.recipe.kind == "topk")
    between = replace(setting, density=0.005, workers=4, batch_size=8)
    steps = study.steps(between)
    assert between not in study.typical
    assert math.exp(steps.low) <= 80 * (1 + 8 / 32 + 2e-3 * 199) <= math.exp(steps.high)
    rows = leave_out(study, setting.recipe)
    assert len(rows) >= 6 and np.median([abs(math.log(row.factor)) for row in rows]) < math.log(1.15)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"density": 1e-4}, "density from 0.002 to 0.1, the range that was run, got 0.0001"),
        ({"workers": 16}, "workers from 2 to 8, the range that was run, got 16"),
        ({"batch_size": 1}, "batch_size from 4 to 16, the range that was run, got 1"),
    ],
)
def test_outside_of_what_was_run_it_is_refused(study, change, message):
    setting = next(each for each in study.groups if each.recipe.kind == "topk")
    with pytest.raises(InputError, match=message):
        study.steps(replace(setting, **change))
