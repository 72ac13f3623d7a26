"""What a sweep wants to know of each point: how its intervals are made, and whether it pays against dense."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.loading.documents import Document
from simulator.prediction.run import Prediction, run, with_responses
from simulator.prediction.uncertainty.verdict import judge
from simulator.scenario.changes import with_value
from simulator.scenario.scenario import Scenario
from simulator.sparsifiers.dense import Dense
from simulator.studies.storage.rows import row_of

FIRST_ORDER, FULL, NONE = "first_order", "full", "none"
INTERVALS = (FIRST_ORDER, FULL, NONE)
"""From the seconds that each input decides; from simulating both ends of each input; not at all."""
_FROM_INTERVALS = ("iteration_time_interval_s", "intervals_s", "calibration")
"""Keys of a result that say nothing where no intervals were made."""
_REMEMBERED = 256


@dataclass(slots=True)
class Wanted:
    """What is computed of every point. `verdicts`: whether it is faster than dense with all else the same, for which
    intervals are always full."""

    intervals: str = FIRST_ORDER
    verdicts: bool = False
    dense: dict[str, Prediction | None] = field(default_factory=dict, repr=False)

    @property
    def suffix(self) -> str:
        """What is added to the digest of a point whose row is not that of a plain prediction."""
        parts = [self.intervals] * (self.intervals != FIRST_ORDER) + ["verdicts"] * self.verdicts
        return "".join(f"+{part}" for part in parts)

    def row(self, scenario: Scenario) -> dict[str, Any]:
        """The row of a point. Raises InputError where the parts of the scenario cannot work together."""
        prediction = self._predict(scenario)
        left_out = _FROM_INTERVALS if self.intervals == NONE else ()
        row = row_of({key: value for key, value in prediction.document.items() if key not in left_out})
        return row | self._verdict(prediction) if self.verdicts else row

    def _predict(self, scenario: Scenario) -> Prediction:
        prediction = run(scenario, intervals=self.intervals != NONE)
        # Verdicts need inputs whose effect is not known to first order, such as the network behind hidden exchanges.
        return with_responses(prediction) if self.intervals == FULL or self.verdicts else prediction

    def _verdict(self, prediction: Prediction) -> dict[str, Any]:
        """The verdict against dense as columns; none for dense itself, and where dense cannot run."""
        dense = None if isinstance(prediction.scenario.sparsifier, Dense) else self._against(prediction.scenario)
        if dense is None:
            return {}
        verdict = judge(prediction.spread, dense.spread)
        low, high = verdict.ratio.interval()
        return {
            "speed_up": verdict.ratio.value,
            "speed_up_interval.p5": low,
            "speed_up_interval.p95": high,
            "probability": verdict.ratio.probability(),
            "verdict": verdict.word,
        }

    def _against(self, scenario: Scenario) -> Prediction | None:
        """The dense run with all else the same, which several methods share."""
        opponent = with_value(with_value(scenario, "workload.gradients", ""), "sparsifier", Dense())
        digest = opponent.digest
        if digest not in self.dense:
            if len(self.dense) >= _REMEMBERED:
                self.dense.clear()
            try:
                self.dense[digest] = self._predict(opponent)
            except InputError:
                self.dense[digest] = None
        return self.dense[digest]


def read_wanted(document: Document) -> Wanted:
    """The keys `intervals` and `verdicts` of a sweep file. Raises InputError with the place of what is wrong."""
    data = document.data if isinstance(document.data, dict) else {}
    intervals, verdicts = data.get("intervals", FIRST_ORDER), data.get("verdicts", False)
    problems = []
    if intervals not in INTERVALS:
        hint = suggest_nearest(str(intervals), INTERVALS)
        wanted = f"{', '.join(INTERVALS[:-1])} or {INTERVALS[-1]}"
        problems.append(Problem(f"{document.where(('intervals',))}: intervals", wanted, format_value(intervals), hint))
    if not isinstance(verdicts, bool):
        where = f"{document.where(('verdicts',))}: verdicts"
        problems.append(Problem(where, "true or false", format_value(verdicts)))
    elif verdicts and intervals == NONE:
        where = f"{document.where(('intervals',))}: intervals"
        problems.append(Problem(where, f"{FIRST_ORDER} or {FULL} where there are verdicts", NONE))
    if problems:
        raise InputError(problems)
    return Wanted(intervals, verdicts)


def plain_digest(identity: str) -> str:
    """The digest of a point's scenario, from what its row is stored under.

    >>> plain_digest("0a1b+full+verdicts"), plain_digest("0a1b")
    ('0a1b', '0a1b')
    """
    return identity.partition("+")[0]
