"""Quantities of a replay over its iterations, method by method."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import pandas as pd
from pydantic import Field

from simulator.records import replace
from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.replays import build_up_rows, draw_iterations, iteration_axis
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.panels import Panel, PanelAxis, Panels

_SHARES = ("selected", "aggregated", "independent", "energy_kept", "random_k_bound", "top_k_bound", "never_sent")
_WORDS = {
    "top_k_bound": "1 − (1 − k/d)²",
    "random_k_bound": "k/d",
    "never_sent": "elements never sent",
    "independent": "independent selections",
}
_STROKES = {"dashed": "--", "dotted": ":"}


class OverIterations(Figure, kind="over_iterations"):
    """A quantity over the iterations of a replay at the most workers, with a line for each method.

    `quantity`: a column of a build-up study; `beside`: up to two more on the same axis, dashed and dotted. The bounds
    of the energy kept are 1 - (1 - k/d)^2, for the k largest of a bell-shaped distribution (Shi et al. 2019,
    1911.08772), and k/d, the expected value for k random elements, both with the share that was selected.

    `scale`: of the axis; `methods`: sparsifiers to replay where a trace is given.
    """

    title: ClassVar[str] = "Energy kept over the iterations, and its bounds"
    question: ClassVar[str] = "How does energy kept, density or threshold change from iteration to iteration?"
    takes: ClassVar[tuple[str, ...]] = ("build_up", "trace")
    width: ClassVar[float] = 8.0
    columns: ClassVar[dict[str, str]] = {
        "method": "sparsifier with its density and granularity",
        "iteration": "recorded iteration",
        "quantity": "the column that is shown",
        "value": "its value; a share, a factor or a threshold",
    }

    quantity: str = "energy_kept"
    beside: tuple[str, ...] = Field(default=("top_k_bound", "random_k_bound"), max_length=2)
    scale: Literal["linear", "log"] = "log"
    methods: tuple[dict[str, Any] | str, ...] = Field(default=({"kind": "topk", "density": 0.01},), min_length=1)

    def collect(self, source: Source) -> pd.DataFrame:
        """One row per method, iteration and quantity; methods without the quantity are left out."""
        shown = [self.quantity, *self.beside]
        rows = build_up_rows(source, ["method", "workers", "iteration", *shown], self.methods, at_most_workers=True)
        tidy = rows.melt(["method", "iteration"], shown, "quantity", "value").dropna()
        return tidy[list(self.columns)].astype({"value": float})

    def compose(self, data: pd.DataFrame) -> Panels:
        """One panel; lines stop where nothing was recorded."""
        marks = []
        for quantity, stroke in zip((self.quantity, *self.beside), ("-", *_STROKES.values()), strict=False):
            mine = data[data["quantity"] == quantity]
            said = ["iteration %{x}", f"{_words(quantity)} %{{y:.4~g}}"]
            look: Any = {} if stroke == "-" else {"stroke": stroke, "width": 1.4, "marker": "", "legend": False}
            marks += [replace(mark, **look) for mark in draw_iterations(mine, "value", data["method"], said)]
        log = self.scale == "log"
        kind = "percent" if {self.quantity, *self.beside} <= set(_SHARES) else "number"
        y = PanelAxis(_words(self.quantity), kind, log=log, low=None if log else 0)
        title = "; ".join(f"{name}: {_words(other)}" for name, other in zip(_STROKES, self.beside, strict=False))
        return Panels([Panel(iteration_axis(data[data["quantity"] == self.quantity]), y, marks, title)])


def _words(quantity: str) -> str:
    return _WORDS.get(quantity, quantity.replace("_", " "))
