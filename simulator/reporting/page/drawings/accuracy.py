"""Predicted against measured."""

from __future__ import annotations

import pandas as pd

from simulator.reporting.figures.style.colours import assign_looks
from simulator.reporting.page.parts import Plot
from simulator.reporting.page.plots import (
    REFERENCE,
    SECONDS,
    SHARE,
    axis,
    escape_text,
    hover,
    layout,
    marks,
    rule,
    wrap_text,
)
from simulator.reporting.page.theme import css_colour
from simulator.reporting.wording.values import format_share

_LABELS = 0.24
"""Share of the width that is left for the groups' names between the two panels."""


def measured_predicted(data: pd.DataFrame, band: float) -> Plot:
    """Left: seconds on logarithmic axes with the identity and a band; right: errors, one line a group."""
    seconds = data[["measured_s", "predicted_s"]]
    low, high = 0.8 * float(seconds.min().min()), 1.25 * float(seconds.max().max())
    groups = list(dict.fromkeys(data["group"]))
    last = len(groups) - 0.5
    traces: list[Plot] = []
    for part, dash in ((0.0, "solid"), (band, "dash"), (-band, "dash")):
        name = f"±{format_share(band)}" if part else "measured = predicted"
        style: Plot = {"line": {"color": REFERENCE, "dash": dash, "width": 2}}
        ends = [(1 + part) * low, (1 + part) * high]
        traces.append(rule(name, [low, high], ends, **style, showlegend=part >= 0))
        traces.append(rule(name, [part, part], [-0.5, last], 1, **style))
    for place, (group, look) in enumerate(assign_looks(groups).items()):
        for fitted, mine in data[data["group"] == group].groupby("used_in_fit"):
            custom = [
                [wrap_text(row.scenario, 50), float(f"{row.measured_s:.6g}"), float(f"{row.predicted_s:.6g}")]
                for row in mine.itertuples()
            ]
            ink: Plot = {
                "symbol": "circle-open" if fitted else "circle",
                "color": css_colour(look.colour),
                "size": 9,
            }
            style = {"marker": ink | {"line": {"width": 1.6, "color": css_colour(look.colour)}}, "customdata": custom}
            errors = [f"{100 * error:+.1f} %" for error in mine["signed_error"]]
            said = ["%{customdata[0]}", "measured %{customdata[1]:.4~s}s, predicted %{customdata[2]:.4~s}s"]
            said += ["error %{text}" + (", used in fit: no prediction" if fitted else "")]
            name = f"{group} (used in fit)" if fitted else group
            style |= {"text": errors, "mode": "markers"}
            traces.append(marks(name, mine["measured_s"], mine["predicted_s"], look, **style) | hover(*said))
            rows = [place] * len(mine)
            traces.append(marks(name, mine["signed_error"], rows, look, 1, **style) | hover(*said))
    span: Plot = {"type": "log"}
    xs = [
        axis("measured", SECONDS, **span) | {"domain": [0, 0.4]},
        axis("predicted / measured − 1", SHARE) | {"domain": [0.4 + _LABELS, 1]},
    ]
    names = {"tickvals": list(range(len(groups))), "ticktext": [wrap_text(group, 26) for group in groups]}
    ys = [
        axis("predicted", SECONDS, **span),
        axis("") | names | {"range": [last, -0.5], "showgrid": False, "ticks": "", "automargin": False},
    ]
    panels = layout(xs, ys, 520)
    for trace in traces:
        if "(used in fit)" in str(trace["name"]) or trace["name"] in map(escape_text, groups):
            trace["showlegend"] = False
    return {"data": traces, "layout": panels}
