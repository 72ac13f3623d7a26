"""Which method wins where: a map over bandwidth and workers, coloured by the winner and its margin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.rows import BANDWIDTH, combinations, methods
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.axes import add_legend_of, format_bits, set_axis
from simulator.reporting.figures.style.colours import assign_looks, tint
from simulator.reporting.figures.style.panels import PanelAxis

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

DENSE = "dense"
UNDECIDED, NOT_DECIDED = "undecided", "not decided"
"""A verdict, and what the legend calls its cells."""
_VERDICTS = ("yes", UNDECIDED, "alike", "no")
LINES = "#777777"
"""The colour of strokes over cells that are not decided."""
_HATCH = "//"
_AXES = (BANDWIDTH, "cluster.nodes", "cluster.gpus_per_node")
_FULL = 1.0
"""The margin at which a cell has its method's full colour."""
_LARGE = 11
"""Columns whose numbers have room for larger letters."""


class BreakEvenMap(Figure, kind="break_even_map"):
    """The fastest method at each bandwidth and number of workers; the darker, the larger its margin over dense.

    Where dense wins, the margin is that over the best of the others. Cells in which the sweep's verdicts (`verdicts:
    true`) leave open whether any method is faster than dense are hatched.

    `by`: what wins: `sparsifier`, another varied key, or `combination` of all varied keys but bandwidth and workers.
    """

    title: ClassVar[str] = "Which method is fastest, and by how much"
    question: ClassVar[str] = "At which bandwidth and how many workers does which method win, and by how much?"
    takes: ClassVar[tuple[str, ...]] = ("sweep",)
    width: ClassVar[float] = 9.0
    height: ClassVar[float] = 5.0
    columns: ClassVar[dict[str, str]] = {
        "bandwidth_bytes_per_s": "bandwidth of a NIC and direction, bytes/s",
        "workers": "number of GPUs",
        "winner": "the method with the shortest iteration",
        "iteration_time_s": "its seconds per iteration",
        "over": "what the winner is compared with: dense, or the next best method where dense wins or was not swept",
        "over_iteration_time_s": "seconds per iteration of the method in `over`",
        "margin": "over_iteration_time_s / iteration_time_s - 1",
        "verdict": "whether any method is faster than dense: yes, undecided, alike or no, whichever comes first among "
        "the methods; empty where the sweep has no verdicts",
    }

    by: str = "sparsifier"

    def collect(self, source: Source) -> pd.DataFrame:
        """One row per bandwidth and number of workers."""
        table = source.table
        if BANDWIDTH not in table or table[BANDWIDTH].nunique() < 2 or table["workers"].nunique() < 2:
            wanted = "a sweep over cluster.network.bandwidth and workers"
            raise self.refusal(source, wanted, "a sweep over other keys", "see scenarios/sweeps/break_even_map")
        points = pd.DataFrame(
            {
                "method": combinations(table, _AXES) if self.by == "combination" else methods(table, self.by),
                "workers": table["workers"],
                "bandwidth": table[BANDWIDTH],
                "time": table["iteration_time_s"],
                "verdict": table.get("verdict", pd.Series("", table.index)).astype("string").fillna(""),
            }
        )
        if points["method"].nunique() < 2:
            raise self.refusal(source, "at least two methods (`vary: sparsifier`)", "one")
        self.check_unique_points(source, points[["method", "workers", "bandwidth"]])
        rows = [
            [bandwidth, workers, *_winner(cell.set_index("method")["time"]), _verdict(cell)]
            for (bandwidth, workers), cell in points.drop_duplicates().groupby(["bandwidth", "workers"])
            if len(cell) > 1
        ]
        return pd.DataFrame(rows, columns=list(self.columns))

    def draw(self, data: pd.DataFrame, figure: FigureBase) -> None:
        """Cells of equal size, each with its margin where there is room for it."""
        from matplotlib.patches import Patch, Rectangle

        axes = figure.subplots()
        data, (x_axis, y_axis) = place_cells(data), map_axes(data)
        styles = assign_looks(sorted(data["winner"], key=lambda name: (name != DENSE, name)))
        image = np.ones((len(y_axis.names), len(x_axis.names), 3))
        written = max(image.shape) <= 16
        for row in data.itertuples():
            x, y = row.x, row.y
            image[y, x], ink = tint(styles[str(row.winner)].colour, float(row.margin) / _FULL)
            if row.verdict == UNDECIDED:
                axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, hatch=_HATCH, edgecolor=LINES, lw=0))
            if written:
                text = _format_margin(float(row.margin))
                letters: dict[str, Any] = {"color": ink, "fontsize": 11 if len(x_axis.names) <= _LARGE else 9.5}
                if row.verdict == UNDECIDED:  # no strokes behind the number
                    letters["bbox"] = {"boxstyle": "square,pad=0.1", "facecolor": tuple(image[y, x]), "linewidth": 0}
                axes.text(x, y, text, ha="center", va="center", **letters)
        axes.imshow(image, origin="lower", aspect="auto", interpolation="nearest")
        axes.grid(visible=False)
        set_axis(axes, "x", x_axis)
        set_axis(axes, "y", y_axis)
        other = "dense (of the next best where dense wins)" if DENSE in set(data["over"]) else "the next best"
        axes.set_title(f"number: how much longer an iteration of {other} takes", fontsize=11)
        shades = {
            name: tuple(Patch(color=tint(look.colour, part)[0]) for part in (0, 0.5, 1))
            for name, look in styles.items()
        }
        handles, labels = list[Any](shades.values()), list(shades)
        if (data["verdict"] == UNDECIDED).any():
            handles.append(Patch(facecolor="white", hatch=_HATCH, edgecolor=LINES))
            labels.append(NOT_DECIDED)
        add_legend_of(figure, handles, labels)


def place_cells(data: pd.DataFrame) -> pd.DataFrame:
    """The cells with their places: `x` counts bandwidths from the lowest, `y` workers from the most."""
    y = data["workers"].rank(method="dense", ascending=False).astype(int) - 1
    return data.assign(x=data["bandwidth_bytes_per_s"].rank(method="dense").astype(int) - 1, y=y)


def map_axes(data: pd.DataFrame) -> tuple[PanelAxis, PanelAxis]:
    """The axes of the places."""
    bandwidths, counts = (sorted(data[name].unique()) for name in ("bandwidth_bytes_per_s", "workers"))
    x = PanelAxis("network bandwidth (bit/s)", names=list(map(format_bits, bandwidths)), most=7)
    return x, PanelAxis("workers", names=[f"{count:,}" for count in reversed(counts)], most=16)


def _format_margin(margin: float) -> str:
    """A margin in percent, or from twice as long on as a factor.

    >>> _format_margin(0.004), _format_margin(0.126), _format_margin(1.5), _format_margin(151)
    ('+0.4 %', '+13 %', '2.5×', '150×')
    """
    if margin < 0.995:
        return f"+{100 * margin:.{1 if margin < 0.0095 else 0}f} %"
    return f"{float(f'{1 + margin:.2g}'):g}×"


def _verdict(cell: pd.DataFrame) -> str:
    """Whether any method of a cell is faster than dense."""
    return next((verdict for verdict in _VERDICTS if verdict in set(cell["verdict"])), "")


def _winner(times: pd.Series[float]) -> tuple[str, float, str, float, float]:
    winner = str(times.idxmin())
    others = times.drop(winner)
    over = DENSE if DENSE in others else str(others.idxmin())
    return winner, float(times[winner]), over, float(others[over]), float(others[over] / times[winner] - 1)
