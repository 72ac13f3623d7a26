"""How busy links are over an iteration: one row for each link, the busiest on top."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd
from pydantic import Field

from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.axes import set_axis
from simulator.reporting.figures.style.colours import amount_colours
from simulator.reporting.figures.style.panels import PanelAxis
from simulator.reporting.wording.values import format_share

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

_COLUMNS = ("time_s", "link", "bytes_per_s", "utilisation")


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
        table = source.read_table("links.csv")
        if table is None:
            hint = (
                "`sparsim run --out` writes it where exchanges share links: parameter servers, other jobs, slow links"
            )
            raise self.refusal(source, "a run with links.csv in its folder", "none", hint)
        if not set(_COLUMNS) <= set(table.columns):
            raise self.refusal(source, f"links.csv with {', '.join(_COLUMNS)}", ", ".join(map(str, table.columns)))
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

    def draw(self, data: pd.DataFrame, figure: FigureBase) -> None:
        """Each link as a row of coloured periods."""
        axes = figure.subplots()
        lanes = list(dict.fromkeys(data["link"]))
        for place, link in enumerate(lanes):
            mine = data[data["link"] == link]
            edges = np.append(mine["start_s"].to_numpy(), mine["end_s"].iloc[-1])
            used = mine["utilisation"].mask(mine["utilisation"] == 0).to_numpy()[None, :]
            lane = (place - 0.42, place + 0.42)
            mesh = axes.pcolormesh(
                edges, lane, used, cmap=amount_colours(), vmin=0, vmax=1, rasterized=len(edges) > 500
            )
        count = data.groupby("link")["alike"].first()
        names = [link if count[link] == 1 else f"{link} (and {count[link] - 1} alike)" for link in lanes]
        set_axis(axes, "y", PanelAxis("", names=names, letters=11 if len(lanes) <= 10 else 8))
        x = PanelAxis("time since the first iteration began", "time", low=0, high=data["end_s"].max())
        set_axis(axes, "x", x)
        bar = figure.colorbar(mesh, ax=axes, label="utilisation", format=lambda value, _: format_share(value), pad=0.02)
        bar.outline.set_visible(False)


def _carried(rows: pd.DataFrame) -> float:
    return float((rows["utilisation"] * (rows["end_s"] - rows["start_s"])).sum())
