"""Typical iterations over seeds: intervals that hold, and trainings that did not reach the target."""

import math

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.models.groups import group_by
from simulator.studies.quality.observations import Observation, Target
from simulator.studies.quality.study import Noise, noise_of, typical_steps
from simulator.trainings.runs import Recipe, Setting

RECIPE = Recipe("made", 10, "topk", "{}", True, 1, "fp32")
TRUTH, NOISE = 5.0, 0.2


def by_setting(observations):
    return dict(sorted(group_by(observations, lambda item: item.setting).items()))


def observed(logs, workers=4, limit=10**6):
    """One observation per logarithm; above the limit the target was not reached."""
    setting = Setting(RECIPE, 0.01, workers, 8)
    steps = [math.exp(log) for log in logs]
    return [
        Observation(setting, (0.1, 0.9, 1.0, 0.0), seed, Target("loss", 0.5), value if value <= limit else None, limit)
        for seed, value in enumerate(steps)
    ]


def draw(random, settings=6, seeds=3, limit=10**6):
    items = [
        each
        for workers in range(1, settings + 1)
        for each in observed((TRUTH + NOISE * random.normal(size=seeds)).tolist(), workers, limit)
    ]
    return by_setting(items)


def test_intervals_hold_the_truth_in_nine_of_ten_cases():
    random, held, count = np.random.default_rng(1), 0, 0
    for _ in range(40):
        groups = draw(random)
        noise = noise_of(groups, "here")
        assert noise.freedom == 12
        for items in list(groups.values())[:3]:
            made = typical_steps(items, noise)
            held += made.low <= TRUTH <= made.high
            count += 1
    assert 0.83 <= held / count <= 0.97


def test_the_interval_repeats_to_the_bit():
    groups = draw(np.random.default_rng(2))
    noise = noise_of(groups, "here")
    items = next(iter(groups.values()))
    assert typical_steps(items, noise) == typical_steps(items, noise)


def test_what_exceeds_the_mean_does_so_by_the_root_of_2_over_pi_deviations():
    noise = Noise((0.2, -0.2), 2)
    items = observed([TRUTH - math.sqrt(2 / math.pi) * noise.deviation, TRUTH + 1], limit=math.exp(TRUTH))
    assert typical_steps(items, noise).log == pytest.approx(TRUTH)


def test_a_setting_that_nobody_reached_has_a_limit_and_no_number():
    groups = by_setting([*observed([9.0, 9.5], workers=2, limit=400), *observed([5.0, 5.1])])
    made = typical_steps(next(iter(groups.values())), noise_of(groups, "here"))
    assert made.log is None and (made.reached, made.trained, made.iterations) == (0, 2, 400)
    assert made.low == math.log(400)


def test_the_noise_between_seeds_by_hand():
    """Variances 2 of two seeds and 3 of three, with 1 and 2 degrees of freedom; settings that one of two seeds did not
    reach, or with a single seed, say nothing. The normal tail at 2.3534, Student's 95 % quantile of 3, is 0.93 %."""
    groups = by_setting([*observed([1.0, 3.0], 1), *observed([0.0, 0.0, 3.0], 2), *observed([7.0], 4)])
    groups |= by_setting(observed([5.0, 99.0], 3, limit=10**9))
    noise = noise_of(groups, "here")
    assert noise.freedom == 3 and len(noise.residuals) == 5
    assert math.fsum(each * each for each in noise.residuals) == pytest.approx(2 * 2 + 3 * 3)
    assert noise.deviation == pytest.approx(math.sqrt(13 / 5)) and noise.tail == pytest.approx(0.0093, abs=5e-5)


def test_the_interval_of_one_seed_is_that_of_the_residuals():
    """One of two residuals in each resample: the ends are both of them, whatever was drawn."""
    made = typical_steps(observed([TRUTH]), Noise((0.3, -0.2), 9))
    assert (made.log, made.low, made.high) == pytest.approx((TRUTH, TRUTH - 0.2, TRUTH + 0.3))
    assert (made.reached, made.trained, made.iterations) == (1, 1, 10**6)


def test_one_seed_says_nothing_about_the_others():
    with pytest.raises(InputError, match="two or more seeds of one setting"):
        noise_of(by_setting(observed([5.0])), "here")


@pytest.mark.long
def test_trainings_that_did_not_reach_the_target_count_as_more():
    """Dropped, they would make the mean too small; taken at their last iteration, too."""
    random, limit = np.random.default_rng(3), math.exp(TRUTH + 0.05)
    kept, dropped, found = [], [], []
    for _ in range(60):
        groups = draw(random, settings=2, seeds=8, limit=limit)
        noise = noise_of(by_setting(observed((TRUTH + NOISE * random.normal(size=20)).tolist(), workers=9)), "here")
        items = next(iter(groups.values()))
        logs = [math.log(item.steps) for item in items if item.steps is not None]
        if logs:
            found.append(typical_steps(items, noise).log)
            dropped.append(np.mean(logs))
            kept.append(np.mean([*logs, *[math.log(limit)] * (8 - len(logs))]))
    assert abs(np.mean(found) - TRUTH) < 0.03 and np.mean(dropped) < np.mean(kept) < TRUTH - 0.05
