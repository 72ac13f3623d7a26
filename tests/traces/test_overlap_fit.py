"""Laws of build-up: against simulated draws, and from 4 workers to 16 on the shipped traces."""

import csv
import math
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT
from scipy.optimize import brentq

from simulator.errors import SparsimError
from simulator.models.overlap import (
    INDEPENDENT,
    UNRECORDED,
    UNRECORDED_WIDTH,
    DensityLaw,
    ScaleMixture,
    union_density,
)
from simulator.prediction.extrapolation import LEAST_ERROR
from simulator.traces.format.trace import Trace
from simulator.traces.overlap_fit import fit_concentration, fit_law, fit_mixture

TRACES = ROOT / "configs" / "traces"
NAMES = ("resnet-digits", "transformer-generated")
GOAL = {("layer", 0.001): 3, ("layer", 0.01): 3, ("layer", 0.1): 6}
GOAL |= {("model", density): 10 for density in (0.001, 0.01, 0.1)}
MISSED = {("transformer-generated", "layer", False, 0.001): 5.2, ("transformer-generated", "layer", False, 0.01): 4.0}
CASES = [(name, g, feedback, d) for name in NAMES for g, d in GOAL for feedback in (False, True)]
EACH = [pytest.param(*case, marks=() if case in CASES[::12] else pytest.mark.long) for case in CASES]


@pytest.fixture(scope="module")
def traces():
    return {name: Trace.open(TRACES / name) for name in NAMES}


def gap(trace, case, fit, n):
    """Mean over iterations of the relative error at n, in percent, of laws fitted to the means at 1, 2 and 4."""
    points, errors, iterations = trace.union_points(*case), [], []
    for first, last in trace.spec.runs():
        inside = [points[i] for i in points if first <= i <= last]
        mean = {m: float(np.mean([item[m].union_density for item in inside])) for m in (1, 2, 4, n)}
        law = fit({m: mean[m] for m in (1, 2, 4)})
        errors.append(abs(union_density(mean[1], n, law) / mean[n] - 1))
        iterations.append(len(inside))
    return 100 * float(np.average(errors, weights=iterations))


@pytest.mark.parametrize(("name", "granularity", "feedback", "density"), EACH)
def test_the_mixture_reaches_16_workers_from_4(traces, name, granularity, feedback, density):
    """Goal: 3 % (layer-wise to density 0.01), 6 % (layer-wise 0.1), 10 % (whole model); two cases miss it."""
    bar = MISSED.get((name, granularity, feedback, density), GOAL[granularity, density])
    for n in (8, 16):
        assert gap(traces[name], (granularity, feedback, density), fit_mixture, n) < bar


def test_one_concentration_is_enough_for_one_trace_layer_wise_and_not_for_all(traces):
    worst = {
        (name, g): max(
            gap(traces[name], (g, f, d), fit_concentration, 16) for f in (False, True) for d in (0.001, 0.01)
        )
        for name in NAMES
        for g in ("layer", "model")
    }
    assert worst["resnet-digits", "layer"] < 1.5 and 5 < worst["transformer-generated", "layer"] < 9
    assert 10 < worst["resnet-digits", "model"] < 11 and 10 < worst["transformer-generated", "model"] < 11


@given(rho=st.floats(1e-4, 0.5), c=st.floats(0.1, 3000))
def test_a_concentration_is_found_again(rho, c):
    points = {n: union_density(rho, n, c) for n in (1, 2, 4)}
    for few in (points, {1: rho, 4: points[4]}):
        found = fit_concentration(few)
        assert union_density(rho, 64, found) == pytest.approx(union_density(rho, 64, c), rel=1e-4)
    assert found == pytest.approx(c, rel=0.02)


def test_independence_and_identical_choices_are_the_ends():
    assert fit_concentration({n: union_density(0.01, n) for n in (1, 2, 4)}) == INDEPENDENT
    assert fit_concentration({1: 0.01, 2: 0.0205, 4: 0.041}) == INDEPENDENT
    assert fit_concentration({1: 0.01, 2: 0.01, 4: 0.01}) < 2e-3
    assert union_density(0.01, 64, fit_mixture({1: 0.01, 2: 0.01, 4: 0.01})) == pytest.approx(0.01, rel=2e-2)
    apart = fit_mixture({n: union_density(0.01, n) for n in (1, 2, 4)})
    assert union_density(0.01, 64, apart) == pytest.approx(union_density(0.01, 64), rel=1e-3)
    assert union_density(0.01, 64, ScaleMixture(1.0, 1.0)) == pytest.approx(0.01)
    assert union_density(0.01, 64, ScaleMixture(1e-6, 0.0)) == pytest.approx(union_density(0.01, 64), rel=1e-6)
    assert union_density(1.0, 8, ScaleMixture(1.0, 0.2)) == 1


@given(rho=st.floats(1e-4, 0.9), spread=st.floats(0, 4), core=st.floats(0, 1))
def test_a_mixture_is_a_law_of_unions(rho, spread, core):
    """rho at one worker; grows ever more slowly, within k <= K <= min(n k, d); more core or spread never adds."""
    law = ScaleMixture(spread, core)
    unions = [union_density(rho, n, law) for n in range(1, 20)]
    assert unions[0] == pytest.approx(rho, rel=1e-6)
    steps = [after - before for before, after in pairwise(unions)]
    assert min(steps) >= -1e-12 and all(after <= before + 1e-12 for before, after in pairwise([rho, *steps]))
    assert max(unions) <= 1 + 1e-12
    assert union_density(rho, 8, ScaleMixture(spread, min(1.0, core + 0.1))) <= union_density(rho, 8, law) + 1e-9
    assert union_density(rho, 8, ScaleMixture(spread + 0.2, core)) <= union_density(rho, 8, law) + 1e-9


@pytest.mark.long
def test_a_mixture_is_what_values_of_unlike_scale_do():
    """400,000 coordinates, 16 workers: Laplace values times log-normal scales, one threshold, and a core."""
    rng = np.random.default_rng(0)
    d, spread, core, rho = 400_000, 0.8, 0.1, 0.02
    scale = np.exp(spread * rng.standard_normal(d))
    sure = np.arange(d) < core * rho * d
    values = np.abs(rng.laplace(size=(16, d)) * scale)
    chosen = (values >= np.quantile(values[:, ~sure], 1 - ((rho - core * rho) / (1 - core * rho)))) | sure
    law = ScaleMixture(spread, core)
    for n in (1, 2, 4, 8, 16):
        assert union_density(rho, n, law) == pytest.approx(chosen[:n].any(axis=0).mean(), rel=0.02)
    found = fit_mixture({n: float(chosen[:n].any(axis=0).mean()) for n in (1, 2, 4)})
    assert union_density(rho, 16, found) == pytest.approx(chosen.any(axis=0).mean(), rel=0.05)


LEFT_OUT = ("transformer", "mlp", "convnet")
"""Networks that no prior of the default law was chosen on; those were chosen on lstm and resnet."""
SEEN = ("lstm", "resnet")
BARS = {"layer": 0.05, "model": 0.15}


@cache
def errors_of(fit, networks, phases=("early", "middle", "late")):
    """(granularity, error at 16 workers of a law fitted to 1, 2 and 4) of each case that making/unions.py wrote."""
    cases = recorded_cases(networks, phases).items()
    return [(case[2], missed_by(points, fit({n: points[n] for n in (1, 2, 4)}))) for case, points in cases]


def recorded_cases(networks, phases=("early", "middle", "late")):
    """Unions by workers of each case (network, phase, granularity, error feedback, density)."""
    cases = {}
    with (ROOT / "tests" / "traces" / "unions.csv").open() as file:
        for row in csv.DictReader(file):
            if row["network"] in networks and row["phase"] in phases:
                case = tuple(row[key] for key in ("network", "phase", "granularity", "error_feedback", "density"))
                cases.setdefault(case, {})[int(row["workers"])] = float(row["union_density"])
    return cases


def missed_by(points, law):
    return abs(union_density(points[1], 16, law) / points[16] - 1)


@pytest.mark.parametrize("phases", [("late",), pytest.param(("early", "middle", "late"), marks=pytest.mark.long)])
def test_the_default_law_reaches_16_workers_from_4_on_networks_that_were_left_out(phases):
    """Within 5 % in 95 % of the layer-wise cases, and within 15 % in 95 % of those of whole models."""
    for granularity, bar in BARS.items():
        errors = [error for of, error in errors_of(fit_law, LEFT_OUT, phases) if of == granularity]
        assert len(errors) == 18 * len(phases)
        assert float(np.mean([error <= bar for error in errors])) >= 0.95, (granularity, sorted(errors)[-4:])


@pytest.mark.long
def test_over_all_networks_the_default_law_is_better_than_either_form_alone():
    forms = {"default": fit_law, "beta-binomial": fit_concentration, "mixture": fit_mixture}
    worst = {}
    for name, fit in forms.items():
        found = [*errors_of(fit, LEFT_OUT), *errors_of(fit, SEEN)]
        worst[name] = [float(np.quantile([e for of, e in found if of == g], 0.95)) for g in BARS]
    assert worst["default"][0] < 0.05
    every = [error for networks in (LEFT_OUT, SEEN) for _, error in errors_of(fit_law, networks)]
    assert 0.03 < float(np.quantile(every, 0.9)) < LEAST_ERROR
    for other in ("beta-binomial", "mixture"):
        assert all(a < b for a, b in zip(worst["default"], worst[other], strict=True))


@pytest.mark.long
def test_noise_is_not_fitted_by_a_second_parameter():
    """Unions of the beta-binomial law with errors of 2 %: a mixture fitted to them may be far off, the default not."""
    draws = np.random.default_rng(5)
    default, mixture, chosen = [], [], []
    for _ in range(30):
        points = {n: union_density(0.01, n, 20.0) for n in (1, 2, 4)}
        noisy = {n: value * (1 if n == 1 else 1 + 0.02 * draws.standard_normal()) for n, value in points.items()}
        if not noisy[1] < noisy[2] < noisy[4] <= 2 * noisy[2]:
            continue
        true = {1: 0.01, 16: union_density(0.01, 16, 20.0)}
        law = fit_law(noisy, {2: 0.02, 4: 0.02})
        default.append(missed_by(true, law))
        mixture.append(missed_by(true, fit_mixture(noisy)))
        chosen.append(isinstance(law, ScaleMixture))
    assert len(default) > 20
    assert float(np.mean(chosen)) <= 0.1
    assert float(np.quantile(default, 0.9)) < 0.6 * float(np.quantile(mixture, 0.9))


@pytest.mark.parametrize("law", [ScaleMixture(0.8, 0.1), ScaleMixture(0.7, 0.0, 0.3), 30.0])
def test_exact_unions_give_back_the_law_that_made_them(law):
    found = fit_law({n: union_density(0.02, n, law) for n in (1, 2, 4)})
    assert isinstance(found, ScaleMixture) == isinstance(law, ScaleMixture)
    assert union_density(0.02, 16, found) == pytest.approx(union_density(0.02, 16, law), rel=0.02)


def test_what_inexact_unions_leave_open_is_as_the_priors_say():
    """A spread of 1 and no core, where unions may be a tenth off."""
    found = fit_law({n: union_density(0.01, n, ScaleMixture(0.5, 0.2)) for n in (1, 2, 4)}, {2: 0.1, 4: 0.1})
    assert (found.spread, found.core) == (pytest.approx(1, abs=0.1), pytest.approx(0, abs=0.03))


def test_one_union_has_one_parameter():
    assert fit_law({1: 0.01, 2: 0.019}) == fit_concentration({1: 0.01, 2: 0.019})


@given(rho=st.floats(1e-4, 0.5), spread=st.floats(0, 2), silent=st.floats(0, 0.9))
def test_coordinates_that_are_silent_are_in_no_union(rho, spread, silent):
    law = ScaleMixture(spread, 0.0, silent)
    unions = [union_density(rho, n, law) for n in (1, 2, 8, 4096)]
    assert unions[0] == pytest.approx(rho, rel=1e-6) and unions == sorted(unions)
    assert unions[-1] <= rho**silent * (1 + 1e-9)
    assert union_density(rho, 8, law) <= union_density(rho, 8, ScaleMixture(spread, 0.0)) * (1 + 1e-9)


@pytest.mark.parametrize(
    "points", [{1: 0.1}, {2: 0.1}, {1: 0.2, 2: 0.1}, {1: 0.0, 2: 0.1}, {1: 0.5, 2: 1.1}, {1: math.nan, 2: 0.1}]
)
def test_points_that_are_no_unions_are_refused(points):
    with pytest.raises(SparsimError):
        fit_concentration(points)
    with pytest.raises(SparsimError):
        fit_mixture(points)


def test_a_mixture_needs_two_points():
    with pytest.raises(SparsimError, match="two worker counts"):
        fit_mixture({1: 0.1, 2: 0.15})


@pytest.fixture(scope="module")
def asked():
    """(network, workers, unions by workers, ln c that the union of so many asks for) with error feedback."""
    return [
        (case[0], n, points, brentq(lambda x: union_density(points[1], n, math.exp(x)) - points[n], -12, 18))  # noqa: B023
        for case, points in recorded_cases((*LEFT_OUT, *SEEN)).items()
        for n in (8, 16)
        if case[3] == "true"
    ]


def density_law(rows):
    exponent, constant = np.polyfit([math.log(points[1]) for _, _, points, _ in rows], [row[3] for row in rows], 1)
    return DensityLaw(math.exp(constant), float(exponent))


def off(rows, law):
    return [abs(union_density(points[1], n, law) / points[n] - 1) for _, n, points, _ in rows]


def test_the_law_of_what_nobody_recorded_is_the_fit_to_recorded_networks(asked):
    found = density_law(asked)
    assert len(asked) == 180
    assert (found.scale, found.exponent) == pytest.approx((UNRECORDED.scale, UNRECORDED.exponent), rel=5e-3)


def test_a_network_that_was_left_out_is_nearer_to_that_law_than_to_independence(asked):
    """All rows were in sight when the form was chosen, but none of the network itself in the fit that it is judged by.

    A goal of 5 % in the median and 15 % in nine of ten cases is not reached: 14 % and 43 %.
    """
    missed, apart = [], []
    for left_out in (*LEFT_OUT, *SEEN):
        law = density_law([row for row in asked if row[0] != left_out])
        rows = [row for row in asked if row[0] == left_out]
        missed += off(rows, law)
        apart += [abs(row[3] - math.log(law.concentration(row[2][1]))) for row in rows]
    assert np.quantile(missed, (0.5, 0.9)) == pytest.approx((0.138, 0.425), abs=0.01)
    assert np.quantile(off(asked, INDEPENDENT), (0.5, 0.9)) == pytest.approx((0.314, 1.017), abs=0.01)
    assert math.exp(np.quantile(apart, 0.9)) == pytest.approx(UNRECORDED_WIDTH, rel=0.05)


def test_unions_by_the_law_of_what_nobody_recorded_lie_around_those_of_bert():
    """Zen (OSDI'25): 1.06 % of a BERT gradient on one worker, 40.8 % on any of 128; independence says 74 %."""
    usual = UNRECORDED.concentration(0.0106)
    laws = usual / UNRECORDED_WIDTH, UNRECORDED, usual * UNRECORDED_WIDTH
    few, law, many = (union_density(0.0106, 128, each) for each in laws)
    assert law == union_density(0.0106, 128, usual) and few < law < 0.408 < many
    assert abs(law - 0.408) < union_density(0.0106, 128) - 0.408
