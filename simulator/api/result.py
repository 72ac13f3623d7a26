"""The result of a run in Python: its figures by name, as a table, and as a notebook shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from simulator.api.texts import first_sentence, shorten
from simulator.engine.plan.plan import Plan
from simulator.models.timeline import Iteration
from simulator.prediction.result import RunResult
from simulator.prediction.result_parts import Comparison
from simulator.prediction.run import Prediction
from simulator.records import asdict
from simulator.scenario.scenario import Scenario
from simulator.units import count_of, show_time

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
        """All counted iterations, where they were kept."""
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
        from simulator.api.texts import with_units
        from simulator.studies.storage.row_table import frame_of, row_of, table_of

        return with_units(frame_of(table_of({"scenario": [self.name]}, [row_of(self)])).drop(columns="error"))

    def __repr__(self) -> str:
        low, high = self.interval
        spread = f" ({show_time(low)} to {show_time(high)})" if high > low else ""
        parts = [shorten(self.name, 160), f"{show_time(self.iteration_time)}{spread}"]
        if self.throughput is not None:
            parts.append(f"{self.throughput:.5g} samples/s on {count_of(self.workers, 'worker')}")
        if self.verdict is not None:
            parts.append(shorten(first_sentence(self.verdict.text), 200))
        return f"<Result {'; '.join(parts)}>"

    def _repr_html_(self) -> str:
        from simulator.reporting.notebook import blocks_html
        from simulator.reporting.wording.runs import full_run_blocks

        return blocks_html(full_run_blocks(self))
