"""What a padded gather of uneven selections costs: padding and imbalance over workers."""

from __future__ import annotations

from typing import Any, ClassVar

import pandas as pd

from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.replays import build_up_rows, draw_replay
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.panels import Band, Mark, Panel, PanelAxis, Panels, Series, line_styles


class PaddingImbalance(Figure, kind="padding_imbalance"):
    """Padding (bytes gathered over bytes selected) and imbalance (largest and smallest selection over the mean).

    `methods`: sparsifiers to replay where a trace is given.
    """

    title: ClassVar[str] = "Padding and imbalance of the selections"
    question: ClassVar[str] = "How unevenly do workers select, and how much of a padded gather is padding?"
    takes: ClassVar[tuple[str, ...]] = ("build_up", "trace")
    width: ClassVar[float] = 9.0
    columns: ClassVar[dict[str, str]] = {
        "method": "sparsifier with its density and granularity",
        "workers": "number of workers",
        "iteration": "recorded iteration",
        "priced": "whether the iteration is in the settled part, of which mean and range are taken",
        "padding": "coordinates that a padded gather carries per worker, over those selected (mean over workers)",
        "imbalance": "coordinates that the busiest worker selects, over the mean of workers",
        "smallest": "coordinates that the least busy worker selects, over the mean of workers",
    }

    methods: tuple[dict[str, Any] | str, ...] = (
        {"kind": "gaussiank", "density": 0.01},
        {"kind": "dgc", "density": 0.01, "warmup": []},
        {"kind": "micro", "density": 0.01},
    )

    def collect(self, source: Source) -> pd.DataFrame:
        """Rows of the replay."""
        return build_up_rows(source, list(self.columns), self.methods)

    def compose(self, data: pd.DataFrame) -> Panels:
        """Left: against workers, mean and range over settled iterations; right: at the most workers, by iteration."""
        left: list[Mark] = []
        said = ["%{x:,.0f} workers", "padding %{y:.4~g}"]
        for method, line in line_styles(data["method"]):
            settled = data[(data["method"] == method) & data["priced"]]
            over = settled.groupby("workers")[["padding", "imbalance"]]
            mean, low, high = over.mean(), over.min(), over.max()
            dotted: dict[str, Any] = {"colour": line["colour"], "stroke": ":", "width": 1.2}
            left += [
                Series(method, mean.index, mean["padding"], **line, said=said),
                Band(method, mean.index, low["padding"], high["padding"], line["colour"]),
                Series(method, mean.index, mean["imbalance"], **dotted, said=[said[0], "imbalance %{y:.4~g}"]),
            ]
        padding = PanelAxis("padding (sent / selected)", page="padding, sent / selected (dotted: imbalance)")
        workers = PanelAxis("workers", values=data["workers"])
        title = f"{data['workers'].max()} workers; shaded: least to most"
        first = Panel(workers, padding, left, "dotted: imbalance; shaded: settled iterations")
        ends = "smallest", "imbalance"
        return draw_replay(first, data, "padding", PanelAxis(""), said=said[1], title=title, ends=ends)
