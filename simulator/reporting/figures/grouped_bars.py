"""One quantity of a sweep in groups of bars: a group for each value of a varied key, a bar for each method."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from simulator.errors import format_value
from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.rows import combinations, keys_of, varied
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.axes import add_legend, set_axis
from simulator.reporting.figures.style.colours import assign_looks
from simulator.reporting.figures.style.panels import PanelAxis
from simulator.reporting.wording.quantities import QuantityWords, describe, method_name

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

_ROOM = 0.84
"""The part of a group's width that its bars take."""


class GroupedBars(Figure, kind="grouped_bars"):
    """A quantity in groups of bars, such as the scaling efficiency of several workloads, method by method.

    `over`: the varied key with one group for each value, or `workers`; `quantity`: a column of the sweep.
    """

    title: ClassVar[str] = "One quantity, group by group"
    question: ClassVar[str] = "How do methods compare in one quantity, workload by workload?"
    takes: ClassVar[tuple[str, ...]] = ("sweep",)
    width: ClassVar[float] = 8.0
    columns: ClassVar[dict[str, str]] = {
        "group": "value of the varied key",
        "bar": "the method, and whatever else varies",
        "value": "the quantity, in SI",
        "quantity": "the column of the sweep that is shown",
    }

    over: str = "workers"
    quantity: str = "scaling_efficiency"

    def collect(self, source: Source) -> pd.DataFrame:
        """One row per bar."""
        table = source.table
        if self.over not in table or self.quantity not in table:
            absent = self.over if self.over not in table else self.quantity
            raise self.refusal(
                source, "columns of the sweep", format_value(absent), f"keys: {', '.join(varied(table))}"
            )
        bars = pd.DataFrame(
            {"group": table[self.over].map(_short_name), "bar": combinations(table, keys_of(self.over))}
        )
        self.check_unique_points(source, bars)
        rows = bars.assign(value=table[self.quantity], quantity=self.quantity)
        return rows.drop_duplicates(["group", "bar"])

    def draw(self, data: pd.DataFrame, figure: FigureBase) -> None:
        """One panel; shares stand on their bars, in percent."""
        axes = figure.subplots()
        groups, looks = list(dict.fromkeys(data["group"])), assign_looks(data["bar"])
        about = describe(data["quantity"].iloc[0])
        width = _ROOM / len(looks)
        for place, (bar, look) in enumerate(looks.items()):
            mine = data[data["bar"] == bar]
            middle = [groups.index(group) + (place + 0.5) * width - _ROOM / 2 for group in mine["group"]]
            axes.bar(middle, mine["value"], 0.92 * width, color=look.colour, label=bar)
            for at, value in zip(middle, mine["value"], strict=True):
                if about.kind == "share":  # two digits: there is room for them
                    label = f"{100 * value:.0f}"
                    axes.annotate(label, (at, value), (0, 3), textcoords="offset points", ha="center", fontsize=10)
        set_axis(axes, "x", PanelAxis("", names=["\n".join(group.rsplit("-", 1)) for group in groups]))
        axes.grid(axis="x", visible=False)
        set_axis(axes, "y", PanelAxis(about.label, axis_kind(about), margin=0.1))
        add_legend(figure, axes)


def axis_kind(about: QuantityWords, otherwise: str = "number") -> str:
    """How the ticks of an axis of a quantity are written; `otherwise` where its kind has no ticks of its own."""
    return about.kind if about.kind in ("time", "bytes", "share", "percent") else otherwise


def _short_name(value: object) -> str:
    """The last part of a name, also of the one that a mapping has under `trace`; any other mapping in words.

    >>> _short_name("workloads/resnet50-v100"), _short_name('{"trace": "workloads/resnet50-v100", "batch_size": 64}')
    ('resnet50-v100', 'resnet50-v100')
    """
    named = re.search(r'"trace": "([^"]*)"', str(value))
    return (named[1] if named else method_name(value)).rpartition("/")[2]
