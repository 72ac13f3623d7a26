"""Where the time of an iteration goes: one bar a run, split into its terms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

from simulator.models.timeline import BREAKDOWN
from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.rows import point_labels
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.style import GREY, PHASES, axis_seconds, legend_below, words
from simulator.units import show_time

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

MOST = 16


class IterationBreakdown(Figure, kind="iteration_breakdown"):
    """Stacked bars of the terms that sum to the iteration's time."""

    title: ClassVar[str] = "Where the time of one iteration goes"
    question: ClassVar[str] = "Where does the time of one iteration go, and what does a change of method move?"
    takes: ClassVar[tuple[str, ...]] = ("run", "sweep")
    several: ClassVar[bool] = True
    columns: ClassVar[dict[str, str]] = {
        "run": "what was run",
        "phase": "term of the iteration",
        "time_s": "seconds of the term, mean over workers",
        "iteration_time_s": "seconds of the iteration: the sum of its terms",
    }

    def collect(self, source: Source) -> pd.DataFrame:
        """One row per run and term; runs that carry a comparison give a bar for either side."""
        runs = [run for each in source.each() for run in self._runs(each)]
        if len(runs) > MOST:
            raise self.refused(source, f"at most {MOST} runs", str(len(runs)), "choose some with --where KEY=VALUE")
        names = [name for name, _ in runs]
        rows = [
            {
                "run": _unique(names, place),
                "phase": phase,
                "time_s": terms[phase],
                "iteration_time_s": sum(terms.values()),
            }
            for place, (_, terms) in enumerate(runs)
            for phase in BREAKDOWN
        ]
        return pd.DataFrame(rows, columns=list(self.columns))

    def _runs(self, source: Source) -> Iterator[tuple[str, dict[str, float]]]:
        if source.kind == "sweep":
            keys = [f"breakdown_s.{phase}" for phase in BREAKDOWN]
            if not set(keys) <= set(source.table.columns):
                raise self.refused(source, "columns breakdown_s.*", "none")
            labels = point_labels(source.table)
            for label, values in zip(labels, source.table[keys].to_numpy(dtype=float).tolist(), strict=True):
                yield label, dict(zip(BREAKDOWN, values, strict=True))
        elif source.kind == "run":
            document: dict[str, Any] = source.document
            yield str(document["scenario"]), document["breakdown_s"]
            if "comparison" in document:
                comparison = document["comparison"]
                yield str(comparison["baseline"]), comparison["baseline_breakdown_s"]
        else:
            raise self.refused(source, "runs or sweeps alone", source.kind)

    def draw(self, data: pd.DataFrame, figure: FigureBase) -> None:
        """Horizontal bars, the first run on top."""
        axes = figure.subplots()
        runs = list(dict.fromkeys(data["run"]))
        table = data.pivot(index="run", columns="phase", values="time_s").loc[runs]
        left = pd.Series(0.0, index=runs)
        for phase in BREAKDOWN:
            if not table[phase].abs().sum():
                continue
            hatch = "///" if PHASES[phase] == GREY else None
            edge: Any = {"edgecolor": "white", "linewidth": 0.5}
            axes.barh(
                range(len(runs)), table[phase], left=left, color=PHASES[phase], label=words(phase), hatch=hatch, **edge
            )
            left = left + table[phase]
        for place, total in enumerate(left.tolist()):
            axes.annotate(show_time(total), (total, place), (4, 0), textcoords="offset points", va="center")
        axes.set_yticks(range(len(runs)), [_wrapped(run) for run in runs])
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xlim(0, 1.14 * float(left.max()) or 1.0)  # an iteration may take no time
        axis_seconds(axes, "iteration time", "x")
        legend_below(figure, axes)


def _wrapped(text: str, width: int = 26) -> str:
    from textwrap import wrap

    lines = wrap(text, width)
    return "\n".join(lines[:3])


def _unique(names: list[str], place: int) -> str:
    """A name that no other run has."""
    name = names[place]
    return name if names.count(name) == 1 else f"{name} [{1 + names[:place].count(name)}]"
