"""Measured rows as a function of constants: what the simulator predicts of each, and how that changes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial

import numpy as np

from simulator.errors import InputError
from simulator.models.curves import Floats
from simulator.models.groups import group_by
from simulator.models.linear_algebra import least_squares
from simulator.models.small_cache import LatestResults
from simulator.prediction.run import plan_of, run
from simulator.records import replace
from simulator.scenario.changes import with_value
from simulator.scenario.scenario import Scenario
from simulator.studies.fit.constants import Constant
from simulator.studies.validate.measured_rows import MeasuredRow, predicted_value

STEP = 0.01
"""Share by which a constant is changed to either side for a slope."""
_NEVER = 1e-12
_IMPOSSIBLE = 1e9
"""Seconds that stand for constants with which the parts of a scenario cannot work together."""
UPDATE = "update"
"""The optimiser's kernel."""
_ALWAYS = (UPDATE, "elementwise")
"""Kernels that every iteration depends on: the optimiser's, and the one from which others are estimated."""
_TRIED = np.geomspace(1e-3, 1e4, 29)
_LOWEST, _HIGHEST = 1e-4, 1e5


class IterationModel:
    """Rows (m,) and the constants (n,) that may change in all of them; values are in SI."""

    def __init__(self, rows: Sequence[MeasuredRow], constants: Sequence[Constant]) -> None:
        self.rows, self.constants = tuple(rows), tuple(constants)
        self.measured = np.array([row.seconds for row in rows])
        self._start = np.array([item.start for item in constants])
        self._known: LatestResults[list[float]] = LatestResults(4096)

    def times(self, values: Sequence[float] | Floats) -> Floats:
        """Predicted seconds of each row (m,); one run serves all rows of a scenario."""
        seconds = np.zeros(len(self.rows))
        for places, seen in self._runs:
            key = (places[0], tuple(float(values[place]) for place in seen))
            made = self._known.get(key, partial(self._predict, places, seen, key[1]))
            seconds[places] = made
        return np.maximum(seconds, _NEVER)

    def _predict(self, places: list[int], seen: list[int], values: Sequence[float]) -> list[float]:
        """Seconds of the rows of one scenario, with the values of the constants that it sees."""
        scenario = with_value(self.rows[places[0]].scenario, "measured", None)
        for place, value in zip(seen, values, strict=True):
            scenario = self.constants[place].put(scenario, value)
        try:
            prediction = run(scenario)
        except InputError:
            # With no constant changed that is the row's own fault; otherwise no value so far off is the right one.
            if not seen:
                raise
            return [_IMPOSSIBLE] * len(places)
        return [predicted_value(self.rows[place].quantity, prediction) for place in places]

    @cached_property
    def _runs(self) -> list[tuple[list[int], list[int]]]:
        """Rows of each scenario, and the constants that may change them; kernels that it does not use can't."""
        runs = group_by(range(len(self.rows)), lambda place: id(self.rows[place].scenario)).values()
        return [(places, self._seen_by(self.rows[places[0]].scenario)) for places in runs]

    def _seen_by(self, scenario: Scenario) -> list[int]:
        used = {f"kernels.{name}" for name in (*plan_of(scenario).work.kernels, *_ALWAYS)}
        return [
            place
            for place, item in enumerate(self.constants)
            if item.owner != "gpu" or item.name.rpartition(".")[0] in used
        ]

    def residuals(self, values: Sequence[float] | Floats) -> Floats:
        """ln(predicted / measured) of each row, (m,)."""
        made: Floats = np.log(self.times(values) / self.measured)
        return made

    def errors(self, values: Sequence[float] | Floats) -> Floats:
        """Signed relative errors, predicted / measured - 1, (m,)."""
        made: Floats = self.times(values) / self.measured - 1
        return made

    def elasticities(self, values: Sequence[float] | Floats) -> Floats:
        """d ln(predicted) / d ln(constant), (m, n), by central differences; 0 for constants that are 0."""
        values = np.asarray(values, dtype=float)
        made = np.zeros((len(self.rows), len(values)))
        for place, value in enumerate(values):
            if value > 0:
                below, above = values.copy(), values.copy()
                below[place], above[place] = value / (1 + STEP), value * (1 + STEP)
                made[:, place] = (self.residuals(above) - self.residuals(below)) / (2 * np.log1p(STEP))
        return made

    def read(self) -> Floats:
        """The constants as they are in the first scenario, (n,)."""
        return np.array([item.read(self.rows[0].scenario) for item in self.constants])

    def solve(self, near: Floats | None = None) -> Floats:
        """The constants (n,) with the least sum of squared log residuals; the search starts at `near` if given.

        Waiting and overlap make residuals piecewise smooth, so the step is coarse and the search is a simple one. A
        constant that others hide has no effect below some value, so each is first tried over the whole range. A cost
        that ends at the lower end of the range is 0.
        """
        if not self.constants:
            return np.zeros(0)

        def at(factors: Floats) -> Floats:
            return self.residuals(factors * self._start)

        if near is None:
            start = np.clip(self.read() / self._start, _TRIED[0], _TRIED[-1])
            start = np.where(self.read() > 0, start, 1.0)
            for place in range(len(start)):
                tried = [np.concatenate([start[:place], [f], start[place + 1 :]]) for f in (start[place], *_TRIED)]
                start = min(tried, key=lambda factors: float(np.square(at(factors)).sum()))
        else:
            start = np.clip(near / self._start, 1.01 * _LOWEST, 0.99 * _HIGHEST)
        found, _ = least_squares(at, start, (_LOWEST, _HIGHEST), step=STEP, tolerance=1e-6)
        ends = [item.no_cost for item in self.constants]
        is_cost = np.array([item.no_cost == 0.0 for item in self.constants])
        off = np.where(is_cost, found < _TRIED[0], found > _TRIED[-1])
        values: Floats = np.where(off, ends, found * self._start)
        return values

    def with_rows(self, rows: Sequence[MeasuredRow]) -> IterationModel:
        """A model of other rows with these constants."""
        return IterationModel(rows, self.constants)

    def without(self, place: int) -> IterationModel:
        """The other constants, with this one at no cost in every row."""
        gone = self.constants[place]
        rows = [replace(row, scenario=scenario) for row, scenario in zip(self.rows, self._put(gone), strict=True)]
        return IterationModel(rows, self.constants[:place] + self.constants[place + 1 :])

    def _put(self, constant: Constant) -> list[Scenario]:
        made: dict[int, Scenario] = {}
        for row in self.rows:
            if id(row.scenario) not in made:
                made[id(row.scenario)] = constant.put(row.scenario, constant.no_cost)
        return [made[id(row.scenario)] for row in self.rows]
