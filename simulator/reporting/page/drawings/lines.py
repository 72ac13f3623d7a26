"""Drawings with one line a method: density sweep, scaling, build-up, padding."""

from __future__ import annotations

from typing import Any

import pandas as pd

from simulator.reporting.figures.style import looks
from simulator.reporting.page.parts import Plot
from simulator.reporting.page.plots import (
    BYTES,
    NUMBER,
    SECONDS,
    SHARE,
    axis,
    counts,
    hover,
    layout,
    line,
    rule,
    values,
)


def density_sweep(data: pd.DataFrame) -> Plot:
    """Iteration time, and bytes sent, against density; what has no density is a level line."""
    densities = data.loc[data["density"] < 1, "density"]
    ends = [float(densities.min()), float(densities.max())] if len(densities) else [0.5, 1.0]
    traces = []
    for method, look in looks(data["method"]).items():
        mine = data[data["method"] == method].sort_values("density")
        level = len(mine) == 1 and mine["density"].iloc[0] == 1
        x = ends if level else mine["density"]
        interval = [mine[name].tolist() * (2 if level else 1) for name in ("p5_s", "p95_s")]
        for panel, column in enumerate(("iteration_time_s", "sent_bytes")):
            y = mine[column].tolist() * (2 if level else 1)
            drawn = line(method, x, y, look, panel, **({"mode": "lines"} if level else {}))
            said = [] if level else ["density %{x:.4~p}"]
            if panel:
                said.append("%{y:.4~s}B sent per worker")
            else:
                drawn["customdata"] = [list(pair) for pair in zip(*map(values, interval), strict=True)]
                said += ["%{y:.4~s}s per iteration", "90 % interval %{customdata[0]:.4~s}s to %{customdata[1]:.4~s}s"]
            traces.append(drawn | hover(*said))
    xs = [axis("density", SHARE, type="log") for _ in range(2)]
    ys = [
        axis("iteration time", SECONDS, rangemode="tozero"),
        # One worker sends nothing, of which there is no logarithm.
        axis("sent per worker and iteration", BYTES, **({"type": "log"} if data["sent_bytes"].gt(0).any() else {})),
    ]
    return {"data": traces, "layout": layout(xs, ys)}


def scaling_efficiency(data: pd.DataFrame) -> Plot:
    """Efficiency and throughput against workers; ideal in grey."""
    ideal = data.groupby("workers")["ideal_samples_per_s"].max()
    traces = [rule("ideal", list(ideal.index), [1.0] * len(ideal)), rule("ideal", list(ideal.index), list(ideal), 1)]
    for method, look in looks(data["method"]).items():
        mine = data[data["method"] == method].sort_values("workers")
        said = "%{x:,.0f} workers"
        traces.append(
            line(method, mine["workers"], mine["efficiency"], look) | hover(said, "efficiency %{y:.4~p}")
        )
        traces.append(
            line(method, mine["workers"], mine["throughput_samples_per_s"], look, 1)
            | hover(said, "%{y:,.4~g} samples/s")
        )
    xs = [counts("workers", data["workers"]) for _ in range(2)]
    ys = [
        axis("scaling efficiency", SHARE, rangemode="tozero"),
        axis("throughput (samples/s)", NUMBER, type="log"),
    ]
    return {"data": traces, "layout": layout(xs, ys)}


def build_up(data: pd.DataFrame) -> Plot:
    """Aggregated density against workers (independent choices dotted), and over the iterations at the most workers."""
    traces: list[dict[str, Any]] = []
    for method, look in looks(data["method"]).items():
        mine = data[data["method"] == method]
        mean = mine.groupby("workers")[["aggregated", "independent"]].mean()
        said = "%{x:,.0f} workers"
        traces.append(line(method, mean.index, mean["aggregated"], look) | hover(said, "aggregated %{y:.4~p}"))
        dotted = {"mode": "lines", "line": {"color": look.colour, "dash": "dot", "width": 1.5}, "showlegend": False}
        traces.append(
            line(method, mean.index, mean["independent"], look, **dotted)
            | hover(said, "if chosen independently %{y:.4~p}")
        )
        traces.append(_over_iterations(method, mine, "aggregated", look) | hover("iteration %{x}", "%{y:.4~p}"))
    most = f"iteration ({data['workers'].max():,} workers)"
    xs = [counts("workers", data["workers"]), axis(most, tickformat="d")]
    ys = [
        axis("aggregated density (dotted: independent)", SHARE, type="log", fine=True),
        axis("aggregated density", SHARE, rangemode="tozero"),
    ]
    return {"data": traces, "layout": layout(xs, ys, 480)}


def padding_imbalance(data: pd.DataFrame) -> Plot:
    """Padding against workers (imbalance dotted), and over the iterations at the most workers."""
    traces: list[dict[str, Any]] = []
    for method, look in looks(data["method"]).items():
        mine = data[data["method"] == method]
        mean = mine.groupby("workers")[["padding", "imbalance"]].mean()
        said = "%{x:,.0f} workers"
        traces.append(line(method, mean.index, mean["padding"], look) | hover(said, "padding %{y:.4~g}"))
        dotted = {"mode": "lines", "line": {"color": look.colour, "dash": "dot", "width": 1.5}, "showlegend": False}
        traces.append(
            line(method, mean.index, mean["imbalance"], look, **dotted) | hover(said, "imbalance %{y:.4~g}")
        )
        traces.append(_over_iterations(method, mine, "padding", look) | hover("iteration %{x}", "padding %{y:.4~g}"))
    most = f"iteration ({data['workers'].max():,} workers)"
    xs = [counts("workers", data["workers"]), axis(most, tickformat="d")]
    ys = [axis("padding, sent / selected (dotted: imbalance)", NUMBER), axis("padding, sent / selected", NUMBER)]
    return {"data": traces, "layout": layout(xs, ys, 480)}


def _over_iterations(method: str, mine: pd.DataFrame, column: str, look: Any) -> dict[str, Any]:
    """A method's line over iterations, broken where nothing was recorded between them."""
    last = mine[mine["workers"] == mine["workers"].max()].sort_values("iteration")
    x: list[float | None] = []
    y: list[float | None] = []
    for iteration, value in zip(last["iteration"].tolist(), last[column].tolist(), strict=True):
        if x and x[-1] is not None and iteration != x[-1] + 1:
            x.append(None)
            y.append(None)
        x.append(iteration)
        y.append(value)
    return line(method, x, y, look, 1)
