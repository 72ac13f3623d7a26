"""How selections add up: aggregated density against workers, and from iteration to iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.replays import build_up_rows
from simulator.reporting.figures.sources import Source
from simulator.reporting.figures.style import axis_count, axis_number, axis_share, legend_below, log_ticks, looks

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase


class BuildUp(Figure, kind="build_up"):
    """Aggregated density K/d against workers (mean over iterations), and over iterations, method by method."""

    title: ClassVar[str] = "Gradient build-up"
    question: ClassVar[str] = "How many coordinates are summed once every worker has chosen its own?"
    takes: ClassVar[tuple[str, ...]] = ("build_up", "trace")
    width: ClassVar[float] = 9.0
    columns: ClassVar[dict[str, str]] = {
        "method": "sparsifier with its density and granularity",
        "workers": "number of workers",
        "iteration": "recorded iteration",
        "selected": "share of coordinates that one worker selects, mean over workers",
        "aggregated": "share of coordinates that are summed in the end",
        "independent": "the same, if workers chose independently of each other",
    }

    def collect(self, source: Source) -> pd.DataFrame:
        """Rows of the replay; of a trace, those of Top-k by layer and over the whole model."""
        return build_up_rows(source, list(self.columns))

    def draw(self, data: pd.DataFrame, figure: FigureBase) -> None:
        """Left: against workers; right: over the iterations at the most workers."""
        left, right = figure.subplots(1, 2)
        most = int(data["workers"].max())
        for method, look in looks(data["method"]).items():
            mine = data[data["method"] == method]
            mean = mine.groupby("workers")[["aggregated", "independent"]].mean()
            left.plot(mean.index, mean["aggregated"], label=method, **look.line())
            left.plot(mean.index, mean["independent"], ":", color=look.colour, linewidth=1.2)
            last = mine[mine["workers"] == most]
            # Iterations that do not follow each other are not joined: nothing was recorded between them.
            for _, run in last.groupby((last["iteration"].diff() != 1).cumsum()):
                right.plot(run["iteration"], run["aggregated"], **look.line())
        for axes in (left, right):
            axes.set_yscale("log")
            axis_share(axes, "aggregated density")
            log_ticks(axes, "y")
        axis_count(left, "workers", data["workers"])
        axis_number(right, "iteration", "x")
        right.margins(x=0.08)
        left.set_title("dotted: independent choices")
        right.set_title(f"{most} workers")
        legend_below(figure, left, 2)
