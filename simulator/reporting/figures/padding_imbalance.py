"""What a padded gather of uneven selections costs: padding and imbalance over workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.replays import build_up_rows, draw_iterations, make_panels, priced_rows
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.axes import add_legend, set_count_axis, set_number_axis
from simulator.reporting.figures.style.colours import line_styles

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase


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

    def draw(self, data: pd.DataFrame, figure: FigureBase) -> None:
        """Left: against workers, mean and range over settled iterations; right: at the most workers, by iteration."""
        left, runs = make_panels(figure, data)
        for method, line in line_styles(data["method"]):
            over = priced_rows(data, method).groupby("workers")["padding"]
            mean, low, high = over.mean(), over.min(), over.max()
            left.plot(mean.index, mean, label=method, **line)
            left.fill_between(mean.index, low, high, color=line["color"], alpha=0.15, linewidth=0)
        set_number_axis(left, "padding (sent / selected)")
        set_count_axis(left, "workers", data["workers"])
        left.set_title("padding; shaded: settled iterations")
        for axes, run in runs:
            for colour, part in draw_iterations(axes, run, "padding", data["method"]):
                reach = (part["iteration"], part["smallest"], part["imbalance"])
                axes.fill_between(*reach, color=colour, alpha=0.2, linewidth=0)
        set_number_axis(runs[0][0], "")
        runs[0][0].set_title(f"{data['workers'].max()} workers; shaded: least to most")
        add_legend(figure, left)
