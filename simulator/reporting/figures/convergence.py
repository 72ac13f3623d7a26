"""Loss and metric of trainings over iterations, method by method."""

from __future__ import annotations

from typing import Any, ClassVar

import pandas as pd

from simulator.bounds import Index
from simulator.errors import format_value
from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.panels import Panel, PanelAxis, Panels, compose_lines
from simulator.trainings.runs import LOSS, MethodCurve, method_curves

_SHARED = ("task", "workers", "batch_size")
"""What all lines of a figure have in common."""
CURVES: dict[str, Any] = {"ends": ("low", "high"), "marker": "", "width": 1.6, "told": ()}
"""How curves of trainings are drawn: lines with the band of their seeds."""


class Convergence(Figure, kind="convergence"):
    """The loss, and the metric on held-out samples, over iterations: median over seeds, smoothed; shaded: all seeds.

    `task`, `workers`, `batch_size`: which trainings, where the folder has several.
    """

    title: ClassVar[str] = "Convergence"
    question: ClassVar[str] = "How many more iterations does a method need to the same loss?"
    takes: ClassVar[tuple[str, ...]] = ("trainings",)
    width: ClassVar[float] = 9.0
    columns: ClassVar[dict[str, str]] = {
        "method": "sparsifier with its density",
        "quantity": "loss, or the name of the metric on held-out samples",
        "iteration": "iterations that were carried out",
        "middle": "median over seeds of the smoothed curves",
        "low": "lowest of the seeds",
        "high": "highest of the seeds",
        "seeds": "number of seeds",
    }

    task: str = ""
    workers: Index = 0
    batch_size: Index = 0

    def collect(self, source: Source) -> pd.DataFrame:
        """One row per method, quantity and iteration."""
        runs, wanted = source.document, {"task": self.task, "workers": self.workers, "batch_size": self.batch_size}
        kept = [run for run in runs if all(not v or getattr(run.spec, k) == v for k, v in wanted.items())]
        for name in _SHARED:
            values = sorted({getattr(run.spec, name) for run in kept or runs})
            if len(values) > 1 or not kept:
                got = ", ".join(map(str, values))
                hint = f"choose with --set {name}={format_value(values[-1]).strip(chr(39))}"
                raise self.refusal(source, f"trainings of one {name}", got, hint)
        metric = kept[0].spec.metric
        curves = [curve for quantity in dict.fromkeys((LOSS, metric)) for curve in method_curves(kept, quantity)]
        return pd.DataFrame([row for curve in curves for row in _rows(curve, curves)], columns=list(self.columns))

    def compose(self, data: pd.DataFrame) -> Panels:
        """A panel for the loss on a logarithmic axis, and one for the metric where there is one."""
        panels = []
        for quantity in dict.fromkeys(data["quantity"]):
            mine = data[data["quantity"] == quantity]
            y = PanelAxis(quantity, log=bool(quantity == LOSS and mine["middle"].min() > 0))
            marks = compose_lines(mine, "method", "iteration", "middle", **CURVES, order=data["method"])
            panels.append(Panel(PanelAxis("iterations", low=0), y, marks))
        return Panels(panels)


def _rows(curve: MethodCurve, curves: list[MethodCurve]) -> list[list[Any]]:
    """The points of a curve; its method with the learning rate where it was trained at several."""
    same = {each.learning_rate for each in curves if each.method == curve.method}
    method = curve.method + (f" at {curve.learning_rate:g}" if len(same) > 1 else "")
    points = zip(curve.iteration, curve.middle, curve.low, curve.high, strict=True)
    return [[method, curve.quantity, *point, curve.seeds] for point in points]
