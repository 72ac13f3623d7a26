"""One quantity of a sweep over one varied key, with a line for each method."""

from __future__ import annotations

from typing import ClassVar, Literal

import pandas as pd

from simulator.errors import format_value
from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.sources import Source, combinations, find_column, keys_of, varied
from simulator.reporting.figures.grouped_bars import axis_kind
from simulator.reporting.figures.style.panels import Panel, PanelAxis, Panels, compose_lines
from simulator.reporting.wording.blocks import describe


class Lines(Figure, kind="lines"):
    """A quantity over a varied key; one line for each method, or for each combination of whatever else varies.

    `over`: the varied key, or `workers`; `quantity`: a column of the sweep, such as `breakdown_s.selection`; `scale`:
    of the vertical axis; `label`: of the horizontal one. The names of columns may be without their units.
    """

    title: ClassVar[str] = "One quantity over one key"
    question: ClassVar[str] = "How does one quantity of the result change with one key, method by method?"
    takes: ClassVar[tuple[str, ...]] = ("sweep",)
    columns: ClassVar[dict[str, str]] = {
        "line": "the method, and whatever else varies",
        "over": "value of the varied key, in SI",
        "key": "the varied key",
        "value": "the quantity, in SI",
        "quantity": "the column of the sweep that is shown",
    }

    over: str = "workers"
    quantity: str = "iteration_time_s"
    scale: Literal["linear", "log"] = "log"
    label: str = ""

    def collect(self, source: Source) -> pd.DataFrame:
        """One row per point of a line."""
        table = source.table
        over, quantity = (find_column(table, name) for name in (self.over, self.quantity))
        for name in (over, quantity):
            if name not in table or not pd.api.types.is_numeric_dtype(table[name]):
                known = ", ".join(varied(table))
                raise self.refusal(source, "columns of numbers", format_value(name), f"varied keys: {known}")
        lines = {"line": combinations(table, keys_of(over)), "over": table[over], "key": over}
        rows = pd.DataFrame({**lines, "value": table[quantity], "quantity": quantity})
        return self.unique_points(source, rows, ("line", "over"))

    def compose(self, data: pd.DataFrame) -> Panels:
        """One panel."""
        log = self.scale == "log"
        about = describe(data["quantity"].iloc[0])
        y = PanelAxis(about.label, axis_kind(about), log=log, low=None if log else 0)
        if describe(data["key"].iloc[0]).kind == "bandwidth":
            data = data.assign(over=8 * data["over"])  # networks are sold by the bit
        return Panels([Panel(self._key_axis(data), y, compose_lines(data, "line", "over", "value"))])

    def _key_axis(self, data: pd.DataFrame) -> PanelAxis:
        """The horizontal axis: counts by their values, wide ranges logarithmic."""
        about = describe(data["key"].iloc[0])
        label = self.label or about.label + " (bit/s)" * (about.kind == "bandwidth")
        low, high = float(data["over"].min()), float(data["over"].max())
        if about.kind in ("number", "count") and low > 0 and high <= 4096:
            return PanelAxis(label, values=data["over"])
        return PanelAxis(label, axis_kind(about, "size"), log=low > 0 and high > 20 * low)
