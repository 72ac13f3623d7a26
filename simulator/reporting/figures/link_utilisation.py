"""How busy links are over an iteration: one row for each link, the busiest on top."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd
from pydantic import Field

from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.panels import BLUE, SAID, Boxes, Panel, PanelAxis, Panels
from simulator.reporting.wording.values import format_share
from simulator.units import show_bandwidth, show_time

_PERIODS, _MANY = 400, 10
"""Periods of a row; where a link has more, means over as many equal ones are drawn. Rows with small names."""


class LinkUtilisation(Figure, kind="link_utilisation"):
    """Utilisation of links over time; links that always carry the same share a row. `links`: rows at most."""

    title: ClassVar[str] = "Link utilisation over time"
    question: ClassVar[str] = "When is which link busy, and how busy?"
    takes: ClassVar[tuple[str, ...]] = ("run",)
    width: ClassVar[float] = 9.0
    columns: ClassVar[dict[str, str]] = {
        "link": "the link, or the first of those that always carry the same",
        "alike": "number of links that always carry the same",
        "start_s": "begin of the period, in seconds since the start",
        "end_s": "end of the period, in seconds since the start",
        "bytes_per_s": "bytes per second that the link carries",
        "utilisation": "share of its capacity",
    }

    links: int = Field(default=14, ge=1, le=40)

    def collect(self, source: Source) -> pd.DataFrame:
        """One row per link and period; the busiest links first."""
        hint = "`sparsim run --out` writes it where exchanges share links: parameter servers, other jobs, slow links"
        table = self.read_rows(source, "links.csv", ("time_s", "link", "bytes_per_s", "utilisation"), hint)
        if table.empty:
            raise self.refusal(source, "a link that carries something", "none")
        end = float(table["time_s"].max())
        seen: dict[bytes, pd.DataFrame] = {}
        for link, rows in table.groupby("link", sort=False):
            key = rows[["time_s", "utilisation"]].to_numpy().tobytes()
            if key in seen:
                seen[key]["alike"] += 1
            else:
                until = np.append(rows["time_s"].to_numpy()[1:], end)
                periods = rows.rename(columns={"time_s": "start_s"}).assign(link=link, end_s=until, alike=1)
                seen[key] = periods[list(self.columns)]
        busy = sorted(seen.values(), key=_carried, reverse=True)[: self.links]
        periods = pd.concat(busy)
        return periods[periods["end_s"] > periods["start_s"]]

    def compose(self, data: pd.DataFrame) -> Panels:
        """Each link as a row of periods; the stronger the colour, the larger the share of its capacity."""
        end, names, parts = float(data["end_s"].max()), [], []
        for place, (link, mine) in enumerate(data.groupby("link", sort=False)):
            alike = int(mine["alike"].iloc[0])
            more = f" and {alike - 1} alike" if alike > 1 else ""
            names.append(f"{link}{more}, {format_share(_carried(mine) / end if end else 0.0)} busy")
            parts.append(_thin_periods(mine).assign(y=float(place)))
        rows = pd.concat(parts).query("utilisation > 0")
        told = [
            [f"{show_time(start)} to {show_time(stop)}: {format_share(used)} busy, {show_bandwidth(rate)}"]
            for start, stop, used, rate in rows[["start_s", "end_s", "utilisation", "bytes_per_s"]].to_numpy().tolist()
        ]
        middles, widths = (rows["start_s"] + rows["end_s"]) / 2, rows["end_s"] - rows["start_s"]
        shade: Any = {"colour": BLUE, "strengths": rows["utilisation"].tolist(), "said": SAID, "told": told}
        boxes = Boxes("", middles.tolist(), rows["y"].tolist(), widths.tolist(), [0.84] * len(rows), **shade)
        x = PanelAxis("time since the first iteration began", "time", low=0, high=end)
        lanes = PanelAxis("", names=names, letters=11 if len(names) <= _MANY else 10)
        return Panels([Panel(x, lanes, [boxes], "the stronger the colour, the larger the share of its capacity")])


def _thin_periods(rows: pd.DataFrame) -> pd.DataFrame:
    """The periods of a link; of many, means over equal ones."""
    if len(rows) <= _PERIODS:
        return rows
    starts, ends = rows["start_s"].to_numpy(), rows["end_s"].to_numpy()
    edges = np.linspace(starts[0], ends[-1], _PERIODS + 1)
    made = pd.DataFrame({"start_s": edges[:-1], "end_s": edges[1:]})
    for name in ("utilisation", "bytes_per_s"):
        # What has been carried up to each edge; its slope is the mean.
        carried = np.append(0.0, np.cumsum(rows[name].to_numpy() * (ends - starts)))
        made[name] = np.diff(np.interp(edges, np.append(starts, ends[-1]), carried)) / np.diff(edges)
    return made


def _carried(rows: pd.DataFrame) -> float:
    return float((rows["utilisation"] * (rows["end_s"] - rows["start_s"])).sum())
