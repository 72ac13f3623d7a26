"""The distribution of what a method selects from, over the training."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.axes import add_legend, set_log_ticks, set_number_axis, set_share_axis
from simulator.reporting.figures.style.colours import GREY, line_styles

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase


class GradientDistribution(Figure, kind="gradient_distribution"):
    """Histograms of gradient plus residual at some iterations, in standard deviations; grey: normal distribution.

    Over the whole model and all workers.
    """

    title: ClassVar[str] = "Distribution of gradient plus residual"
    question: ClassVar[str] = "How are gradients plus residuals distributed, and does that change during the training?"
    takes: ClassVar[tuple[str, ...]] = ("distribution",)
    columns: ClassVar[dict[str, str]] = {
        "iteration": "recorded iteration",
        "middle": "middle of the bin, in standard deviations of this iteration",
        "share": "share of the elements in the bin",
        "normal": "the share in a normal distribution of the same mean and deviation",
    }

    def collect(self, source: Source) -> pd.DataFrame:
        """One row per iteration and bin."""
        return pd.DataFrame(source.document)[list(self.columns)]

    def draw(self, data: pd.DataFrame, figure: FigureBase) -> None:
        """One panel, logarithmic, so that the tails can be seen."""
        axes = figure.subplots()
        one = data[data["iteration"] == data["iteration"].iloc[0]]
        lowest = float(data.loc[data["share"] > 0, "share"].min())
        seen = one[one["normal"] >= lowest / 2]
        axes.plot(seen["middle"], seen["normal"], color=GREY, linewidth=4, label="normal distribution")
        labels = data["iteration"].map(lambda number: f"iteration {number:,}")
        for label, line in line_styles(labels):
            mine = data[(labels == label) & (data["share"] > 0)]
            axes.plot(mine["middle"], mine["share"], label=label, **line | {"markersize": 3})
        axes.set_yscale("log")
        axes.set_ylim(bottom=lowest / 2)
        set_share_axis(axes, "share of the elements in a bin")
        set_log_ticks(axes, "y")
        set_number_axis(axes, "gradient plus residual (standard deviations)", "x")
        add_legend(figure, axes)
