"""How much each worker and server sends to each other one in an iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd

from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.colours import amount_colours

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

_TICKS = 12


class TrafficMatrix(Figure, kind="traffic_matrix"):
    """Bytes from each worker or server to each other one in one iteration, as a matrix; white: nothing."""

    title: ClassVar[str] = "Traffic between workers and servers"
    question: ClassVar[str] = "How much does each worker or server send to each other one?"
    takes: ClassVar[tuple[str, ...]] = ("run",)
    width: ClassVar[float] = 6.6
    height: ClassVar[float] = 5.6
    columns: ClassVar[dict[str, str]] = {
        "source": "sender",
        "destination": "receiver",
        "bytes": "bytes in one iteration",
    }

    def collect(self, source: Source) -> pd.DataFrame:
        """The rows of traffic.csv."""
        table = source.read_table("traffic.csv")
        if table is None:
            hint = "`sparsim run --out DIR` writes it where something is sent"
            raise self.refusal(source, "a run with traffic.csv in its folder", "none", hint)
        if not set(self.columns) <= set(table.columns):
            raise self.refusal(
                source, f"traffic.csv with {', '.join(self.columns)}", ", ".join(map(str, table.columns))
            )
        return table[list(self.columns)]

    def draw(self, data: pd.DataFrame, figure: FigureBase) -> None:
        """Senders from top to bottom, receivers from left to right."""
        from matplotlib.ticker import EngFormatter

        axes = figure.subplots()
        names = sorted({*data["source"], *data["destination"]}, key=workers_first)
        place = {name: number for number, name in enumerate(names)}
        matrix = np.full((len(names), len(names)), np.nan)
        matrix[data["source"].map(place), data["destination"].map(place)] = data["bytes"]
        image = axes.imshow(matrix, cmap=amount_colours(), vmin=0, interpolation="nearest")
        step = -(-len(names) // _TICKS)
        ticks = range(0, len(names), step)
        axes.set_xticks(ticks, [names[tick] for tick in ticks], rotation=90, fontsize=11)
        axes.set_yticks(ticks, [names[tick] for tick in ticks], fontsize=11)
        axes.grid(visible=False)
        axes.set_xlabel("receiver")
        axes.set_ylabel("sender")
        bar = figure.colorbar(image, ax=axes, format=EngFormatter(unit="B"), label="bytes per iteration", shrink=0.85)
        bar.outline.set_visible(False)


def workers_first(name: str) -> tuple[bool, str, int]:
    """A key that sorts workers before servers, then by number."""
    word, _, number = name.rpartition(" ")
    return word != "worker", word, int(number) if number.isdecimal() else 0
