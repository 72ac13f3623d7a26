"""Iteration time and traffic against the density that is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.rows import DENSITY, FEW, intervals, methods
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.axes import (
    add_legend,
    set_bytes_axis,
    set_log_ticks,
    set_seconds_axis,
    set_share_axis,
)
from simulator.reporting.figures.style.colours import line_styles

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

WIDE = 6
"""Times that differ by more than this factor get a logarithmic axis."""


class DensitySweep(Figure, kind="density_sweep"):
    """Iteration time and bytes sent per worker against density, one line per method; dense is a horizontal line."""

    title: ClassVar[str] = "Iteration time and traffic against density"
    question: ClassVar[str] = "At which density is each method faster than dense?"
    takes: ClassVar[tuple[str, ...]] = ("sweep",)
    width: ClassVar[float] = 9.0
    columns: ClassVar[dict[str, str]] = {
        "method": "sparsifier",
        "density": "share of coordinates that a worker is asked to send; 1 for methods without a density",
        "iteration_time_s": "seconds of one iteration",
        "p5_s": "5th percentile of its prediction interval, seconds",
        "p95_s": "95th percentile, seconds",
        "sent_bytes": "bytes that a worker sends in an iteration, mean over workers",
    }

    def collect(self, source: Source) -> pd.DataFrame:
        """One row per method and density; a method without one has one row."""
        table = source.table
        varied = table[DENSITY] if DENSITY in table else table.get("density.target")
        if varied is None or varied[methods(table) != "dense"].nunique() < 2:
            raise self.refusal(
                source, f"at least two values of {DENSITY}", "fewer", "see scenarios/sweeps/density_sweep"
            )
        kind = methods(table)
        if DENSITY not in table:  # the density is part of the method's name there
            kind = kind.str.replace(r" [\d.e-]+ %", "", regex=True)
        # A method that ignores the density is the same point in all rows.
        level = table["digest"].groupby(kind).transform("nunique").eq(1) & kind.map(kind.value_counts()).ne(1)
        level |= kind.eq("dense")
        density = varied.astype(float).mask(level, 1.0)
        self.check_unique_points(source, pd.DataFrame({"method": kind, "density": density}))
        points = pd.DataFrame(
            {
                "method": kind,
                "density": density,
                "iteration_time_s": table["iteration_time_s"],
                **intervals(table),
                "sent_bytes": table["traffic.sent_bytes_per_worker"],
            }
        )
        return points.drop_duplicates(["method", "density"])

    def draw(self, data: pd.DataFrame, figure: FigureBase) -> None:
        """Left: time, with its interval where few lines share the panel; right: bytes."""
        left, right = figure.subplots(1, 2)
        few = data["method"].nunique() <= FEW
        for method, line in line_styles(data["method"]):
            mine = data[data["method"] == method].sort_values("density")
            if len(mine) == 1 and mine["density"].iloc[0] == 1:
                row = mine.iloc[0]
                left.axhline(row["iteration_time_s"], color=line["color"], linestyle="--", label=method)
                right.axhline(row["sent_bytes"], color=line["color"], linestyle="--")
                continue
            left.plot(mine["density"], mine["iteration_time_s"], label=method, **line)
            right.plot(mine["density"], mine["sent_bytes"], **line)
            if few:
                left.fill_between(
                    mine["density"], mine["p5_s"], mine["p95_s"], color=line["color"], alpha=0.15, linewidth=0
                )
        for axes in (left, right):
            axes.set_xscale("log")
            set_share_axis(axes, "density", "x")
            set_log_ticks(axes, "x")
        times = data["iteration_time_s"]
        if times.max() > WIDE * times.min():
            left.set_yscale("log")
        else:
            left.set_ylim(bottom=0)
        set_seconds_axis(left, "iteration time")
        if left.get_yscale() == "log":
            set_log_ticks(left, "y")
        right.set_yscale("log")
        set_bytes_axis(right, "sent per worker and iteration")
        set_log_ticks(right, "y")
        add_legend(figure, left)
