"""How accurate the predictions are: measured against predicted, and the errors of each group."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from simulator.bounds import Share
from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.axes import set_log_ticks, set_seconds_axis, set_share_axis
from simulator.reporting.figures.style.colours import GREY, assign_looks
from simulator.reporting.wording.values import format_share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase


class MeasuredPredicted(Figure, kind="measured_predicted"):
    """Predicted against measured seconds with the identity and a band around it; signed errors per group.

    `quantity`: which measured time; `band`: relative half-width of the band.
    """

    title: ClassVar[str] = "Predicted against measured"
    question: ClassVar[str] = "How accurate are the predictions, and where do they deviate?"
    takes: ClassVar[tuple[str, ...]] = ("validation",)
    width: ClassVar[float] = 10.0
    height: ClassVar[float] = 4.8
    columns: ClassVar[dict[str, str]] = {
        "group": "set-up of the measurement",
        "scenario": "what was measured",
        "quantity": "the quantity",
        "measured_s": "measured seconds",
        "predicted_s": "predicted seconds",
        "signed_error": "predicted / measured - 1",
        "used_in_fit": "whether a term of the model was fitted to it, so that it is no prediction",
    }

    quantity: str = "iteration_time"
    band: Share = 0.1

    def collect(self, source: Source) -> pd.DataFrame:
        """One row per measured value of the quantity."""
        times = [row for row in source.document.rows if row["unit"] == "s"]
        rows = [row for row in times if row["quantity"] == self.quantity]
        if not rows:
            known = ", ".join(sorted({str(row["quantity"]) for row in times}))
            raise self.refusal(source, f"rows of quantity {self.quantity}", "none", f"there are {known}")
        names = {"measured": "measured_s", "predicted": "predicted_s"}
        return pd.DataFrame(rows).rename(columns=names)[list(self.columns)]

    def draw(self, data: pd.DataFrame, figure: FigureBase) -> None:
        """Left: seconds on logarithmic axes; right: errors, one line for each group. Hollow: used in fitting."""
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.1))
        low = 0.8 * float(data[["measured_s", "predicted_s"]].min().min())
        high = 1.25 * float(data[["measured_s", "predicted_s"]].max().max())
        for wide, style in ((0.0, "-"), (self.band, "--"), (-self.band, "--")):
            left.plot((low, high), ((1 + wide) * low, (1 + wide) * high), style, color=GREY, linewidth=1.5, zorder=1)
            right.axvline(wide, color=GREY, linestyle=style, linewidth=1.5, zorder=1)
        groups = list(dict.fromkeys(data["group"]))
        for place, look in enumerate(assign_looks(groups).values()):
            mine = data[data["group"] == groups[place]]
            for fitted, part in mine.groupby("used_in_fit"):
                face = "white" if fitted else look.colour
                for axes, x, y in (
                    (left, part["measured_s"], part["predicted_s"]),
                    (right, part["signed_error"], pd.Series(place, index=part.index)),
                ):
                    axes.scatter(
                        x, y, s=34, c=face, edgecolors=look.colour, marker=look.marker, linewidths=1.4, zorder=2
                    )
        self._label(left, right, data, (low, high))

    def _label(self, left: Axes, right: Axes, data: pd.DataFrame, limits: tuple[float, float]) -> None:
        groups = list(dict.fromkeys(data["group"]))
        left.set(xscale="log", yscale="log", xlim=limits, ylim=limits, aspect="equal")
        set_seconds_axis(left, f"measured {self.quantity.replace('_', ' ')}", "x")
        set_seconds_axis(left, f"predicted {self.quantity.replace('_', ' ')}", "y")
        set_log_ticks(left, "x")
        set_log_ticks(left, "y")
        left.set_title(f"dashed: ±{100 * self.band:g} %; hollow: used in fit", fontsize=11)
        right.set_yticks(range(len(groups)), groups, fontsize=10.5)
        right.invert_yaxis()
        errors = data.loc[~data["used_in_fit"].astype(bool), "signed_error"].abs()
        if len(errors):
            typical = f"{format_share(errors.mean())}, median {format_share(errors.median())}"
            right.set_title(f"{len(errors)} predictions: mean absolute\nerror {typical}", fontsize=11)
        right.margins(x=0.1)
        set_share_axis(right, "predicted / measured − 1", "x")
