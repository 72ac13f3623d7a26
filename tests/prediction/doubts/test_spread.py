"""Intervals and ratios against closed forms, and against whole scenarios that are sampled."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from long_examples import few_first

from simulator.models.widths import NORMAL_95
from simulator.prediction.doubts.doubt import Doubt
from simulator.prediction.doubts.kernels import SMALL_CALLS
from simulator.prediction.doubts.spread import Ratio, Spread, compare_spreads, group_shared, respond_linearly
from simulator.prediction.run import run, with_responses
from simulator.prediction.simulated import simulate_batch
from simulator.scenario.changes import with_value, without_randomness
from simulator.scenario.reading import load


def spread(time, **inputs):
    """A time with inputs of these widths, each of which decides all of it."""
    made = [
        Doubt("input", name, "measured", width, less=time * (1 - 1 / width), more=time * (width - 1))
        for name, width in inputs.items()
    ]
    return Spread(time, tuple(respond_linearly(made, time)))


def test_one_input_that_decides_everything_gives_its_own_width():
    low, high = spread(2.0, a=1.5).interval()
    assert (low, high) == pytest.approx((2 / 1.5, 2 * 1.5))
    low, high = spread(2.0, a=1.5).interval(50)
    half = NormalDist().inv_cdf(0.75) / NORMAL_95 * math.log(1.5)
    assert (low, high) == pytest.approx((2 * math.exp(-half), 2 * math.exp(half)))


def test_inputs_that_are_independent_add_in_squares_of_logarithms():
    _, high = spread(1.0, a=1.3, b=1.4).interval()
    assert math.log(high) == pytest.approx(math.hypot(math.log(1.3), math.log(1.4)))


def test_inputs_that_are_wrong_the_same_way_add_up():
    shared = [Doubt("kernel", str(i), "assumed", 2.0, less=0.05, more=0.1, shared="kernels of a GPU") for i in range(3)]
    (one,) = respond_linearly(shared, 1.0)
    assert (one.low, one.high) == pytest.approx((math.log(1 - 0.15), math.log(1.3)))


def test_what_two_predictions_share_cancels_in_their_ratio():
    ratio = compare_spreads(spread(1.0, network=1.5, own=1.1), spread(2.0, network=1.5))
    low, high = ratio.interval()
    assert (low, high) == pytest.approx((2 / 1.1, 2 * 1.1))
    assert ratio.probability() == pytest.approx(NormalDist().cdf(NORMAL_95 * math.log(2) / math.log(1.1)))


def test_the_probability_is_one_half_where_nothing_differs_and_sure_where_nothing_is_uncertain():
    assert compare_spreads(spread(1.0, a=1.5), spread(1.0, a=1.5)).probability() == 0.5
    assert compare_spreads(spread(1.0), spread(1.01)).probability() == 1
    assert compare_spreads(spread(1.01), spread(1.0)).probability() == 0
    assert Ratio(0.0, ()).interval() == (1.0, 1.0)


@pytest.mark.parametrize("name", ["quickstart", "oversubscription", "straggler", "partitioned_topk"])
def test_the_difference_of_a_scenario_with_itself_is_zero(name):
    made = with_responses(run(load(name)))
    assert compare_spreads(made.spread, with_responses(run(load(name))).spread).interval() == (1.0, 1.0)
    assert made.spread.half_width > 0


BUCKETED = ("sparsifier=dense", "scheduler=bucketed")
SAMPLED = {
    "quickstart": (),
    "quickstart, dense": ("sparsifier=dense",),
    "quickstart, buckets on a slow network": (*BUCKETED, "cluster.network.bandwidth=1 Gbit/s"),
    "oversubscription": (),
    "partitioned_topk": (),
}


@pytest.mark.long
@pytest.mark.parametrize("name", few_first(reversed(SAMPLED)))
def test_responses_agree_with_whole_scenarios_that_are_sampled(name):
    """Every input is drawn from its own width, all together, and the whole scenario is simulated: the quantiles of 400
    draws are those that follow from each input's ends alone, within three tenths of the half-width: what 400 draws
    can tell, and how inputs act on each other."""
    scenario = without_randomness(load(name.split(",")[0], SAMPLED[name]))
    made = with_responses(run(scenario))
    low, high = made.spread.interval()
    groups = group_shared(item for item in made.inputs if item.change is not None)
    # What has no scenario of its own is a factor on its part of the time; here it is left out of both.
    simulated = tuple(item for item in made.spread.responses if any(each.change for each in item.doubts))
    low, high = Spread(made.spread.time, simulated).interval()
    drawn = []
    for draw in np.random.default_rng(7).standard_normal((400, len(groups))):
        changed = scenario
        for end, group in zip(draw / NORMAL_95, groups, strict=True):
            for item in group:
                changed = item.change(changed, float(end))
        drawn.append(without_randomness(changed))
    found = np.percentile([made.figures.times.mean() for made in simulate_batch(drawn)], (5, 95))
    half = math.log(high / low) / 2
    assert math.log(found[0] / low) == pytest.approx(0, abs=0.3 * half + 0.005)
    assert math.log(found[1] / high) == pytest.approx(0, abs=0.3 * half + 0.005)


def with_curve(scenario, kernel, error):
    """The scenario with a measured curve of a kernel that agrees with what was estimated, and its held-out error."""
    gpu = scenario.cluster.gpu
    curve = gpu.curve(kernel) or gpu.estimate(kernel).curve
    timed = curve.model_copy(update={"derived": False, "held_out_mape": error, "spread": 0.0})
    return with_value(scenario, "cluster.gpu.kernels", {**gpu.kernels, kernel: timed})


@pytest.mark.parametrize("kernel", ["topk", "scatter_add", "residual_clear", "residual_add"])
def test_a_measurement_that_agrees_never_widens_and_its_removal_never_narrows(kernel):
    scenario = without_randomness(load("quickstart"))
    before, after = (with_responses(run(one)).spread for one in (scenario, with_curve(scenario, kernel, 0.02)))
    assert after.time == pytest.approx(before.time) and after.half_width <= before.half_width
    dense = with_responses(run(without_randomness(load("quickstart", ("sparsifier=dense",))))).spread
    a, b = (compare_spreads(one, dense).interval() for one in (before, after))
    assert b[1] / b[0] <= a[1] / a[0]


def _without(key, value):
    return lambda scenario: with_value(scenario, key, value)


REMOVED = {
    "what the fit of a cost says": _without("cluster.runtime.widths", {}),
    "rows of a cost": _without("cluster.runtime.fitted_rows", {}),
    "where links between nodes were fitted": _without("cluster.network.fitted_for", None),
    "where links inside nodes were fitted": _without("cluster.network.intra_node.fitted_for", None),
    "a stated width of compute": _without("workload.compute_width", None),
}
"""Measurements without which the predicted time stays the same."""


@pytest.mark.parametrize("what", REMOVED)
@pytest.mark.parametrize("sets", [(), BUCKETED, ("cluster.nodes=2",)])
def test_without_a_measurement_nothing_is_surer(what, sets):
    measured = with_value(without_randomness(load("quickstart", sets)), "workload.compute_width", 1.02)
    opponent = with_value(measured, "sparsifier", load("quickstart", ("sparsifier=dense",)).sparsifier)
    before = [with_responses(run(one)).spread for one in (measured, opponent)]
    after = [with_responses(run(REMOVED[what](one))).spread for one in (measured, opponent)]
    for known, unknown in zip(before, after, strict=True):
        assert unknown.time == known.time and unknown.half_width >= known.half_width * (1 - 1e-12)
    narrow, wide = (compare_spreads(*pair).interval() for pair in (before, after))
    assert wide[1] / wide[0] >= narrow[1] / narrow[0] * (1 - 1e-12)


@pytest.mark.parametrize("kernel", ["topk", "elementwise", "update"])
def test_a_kernel_whose_curve_is_removed_has_no_smaller_width(kernel):
    scenario = with_curve(without_randomness(load("quickstart")), kernel, 0.05)
    gpu = scenario.cluster.gpu
    bare = gpu.model_copy(update={"kernels": {name: curve for name, curve in gpu.kernels.items() if name != kernel}})
    assert bare.width(kernel) >= gpu.width(kernel)
    both = [
        [item for item in run(one).inputs if item.id == f"{gpu.name}/{kernel}"]
        for one in (scenario, with_value(scenario, "cluster.gpu", bare))
    ]
    # Small calls have a width of their own, which may be larger, but they are few.
    widths = [[item.width for item in items if not item.what.endswith(SMALL_CALLS)] for items in both]
    assert max(widths[1], default=1.0) >= max(widths[0], default=1.0)
    known, removed = (sum(item.more for item in items) for items in both)
    assert removed >= known
