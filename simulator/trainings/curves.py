"""Curves of trainings by method: the middle over seeds, with a band, over iterations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np

from simulator.answers import Answer, says
from simulator.errors import InputError, Problem, format_value
from simulator.models.groups import group_by
from simulator.trainings.runs import TrainingRun, read_runs, setting_of, tuning_of

LOSS = "loss"
LEAST = 2
"""Points on either side of a point that its median takes at least; those nearer to an end have no median."""
REACH, MOST = 0.1, 250
"""The median takes as many points on either side as this share of those before, and no more than `MOST`."""
MOST_POINTS = 100
"""Points of a curve; longer ones are thinned."""


class MethodCurve(Answer):
    """A curve of the trainings of one setting: with few seeds, lowest and highest are all that there is to say."""

    task: Annotated[str, says("the task of a curve")]
    method: Annotated[str, says("method with its density")]
    workers: Annotated[int, says("workers", "1")]
    batch_size: Annotated[int, says("samples of each worker in an iteration", "1")]
    learning_rate: Annotated[float, says("learning rate", "1")]
    quantity: Annotated[str, says("loss, or the name of the metric")]
    seeds: Annotated[int, says("trainings of it", "1")]
    iteration: Annotated[list[int], says("iterations that were carried out, and all seeds have", "1")]
    middle: Annotated[list[float], says("median over seeds of the smoothed curves there", "1")]
    low: Annotated[list[float], says("lowest of the seeds", "1")]
    high: Annotated[list[float], says("highest of the seeds", "1")]


def method_curves(runs: Iterable[TrainingRun], quantity: str) -> list[MethodCurve]:
    """A curve for each setting and tuning: the quantity, smoothed, over iterations.

    Raises InputError for a quantity that was not measured.
    """
    made = []
    groups = group_by(runs, lambda run: (setting_of(run.spec), tuning_of(run.spec)))
    for (setting, tuning), alike in sorted(groups.items()):
        curves = [dict(smooth(measured_points(run, quantity))) for run in alike]
        shared = sorted(set.intersection(*(set(curve) for curve in curves)))
        kept = _thinned(shared)
        if not kept:
            continue
        values = [[curve[iteration] for curve in curves] for iteration in kept]
        made.append(
            MethodCurve(
                setting.recipe.task,
                setting.method,
                setting.workers,
                setting.batch_size,
                tuning[0],
                quantity,
                len(curves),
                kept,
                *([choose(each) for each in values] for choose in (median, min, max)),
            )
        )
    return made


def curves_in(place: str, quantity: str) -> list[MethodCurve]:
    """The curves of a folder of trainings; none for a table of iterations, which has none."""
    folder = Path(place)
    return method_curves(read_runs(folder), quantity) if folder.is_dir() else []


def _thinned(iterations: Sequence[int]) -> list[int]:
    """At most `MOST_POINTS` of them at equal steps, the last one included."""
    step = -(-len(iterations) // MOST_POINTS) or 1
    return list(iterations[::-1][::step][::-1])


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
