"""Cost curves: the time of kernels and collectives against their size."""

from __future__ import annotations

import pandas as pd

from simulator.reporting.figures.style.colours import Look, assign_looks
from simulator.reporting.page.parts import Plot
from simulator.reporting.page.plots import BYTES, SECONDS, SHARE, SIZE, axis, hover, layout, line, marks


def cost_curves(data: pd.DataFrame) -> Plot:
    """Kernels: their curves and, where there are timings, these as marks with their residuals."""
    timed = data[data["measured_s"].notna()]
    traces: list[Plot] = []
    for kernel, look in assign_looks(data["kernel"]).items():
        mine = data[(data["kernel"] == kernel) & data["measured_s"].isna()].sort_values("elements")
        said = ("%{x:.4~s} elements", "%{y:.4~s}s by the curve")
        traces.append(line(kernel, mine["elements"], mine["curve_s"], look, mode="lines") | hover(*said))
        own = timed[timed["kernel"] == kernel]
        if len(own):
            hollow = Look(look.colour, "--", look.marker)
            said = ("%{x:.4~s} elements", "%{y:.4~s}s measured")
            style = {"showlegend": False}
            traces.append(marks(kernel, own["elements"], own["measured_s"], hollow, **style) | hover(*said))
            said = ("%{x:.4~s} elements", "curve / measured − 1: %{y:.3~p}")
            traces.append(marks(kernel, own["elements"], own["residual"], hollow, 1) | hover(*said))
    xs = [axis("elements", SIZE, type="log") for _ in range(2 if len(timed) else 1)]
    ys = [axis("time of one call", SECONDS, type="log"), axis("curve / measured − 1", SHARE, zeroline=True)]
    return {"data": traces, "layout": layout(xs, ys[: len(xs)], 460)}


def collective_curves(data: pd.DataFrame) -> Plot:
    """Measured collectives: seconds against payload, one line for each worker count. Columns curve, bytes, time_s."""
    traces = []
    for curve, look in assign_looks(data["curve"]).items():
        mine = data[data["curve"] == curve]
        said = ("%{x:.4~s}B", "%{y:.4~s}s")
        traces.append(line(str(curve), mine["bytes"], mine["time_s"], look) | hover(*said))
    xs = [axis("payload", BYTES, type="log")]
    return {"data": traces, "layout": layout(xs, [axis("time of the collective", SECONDS, type="log")], 480)}
