"""The bars of an iteration's terms."""

from __future__ import annotations

from typing import Any

import pandas as pd

from simulator.models.terms import BREAKDOWN, TERM_LABELS
from simulator.reporting.figures.style.colours import GREY, PHASES
from simulator.reporting.page.parts import Plot
from simulator.reporting.page.plots import LEGEND, SECONDS, axis, hover, json_numbers, layout, wrap_text
from simulator.units import show_time


def iteration_breakdown(data: pd.DataFrame) -> Plot:
    """Stacked bars, the first run on top, each with its sum."""
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
    labels = [
        {
            "x": whole, "y": place, "text": show_time(whole),
            "xanchor": "left", "xshift": 5, "showarrow": False,
        }
        for place, whole in zip(places, sums, strict=True)
    ]  # fmt: skip
    y = axis("") | {"tickvals": places, "ticktext": names, "autorange": "reversed", "ticks": "", "showgrid": False}
    x = axis("iteration time", SECONDS, range=[0, 1.15 * max([*sums, 1e-12])])
    height = 130 + 64 * len(runs)
    legend = LEGEND | {"traceorder": "normal"}
    more = {"barmode": "stack", "bargap": 0.3, "annotations": labels, "legend": legend}
    return {"data": traces, "layout": layout([x], [y], height, **more)}
