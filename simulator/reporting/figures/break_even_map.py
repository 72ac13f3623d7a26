"""Which method wins where: a map over bandwidth and workers, coloured by the winner and its margin."""

from __future__ import annotations

from typing import Any, ClassVar

import pandas as pd

from simulator.records import replace
from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.sources import BANDWIDTH, Source, combinations, methods
from simulator.reporting.figures.style.panels import Boxes, Mark, Panel, PanelAxis, Panels, assign_looks
from simulator.reporting.figures.style.paper import format_bits

DENSE, UNDECIDED = "dense", "undecided"
_VERDICTS = ("yes", UNDECIDED, "alike", "no", "")
"""Of several methods the first one counts."""
_AXES = (BANDWIDTH, "cluster.nodes", "cluster.gpus_per_node")
_FULL = 1.0
"""The margin at which a cell has its method's full colour."""
_LARGE, _WRITTEN = 11, 16
"""Columns whose numbers have room for larger letters, and columns or rows whose numbers have room."""
_SAID = (
    "%{customdata[3]:,} workers, %{customdata[4]}",
    "%{customdata[1]:.4~s}s per iteration",
    "%{customdata[0]}: %{customdata[2]:.4~s}s%{customdata[5]}",
)


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
        points = self.unique_points(source, points, ("method", "workers", "bandwidth"))
        rows = [
            [bandwidth, workers, *_winner(cell.set_index("method")["time"]), min(cell["verdict"], key=_VERDICTS.index)]
            for (bandwidth, workers), cell in points.groupby(["bandwidth", "workers"])
            if len(cell) > 1
        ]
        return pd.DataFrame(rows, columns=list(self.columns))

    def compose(self, data: pd.DataFrame) -> Panels:
        """Cells of equal size, each with its margin where there is room for it."""
        x, y = (data[name].rank(method="dense").astype(int) - 1 for name in ("bandwidth_bytes_per_s", "workers"))
        data = data.assign(x=x, y=y.max() - y)  # the most workers on top
        bandwidths, counts = (sorted(data[name].unique()) for name in ("bandwidth_bytes_per_s", "workers"))
        letters = 11 if len(bandwidths) <= _LARGE else 9.5
        marks: list[Mark] = []
        for winner, look in assign_looks(sorted(data["winner"], key=lambda name: (name != DENSE, name))).items():
            cells = data[data["winner"] == winner]
            texts = [_format_margin(margin) for margin in cells["margin"]]
            written = texts if max(len(bandwidths), len(counts)) <= _WRITTEN else []
            boxes = _squares(winner, cells, colour=look.colour, strengths=(cells["margin"] / _FULL).clip(0, 1).tolist())
            rates = [f"{format_bits(rate)}bit/s" for rate in cells["bandwidth_bytes_per_s"]]
            decided = ["<br>not decided whether it pays" * (verdict == UNDECIDED) for verdict in cells["verdict"]]
            told = cells[["over", "iteration_time_s", "over_iteration_time_s", "workers"]].assign(
                at=rates, verdict=decided
            )
            marks.append(replace(boxes, texts=written, letters=letters, said=_SAID, told=told.to_numpy().tolist()))
        undecided = data[data["verdict"] == UNDECIDED]
        if len(undecided):
            marks.append(_squares("not decided", undecided, hatched=True))
        other = "dense (of the next best where dense wins)" if DENSE in set(data["over"]) else "the next best"
        x_axis = PanelAxis("network bandwidth (bit/s)", names=list(map(format_bits, bandwidths)), most=7)
        y_axis = PanelAxis("workers", names=[f"{count:,}" for count in reversed(counts)], most=16)
        title = f"number: how much longer an iteration of {other} takes"
        return Panels([Panel(x_axis, y_axis, marks, title)], 120 + 44 * len(counts))


def _squares(name: str, cells: pd.DataFrame, **look: Any) -> Boxes:
    return Boxes(name, cells["x"].tolist(), cells["y"].tolist(), [1.0] * len(cells), [1.0] * len(cells), **look)


def _format_margin(margin: float) -> str:
    """A margin in percent, or from twice as long on as a factor.

    >>> _format_margin(0.004), _format_margin(0.126), _format_margin(1.5), _format_margin(151)
    ('+0.4 %', '+13 %', '2.5×', '150×')
    """
    if margin < 0.995:
        return f"+{100 * margin:.{1 if margin < 0.0095 else 0}f} %"
    return f"{float(f'{1 + margin:.2g}'):g}×"


def _winner(times: pd.Series[float]) -> tuple[str, float, str, float, float]:
    winner = str(times.idxmin())
    others = times.drop(winner)
    over = DENSE if DENSE in others else str(others.idxmin())
    return winner, float(times[winner]), over, float(others[over]), float(others[over] / times[winner] - 1)
