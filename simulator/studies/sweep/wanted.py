"""What a sweep wants to know of each point: how its intervals are made, and whether it pays against dense."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, get_args

from simulator.errors import InputError, Problem, format_value, map_unless_refused, suggest_nearest
from simulator.loading.documents import Document
from simulator.prediction.doubts.spread import Spread
from simulator.prediction.doubts.verdict import judge
from simulator.prediction.run import Prediction
from simulator.records import Struct, field
from simulator.scenario.changes import with_value
from simulator.scenario.scenario import Scenario
from simulator.sparsifiers.dense import Dense
from simulator.studies.storage.row_table import rows_of
from simulator.studies.variants.crossing import Intervals, evaluate

_FROM_INTERVALS = ("iteration_time_interval_s", "intervals_s", "calibration")
"""Columns, with those below them, that say nothing where no intervals were made."""
_REMEMBERED = 256


class WantedColumns(Struct):
    """What is computed of every point. `verdicts`: whether it is faster than dense with all else the same, for which
    intervals are always full."""

    intervals: Intervals = "first_order"
    verdicts: bool = False
    dense: dict[str, Spread | None] = field(default_factory=dict)

    @property
    def suffix(self) -> str:
        """What is added to the digest of a point whose row is not that of a plain prediction."""
        parts = [self.intervals] * (self.intervals != "first_order") + ["verdicts"] * self.verdicts
        return "".join(f"+{part}" for part in parts)

    def rows(self, scenarios: Sequence[Scenario]) -> list[dict[str, Any] | InputError]:
        """The row of each point, or why the parts of its scenario cannot work together."""
        predictions = self._predict(scenarios)
        made = map_unless_refused(rows_of, predictions)
        if self.intervals == "none":
            made = map_unless_refused(lambda rows: map(_without_intervals, rows), made)
        if self.verdicts:
            self._add_verdicts(made, predictions)
        return made

    def _predict(self, scenarios: Sequence[Scenario]) -> list[Prediction | InputError]:
        # Verdicts need inputs whose effect is not known to first order, such as the network behind hidden exchanges.
        return evaluate(scenarios, "full" if self.verdicts else self.intervals)

    def _add_verdicts(
        self, rows: Sequence[dict[str, Any] | InputError], predictions: Sequence[Prediction | InputError]
    ) -> None:
        """Add the verdict against dense to rows; none for dense itself, and where dense cannot run."""
        opponents = {
            place: _opponent_of(made.scenario)
            for place, made in enumerate(predictions)
            if not isinstance(made, InputError) and not isinstance(made.scenario.sparsifier, Dense)
        }
        self._run_dense(opponents.values())
        for place, opponent in opponents.items():
            row, made, dense = rows[place], predictions[place], self.dense[opponent.digest]
            if not (dense is None or isinstance(row, InputError) or isinstance(made, InputError)):
                row |= _verdict(made, dense)

    def _run_dense(self, opponents: Iterable[Scenario]) -> None:
        """Run dense with all else the same, which several methods share."""
        wanted = {opponent.digest: opponent for opponent in opponents}
        if len(self.dense) + len(wanted) > _REMEMBERED:
            self.dense = {digest: made for digest, made in self.dense.items() if digest in wanted}
        new = {digest: opponent for digest, opponent in wanted.items() if digest not in self.dense}
        for digest, made in zip(new, self._predict(list(new.values())), strict=True):
            self.dense[digest] = None if isinstance(made, InputError) else made.spread


def _opponent_of(scenario: Scenario) -> Scenario:
    return with_value(with_value(scenario, "workload.gradients", ""), "sparsifier", Dense())


def _verdict(prediction: Prediction, dense: Spread) -> dict[str, Any]:
    verdict = judge(prediction.spread, dense)
    low, high = verdict.ratio.interval()
    return {
        "speed_up": verdict.ratio.value,
        "speed_up_interval.p5": low,
        "speed_up_interval.p95": high,
        "probability": verdict.ratio.probability(),
        "verdict": verdict.word,
    }


def _without_intervals(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name.partition(".")[0] not in _FROM_INTERVALS}


def read_wanted(document: Document) -> WantedColumns:
    """The keys `intervals` and `verdicts` of a sweep file. Raises InputError with the place of what is wrong."""
    data = document.data if isinstance(document.data, dict) else {}
    intervals, verdicts = data.get("intervals", "first_order"), data.get("verdicts", False)
    problems = []
    if intervals not in get_args(Intervals):
        where, hint = (
            f"{document.where(('intervals',))}: intervals",
            suggest_nearest(str(intervals), get_args(Intervals)),
        )
        problems.append(Problem(where, "first_order, full or none", format_value(intervals), hint))
    if not isinstance(verdicts, bool):
        where = f"{document.where(('verdicts',))}: verdicts"
        problems.append(Problem(where, "true or false", format_value(verdicts)))
    elif verdicts and intervals == "none":
        where = f"{document.where(('intervals',))}: intervals"
        problems.append(Problem(where, "first_order or full where there are verdicts", intervals))
    if problems:
        raise InputError(problems)
    return WantedColumns(intervals, verdicts)


def plain_digest(identity: str) -> str:
    """The digest of a point's scenario, from what its row is stored under.

    >>> plain_digest("0a1b+full+verdicts"), plain_digest("0a1b")
    ('0a1b', '0a1b')
    """
    return identity.partition("+")[0]
