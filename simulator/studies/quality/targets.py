"""The target of a training, and the iteration at which its curve reaches it."""

from __future__ import annotations

import math

import numpy as np

from simulator.errors import InputError, Problem, format_value
from simulator.records import Record
from simulator.training.runs import TrainingRun

LOSS = "loss"
LEAST = 2
"""Points on either side of a point that its median takes at least; those nearer to an end have no median."""
REACH, MOST = 0.1, 250
"""The median takes as many points on either side as this share of those before, and no more than `MOST`."""


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


def measured_points(run: TrainingRun, quantity: str) -> list[tuple[int, float]]:
    """Iterations that were carried out, and the loss or the metric after them, where it was measured.

    Raises InputError for a quantity that the training did not measure.
    """
    if quantity not in (LOSS, run.spec.metric):
        raise InputError(Problem(str(run.folder), f"{LOSS} or {run.spec.metric} as the target", format_value(quantity)))
    name = "loss" if quantity == LOSS else "metric"
    points = ((point.iteration + 1, float(getattr(point, name))) for point in run.curve)
    return [(iteration, value) for iteration, value in points if not math.isnan(value)]


def smooth(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """The running median of a curve (Tukey, Exploratory Data Analysis, 1977, ch. 7), without its ends.

    Each point is the median of itself and of as many points before as after it: 10 % of those before, at least 2. Near
    the end fewer follow; where they are fewer than half of that, there is no median, so that the last batches, which
    are noise, reach no target. A curve that only rises, or only falls, is not changed by it, however fast it does: the
    median takes the noise of single batches away and does not move the iteration at which a target is reached, as a
    mean would.
    """
    values = np.array([value for _, value in points])
    made = []
    for place in range(LEAST, len(points) - LEAST):
        wanted = min(max(LEAST, round(REACH * (place + 1))), MOST)
        half = min(wanted, len(points) - 1 - place)
        if 2 * half < wanted:
            break
        made.append((points[place][0], float(np.median(values[place - half : place + half + 1]))))
    return made


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
