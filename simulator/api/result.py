"""`run`: one prediction, from a scenario in any form; its figures by name, as a table, and as a notebook shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, get_args

from simulator.engine.plan.plan import Plan
from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.models.timeline import Iteration
from simulator.prediction.result import RunResult
from simulator.prediction.result_parts import Comparison
from simulator.prediction.run import Prediction
from simulator.prediction.run import run as predict
from simulator.records import asdict
from simulator.scenario.reading import ScenarioSource, load
from simulator.scenario.scenario import Scenario
from simulator.studies.compare.opponent import run_with_comparison
from simulator.studies.variants.crossing import Intervals
from simulator.units import count_of, shorten, show_time

if TYPE_CHECKING:
    import pandas as pd


class Answered(Comparison, kw_only=True):
    """The comparison of a run with its opponent, and the `question` that it answers."""

    question: str | None


class Result(RunResult, dict=True):
    """What `run` returns. Times are in seconds, amounts in bytes.

    `name`, `workers`, `iteration_time`, `interval`, `intervals` (by the per cent of cases that they are to hold),
    `throughput`, `scaling_efficiency`, `breakdown`, `traffic`, `density`, `memory`, `warnings` and all other figures
    are attributes; the reference of keys lists all of them. `to_dict()` is the document of `sparsim run --json`.
    """

    @classmethod
    def of(cls, prediction: Prediction) -> Self:
        """The result of a prediction, which stays known for its timeline and its tables."""
        made = cls(**asdict(prediction.result))
        made.__dict__["prediction"] = prediction
        return made

    @property
    def prediction(self) -> Prediction:
        """What was simulated: the plan, and every iteration where they were kept."""
        made: Prediction = self.__dict__["prediction"]
        return made

    @property
    def scenario(self) -> Scenario:
        """What was predicted."""
        return self.prediction.scenario

    @property
    def plan(self) -> Plan:
        """The plan of one iteration."""
        return self.prediction.plan

    @property
    def iterations(self) -> tuple[Iteration, ...]:
        """All counted iterations, where they were kept; of local steps whole periods, of `steps` iterations each."""
        return self.prediction.iterations

    @property
    def verdict(self) -> Answered | None:
        """The answer to the scenario's question; None where it is compared with nothing."""
        return None if self.comparison is None else Answered(**asdict(self.comparison), question=self.question)

    @property
    def document(self) -> Mapping[str, Any]:
        """The result as `sparsim run --json` prints it."""
        return self.to_dict()

    def to_frame(self) -> pd.DataFrame:
        """One row, with the columns of a sweep's table; `frame.attrs["units"]` has the unit of each quantity."""
        from simulator.api.sweeping import with_units
        from simulator.studies.storage.row_table import row_of, table_of

        return with_units(table_of({"scenario": [self.name]}, [row_of(self)]).to_pandas().drop(columns="error"))

    def __repr__(self) -> str:
        low, high = self.interval
        spread = f" ({show_time(low)} to {show_time(high)})" if high > low else ""
        parts = [shorten(self.name, 160), f"{show_time(self.iteration_time)}{spread}"]
        if self.throughput is not None:
            parts.append(f"{self.throughput:.5g} samples/s on {count_of(self.workers, 'worker')}")
        if self.verdict is not None:
            parts.append(shorten(self.verdict.text.partition(". ")[0].removesuffix("."), 200))
        return f"<Result {'; '.join(parts)}>"

    def _repr_html_(self) -> str:
        from simulator.reporting.notebook import blocks_html
        from simulator.reporting.wording.runs import full_run_blocks

        return blocks_html(full_run_blocks(self))


def run(
    source: ScenarioSource,
    /,
    *,
    keep_iterations: bool = False,
    intervals: bool | Intervals = "full",
    **overrides: Any,
) -> Result:
    """Predict one training iteration; the same answer as `sparsim run`.

    `source`: the name of a shipped scenario, a path, a mapping as YAML would contain it, or a `Scenario`.

    `overrides` change it: `sparsifier="topk"`, `cluster={"nodes": 16}`, `**{"cluster.nodes": 16}`. A mapping changes
    the keys that it names; with `kind`, `trace`, `model` or a list of `layers` it takes the place of the whole part.
    Quantities are texts with a unit (`"10 Gbit/s"`), or numbers in SI units.

    `intervals`: `full` as on the command line, by simulating both ends of each uncertain input, and with the comparison
    that the scenario's `versus` asks for; `first_order` is about ten times as fast, for searches, and compares with
    nothing; `none` looks at no uncertain input. `keep_iterations`: with every iteration's spans, for a timeline; of
    local steps these are whole periods, whose `time` is that of their `steps`.

    Raises InputError for a wrong scenario, and where its parts cannot work together.
    """
    wanted = {True: "full", False: "none"}.get(intervals, intervals) if isinstance(intervals, bool) else intervals
    if wanted not in get_args(Intervals):
        hint = suggest_nearest(str(wanted), get_args(Intervals))
        raise InputError(Problem("intervals", f"one of {', '.join(get_args(Intervals))}", format_value(wanted), hint))
    if wanted == "full":
        return Result.of(run_with_comparison(source, overrides, keep_iterations))
    return Result.of(predict(load(source, overrides), keep_iterations, intervals=wanted != "none"))
