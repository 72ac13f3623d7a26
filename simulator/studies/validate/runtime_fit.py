"""Runtime terms from whole iterations: the constants that no kernel or network measurement shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.errors import InputError, Problem, suggest_nearest
from simulator.prediction.run import run
from simulator.scenario.scenario import Scenario

FITTABLE = (
    "negotiation",
    "collective_launch",
    "cycle_time",
    "kernel_launch",
    "gather_overhead",
    "compute_slowdown",
    "endpoint_bandwidth",
    "message_overhead",
)
START = {"endpoint_bandwidth": 1e9, "compute_slowdown": 0.1}
"""Where the search starts, in SI; 0.1 ms for the times."""
_TRIED = np.geomspace(1e-3, 1e4, 29)


@dataclass(frozen=True, slots=True)
class RuntimeFit:
    """Fitted terms in SI, and the signed relative error left on each row that was fitted.

    `held_out`: the same of each row by terms fitted to the others; empty where there are too few.
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

    Only rows marked `used_in_fit` are taken, so that the rest stays a test. Each of them is also left out in turn, to
    see how far terms fitted to the others are off. Raises InputError for an unknown term or where fewer rows than terms
    are marked.
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
    fitted = _fitted(rows, terms)
    left = {row.name: _relative(row, fitted) for row in rows}
    held_out = {}
    if leave_one_out and len(rows) > len(terms):
        for index, row in enumerate(rows):
            held_out[row.name] = _relative(row, _fitted(rows[:index] + rows[index + 1 :], terms, fitted))
    return RuntimeFit(fitted, left, held_out)


def _fitted(rows: Sequence[Scenario], terms: Sequence[str], near: dict[str, float] | None = None) -> dict[str, float]:
    """The best terms; the search starts `near` others where they are known."""
    from scipy.optimize import least_squares

    scale = np.array([START.get(term, 1e-4) for term in terms])

    def errors(factors: np.ndarray) -> np.ndarray:
        values = dict(zip(terms, (factors * scale).tolist(), strict=True))
        return np.array([_relative(row, values) for row in rows])

    # Waiting and overlap make the errors piecewise smooth, so a coarse step and a plain search are the safe choice.
    # A term that hides behind others changes nothing for a while, so each is first tried over the whole range.
    start = np.ones(len(terms)) if near is None else np.array([near[term] for term in terms]) / scale
    for place in range(len(terms) if near is None else 0):
        tried = [np.concatenate([start[:place], [factor], start[place + 1 :]]) for factor in _TRIED]
        start = min(tried, key=lambda factors: float(np.square(errors(factors)).sum()))
    best = least_squares(errors, start, bounds=(_TRIED[0] / 10, _TRIED[-1] * 10), diff_step=1e-2, xtol=1e-6)
    return dict(zip(terms, (best.x * scale).tolist(), strict=True))


def _relative(scenario: Scenario, terms: dict[str, float]) -> float:
    cluster = scenario.cluster.model_copy(update={"runtime": scenario.cluster.runtime.model_copy(update=terms)})
    predicted = run(scenario.model_copy(update={"cluster": cluster})).document["iteration_time_s"]
    measured = scenario.measured.iteration_time if scenario.measured else None
    return float(predicted) / float(measured or np.nan) - 1
