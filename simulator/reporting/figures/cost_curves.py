"""How well a GPU's cost curves fit the timings of its kernels: both, and the residuals."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd
from pydantic import Field

from simulator.bounds import BOUNDS
from simulator.hardware.gpu import Gpu
from simulator.hardware.kernels import INDEX_SIZED
from simulator.models.curves import Curve, Floats, Piecewise
from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.panels import Panel, PanelAxis, Panels, compose_lines, grey_line

_DRAWN = 60
_UNSTATED = (1e3, 1e8)
_NEAR = 1.5
"""A timing is shown with a curve of one density if its own density is within this factor."""


class CostCurves(Figure, kind="cost_curves"):
    """A GPU's kernel curves over their measured range; timings that are given with it as marks, and their residuals.

    `dtype`, `order` (of indices): which timings are shown. `density`: where k was varied, only timings near this
    density, since a curve holds for one density (that of `sparsim calibrate kernels --density`).
    """

    title: ClassVar[str] = "Kernel cost curves"
    question: ClassVar[str] = "What does each kernel cost, and how far are its measurements from the curve?"
    takes: ClassVar[tuple[str, ...]] = ("gpu", "timings")
    several: ClassVar[bool] = True
    width: ClassVar[float] = 9.0
    columns: ClassVar[dict[str, str]] = {
        "kernel": "the kernel",
        "elements": "elements of one call; indices, for kernels whose time depends on those",
        "curve_s": "seconds by the curve",
        "measured_s": "measured seconds; empty where only the curve is drawn",
        "residual": "curve / measured - 1",
    }

    dtype: str = "fp32"
    order: str = "random"
    density: float = Field(default=0.001, ge=BOUNDS["density"].smallest, le=1)

    def collect(self, source: Source) -> pd.DataFrame:
        """One row per point of a curve that is drawn, and one per timing."""
        gpus = [each.document for each in source.all_sources() if each.kind == "gpu"]
        if len(gpus) != 1 or not all(each.kind in self.takes for each in source.all_sources()):
            got = f"{len(gpus)} GPUs among {1 + len(source.others)} sources"
            raise self.refusal(source, "one GPU, and tables of its timings", got)
        gpu: Gpu = gpus[0]
        if not gpu.kernels or gpu.ideal:
            raise self.refusal(source, "a GPU with curves", "none")
        parts = [self._timed(source, each, gpu) for each in source.all_sources() if each.kind == "timings"]
        timed = pd.concat(parts) if parts else None
        kernels = list(gpu.kernels) if timed is None else list(dict.fromkeys(timed["kernel"]))
        drawn = []
        for kernel in kernels:
            own = timed[timed["kernel"] == kernel]["elements"] if timed is not None else None
            sizes = _sizes(gpu.kernels[kernel], own)
            rows = {"kernel": kernel, "elements": sizes, "curve_s": gpu.kernel_time(kernel, sizes)}
            drawn.append(pd.DataFrame(rows | {"measured_s": np.nan, "residual": np.nan}))
        return pd.concat([*drawn, *parts])

    def _timed(self, source: Source, timings: Source, gpu: Gpu) -> pd.DataFrame:
        """The timings of kernels that have a curve, with the seconds that the curve gives."""
        table = timings.table
        mine = table[table["kernel"].isin(list(gpu.kernels))]
        if "dtype" in mine:
            mine = mine[mine["dtype"].isin([self.dtype, "int64"])]  # the type of kernels that handle only indices
        if "order" in mine:
            mine = mine[mine["order"].isna() | (mine["order"] == self.order)]
        mine = self._priced(mine)
        if mine.empty:
            wanted = f"timings of {', '.join(gpu.kernels)} in {self.dtype}"
            raise self.refusal(source, wanted, f"none in {timings.place}")
        pairs = zip(mine["kernel"], mine["elements"], strict=True)
        seconds = [float(gpu.kernel_time(str(kernel), float(elements))) for kernel, elements in pairs]
        rows = mine[["kernel", "elements"]].assign(curve_s=seconds, measured_s=mine["median_s"].astype(float))
        return rows.assign(residual=rows["curve_s"] / rows["measured_s"] - 1)

    def _priced(self, table: pd.DataFrame) -> pd.DataFrame:
        """Timings by the size that predictions use, only those near the density where there are any."""
        if "k" not in table:
            return table
        lists = table["contributions"].fillna(1).clip(lower=1) if "contributions" in table else 1
        counted = table["kernel"].isin(INDEX_SIZED) & table["k"].notna()
        size = table["elements"].mask(counted, table["k"] * lists)
        density = (table["k"] * lists).where(counted, table["k"]) / table["elements"]
        near = np.log(density / self.density).abs() <= np.log(_NEAR)
        some = near.groupby(table["kernel"]).transform("any")
        return table.assign(elements=size)[near | density.isna() | ~some]

    def compose(self, data: pd.DataFrame) -> Panels:
        """Left: seconds; right, where something was measured: residuals."""
        timed = data[data["measured_s"].notna()]
        zero = grey_line("", timed["elements"], [0.0] * len(timed), width=1.5, level="y", legend=False)
        size, said = PanelAxis("elements", "size", log=True), "%{x:.4~s} elements"
        marked: dict[str, Any] = {"order": data["kernel"], "stroke": "", "width": 1.0, "size": 5.5, "hollow": True}
        curves, words = data[data["measured_s"].isna()], "%{y:.4~s}s by the curve"
        left = compose_lines(curves, "kernel", "elements", "curve_s", marker="", said=[said, words])
        words = "%{y:.4~s}s measured"
        left += compose_lines(timed, "kernel", "elements", "measured_s", **marked, said=[said, words])
        words = "curve / measured − 1: %{y:.3~p}"
        right = compose_lines(timed, "kernel", "elements", "residual", **marked, said=[said, words])
        title = "marks: measured" if len(timed) else ""
        panels = [Panel(size, PanelAxis("time of one call", "time", log=True), left, title)]
        if len(timed):
            panels.append(Panel(size, PanelAxis("curve / measured − 1", "percent", margin=0.12), [zero, *right]))
        return Panels(panels, height=460)


def _sizes(curve: Curve, timed: pd.Series[float] | None) -> Floats:
    """Sizes at which a curve is drawn: its measured range and that of the timings, its own points included."""
    low, high = curve.range or _UNSTATED
    if isinstance(curve, Piecewise):
        low, high = curve.points[0][0], curve.points[-1][0]
    if timed is not None and len(timed):
        low, high = min(low, float(timed.min())), max(high, float(timed.max()))
    if low == high:  # measured at one size only
        low, high = low / 2, high * 2
    own = [size for size, _ in curve.points] if isinstance(curve, Piecewise) else []
    return np.unique(np.concatenate([np.geomspace(max(low, 1.0), high, _DRAWN), own]))
