"""Where the time of an iteration goes: one bar for each run, split into its terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pandas as pd

from simulator.models.timeline import BREAKDOWN, LATER, TERM_LABELS
from simulator.prediction.result import RunResult
from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.sources import Source, intervals, point_labels
from simulator.reporting.figures.style.panels import GREY, PHASES, Boxes, Mark, Panel, PanelAxis, Panels, Series
from simulator.scenario.titles import leave_out_changes
from simulator.units import show_time

MOST = 16
_LABELLED = 6
_TICKS = 5
"""Bars whose labels have room for a second line."""


class IterationBreakdown(Figure, kind="iteration_breakdown"):
    """Stacked bars of the terms that sum to the iteration's time, with its 90 % interval where one is known."""

    title: ClassVar[str] = "Where the time of one iteration goes"
    question: ClassVar[str] = "Where does the time of one iteration go, and what does another method change?"
    takes: ClassVar[tuple[str, ...]] = ("run", "sweep")
    several: ClassVar[bool] = True
    columns: ClassVar[dict[str, str]] = {
        "run": "the run",
        "phase": "term of the iteration",
        "time_s": "seconds of the term, mean over workers",
        "iteration_time_s": "seconds of the iteration: the sum of its terms",
        "p5_s": "5th percentile of its prediction interval, seconds; missing where none is known",
        "p95_s": "95th percentile, seconds",
    }

    def collect(self, source: Source) -> pd.DataFrame:
        """One row per run and term; a run with a comparison gives two bars."""
        runs = [run for each in source.all_sources() for run in self._runs(each)]
        if len(runs) > MOST:
            raise self.refusal(source, f"at most {MOST} runs", str(len(runs)), "choose some with --where KEY=VALUE")
        names = [name for name, *_ in runs]
        seen = [names[:place].count(name) for place, name in enumerate(names, 1)]
        unique = [name if names.count(name) == 1 else f"{name} [{n}]" for name, n in zip(names, seen, strict=True)]
        rows = [
            [name, phase, terms[phase], sum(terms.values()), *interval]
            for name, (_, terms, interval) in zip(unique, runs, strict=True)
            for phase in BREAKDOWN
        ]
        return pd.DataFrame(rows, columns=list(self.columns))

    def _runs(self, source: Source) -> Iterator[tuple[str, dict[str, float], Sequence[float]]]:
        if source.kind == "sweep":
            keys = [f"breakdown_s.{phase}" for phase in BREAKDOWN]
            table = source.table.assign(**{f"breakdown_s.{each}": 0.0 for each in LATER} | dict(source.table.items()))
            if not set(keys) <= set(table.columns):
                raise self.refusal(source, "columns breakdown_s.*", "none")
            labels = point_labels(source.table)
            values = table[keys].to_numpy(dtype=float).tolist()
            for label, terms, interval in zip(labels, values, intervals(source.table).to_numpy().tolist(), strict=True):
                yield label, dict(zip(BREAKDOWN, terms, strict=True)), interval
        elif source.kind == "run":
            result: RunResult = source.document
            yield leave_out_changes(result.name), result.breakdown, result.interval
            if result.comparison is not None:
                rival = result.comparison
                yield rival.baseline, rival.opponent_breakdown, rival.opponent_interval
        else:
            raise self.refusal(source, "runs or sweeps only", source.kind)

    def compose(self, data: pd.DataFrame) -> Panels:
        """Horizontal bars, the first run on top, each with its interval, and its time beyond its end."""
        wholes = data.drop_duplicates("run").reset_index(drop=True)
        table = data.pivot(index="run", columns="phase", values="time_s").loc[wholes["run"], list(BREAKDOWN)]
        middles, places, heights = table.cumsum(axis=1) - table / 2, list(range(len(wholes))), [0.8] * len(wholes)
        marks: list[Mark] = []
        for phase in BREAKDOWN:
            if table[phase].abs().sum():
                bar = TERM_LABELS[phase], middles[phase], places, table[phase], heights, PHASES[phase]
                marks.append(Boxes(*bar, hatched=PHASES[phase] == GREY))
        known = wholes[wholes["p95_s"] > wholes["p5_s"]]
        if len(known):
            reach = (known["p5_s"].tolist(), known["p95_s"].tolist())
            look: Any = {"stroke": "", "reach": reach}
            marks.append(
                Series("90 % interval", known["iteration_time_s"].tolist(), list(known.index), "#222222", **look)
            )
        long = len(known) > 0 and len(wholes) <= _LABELLED
        rows = wholes[["iteration_time_s", "p5_s", "p95_s"]].to_numpy().tolist()
        texts = [
            show_time(time) + (f"\n{show_time(low)} to {show_time(high)}" if long and high > low else "")
            for time, low, high in rows
        ]
        ends = wholes[["iteration_time_s", "p95_s"]].max(axis=1)
        marks.append(Boxes("", ends / 2, places, ends, heights, texts=texts, texts_at="right"))
        room = (1.55 if long else 1.14) * float(ends.max()) or 1.0  # an iteration may take no time
        x = PanelAxis("iteration time", "time", low=0, high=room, most=_TICKS)
        return Panels([Panel(x, PanelAxis("", names=wholes["run"].tolist()), marks)])
