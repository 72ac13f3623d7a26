"""Quality over predicted wall-clock time, the time to a target, and what it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from simulator.records import replace
from simulator.reporting.answers.trained import TrainingQuality
from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.convergence import CURVES
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.panels import (
    Look,
    Panel,
    PanelAxis,
    Panels,
    Series,
    assign_looks,
    compose_lines,
    grey_line,
    is_wide,
)

Looks = Mapping[str, Look]
CURVE, TARGET = "curve", "target"
"""Rows of a curve over time, and those of a method at the target."""
_ROOM = 0.15
"""Share of the range of values that is left free beside them."""


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
        rows: list[list[Any]] = []
        for curve in curves:
            seconds = times[curve.method]
            for at, *ends in zip(curve.iteration, curve.middle, curve.low, curve.high, strict=True):
                rows.append([CURVE, curve.method, at, seconds, at * seconds, None, None, curve.quantity, *ends, False])
        for item in methods:
            made = [TARGET, item.method, item.iterations_to_target, item.iteration_time, item.time_to_target]
            values = [float(value)] * 3
            rows.append([*made, *item.time_to_target_interval, quantity, *values, item.pareto])
        return pd.DataFrame(rows, columns=list(self.columns))

    def compose(self, data: pd.DataFrame) -> Panels:
        """Two or three panels; without curves the left one is left out."""
        curves, ends = data[data["row"] == CURVE], data[data["row"] == TARGET].sort_values("time_s")
        looks = assign_looks(sorted(ends["method"]))
        panels = [_times(ends, looks), _parts(ends, looks)]
        if not curves.empty:
            panels.insert(0, _curves(curves, ends, looks))
        # The legend shows lines with marks.
        names = [
            Series(method, [None], [None], **look.line() | {"width": 1.6, "size": 7, "hollow": False})
            for method, look in looks.items()
        ]
        panels[0] = replace(panels[0], marks=[*names, *panels[0].marks])
        return Panels(panels, height=max(420, 140 + 34 * len(ends)))


def _curves(curves: pd.DataFrame, ends: pd.DataFrame, looks: Looks) -> Panel:
    """Quality over time, with the target in grey."""
    last, quantity = 1.15 * float(ends["time_s"].max()), curves["quantity"].iloc[0]
    said = ["%{x:.4~s}s", f"{quantity} %{{y:.4~g}}"]
    marks = compose_lines(curves, "method", "time_s", "middle", **CURVES, order=looks, said=said)
    target = grey_line("target", [0, last], [ends["middle"].iloc[0]] * 2, width=1.2, level="y")
    x = PanelAxis("time on this cluster", "time", low=0, high=last, most=4)
    return Panel(x, PanelAxis(quantity), [target, *marks])


def _times(ends: pd.DataFrame, looks: Looks) -> Panel:
    """The time of each method to the target with its 90 % interval, the shortest on top."""
    said = ["%{x:.4~s}s to the target", "90 % interval %{customdata[0]:.4~s}s to %{customdata[1]:.4~s}s"]
    marks = []
    for place, row in enumerate(ends.itertuples()):
        interval = [row.p5_s, row.p95_s]
        mark: Any = _mark(looks[str(row.method)]) | {"reach": ([row.p5_s], [row.p95_s]), "said": said}
        marks.append(Series(str(row.method), [row.time_s], [place], **mark, told=[interval]))
    wide = is_wide(ends["p5_s"].min(), ends["p95_s"].max())
    x = PanelAxis("time to the target", "time", log=wide, low=None if wide else 0, most=4)
    return Panel(x, PanelAxis("", names=list(ends["method"])), marks, "with the 90 % interval")


def _parts(ends: pd.DataFrame, looks: Looks) -> Panel:
    """Iterations over the time of one; a grey line for each of some equal times to the target."""
    x = _spread("time of an iteration", "time", ends["iteration_time_s"])
    said = ["%{x:.4~s}s per iteration", "%{y:,.4~g} iterations to the target"]
    y = _spread("iterations to the target", "number", ends["iterations"])
    times = np.linspace(x.low or 0.0, x.high or 0.0, 200)
    times = times[times > 0]
    chosen = list(ends["time_s"])[:: max(1, len(ends) // 4)]
    marks = [grey_line("", times.tolist(), (seconds / times).tolist(), width=0.8, legend=False) for seconds in chosen]
    for row in ends.itertuples():
        look, place = looks[str(row.method)], ([row.iteration_time_s], [row.iterations])
        if row.pareto:
            ring: Any = _mark(look) | {"marker": "o", "size": 15, "hollow": True}
            marks.append(Series(str(row.method), *place, **ring))
        marks.append(Series(str(row.method), *place, **_mark(look), said=said))
    return Panel(x, y, marks, "grey: equal times to the target")


def _mark(look: Look) -> dict[str, Any]:
    """A filled mark of a method without a line."""
    return {"colour": look.colour, "stroke": "", "width": 1.0, "marker": look.marker, "size": 7}


def _spread(label: str, kind: str, values: pd.Series[float]) -> PanelAxis:
    """An axis with some room around values: logarithmic where they differ by more than a factor, else from 0."""
    low, high = float(values.min()), float(values.max())
    if is_wide(low, high):
        room = (high / low) ** _ROOM
        return PanelAxis(label, kind, log=True, low=low / room, high=high * room)
    return PanelAxis(label, kind, low=0, high=high + _ROOM * (high - low or high), most=4)
