"""How far training scales: efficiency and throughput against workers, compared with the ideal."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from simulator.errors import format_value
from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.rows import methods, varied
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
        points = pd.DataFrame(
            {
                "method": methods(table, self.by),
                "workers": table["workers"],
                "efficiency": table["scaling_efficiency"],
                "throughput_samples_per_s": table["throughput_samples_per_s"],
                "ideal_samples_per_s": table["throughput_samples_per_s"] / table["scaling_efficiency"],
            }
        )
        self.check_unique_points(source, points[["method", "workers"]])
        return points.drop_duplicates(["method", "workers"])

    def draw(self, data: pd.DataFrame, figure: FigureBase) -> None:
        """Left: efficiency from 0; right: throughput, both axes logarithmic."""
        left, right = figure.subplots(1, 2)
        ideal = data.groupby("workers")["ideal_samples_per_s"].max()
        left.axhline(1.0, color=GREY, linewidth=3, label="ideal")
        right.plot(ideal.index, ideal, color=GREY, linewidth=3)
        for method, line in line_styles(data["method"]):
            mine = data[data["method"] == method].sort_values("workers")
            left.plot(mine["workers"], mine["efficiency"], label=method, **line)
            right.plot(mine["workers"], mine["throughput_samples_per_s"], **line)
        left.set_ylim(0, 1.08 * max(1.0, float(data["efficiency"].max())))
        set_share_axis(left, "scaling efficiency")
        right.set_yscale("log")
        set_number_axis(right, "throughput (samples/s)")
        set_log_ticks(right, "y")
        for axes in (left, right):
            set_count_axis(axes, "workers", data["workers"])
        add_legend(figure, left)
