"""How much of the gradient a selection keeps, beside the bounds that proofs of convergence use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd
from pydantic import Field

from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.replays import build_up_rows, draw_iterations
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.axes import add_legend, set_log_ticks, set_number_axis, set_share_axis
from simulator.reporting.figures.style.colours import line_styles

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase


class EnergyKept(Figure, kind="energy_kept"):
    """Energy kept over the iterations at the most workers, method by method, and its two lower bounds for k elements.

    Dashed: 1 - (1 - k/d)^2, for the k largest of a bell-shaped distribution (Shi et al. 2019, 1911.08772); dotted: k/d,
    the expected value for k random elements. Both with the share that was selected.

    `methods`: sparsifiers to replay where a trace is given.
    """

    title: ClassVar[str] = "Energy kept by the selection, and its bounds"
    question: ClassVar[str] = "How much of the gradient's energy does a selection keep, and how tight are the bounds?"
    takes: ClassVar[tuple[str, ...]] = ("build_up", "trace")
    columns: ClassVar[dict[str, str]] = {
        "method": "sparsifier with its density and granularity",
        "workers": "number of workers",
        "iteration": "recorded iteration",
        "energy_kept": "share of the squared norm of residual plus gradient that is sent",
        "top_k_bound": "(2kd - k^2)/d^2 for the k elements that a worker selected of d",
        "random_k_bound": "k/d",
    }

    methods: tuple[dict[str, Any] | str, ...] = Field(default=({"kind": "topk", "density": 0.01},), min_length=1)

    def collect(self, source: Source) -> pd.DataFrame:
        """Rows of the replay at the most workers."""
        rows = build_up_rows(source, list(self.columns), self.methods)
        return rows[rows["workers"] == rows["workers"].max()]

    def draw(self, data: pd.DataFrame, figure: FigureBase) -> None:
        """One panel, logarithmic; lines stop where nothing was recorded."""
        axes = figure.subplots()
        for colour, part in draw_iterations(axes, data, "energy_kept", data["method"]):
            for column, stroke in (("top_k_bound", "--"), ("random_k_bound", ":")):
                axes.plot(part["iteration"], part[column], stroke, color=colour, linewidth=1.4)
        axes.set_yscale("log")
        axes.set_ylim(top=1)
        set_share_axis(axes, "energy kept")
        set_log_ticks(axes, "y")
        set_number_axis(axes, "iteration", "x")
        axes.set_title("dashed: 1 − (1 − k/d)²; dotted: k/d")
        for method, line in line_styles(data["method"]):
            axes.plot([], [], label=method, **line)
        add_legend(figure, axes)
