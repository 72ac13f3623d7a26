"""How accurate the predictions are: measured against predicted, and the errors of each group."""

from __future__ import annotations

from typing import Any, ClassVar

import pandas as pd

from simulator.bounds import Share
from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.panels import Panel, PanelAxis, Panels, Series, assign_looks, grey_line
from simulator.reporting.wording.values import format_share


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

    def compose(self, data: pd.DataFrame) -> Panels:
        """Left: seconds on logarithmic axes; right: errors, one line for each group. Hollow: used in fitting."""
        low = 0.8 * float(data[["measured_s", "predicted_s"]].min().min())
        high = 1.25 * float(data[["measured_s", "predicted_s"]].max().max())
        looks = assign_looks(data["group"])
        left, right = [], []
        for wide, style in ((0.0, "-"), (self.band, "--"), (-self.band, "--")):
            name, look = (
                f"±{format_share(self.band)}" if wide else "measured = predicted",
                {"width": 1.5, "stroke": style},
            )
            left.append(grey_line(name, (low, high), ((1 + wide) * low, (1 + wide) * high), **look))
            right.append(grey_line(name, (wide, wide), (-0.5, len(looks) - 0.5), **look, level="x"))
        for place, (group, look_of_group) in enumerate(looks.items()):
            for fitted, part in data[data["group"] == group].groupby("used_in_fit"):
                errors = [f"{100 * error:+.1f} %" for error in part["signed_error"]]
                told = part[["scenario", "measured_s", "predicted_s"]].assign(error=errors).to_numpy().tolist()
                said = [
                    "%{customdata[0]}",
                    "measured %{customdata[1]:.4~s}s, predicted %{customdata[2]:.4~s}s",
                    "error %{customdata[3]}" + (", used in fit: no prediction" if fitted else ""),
                ]
                mark: dict[str, Any] = {
                    "colour": look_of_group.colour, "stroke": "", "width": 1.4, "marker": look_of_group.marker,
                    "hollow": bool(fitted), "legend": False, "said": said, "told": told,
                }  # fmt: skip
                name = f"{group} (used in fit)" if fitted else group
                left.append(Series(name, part["measured_s"], part["predicted_s"], **mark))
                right.append(Series(name, part["signed_error"], [place] * len(part), **mark))
        x, y = (
            PanelAxis(f"{word} {self.quantity.replace('_', ' ')}", "time", log=True, low=low, high=high, page=word)
            for word in ("measured", "predicted")
        )
        errors_axis = PanelAxis("predicted / measured − 1", "percent", margin=0.1)
        groups = PanelAxis("", names=list(looks), letters=10.5)
        panels = [
            Panel(x, y, left, "hollow: used in fit", square=True),
            Panel(errors_axis, groups, right, _describe_errors(data), width=1.1),
        ]
        return Panels(panels, height=520)


def _describe_errors(data: pd.DataFrame) -> str:
    """The errors of the predictions in words; empty where everything was used in fitting."""
    errors = data.loc[~data["used_in_fit"].astype(bool), "signed_error"].abs()
    if errors.empty:
        return ""
    typical = f"{format_share(errors.mean())}, median {format_share(errors.median())}"
    return f"{len(errors)} predictions: mean absolute\nerror {typical}"
