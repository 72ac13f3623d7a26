"""The iteration at which a curve reaches a target."""

import math
from pathlib import Path

import numpy as np
import pytest
from made_trainings import TOPK, true_steps, write_training

from simulator.errors import InputError
from simulator.studies.quality.observations import Target, parse_target, reach
from simulator.trainings.runs import CurvePoint, TrainingRun, TrainingSpec, read_run, smooth

SPEC = TrainingSpec(
    task="t", method=TOPK, workers=1, batch_size=1, iterations=100, learning_rate=1, metric="accuracy", better="higher",
    elements=1,
)  # fmt: skip


def run_of(losses, every=10):
    """A training with these losses, and as accuracy what is left to 1, measured every few iterations."""
    metrics = (1 - loss if i % every == every - 1 else math.nan for i, loss in enumerate(losses))
    points = (CurvePoint(i, *pair, 1, 1, 1, 0) for i, pair in enumerate(zip(losses, metrics, strict=True)))
    return TrainingRun(Path("t"), SPEC, tuple(points))


def test_targets_are_a_quantity_and_a_value():
    assert parse_target(" bits per token 2.5 ") == Target("bits per token", 2.5)
    for text in ("0.9", "accuracy", "accuracy high", "loss nan"):
        with pytest.raises(InputError, match=r"accuracy 0\.95"):
            parse_target(text)


def test_a_curve_that_only_falls_is_not_changed():
    points = [(i, math.exp(-(i**2) / 50)) for i in range(60)]
    assert smooth(points) == points[2:-3]


def test_the_iteration_is_read_between_two_measurements():
    made = reach(run_of([1 - i / 99 for i in range(100)]), parse_target("accuracy 0.5"))
    # After iteration i + 1 the accuracy is i / 99.
    assert made.steps == pytest.approx(0.5 * 99 + 1)
    assert reach(run_of([1 - i / 99 for i in range(100)]), parse_target("loss 0.5")).steps == pytest.approx(50.5)


def test_a_loss_reaches_its_target_where_its_median_does():
    """Single batches do not decide, and the last points have no median: some lucky ones at the end reach nothing."""
    once, never, lucky, soon = (
        reach(run_of(losses), parse_target("loss 0.5"))
        for losses in ([1] * 40 + [0] + [1] * 20 + [0.2] * 39, [1] * 100, [1] * 97 + [0] * 3, [0.1] * 100)
    )
    assert once.steps == pytest.approx(61, abs=1) and (never.steps, never.iterations) == (None, 95)
    assert lucky.steps is None and soon.at_once


def test_noise_of_batches_moves_the_iteration_by_little(tmp_path):
    found = []
    for seed in range(20):
        write_training(tmp_path, TOPK, seed=seed)
        found.append(math.log(reach(read_run(tmp_path), parse_target("loss 0.5")).steps / true_steps(TOPK, 4, 8)))
    assert abs(np.mean(found)) < 0.03 and np.std(found) < 0.1


def test_too_few_points_and_other_quantities_are_refused():
    with pytest.raises(InputError, match="at least 5 points of accuracy, got 2"):
        reach(run_of([1.0] * 20), parse_target("accuracy 0.5"))
    with pytest.raises(InputError, match="loss or accuracy as the target, got 'perplexity'"):
        reach(run_of([1.0] * 20), parse_target("perplexity 10"))
