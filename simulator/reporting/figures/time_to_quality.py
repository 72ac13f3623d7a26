"""Quality over predicted wall-clock time, the time to a target, and what it is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from simulator.reporting.answers.trained import TrainingQuality
from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.convergence import draw_curves
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.axes import (
    Which,
    add_legend_of,
    set_log_ticks,
    set_number_axis,
    set_seconds_axis,
)
from simulator.reporting.figures.style.colours import GREY, Look, assign_looks
from simulator.trainings.curves import MethodCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

Looks = Mapping[str, Look]
CURVE, TARGET = "curve", "target"
"""Rows of a curve over time, and those of a method at the target."""
WIDE = 6
"""Times that differ by more than this factor get a logarithmic axis."""


class TimeToQuality(Figure, kind="time_to_quality"):
    """Left: the trainings' curves over time, iterations times the predicted time of one. Middle: time to the target
    with its 90 % interval. Right: iterations to the target and the time of one; grey lines join equal times to the
    target, and methods with a ring are those that no other one beats in both."""

    title: ClassVar[str] = "Time to quality"
    question: ClassVar[str] = "Which method reaches the same quality first on this cluster, and how sure is that?"
    takes: ClassVar[tuple[str, ...]] = ("quality",)
    width: ClassVar[float] = 12.0
    height: ClassVar[float] = 4.8
    columns: ClassVar[dict[str, str]] = {
        "row": "curve: a point of a curve; target: where a method reaches the target",
        "method": "sparsifier with its density",
        "iterations": "iterations that were carried out",
        "iteration_time_s": "predicted seconds of one iteration",
        "time_s": "iterations times the predicted seconds of one",
        "p5_s": "5th percentile of the time to the target, seconds; missing for a curve",
        "p95_s": "95th percentile, seconds",
        "quantity": "loss, or the name of the metric on held-out samples",
        "middle": "its median over seeds, smoothed; the target's value",
        "low": "lowest of the seeds",
        "high": "highest of the seeds",
        "pareto": "whether no other method has both fewer iterations and shorter ones",
    }

    def collect(self, source: Source) -> pd.DataFrame:
        """Rows of the curves, if there are any, then one row per method at the target."""
        found: TrainingQuality = source.document
        quantity, _, value = found.target.rpartition(" ")
        methods = found.methods or []
        times = {item.method: item.iteration_time for item in methods}
        curves = [curve for curve in found.curves or [] if curve.method in times]
        rows = [row for curve in curves for row in _curve(curve, times[curve.method])]
        for item in methods:
            made = [TARGET, item.method, item.iterations_to_target, item.iteration_time, item.time_to_target]
            values = [float(value)] * 3
            rows.append([*made, *item.time_to_target_interval, quantity, *values, item.pareto])
        return pd.DataFrame(rows, columns=list(self.columns))

    def draw(self, data: pd.DataFrame, figure: FigureBase) -> None:
        """Two or three panels; without curves the left one is left out."""
        curves, ends = (data[data["row"] == name] for name in (CURVE, TARGET))
        looks = assign_looks(sorted(ends["method"]))
        panels = list(figure.subplots(1, 2 if curves.empty else 3))
        if not curves.empty:
            _draw_curves(panels.pop(0), curves, ends, looks)
        _draw_times(panels[0], ends, looks)
        _draw_parts(panels[1], ends, looks)
        mark = {"linewidth": 1.6, "markersize": 7}
        handles = [
            panels[1].plot([], [], color=look.colour, marker=look.marker, linestyle=look.stroke, **mark)[0]
            for look in looks.values()
        ]
        add_legend_of(figure, handles, list(looks))


def _curve(curve: MethodCurve, seconds: float) -> list[list[Any]]:
    points = zip(curve.iteration, curve.middle, curve.low, curve.high, strict=True)
    return [
        [CURVE, curve.method, at, seconds, at * seconds, None, None, curve.quantity, *values, False]
        for at, *values in points
    ]


def _draw_curves(axes: Axes, curves: pd.DataFrame, ends: pd.DataFrame, looks: Looks) -> None:
    draw_curves(axes, curves, "time_s", looks)
    axes.axhline(ends["middle"].iloc[0], color=GREY, linewidth=1.2)
    axes.set_xlim(0, 1.15 * ends["time_s"].max())
    set_seconds_axis(axes, "time on this cluster", "x")
    axes.locator_params(axis="x", nbins=4)
    set_number_axis(axes, curves["quantity"].iloc[0])
    axes.set_title("grey: the target")


def _draw_times(axes: Axes, ends: pd.DataFrame, looks: Looks) -> None:
    ordered = ends.sort_values("time_s", ascending=False)
    for place, row in enumerate(ordered.itertuples()):
        look = looks[str(row.method)]
        axes.plot([row.p5_s, row.p95_s], [place, place], color=look.colour, linewidth=2)
        axes.plot(row.time_s, place, look.marker, color=look.colour, markersize=7)
    axes.set_yticks(range(len(ordered)), list(ordered["method"]))
    with _scaled(axes, "x", ordered["p5_s"].min(), ordered["p95_s"].max()):
        set_seconds_axis(axes, "time to the target", "x")
    axes.set_title("with the 90 % interval")


def _draw_parts(axes: Axes, ends: pd.DataFrame, looks: Looks) -> None:
    """Iterations over the time of one; a grey line for each of some equal times to the target."""
    for row in ends.itertuples():
        look, place = looks[str(row.method)], (row.iteration_time_s, row.iterations)
        if row.pareto:
            axes.plot(*place, "o", markersize=15, markerfacecolor="none", color=look.colour)
        axes.plot(*place, look.marker, color=look.colour, markersize=7)
    axes.margins(0.15)
    with _scaled(axes, "x", ends["iteration_time_s"].min(), ends["iteration_time_s"].max()):
        set_seconds_axis(axes, "time of an iteration", "x")
    with _scaled(axes, "y", ends["iterations"].min(), ends["iterations"].max()):
        set_number_axis(axes, "iterations to the target")
    low, high = axes.get_xlim()
    bottom, top = axes.get_ylim()
    times = np.linspace(low, high, 200)
    times = times[times > 0]
    for seconds in sorted(ends["time_s"])[:: max(1, len(ends) // 4)]:
        axes.plot(times, seconds / times, color=GREY, linewidth=0.8, zorder=0)
    axes.set_xlim(low, high)
    axes.set_ylim(bottom, top)
    axes.set_title("grey: equal times to the target")


@contextmanager
def _scaled(axes: Axes, which: Which, low: float, high: float) -> Iterator[None]:
    """A logarithmic axis where values differ by more than a factor, else one from 0; inside, its unit is set."""
    wide = high > WIDE * low
    if wide:
        getattr(axes, f"set_{which}scale")("log")
    yield
    if wide:
        set_log_ticks(axes, which)
    else:
        getattr(axes, f"set_{which}lim")(0)
        axes.locator_params(axis=which, nbins=4)
