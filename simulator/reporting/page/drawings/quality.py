"""Time to quality: the trainings' curves over the predicted time, and the time of each method to the target."""

from __future__ import annotations

import pandas as pd

from simulator.reporting.figures.data.rows import FEW
from simulator.reporting.figures.style.colours import assign_looks
from simulator.reporting.figures.time_to_quality import CURVE, TARGET, WIDE
from simulator.reporting.page.parts import Plot
from simulator.reporting.page.plots import (
    NUMBER,
    SECONDS,
    axis,
    band,
    escape_text,
    hover,
    json_numbers,
    layout,
    line,
    marks,
    rule,
    wrap_text,
)


def time_to_quality(data: pd.DataFrame) -> Plot:
    """Left, where there are curves: quality over time, with the target in grey; right: times to it with intervals."""
    curves = data[data["row"] == CURVE]
    ends = data[data["row"] == TARGET].sort_values("time_s")
    looks = assign_looks(sorted(ends["method"]))
    traces: list[Plot] = []
    panels = 0 if curves.empty else 1
    if panels:
        last, target = 1.15 * float(ends["time_s"].max()), float(ends["middle"].iloc[0])
        traces.append(rule("target", [0, last], [target, target]))
        for method, rows in curves[curves["time_s"] <= last].groupby("method", sort=False):
            look = looks[str(method)]
            if curves["method"].nunique() <= FEW:
                traces.append(band(str(method), rows["time_s"].tolist(), rows[["low", "high"]].to_numpy().T, look))
            drawn = line(str(method), rows["time_s"], rows["middle"], look, mode="lines")
            traces.append(drawn | hover("%{x:.4~s}s", f"{escape_text(rows['quantity'].iloc[0])} %{{y:.4~g}}"))
    for place, row in enumerate(ends.itertuples()):
        reach = {"array": [row.p95_s - row.time_s], "arrayminus": [row.time_s - row.p5_s]}
        drawn = marks(str(row.method), [row.time_s], [place], looks[str(row.method)], panels, showlegend=not panels)
        drawn["error_x"] = {"type": "data", "symmetric": False, "color": drawn["marker"]["color"], "width": 5} | reach
        drawn["customdata"] = [json_numbers([row.p5_s, row.p95_s])]
        said = "90 % interval %{customdata[0]:.4~s}s to %{customdata[1]:.4~s}s"
        traces.append(drawn | hover("%{x:.4~s}s to the target", said))
    wide = ends["p95_s"].max() > WIDE * ends["p5_s"].min()
    scale: Plot = {"type": "log"} if wide else {"rangemode": "tozero"}
    names = {"tickvals": list(range(len(ends))), "ticktext": [wrap_text(name, 22) for name in ends["method"]]}
    xs = [axis("time to the target", SECONDS, **scale)]
    ys = [axis("") | names | {"range": [len(ends) - 0.5, -0.5], "showgrid": False, "ticks": ""}]
    if panels:
        xs.insert(0, axis("time on this cluster", SECONDS, rangemode="tozero"))
        ys.insert(0, axis(escape_text(curves["quantity"].iloc[0]), NUMBER))
        xs[0]["domain"], xs[1]["domain"] = [0, 0.42], [0.6, 1]
    return {"data": traces, "layout": layout(xs, ys, max(420, 140 + 34 * len(ends)))}
