"""Counts at which a method turns from one rule to the next: exactly there, and one to either side."""

import math

import numpy as np
import pytest
from common import block, once
from replayed import select

from simulator.models.exchange import Bucket
from simulator.models.overlap import INDEPENDENT
from simulator.sparsifiers.dgc import Dgc
from simulator.sparsifiers.oktopk import OkTopK, kth_magnitude, raise_threshold, region_boundaries
from simulator.sparsifiers.sidco import Sidco
from simulator.sparsifiers.topk import TopK


@pytest.mark.parametrize(
    ("count", "local", "world"),
    [(7, 1 / 1.012, 1 / 1.008), (8, 1, 1), (15, 1, 1), (16, 1.012, 1), (17, 1.03**5 * 1.012, 1.008)],
)
def test_thresholds_of_oktopk_move_outside_two_thirds_and_five_quarters_or_four_thirds(count, local, world):
    """k = 12: 8 and 15 are inside for the local threshold, 8 and 16 for the global one; 17 raise it first."""
    values = np.full((2, 100), 0.01)
    values[:, :count] = 2.0
    member, zeros = OkTopK(density=0.12), block(np.zeros((2, 100)), (100,))
    state, _, _, _ = select(member, member.start(zeros), zeros)
    state |= {"local": np.ones(2), "global": 1.0}
    state, selection, _, _ = select(member, state, block(values, (100,), 1))
    assert state["local"].tolist() == pytest.approx([local] * 2, rel=1e-12)
    assert state["global"] == pytest.approx(world, rel=1e-12)
    assert (selection.passes, selection.aggregated) == (6 if count == 17 else 2, count)


def test_a_threshold_is_raised_until_four_thirds_of_k_exceed_it():
    """1.05 is exceeded by 1.03^2, so that the third check passes; 16 of 17 may exceed it from the start."""
    magnitudes = np.full(17, 1.05, dtype=np.float32)
    assert raise_threshold(magnitudes, None, 1.0, 12) == (pytest.approx(1.03**2), 3)
    assert raise_threshold(magnitudes[:16], None, 1.0, 12) == (1.0, 1)
    assert raise_threshold(np.ones(17), None, 1.0, 12) == (1.0, 1)  # what equals it does not exceed it
    assert raise_threshold(magnitudes, np.full(17, 0.5), 1.0, 6) == (pytest.approx(1.03**2), 3)


def test_of_a_sample_oktopk_takes_the_next_magnitude_and_regions_of_even_weight():
    """The two largest are wanted, so that 1 is the next; regions hold a third each, up to one coordinate's weight."""
    magnitudes, weight = np.array([3.0, 0.5, 2.0, 1.0], dtype=np.float32), np.ones(4)
    assert kth_magnitude(magnitudes, weight, 2, lambda rows, places: np.full(places.shape, 0.5)) == 1.0
    places, weights = np.arange(60), np.resize([1.0, 5.0, 2.0], 60)
    starts = region_boundaries([places, places, places], places * 3, 180, weights)
    held = [float(part.sum()) for part in np.split(weights, np.searchsorted(places * 3, starts))]
    assert held == pytest.approx([160 / 3] * 3, abs=5)


def test_regions_of_a_sample_in_which_all_weigh_one_are_those_of_the_whole():
    """Six places for three workers: two each."""
    places = np.arange(6)
    assert region_boundaries([places] * 3, places, 6).tolist() == [2, 4]
    assert region_boundaries([places] * 3, places, 6, np.ones(6)).tolist() == [2, 4]


def test_samples_of_dgc_are_rounded_up():
    """2/density = 66.7 and 1 % of 12,345; at most all."""
    assert [Dgc(density=0.03).sampled(n) for n in (50, 67, 1000)] == [50, 67, 67]
    assert Dgc(density=0.5).sampled(12_345) == 124


def test_dgc_cuts_by_position_where_it_has_sampled_everything():
    """k = 3 of seven: all reach the third magnitude, and the released code sorts only what a sample has found."""
    _, _, _, choice = once(Dgc(density=0.43, momentum=0), np.array([[1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0]]))
    assert np.flatnonzero(choice.chosen[0]).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("more", "passes", "by_size"), [(118, 2, False), (119, 1, False), (219, 1, False), (220, 1, True)]
)
def test_dgc_looks_again_below_0_8_k_and_sorts_above_1_3_k(more, passes, by_size):
    """k = 200; 41 are sampled: 160 in all are enough, and 260 are cut by position, 261 by size."""
    n, member = 4000, Dgc(density=0.05, momentum=0, seed=2)
    stride = member.stride(n, member.sampled(n))
    sampled = np.arange(int(np.random.default_rng([2, 0, 0, 0]).integers(stride)), n, stride)
    assert len(sampled) == 41
    others, values = np.setdiff1d(np.arange(n), sampled)[-more:], np.zeros((1, n))
    values[0, sampled], values[0, others] = 1.0, 1.5
    kept = np.union1d(sampled, others)[:200] if not by_size else others[:200]
    for scale in (1e-6, 1.0, 1e6):
        _, selection, _, choice = once(member, values * scale)
        assert np.flatnonzero(choice.chosen[0]).tolist() == kept.tolist()
        # Zeros never reach a threshold: a second pass finds as few, and so do the others.
        assert selection.passes == (passes if passes == 1 else 1 + member.retries)


def test_a_warm_up_ends_with_its_last_iteration():
    member = TopK(density=0.01, warmup=(0.25, 0.1), warmup_length=10)
    assert [member.at(t).density for t in (0, 9, 10, 19, 20)] == [0.25, 0.25, 0.1, 0.1, 0.01]


def test_one_stage_of_sidco_where_the_first_leaves_no_more_than_is_wanted():
    for density, passes in ((0.25, 1.0), (0.24, 1 + 1 + 0.25), (0.3, 1.0)):
        expected = Sidco(density=density, stages=3).expect(Bucket(0, (1000,), 0), 2, INDEPENDENT)
        assert expected.passes == pytest.approx(passes)


ONES, THREES_AND_ONES = (1, 1.0, 0.0), (2, 3.0, 1.0)


@pytest.mark.parametrize(
    ("begun", "count", "stages"),
    [*((ONES, *each) for each in ((7, 2), (8, 1), (12, 1)))]
    + [(THREES_AND_ONES, *each) for each in ((7, 3), (8, 2), (12, 2), (13, 1))],
)
def test_sidco_adds_a_stage_below_four_fifths_and_takes_one_away_above_six_fifths(begun, count, stages):
    """k = 10. One stage: with `count` ones among zeros the fit asks for what is above 0.046 and less, all the ones.

    Two stages: of `count` threes and 40 ones the first stage leaves both, the second asks for 2.0 to 2.6.
    """
    before, large, small = begun
    values = np.zeros((1, 1000))
    values[0, :count], values[0, count : count + 40] = large, small
    member = Sidco(density=0.01, interval=1, stages=before)
    state, selection, _, _ = select(member, member.start(block(values, (1000,))), block(values, (1000,)))
    assert selection.largest == count
    assert state["stages"]["stages"].tolist() == [[stages]]


def test_sidco_has_no_more_stages_than_halvings_of_the_density():
    """Zeros ask for one stage more in every iteration: up to ceil(log2 5) = 3."""
    member, zeros = Sidco(density=0.2, interval=1), block(np.zeros((1, 50)), (50,))
    state, stages = member.start(zeros), []
    for _ in range(4):
        state, _, _, _ = select(member, state, zeros)
        stages.append(int(state["stages"]["stages"][0, 0]))
    assert stages == [2, 3, 3, 3]


def test_a_pareto_fit_of_an_exponential_spread_is_the_exponential_one():
    """0, 1 and 2 have a mean and a variance of 1, for which the shape is 0."""
    x = np.array([0.0, 1.0, 2.0])
    assert Sidco._threshold(x, None, 0.1, "pareto") == pytest.approx(-math.log(0.1), rel=1e-12)
    assert Sidco._threshold(x, None, 0.1, "exponential") == pytest.approx(-math.log(0.1), rel=1e-12)
    assert Sidco._threshold(np.ones(3), None, 0.1, "pareto") == 1.0
