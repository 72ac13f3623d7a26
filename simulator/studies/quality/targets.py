"""The target of a training, and the iteration at which its curve reaches it."""

from __future__ import annotations

import math

from simulator.errors import InputError, Problem, format_value
from simulator.records import Record
from simulator.trainings.curves import LEAST, LOSS, measured_points, smooth
from simulator.trainings.runs import TrainingRun


class Target(Record):
    """What a training is to reach: a value of its loss, or of the metric on held-out samples."""

    quantity: str
    value: float

    def __str__(self) -> str:
        return f"{self.quantity} {self.value:g}"


class Reached(Record):
    """When a curve reaches a target: after `steps` iterations; None: not within the `iterations` that were looked at.

    `at_once`: at the first point that was looked at, so that it may have been earlier.
    """

    steps: float | None
    iterations: int
    at_once: bool = False


def parse_target(text: str, where: str = "--target") -> Target:
    """A target such as `loss 0.5` or `accuracy 0.95`. Raises InputError for anything else."""
    quantity, _, number = text.strip().rpartition(" ")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not quantity.strip() or not math.isfinite(value):
        raise InputError(Problem(where, "a quantity and its value, such as 'accuracy 0.95'", format_value(text)))
    return Target(quantity.strip(), value)


def reach(run: TrainingRun, target: Target) -> Reached:
    """The first iteration at which the smoothed curve of a training reaches a target.

    It is read off the straight line to the point before, since a metric is measured every few iterations only. Raises
    InputError for too few points.
    """
    points = measured_points(run, target.quantity)
    curve = smooth(points)
    if not curve:
        what = f"at least {2 * LEAST + 1} points of {target.quantity}"
        raise InputError(Problem(str(run.folder), what, str(len(points))))
    sign = 1.0 if target.quantity != LOSS and run.spec.better == "higher" else -1.0
    for place, (iteration, value) in enumerate(curve):
        left = sign * (target.value - value)
        if left > 0:
            continue
        if not place:
            return Reached(float(iteration), iteration, at_once=True)
        before, earlier = curve[place - 1]
        missing = sign * (target.value - earlier)
        return Reached(before + (iteration - before) * missing / (missing - left), curve[-1][0])
    return Reached(None, curve[-1][0])
