"""Laws of build-up: against simulated draws, and from 4 workers to 16 on the shipped traces."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT

from simulator.errors import SparsimError
from simulator.models.gradients import Block
from simulator.models.overlap import INDEPENDENT, ScaleMixture, union_density
from simulator.traces.format.trace import Trace
from simulator.traces.overlap_fit import (
    LayerMixture,
    fit_concentration,
    fit_layers,
    fit_mixture,
    measured_unions,
)

TRACES = ROOT / "configs" / "traces"
NAMES = ("resnet-digits", "transformer-generated")
GOAL = {
    ("layer", 0.001): 3,
    ("layer", 0.01): 3,
    ("layer", 0.1): 6,
    ("model", 0.001): 10,
    ("model", 0.01): 10,
    ("model", 0.1): 10,
}
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
        mean = {m: float(np.mean([item[m] for item in inside])) for m in (1, 2, 4, n)}
        errors.append(abs(fit({m: mean[m] for m in (1, 2, 4)})(n) / mean[n] - 1))
        iterations.append(len(inside))
    return 100 * float(np.average(errors, weights=iterations))


def by_concentration(points):
    c = fit_concentration(points)
    return lambda n: union_density(points[1], n, c)


def by_mixture(points):
    law = fit_mixture(points)
    return lambda n: union_density(points[1], n, law)


@pytest.mark.parametrize(("name", "granularity", "feedback", "density"), EACH)
def test_the_mixture_reaches_16_workers_from_4(traces, name, granularity, feedback, density):
    """Goal: 3 % (layer-wise to density 0.01), 6 % (layer-wise 0.1), 10 % (whole model); two cases miss it."""
    bar = MISSED.get((name, granularity, feedback, density), GOAL[granularity, density])
    for n in (8, 16):
        assert gap(traces[name], (granularity, feedback, density), by_mixture, n) < bar


def test_one_concentration_is_enough_for_one_trace_layer_wise_and_not_for_all(traces):
    worst = {
        (name, g): max(gap(traces[name], (g, f, d), by_concentration, 16) for f in (False, True) for d in (0.001, 0.01))
        for name in NAMES
        for g in ("layer", "model")
    }
    assert worst["resnet-digits", "layer"] < 1.5
    assert 5 < worst["transformer-generated", "layer"] < 9
    assert 10 < worst["resnet-digits", "model"] < 11
    assert 10 < worst["transformer-generated", "model"] < 11


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_layers_of_their_own_explain_whole_model_selection(traces, name):
    """On the sampled gradients, late in training: one concentration misses 16 workers by 8 % or more, layers by 3 %."""
    trace = traces[name]
    points = measured_unions(trace.blocks(block=1), 0.01, granularity="model", workers=(1, 2, 4, 16))
    few = {layer: {n: value for n, value in item.items() if n <= 4} for layer, item in points.items()}
    law = fit_layers(few, trace.numels)
    assert law.union_density(1) == pytest.approx(points[-1][1], rel=1e-3)
    assert law.union_density(16) == pytest.approx(points[-1][16], rel=0.03)
    assert by_concentration(few[-1])(16) < 0.93 * points[-1][16]


@given(rho=st.floats(1e-4, 0.5), c=st.floats(0.1, 3000))
def test_a_concentration_is_found_again(rho, c):
    points = {n: union_density(rho, n, c) for n in (1, 2, 4)}
    for given_points, density in ((points, None), ({4: points[4]}, rho)):
        found = fit_concentration(given_points, density)
        assert union_density(rho, 64, found) == pytest.approx(union_density(rho, 64, c), rel=1e-4)
    assert found == pytest.approx(c, rel=0.02)


def test_independence_and_identical_choices_are_the_ends():
    assert fit_concentration({n: union_density(0.01, n) for n in (1, 2, 4)}) == INDEPENDENT
    assert fit_concentration({1: 0.01, 2: 0.0205, 4: 0.041}) == INDEPENDENT
    assert fit_concentration({1: 0.01, 2: 0.01, 4: 0.01}) < 2e-3
    same = fit_mixture({1: 0.01, 2: 0.01, 4: 0.01})
    assert union_density(0.01, 64, same) == pytest.approx(0.01, rel=2e-2)
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
    assert min(steps) >= -1e-12
    assert all(after <= before + 1e-12 for before, after in pairwise([rho, *steps]))
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
    rest = (rho - core * rho) / (1 - core * rho)
    chosen = (values >= np.quantile(values[:, ~sure], 1 - rest)) | sure
    law = ScaleMixture(spread, core)
    for n in (1, 2, 4, 8, 16):
        assert union_density(rho, n, law) == pytest.approx(chosen[:n].any(axis=0).mean(), rel=0.02)
    found = fit_mixture({n: float(chosen[:n].any(axis=0).mean()) for n in (1, 2, 4)})
    assert union_density(rho, 16, found) == pytest.approx(chosen.any(axis=0).mean(), rel=0.05)


def block(values, numels, iteration=0, weight=None):
    values = np.asarray(values, dtype=np.float32)
    m = values.shape[1]
    piece = np.repeat(np.arange(len(numels)), numels) if m == sum(numels) else np.zeros(m, dtype=np.int64)
    return Block(values, piece, np.arange(m), np.ones(m) if weight is None else weight, tuple(numels), iteration)


@pytest.mark.parametrize("error_feedback", [False, True])
@pytest.mark.parametrize("granularity", ["layer", "model"])
def test_unions_are_those_of_a_loop_over_workers(granularity, error_feedback):
    """Five workers, three iterations: every run of n on each ring, coordinate by coordinate."""
    numels, workers, density = (40, 20), 5, 0.1
    draws = np.random.default_rng(1)
    data = draws.standard_normal((3, workers, 60)) * np.where(np.arange(60) < 40, 1.0, 3.0)
    rng, residual = np.random.default_rng(7), np.zeros((workers, 60))
    sums = {(unit, n): 0.0 for unit in (-1, 0, 1) for n in (1, 2, 5)}
    for values in data:
        u, sets = values + residual, []
        for row in u:
            ranges = [range(40), range(40, 60)] if granularity == "layer" else [range(60)]
            best = [sorted(r, key=lambda j: -abs(row[j]))[: round(density * len(r))] for r in ranges]
            sets.append({j for part in best for j in part})
        if error_feedback:
            residual = np.array(
                [[0 if j in own else x for j, x in enumerate(row)] for row, own in zip(u, sets, strict=True)]
            )
        ring = rng.permutation(workers)
        for n in (1, 2, 5):
            runs = [set().union(*(sets[ring[(i + j) % workers]] for j in range(n))) for i in range(workers)]
            for unit, inside in ((-1, range(60)), (0, range(40)), (1, range(40, 60))):
                sums[unit, n] += np.mean([len(run & set(inside)) for run in runs]) / len(inside) / 3
    blocks = [block(values, numels, i) for i, values in enumerate(data)]
    found = measured_unions(
        blocks, density, granularity=granularity, workers=(1, 2, 5), error_feedback=error_feedback, seed=7
    )
    for (unit, n), expected in sums.items():
        assert found[unit][n] == pytest.approx(expected), (unit, n)


def test_unions_of_samples_count_by_weight_and_of_nobody_are_refused():
    values = np.random.default_rng(2).standard_normal((4, 100))
    found = measured_unions([block(values, (1000,), weight=np.full(100, 10.0))], 0.05)
    assert found[-1][1] == pytest.approx(0.05)
    assert found[-1] == found[0]
    for n in (0, 5):
        with pytest.raises(SparsimError, match="unions of 1 to 4 workers"):
            measured_unions([block(values, (100,))], 0.05, workers=(n,))


@pytest.mark.parametrize(
    "points", [{1: 0.1}, {2: 0.1}, {1: 0.2, 2: 0.1}, {1: 0.0, 2: 0.1}, {1: 0.5, 2: 1.1}, {1: math.nan, 2: 0.1}]
)
def test_points_that_are_no_unions_are_refused(points):
    with pytest.raises(SparsimError):
        fit_concentration(points)
    with pytest.raises(SparsimError):
        fit_mixture(points)


def test_a_mixture_needs_two_points_and_layers_without_selections_add_nothing():
    with pytest.raises(SparsimError, match="two worker counts"):
        fit_mixture({1: 0.1, 2: 0.15})
    law = fit_layers({0: {1: 0.1, 2: 0.19, 4: 0.3439}, 1: {1: 0.0, 2: 0.0, 4: 0.0}}, (60, 40))
    assert law == LayerMixture((0.6,), (0.1,), (INDEPENDENT,))
    assert law.union_density(2) == pytest.approx(0.6 * 0.19)
