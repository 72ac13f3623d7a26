"""The bars of an iteration's terms."""

from __future__ import annotations

from typing import Any

import pandas as pd

from simulator.models.terms import BREAKDOWN, TERM_LABELS
from simulator.reporting.figures.iteration_breakdown import describe_whole
from simulator.reporting.figures.style.colours import GREY, PHASES
from simulator.reporting.page.parts import Plot
from simulator.reporting.page.plots import INK, LEGEND, SECONDS, axis, hover, json_numbers, layout, wrap_text


def iteration_breakdown(data: pd.DataFrame) -> Plot:
    """Stacked bars, the first run on top, each with its sum and its 90 % interval."""
    runs = list(dict.fromkeys(data["run"]))
    table = data.pivot(index="run", columns="phase", values="time_s").loc[runs]
    sums = [float(data.loc[data["run"] == run, "iteration_time_s"].iloc[0]) for run in runs]
    names = [wrap_text(run) for run in runs]
    places = list(range(len(runs)))
    traces: list[dict[str, Any]] = []
    for phase in BREAKDOWN:
        if not table[phase].abs().sum():
            continue
        of_all = [seconds / whole if whole else 0.0 for seconds, whole in zip(table[phase], sums, strict=True)]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": TERM_LABELS[phase],
                "y": places,
                "x": json_numbers(table[phase]),
                "customdata": json_numbers(of_all),
                "marker": {
                    "color": PHASES[phase],
                    "line": {"color": "#FFFFFF", "width": 1},
                    "pattern": {"shape": "/" if PHASES[phase] == GREY else "", "size": 8},
                },
            }
            | hover("%{x:.4~s}s, %{customdata:.3~p} of the iteration")
        )
    spans = [tuple(data.loc[data["run"] == run, ["p5_s", "p95_s"]].iloc[0]) for run in runs]
    known = [place for place, (low, high) in enumerate(spans) if high > low]
    if known:
        traces.append(_intervals(known, sums, spans))
    ends = [max(whole, spans[place][1]) if place in known else whole for place, whole in enumerate(sums)]
    labels = [
        {
            "x": end, "y": place, "text": describe_whole(whole, *span).replace("\n", "<br>"), "align": "left",
            "xanchor": "left", "xshift": 7, "showarrow": False,
        }
        for place, whole, end, span in zip(places, sums, ends, spans, strict=True)
    ]  # fmt: skip
    y = axis("") | {"tickvals": places, "ticktext": names, "autorange": "reversed", "ticks": "", "showgrid": False}
    x = axis("iteration time", SECONDS, range=[0, (1.55 if known else 1.15) * max([*ends, 1e-12])])
    height = 130 + 64 * len(runs)
    legend = LEGEND | {"traceorder": "normal"}
    more = {"barmode": "stack", "bargap": 0.3, "annotations": labels, "legend": legend}
    return {"data": traces, "layout": layout([x], [y], height, **more)}


def _intervals(places: list[int], sums: list[float], spans: list[tuple[float, float]]) -> dict[str, Any]:
    """The 90 % intervals of the bars at some places, as lines with ends."""
    above, below = ([abs(spans[place][side] - sums[place]) for place in places] for side in (1, 0))
    reach = {"symmetric": False, "array": json_numbers(above), "arrayminus": json_numbers(below)}
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "90 % interval",
        "x": json_numbers(sums[place] for place in places),
        "y": places,
        "customdata": [json_numbers(spans[place]) for place in places],
        "marker": {"color": INK, "symbol": "line-ns", "size": 8, "line": {"color": INK, "width": 1.6}},
        "error_x": reach | {"type": "data", "color": INK, "thickness": 1.6, "width": 5},
    } | hover("%{customdata[0]:.4~s}s to %{customdata[1]:.4~s}s")
