"""How selections add up: aggregated density against workers, and from iteration to iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

from simulator.engine.build_up import DEFAULT_METHODS
from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.replays import build_up_rows, draw_iterations, make_panels, priced_rows
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.axes import add_legend, set_count_axis, set_log_ticks, set_share_axis
from simulator.reporting.figures.style.colours import line_styles

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase


class BuildUp(Figure, kind="build_up"):
    """Aggregated density K/d against workers (mean over the settled iterations), and over iterations, method by method.

    `methods`: sparsifiers to replay where a trace is given.
    """

    title: ClassVar[str] = "Gradient build-up"
    question: ClassVar[str] = "How many coordinates are summed when each worker selects its own?"
    takes: ClassVar[tuple[str, ...]] = ("build_up", "trace")
    width: ClassVar[float] = 9.0
    columns: ClassVar[dict[str, str]] = {
        "method": "sparsifier with its density and granularity",
        "workers": "number of workers",
        "iteration": "recorded iteration",
        "priced": "whether the iteration is in the settled part, of which the mean is taken",
        "selected": "share of coordinates that one worker selects, mean over workers",
        "aggregated": "share of coordinates that the sum over all workers touches",
        "independent": "the same, if each worker selected independently of the others",
    }

    methods: tuple[dict[str, Any] | str, ...] = DEFAULT_METHODS

    def collect(self, source: Source) -> pd.DataFrame:
        """Rows of the replay."""
        return build_up_rows(source, list(self.columns), self.methods)

    def draw(self, data: pd.DataFrame, figure: FigureBase) -> None:
        """Left: against workers; right: over the iterations at the most workers."""
        left, runs = make_panels(figure, data)
        for method, line in line_styles(data["method"]):
            mean = priced_rows(data, method).groupby("workers")[["aggregated", "independent"]].mean()
            left.plot(mean.index, mean["aggregated"], label=method, **line)
            left.plot(mean.index, mean["independent"], ":", color=line["color"], linewidth=1.2)
        left.set_yscale("log")
        set_share_axis(left, "aggregated density")
        set_log_ticks(left, "y")
        set_count_axis(left, "workers", data["workers"])
        left.set_title("dotted: independent selections")
        for axes, run in runs:
            draw_iterations(axes, run, "aggregated", data["method"])
        first = runs[0][0]
        first.set_ylim(bottom=0)
        set_share_axis(first, "")
        first.set_title(f"{data['workers'].max()} workers, over iterations")
        add_legend(figure, left)
