"""Curves of trainings by method: the middle over seeds, with a band, over iterations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from simulator.studies.quality.settings import Setting, Tuning, setting_of, tuning_of
from simulator.studies.quality.targets import measured_points, smooth
from simulator.training.runs import TrainingRun, read_runs

MOST_POINTS = 100
"""Points of a curve; longer ones are thinned."""


def method_curves(runs: Iterable[TrainingRun], quantity: str) -> list[dict[str, Any]]:
    """A curve for each setting and tuning: the quantity, smoothed, over iterations.

    `middle`: median over seeds; `low` and `high`: lowest and highest, which with few seeds is all that there is to say.
    Only iterations that all seeds have are part of it. Raises InputError for a quantity that was not measured.
    """
    groups: dict[tuple[Setting, Tuning], list[dict[int, float]]] = {}
    for run in runs:
        key = setting_of(run.spec), tuning_of(run.spec)
        groups.setdefault(key, []).append(dict(smooth(measured_points(run, quantity))))
    made = []
    for (setting, tuning), curves in sorted(groups.items()):
        shared = sorted(set.intersection(*(set(curve) for curve in curves)))
        kept = _thinned(shared)
        if not kept:
            continue
        values = [[curve[iteration] for curve in curves] for iteration in kept]
        made.append(
            {
                "task": setting.recipe.task,
                "method": setting.method,
                "workers": setting.workers,
                "batch_size": setting.batch_size,
                "learning_rate": tuning[0],
                "quantity": quantity,
                "seeds": len(curves),
                "iteration": kept,
                "middle": [median(each) for each in values],
                "low": [min(each) for each in values],
                "high": [max(each) for each in values],
            }
        )
    return made


def curves_in(place: str, quantity: str) -> list[dict[str, Any]]:
    """The curves of a folder of trainings; none for a table of iterations, which has none."""
    folder = Path(place)
    return method_curves(read_runs(folder), quantity) if folder.is_dir() else []


def _thinned(iterations: Sequence[int]) -> list[int]:
    """At most `MOST_POINTS` of them at equal steps, the last one included."""
    step = -(-len(iterations) // MOST_POINTS) or 1
    return list(iterations[::-1][::step][::-1])
