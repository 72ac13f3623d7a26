"""One quantity of a sweep in groups of bars: a group for each value of a varied key, a bar for each method."""

from __future__ import annotations

import re
from typing import ClassVar

import pandas as pd

from simulator.errors import format_value
from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.sources import Source, combinations, keys_of, varied
from simulator.reporting.figures.style.panels import Boxes, Panel, PanelAxis, Panels, assign_looks
from simulator.reporting.wording.blocks import Column, describe, method_name

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
        for name in (self.over, self.quantity):
            if name not in table:
                known = ", ".join(varied(table))
                raise self.refusal(source, "columns of the sweep", format_value(name), f"keys: {known}")
        bars = {"group": table[self.over].map(_short_name), "bar": combinations(table, keys_of(self.over))}
        rows = pd.DataFrame({**bars, "value": table[self.quantity], "quantity": self.quantity})
        return self.unique_points(source, rows, ("group", "bar"))

    def compose(self, data: pd.DataFrame) -> Panels:
        """One panel; shares stand on their bars, in percent."""
        groups, looks = list(dict.fromkeys(data["group"])), assign_looks(data["bar"])
        about, width, marks = describe(data["quantity"].iloc[0]), _ROOM / len(looks), []
        for place, (bar, look) in enumerate(looks.items()):
            mine = data[data["bar"] == bar]
            x = [groups.index(group) + (place + 0.5) * width - _ROOM / 2 for group in mine["group"]]
            values, widths = mine["value"], [0.92 * width] * len(mine)
            # Two digits: there is room for them.
            texts = [f"{100 * value:.0f}" for value in values] if about.kind == "share" else ()
            marks.append(
                Boxes(bar, x, values / 2, widths, values, look.colour, texts=texts, texts_at="above", letters=10)
            )
        names = PanelAxis("", names=["\n".join(group.rsplit("-", 1)) for group in groups])
        return Panels([Panel(names, PanelAxis(about.label, axis_kind(about), low=0, margin=0.1), marks)])


def axis_kind(about: Column, otherwise: str = "number") -> str:
    """How the ticks of an axis of a quantity are written; `otherwise` where its kind has no ticks of its own."""
    return about.kind if about.kind in ("time", "bytes", "share", "percent") else otherwise


def _short_name(value: object) -> str:
    """The last part of a name, also of the one that a mapping has under `trace`; any other mapping in words.

    >>> _short_name("workloads/resnet50-v100"), _short_name('{"trace": "workloads/resnet50-v100", "batch_size": 64}')
    ('resnet50-v100', 'resnet50-v100')
    """
    named = re.search(r'"trace": "([^"]*)"', str(value))
    return (named[1] if named else method_name(value)).rpartition("/")[2]
