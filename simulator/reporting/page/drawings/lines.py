"""Drawings with one line for each method: density sweep, scaling, build-up, padding."""

from __future__ import annotations

import pandas as pd

from simulator.records import Record
from simulator.reporting.figures.data.replays import recorded_runs, split_at_gaps
from simulator.reporting.figures.data.rows import FEW
from simulator.reporting.figures.density_sweep import WIDE
from simulator.reporting.figures.style.colours import assign_looks
from simulator.reporting.page.parts import Plot
from simulator.reporting.page.plots import (
    BYTES,
    NUMBER,
    SECONDS,
    SHARE,
    axis,
    band,
    count_axis,
    hover,
    json_numbers,
    layout,
    line,
    rule,
)

_FROM_ZERO: Plot = {"rangemode": "tozero"}


def density_sweep(data: pd.DataFrame) -> Plot:
    """Iteration time, and bytes sent, against density; a method without a density is a horizontal line."""
    few = data["method"].nunique() <= FEW
    times = data["iteration_time_s"]
    densities = data.loc[data["density"] < 1, "density"]
    ends = [float(densities.min()), float(densities.max())] if len(densities) else [0.5, 1.0]
    traces = []
    for method, look in assign_looks(data["method"]).items():
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
                if few and not level and mine["p5_s"].notna().all():
                    traces.append(band(method, mine["density"].tolist(), interval, look))
                drawn["customdata"] = [list(pair) for pair in zip(*map(json_numbers, interval), strict=True)]
                said += ["%{y:.4~s}s per iteration", "90 % interval %{customdata[0]:.4~s}s to %{customdata[1]:.4~s}s"]
            traces.append(drawn | hover(*said))
    xs = [axis("density", SHARE, type="log") for _ in range(2)]
    ys = [
        axis("iteration time", SECONDS, **({"type": "log"} if times.max() > WIDE * times.min() else _FROM_ZERO)),
        # One worker sends nothing, of which there is no logarithm.
        axis("sent per worker and iteration", BYTES, **({"type": "log"} if data["sent_bytes"].gt(0).any() else {})),
    ]
    return {"data": traces, "layout": layout(xs, ys)}


def scaling_efficiency(data: pd.DataFrame) -> Plot:
    """Efficiency and throughput against workers; ideal in grey."""
    ideal = data.groupby("workers")["ideal_samples_per_s"].max()
    few = data["method"].nunique() <= FEW
    traces = [rule("ideal", list(ideal.index), [1.0] * len(ideal)), rule("ideal", list(ideal.index), list(ideal), 1)]
    for method, look in assign_looks(data["method"]).items():
        mine = data[data["method"] == method].sort_values("workers")
        said = "%{x:,.0f} workers"
        reach = mine[["throughput_p5", "throughput_p95"]]
        if few and reach.notna().all(axis=None):
            traces.append(band(method, mine["workers"].tolist(), reach.to_numpy().T.tolist(), look, 1))
        traces.append(line(method, mine["workers"], mine["efficiency"], look) | hover(said, "efficiency %{y:.4~p}"))
        traces.append(
            line(method, mine["workers"], mine["throughput_samples_per_s"], look, 1)
            | {"customdata": [json_numbers(ends) for ends in reach.to_numpy()]}
            | hover(said, "%{y:,.4~g} samples/s", "90 % interval %{customdata[0]:,.4~g} to %{customdata[1]:,.4~g}")
        )
    xs = [count_axis("workers", data["workers"]) for _ in range(2)]
    ys = [
        axis("scaling efficiency", SHARE, **_FROM_ZERO),
        axis("throughput (samples/s)", NUMBER, type="log"),
    ]
    return {"data": traces, "layout": layout(xs, ys)}


def build_up(data: pd.DataFrame) -> Plot:
    """Aggregated density against workers (dotted: independent selections), and over iterations at the most workers."""
    shown = _Columns("aggregated", "independent", "aggregated density", "%{y:.4~p}", SHARE)
    left = axis("aggregated density (dotted: independent)", SHARE, type="log")
    return _replayed(data, shown, left, axis("", SHARE, rangemode="tozero"))


def padding_imbalance(data: pd.DataFrame) -> Plot:
    """Padding against workers (dotted: imbalance), and over iterations at the most workers."""
    shown = _Columns("padding", "imbalance", "padding", "%{y:.4~g}", NUMBER)
    return _replayed(data, shown, axis("padding, sent / selected (dotted: imbalance)", NUMBER), axis("", NUMBER))


class _Columns(Record):
    """Which columns of a replay are drawn solid and dotted, the label, and the format of numbers."""

    solid: str
    dotted: str
    words: str
    number: str
    style: Plot


def _replayed(data: pd.DataFrame, shown: _Columns, left: Plot, right: Plot) -> Plot:
    """A panel over workers, and one for each recorded run of iterations; lines never cross a gap."""
    runs = recorded_runs(data)
    traces: list[Plot] = []
    for method, look in assign_looks(data["method"]).items():
        mine = data[data["method"] == method]
        mean = mine[mine["priced"]].groupby("workers")[[shown.solid, shown.dotted]].mean()
        said = "%{x:,.0f} workers"
        solid = line(method, mean.index, mean[shown.solid], look)
        traces.append(solid | hover(said, f"{shown.words} {shown.number}"))
        dots = {"color": look.colour, "dash": "dot", "width": 1.5}
        dotted = line(method, mean.index, mean[shown.dotted], look, mode="lines", line=dots, showlegend=False)
        traces.append(dotted | hover(said, f"{shown.dotted} {shown.number}"))
        for place, run in enumerate(runs, start=1):
            x: list[float | None] = []
            y: list[float | None] = []
            for part in split_at_gaps(run[run["method"] == method]):
                x, y = [*x, *part["iteration"], None], [*y, *part[shown.solid], None]
            drawn = line(method, x[:-1], y[:-1], look, place)
            traces.append(drawn | hover("iteration %{x}", f"{shown.words} {shown.number}"))
    width, gap, start = 0.43, 0.03, 0.57
    each = (1 - start - gap * (len(runs) - 1)) / len(runs)
    xs = [count_axis("workers", data["workers"]) | {"domain": [0, width]}]
    ys = [left]
    for place in range(len(runs)):
        title = f"iteration ({data['workers'].max():,} workers)" if place == (len(runs) - 1) // 2 else ""
        low = start + place * (each + gap)
        xs.append(axis(title, {"kind": "count"}) | {"domain": [low, low + each]})
        ys.append(right | ({"matches": "y2", "showticklabels": False, "ticks": ""} if place else {}))
    together = [[0], list(range(1, len(xs)))]
    return {"data": traces, "layout": layout(xs, ys, 480, together)}
