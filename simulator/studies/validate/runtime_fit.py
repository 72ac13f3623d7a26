"""Runtime terms fitted to whole iterations, for constants that kernel and network measurements do not show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.errors import InputError, Problem, suggest_nearest
from simulator.hardware.runtime import RUNTIME_COSTS
from simulator.prediction.run import run
from simulator.scenario.scenario import Scenario

FITTABLE = tuple(name for name, cost in RUNTIME_COSTS.items() if cost.fittable)
START = {
    "endpoint_bandwidth": 1e9,
    "server_bandwidth": 1e9,
    "compute_slowdown": 0.1,
    "exchange_element": 1e-8,
    "update_launch": 1e-5,
    "forward_hook": 1e-3,
}
"""Where the search starts, in SI; 0.1 ms for the other times."""
_TRIED = np.geomspace(1e-3, 1e4, 29)


@dataclass(frozen=True, slots=True)
class RuntimeFit:
    """Fitted terms in SI, and the signed relative error that is left on each fitted row.

    `held_out`: the error on each row of terms fitted to the others; empty where there are too few rows.
    """

    terms: dict[str, float]
    errors: dict[str, float]
    held_out: dict[str, float]

    @property
    def held_out_mape(self) -> float | None:
        """Mean absolute relative error of rows that were left out."""
        return float(np.mean(np.abs(list(self.held_out.values())))) if self.held_out else None

    @property
    def rms(self) -> float:
        """Root mean square of the relative errors."""
        return float(np.sqrt(np.mean(np.square(list(self.errors.values())))))


def fit_runtime(scenarios: Sequence[Scenario], terms: Sequence[str], leave_one_out: bool = True) -> RuntimeFit:
    """Least squares on the relative error of `iteration_time` over scenarios, for the named runtime terms.

    Only rows marked `used_in_fit` are used, so that the others remain a test. Each of them is also left out once, to
    measure the error of terms fitted to the others. Raises InputError for an unknown term or where fewer rows than
    terms are marked.
    """
    unknown = [term for term in terms if term not in FITTABLE]
    if unknown:
        raise InputError(
            [Problem("calibrate runtime", "a runtime term", t, suggest_nearest(t, FITTABLE)) for t in unknown]
        )
    rows = [s for s in scenarios if s.measured and s.measured.iteration_time and s.measured.used_in_fit is True]
    if len(rows) < max(1, len(terms)):
        hint = "mark rows with `measured: {used_in_fit: true}`"
        raise InputError(Problem("calibrate runtime", f"at least {len(terms)} rows to fit", str(len(rows)), hint))
    fitted = _fit(rows, terms)
    errors = {row.name: _relative_error(row, fitted) for row in rows}
    held_out = {}
    if leave_one_out and len(rows) > len(terms):
        for index, row in enumerate(rows):
            held_out[row.name] = _relative_error(row, _fit(rows[:index] + rows[index + 1 :], terms, fitted))
    return RuntimeFit(fitted, errors, held_out)


def _fit(rows: Sequence[Scenario], terms: Sequence[str], near: dict[str, float] | None = None) -> dict[str, float]:
    """The best terms; the search starts at `near` where it is given."""
    from scipy.optimize import least_squares

    scale = np.array([START.get(term, 1e-4) for term in terms])

    def errors(factors: np.ndarray) -> np.ndarray:
        values = dict(zip(terms, (factors * scale).tolist(), strict=True))
        return np.array([_relative_error(row, values) for row in rows])

    # Waiting and overlap make the errors piecewise smooth, so the step is coarse and the search is a simple one.
    # A term that other terms hide has no effect below some value, so each is first tried over the whole range.
    start = np.ones(len(terms)) if near is None else np.array([near[term] for term in terms]) / scale
    for place in range(len(terms) if near is None else 0):
        tried = [np.concatenate([start[:place], [factor], start[place + 1 :]]) for factor in _TRIED]
        start = min(tried, key=lambda factors: float(np.square(errors(factors)).sum()))
    best = least_squares(errors, start, bounds=(_TRIED[0] / 10, _TRIED[-1] * 10), diff_step=1e-2, xtol=1e-6)
    return dict(zip(terms, (best.x * scale).tolist(), strict=True))


def _relative_error(scenario: Scenario, terms: dict[str, float]) -> float:
    cluster = scenario.cluster.model_copy(update={"runtime": scenario.cluster.runtime.model_copy(update=terms)})
    predicted = run(scenario.model_copy(update={"cluster": cluster})).document["iteration_time_s"]
    measured = scenario.measured.iteration_time if scenario.measured else None
    return float(predicted) / float(measured or np.nan) - 1
