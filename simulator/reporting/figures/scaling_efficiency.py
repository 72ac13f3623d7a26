"""How far training scales: efficiency and throughput against workers, compared with the ideal."""

from __future__ import annotations

from typing import ClassVar

import pandas as pd

from simulator.errors import format_value
from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.sources import Source, intervals, methods, varied
from simulator.reporting.figures.style.panels import Panel, PanelAxis, Panels, compose_lines, grey_line


class ScalingEfficiency(Figure, kind="scaling_efficiency"):
    """Scaling efficiency (single-GPU time over iteration time) and throughput against workers; ideal in grey.

    Shaded: the throughput at the ends of the 90 % interval of the iteration time, where few lines share the panel.

    `by`: the varied key whose values have one line each, such as `topology`.
    """

    title: ClassVar[str] = "Scaling over workers"
    question: ClassVar[str] = "How far does training scale, and how far from ideal is it?"
    takes: ClassVar[tuple[str, ...]] = ("sweep",)
    width: ClassVar[float] = 9.0
    columns: ClassVar[dict[str, str]] = {
        "method": "sparsifier with its density, or the value of the key `by`",
        "workers": "number of GPUs",
        "efficiency": "seconds of an iteration on one GPU without communication, over seconds of the iteration",
        "throughput_samples_per_s": "samples per second of all workers",
        "throughput_p5": "5th percentile of the prediction interval, samples per second; missing where none is known",
        "throughput_p95": "95th percentile, samples per second",
        "ideal_samples_per_s": "samples per second of as many workers that never wait",
    }

    by: str = "sparsifier"

    def collect(self, source: Source) -> pd.DataFrame:
        """One row per method and number of workers."""
        table = source.table
        if table["workers"].nunique() < 2:
            raise self.refusal(source, "at least two numbers of workers", "one", "see scenarios/sweeps/worker_sweep")
        if self.by != "sparsifier" and self.by not in table:
            known = ", ".join(varied(table))
            raise self.refusal(source, "a key that was varied as `by`", format_value(self.by), f"there are {known}")
        ends = intervals(table).rdiv(table["iteration_time_s"], axis=0).mul(table["throughput_samples_per_s"], axis=0)
        points = pd.DataFrame(
            {
                "method": methods(table, self.by),
                "workers": table["workers"],
                "efficiency": table["scaling_efficiency"],
                "throughput_samples_per_s": table["throughput_samples_per_s"],
                "throughput_p5": ends["p95_s"],
                "throughput_p95": ends["p5_s"],
                "ideal_samples_per_s": table["throughput_samples_per_s"] / table["scaling_efficiency"],
            }
        )
        return self.unique_points(source, points, ("method", "workers"))

    def compose(self, data: pd.DataFrame) -> Panels:
        """Left: efficiency from 0; right: throughput, both axes logarithmic."""
        ideal = data.groupby("workers")["ideal_samples_per_s"].max()
        workers_said, rate = "%{x:,.0f} workers", "throughput_samples_per_s"
        left = compose_lines(data, "method", "workers", "efficiency", said=[workers_said, "efficiency %{y:.4~p}"])
        interval = "90 % interval %{customdata[0]:,.4~g} to %{customdata[1]:,.4~g}"
        said, ends = [workers_said, "%{y:,.4~g} samples/s", interval], ("throughput_p5", "throughput_p95")
        right = compose_lines(data, "method", "workers", rate, ends=ends, said=said)
        left.insert(0, grey_line("ideal", ideal.index, [1.0] * len(ideal), level="y"))
        right.insert(0, grey_line("ideal", ideal.index, ideal))
        workers = PanelAxis("workers", values=data["workers"])
        top = 1.08 * max(1.0, float(data["efficiency"].max()))
        efficiency = PanelAxis("scaling efficiency", "percent", low=0, high=top)
        throughput = PanelAxis("throughput (samples/s)", log=True)
        return Panels([Panel(workers, efficiency, left), Panel(workers, throughput, right)])
