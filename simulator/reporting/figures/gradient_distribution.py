"""The distribution of what a method selects from, over the training."""

from __future__ import annotations

from typing import ClassVar

import pandas as pd

from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.panels import Panel, PanelAxis, Panels, compose_lines, grey_line


class GradientDistribution(Figure, kind="gradient_distribution"):
    """Histograms of gradient plus residual at some iterations, in standard deviations; grey: normal distribution.

    Over all workers and the whole model, or one panel for each layer.
    """

    title: ClassVar[str] = "Distribution of gradient plus residual"
    question: ClassVar[str] = "How are gradients plus residuals distributed, and does that change during the training?"
    takes: ClassVar[tuple[str, ...]] = ("distribution",)
    columns: ClassVar[dict[str, str]] = {
        "iteration": "recorded iteration",
        "layer": "tensor; empty for the whole model",
        "middle": "middle of the bin, in standard deviations of this iteration",
        "share": "share of the elements in the bin",
        "normal": "the share in a normal distribution of the same mean and deviation",
    }

    def collect(self, source: Source) -> pd.DataFrame:
        """One row per iteration, layer and bin."""
        return pd.DataFrame(source.document)[list(self.columns)]

    def compose(self, data: pd.DataFrame) -> Panels:
        """A panel for each layer, logarithmic, so that the tails can be seen."""
        return Panels([self._panel(str(layer), own) for layer, own in data.groupby("layer", sort=False)])

    @staticmethod
    def _panel(layer: str, data: pd.DataFrame) -> Panel:
        one = data[data["iteration"] == data["iteration"].iloc[0]]
        lowest = float(data.loc[data["share"] > 0, "share"].min())
        seen = one[one["normal"] >= lowest / 2]
        normal = grey_line("normal distribution", seen["middle"], seen["normal"], width=4)
        named = data.assign(label=data["iteration"].map(lambda number: f"iteration {number:,}"))
        lines = compose_lines(named[named["share"] > 0], "label", "middle", "share", size=3)
        x = PanelAxis("standard deviations" if layer else "gradient plus residual (standard deviations)")
        y = PanelAxis("share of the elements in a bin", "percent", log=True, low=lowest / 2)
        return Panel(x, y, [normal, *lines], title=layer)
