"""How selections add up: aggregated density against workers, and from iteration to iteration."""

from __future__ import annotations

from typing import Any, ClassVar

import pandas as pd

from simulator.engine.build_up import DEFAULT_METHODS
from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.replays import build_up_rows, draw_replay
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.panels import Panel, PanelAxis, Panels, compose_lines


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

    def compose(self, data: pd.DataFrame) -> Panels:
        """Left: against workers; right: over the iterations at the most workers."""
        columns, said = ["aggregated", "independent"], "%{x:,.0f} workers"
        settled = data[data["priced"]].groupby(["method", "workers"])[columns].mean().reset_index()
        lines: dict[str, Any] = {"data": settled, "by": "method", "over": "workers", "order": data["method"]}
        left = compose_lines(**lines, shown="aggregated", said=[said, "aggregated density %{y:.4~p}"])
        dotted: dict[str, Any] = {"stroke": ":", "width": 1.2, "marker": ""}
        left += compose_lines(**lines, shown="independent", **dotted, said=[said, "independent %{y:.4~p}"])
        density = PanelAxis("aggregated density", "percent", log=True, page="aggregated density (dotted: independent)")
        workers = PanelAxis("workers", values=data["workers"])
        title = f"{data['workers'].max()} workers, over iterations"
        shown = PanelAxis("", "percent", low=0)
        first = Panel(workers, density, left, "dotted: independent selections")
        return draw_replay(first, data, "aggregated", shown, said="aggregated density %{y:.4~p}", title=title)
