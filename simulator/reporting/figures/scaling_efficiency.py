"""How far training scales: efficiency and throughput against workers, compared with the ideal."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from simulator.errors import format_value
from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.rows import FEW, intervals, methods, varied
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.axes import (
    add_legend,
    set_count_axis,
    set_log_ticks,
    set_number_axis,
    set_share_axis,
)
from simulator.reporting.figures.style.colours import GREY, line_styles

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase


class ScalingEfficiency(Figure, kind="scaling_efficiency"):
    """Scaling efficiency (single-GPU time over iteration time) and throughput against workers; ideal in grey.

    Shaded: the throughput at the ends of the 90 % interval of the iteration time, where few lines share the panel.

    `by`: the varied key whose values have one line each, such as `topology`.
    """

    title: ClassVar[str] = "Scaling over workers"
    question: ClassVar[str] = "How far does training scale, and how far from ideal is it?"
    takes: ClassVar[tuple[str, ...]] = ("sweep",)
    width: ClassVar[float] = 9.0
    columns: ClassVar[dict[str, str]] = {
        "method": "sparsifier with its density, or the value of the key `by`",
        "workers": "number of GPUs",
        "efficiency": "seconds of an iteration on one GPU without communication, over seconds of the iteration",
        "throughput_samples_per_s": "samples per second of all workers",
        "throughput_p5": "5th percentile of the prediction interval, samples per second; missing where none is known",
        "throughput_p95": "95th percentile, samples per second",
        "ideal_samples_per_s": "samples per second of as many workers that never wait",
    }

    by: str = "sparsifier"

    def collect(self, source: Source) -> pd.DataFrame:
        """One row per method and number of workers."""
        table = source.table
        if table["workers"].nunique() < 2:
            raise self.refusal(source, "at least two numbers of workers", "one", "see scenarios/sweeps/worker_sweep")
        if self.by != "sparsifier" and self.by not in table:
            known = ", ".join(varied(table))
            raise self.refusal(source, "a key that was varied as `by`", format_value(self.by), f"there are {known}")
        ends = intervals(table).rdiv(table["iteration_time_s"], axis=0).mul(table["throughput_samples_per_s"], axis=0)
        points = pd.DataFrame(
            {
                "method": methods(table, self.by),
                "workers": table["workers"],
                "efficiency": table["scaling_efficiency"],
                "throughput_samples_per_s": table["throughput_samples_per_s"],
                "throughput_p5": ends["p95_s"],
                "throughput_p95": ends["p5_s"],
                "ideal_samples_per_s": table["throughput_samples_per_s"] / table["scaling_efficiency"],
            }
        )
        self.check_unique_points(source, points[["method", "workers"]])
        return points.drop_duplicates(["method", "workers"])

    def draw(self, data: pd.DataFrame, figure: FigureBase) -> None:
        """Left: efficiency from 0; right: throughput, both axes logarithmic."""
        left, right = figure.subplots(1, 2)
        ideal = data.groupby("workers")["ideal_samples_per_s"].max()
        few = data["method"].nunique() <= FEW
        left.axhline(1.0, color=GREY, linewidth=3, label="ideal")
        right.plot(ideal.index, ideal, color=GREY, linewidth=3)
        for method, line in line_styles(data["method"]):
            mine = data[data["method"] == method].sort_values("workers")
            left.plot(mine["workers"], mine["efficiency"], label=method, **line)
            right.plot(mine["workers"], mine["throughput_samples_per_s"], **line)
            if few:
                reach = (mine["workers"], mine["throughput_p5"], mine["throughput_p95"])
                right.fill_between(*reach, color=line["color"], alpha=0.15, linewidth=0)
        left.set_ylim(0, 1.08 * max(1.0, float(data["efficiency"].max())))
        set_share_axis(left, "scaling efficiency")
        right.set_yscale("log")
        set_number_axis(right, "throughput (samples/s)")
        set_log_ticks(right, "y")
        for axes in (left, right):
            set_count_axis(axes, "workers", data["workers"])
        add_legend(figure, left)
