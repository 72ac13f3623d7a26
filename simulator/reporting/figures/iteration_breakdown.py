"""Where the time of an iteration goes: one bar for each run, split into its terms."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

from simulator.models.terms import BREAKDOWN, TERM_LABELS
from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.rows import point_labels
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.axes import add_legend, set_seconds_axis
from simulator.reporting.figures.style.colours import GREY, PHASES
from simulator.units import show_time

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

MOST = 16


class IterationBreakdown(Figure, kind="iteration_breakdown"):
    """Stacked bars of the terms that sum to the iteration's time."""

    title: ClassVar[str] = "Where the time of one iteration goes"
    question: ClassVar[str] = "Where does the time of one iteration go, and what does another method change?"
    takes: ClassVar[tuple[str, ...]] = ("run", "sweep")
    several: ClassVar[bool] = True
    columns: ClassVar[dict[str, str]] = {
        "run": "the run",
        "phase": "term of the iteration",
        "time_s": "seconds of the term, mean over workers",
        "iteration_time_s": "seconds of the iteration: the sum of its terms",
    }

    def collect(self, source: Source) -> pd.DataFrame:
        """One row per run and term; a run with a comparison gives two bars."""
        runs = [run for each in source.all_sources() for run in self._runs(each)]
        if len(runs) > MOST:
            raise self.refusal(source, f"at most {MOST} runs", str(len(runs)), "choose some with --where KEY=VALUE")
        names = [name for name, _ in runs]
        rows = [
            {
                "run": _unique_name(names, place),
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
                raise self.refusal(source, "columns breakdown_s.*", "none")
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
            raise self.refusal(source, "runs or sweeps only", source.kind)

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
            look: Any = {"color": PHASES[phase], "hatch": hatch, "edgecolor": "white", "linewidth": 0.5}
            axes.barh(range(len(runs)), table[phase], left=left, label=TERM_LABELS[phase], **look)
            left = left + table[phase]
        for place, total in enumerate(left.tolist()):
            axes.annotate(show_time(total), (total, place), (4, 0), textcoords="offset points", va="center")
        axes.set_yticks(range(len(runs)), [_wrap(run) for run in runs])
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xlim(0, 1.14 * float(left.max()) or 1.0)  # an iteration may take no time
        set_seconds_axis(axes, "iteration time", "x")
        add_legend(figure, axes)


def _wrap(text: str, width: int = 26) -> str:
    return "\n".join(wrap(text, width)[:3])


def _unique_name(names: list[str], place: int) -> str:
    """A name that no other run has."""
    name = names[place]
    return name if names.count(name) == 1 else f"{name} [{1 + names[:place].count(name)}]"
