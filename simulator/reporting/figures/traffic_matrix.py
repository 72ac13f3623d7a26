"""How much each worker and server sends to each other one in an iteration."""

from __future__ import annotations

from itertools import groupby
from typing import ClassVar

import numpy as np
import pandas as pd

from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.panels import BLUE, SAID, Boxes, Panel, PanelAxis, Panels
from simulator.units import show_bytes

_RECEIVERS, _SENDERS = 5, 12
"""Names on paper."""


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
        hint = "`sparsim run --out DIR` writes it where something is sent"
        return self.read_rows(source, "traffic.csv", list(self.columns), hint)

    def compose(self, data: pd.DataFrame) -> Panels:
        """Senders from top to bottom, receivers from left to right; the stronger the colour, the more."""
        names = sorted({*data["source"], *data["destination"]}, key=_workers_first)
        place = {name: number for number, name in enumerate(names)}
        most = float(data["bytes"].max())
        items = sorted(
            (place[row.source], place[row.destination], float(row.bytes)) for row in data.itertuples() if row.bytes > 0
        )
        # Neighbours that receive the same from one sender are one cell.
        cells, told = [], []
        for _, group in groupby(enumerate(items), key=lambda item: (item[1][0], item[1][1] - item[0], item[1][2])):
            run = [item for _, item in group]
            (sender, first, nbytes), (_, last, _) = run[0], run[-1]
            to = names[first] if first == last else f"each of {names[first]} to {names[last]}"
            told.append([f"{names[sender]} to {to}: {show_bytes(nbytes)}"])
            cells.append(((first + last) / 2, sender, len(run), nbytes / most))
        x, y, widths, shares = np.array(cells).reshape(-1, 4).T.tolist()
        boxes = Boxes("", x, y, widths, [1.0] * len(y), BLUE, strengths=shares, said=SAID, told=told)
        receivers, senders = (
            PanelAxis("receiver", names=names, most=_RECEIVERS),
            PanelAxis("sender", names=names, most=_SENDERS),
        )
        title = f"at most {show_bytes(most)} between two, in the strongest colour"
        return Panels([Panel(receivers, senders, [boxes], title, square=True)])


def _workers_first(name: str) -> tuple[bool, str, int]:
    """A key that sorts workers before servers, then by number."""
    word, _, number = name.rpartition(" ")
    return word != "worker", word, int(number) if number.isdecimal() else 0
