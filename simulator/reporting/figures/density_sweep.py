"""Iteration time and traffic against the density that is asked for."""

from __future__ import annotations

from typing import ClassVar

import pandas as pd

from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.sources import DENSITY, Source, intervals, methods
from simulator.reporting.figures.style.panels import (
    FEW,
    Band,
    Mark,
    Panel,
    PanelAxis,
    Panels,
    Series,
    is_wide,
    line_styles,
)


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
            hint = "see scenarios/sweeps/density_sweep"
            raise self.refusal(source, f"at least two values of {DENSITY}", "fewer", hint)
        kind = methods(table)
        if DENSITY not in table:  # the density is part of the method's name there
            kind = kind.str.replace(r" [\d.e-]+ %", "", regex=True)
        # A method that ignores the density is the same point in all rows.
        level = table["digest"].groupby(kind).transform("nunique").eq(1) & kind.map(kind.value_counts()).ne(1)
        level |= kind.eq("dense")
        density = varied.astype(float).mask(level, 1.0)
        points = pd.DataFrame(
            {
                "method": kind,
                "density": density,
                "iteration_time_s": table["iteration_time_s"],
                **intervals(table),
                "sent_bytes": table["traffic.sent_bytes_per_worker"],
            }
        )
        return self.unique_points(source, points, ("method", "density"))

    def compose(self, data: pd.DataFrame) -> Panels:
        """Left: time, with its interval where few lines share the panel; right: bytes."""
        few, times = data["method"].nunique() <= FEW, data["iteration_time_s"]
        densities = data.loc[data["density"] < 1, "density"]
        ends = [float(densities.min()), float(densities.max())] if len(densities) else [0.5, 1.0]
        left: list[Mark] = []
        right = []
        for method, line in line_styles(data["method"]):
            mine = data[data["method"] == method].sort_values("density")
            said, look = ["density %{x:.4~p}"], line
            if len(mine) == 1 and mine["density"].iloc[0] == 1:
                mine, said = pd.concat([mine, mine]).assign(density=ends), []
                look = {"colour": line["colour"], "stroke": "--", "level": "y"}
            elif few:
                left.append(Band(method, mine["density"], mine["p5_s"], mine["p95_s"], line["colour"]))
            x, interval = mine["density"], mine[["p5_s", "p95_s"]].to_numpy().tolist()
            time = ["%{y:.4~s}s per iteration", "90 % interval %{customdata[0]:.4~s}s to %{customdata[1]:.4~s}s"]
            left.append(Series(method, x, mine["iteration_time_s"], **look, said=said + time, told=interval))
            right.append(Series(method, x, mine["sent_bytes"], **look, said=[*said, "%{y:.4~s}B sent per worker"]))
        density = PanelAxis("density", "percent", log=True)
        wide = is_wide(times.min(), times.max())
        # One worker sends nothing, of which there is no logarithm.
        sent = PanelAxis("sent per worker and iteration", "bytes", log=bool(data["sent_bytes"].gt(0).any()))
        time_axis = PanelAxis("iteration time", "time", log=wide, low=None if wide else 0)
        return Panels([Panel(density, time_axis, left), Panel(density, sent, right)])
