"""Runtime terms fitted to whole iterations, for constants that kernel and network measurements do not show."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.errors import InputError, Problem, suggest_nearest
from simulator.prediction.measured import ITERATION
from simulator.progress import Watch
from simulator.scenario.scenario import Scenario
from simulator.studies.fit.constants import FITTABLE, runtime_constant
from simulator.studies.fit.iteration_fit import MARK, IterationFit, fit_constants, refusal_problem
from simulator.studies.validate.measured_rows import measured_rows


def fit_runtime(
    scenarios: Sequence[Scenario], terms: Sequence[str], leave_one_out: bool = True, watch: Watch | None = None
) -> IterationFit:
    """The named runtime terms, fitted by `fit_constants` to the iteration times of scenarios marked `used_in_fit`.

    The others remain a test. Raises InputError for an unknown term, where fewer rows than terms are marked, and for
    terms that no row depends on, or that rows only show together with others.
    """
    unknown = [term for term in terms if term not in FITTABLE]
    if unknown:
        raise InputError(
            [Problem("calibrate runtime", "a runtime term", t, suggest_nearest(t, FITTABLE)) for t in unknown]
        )
    rows = [row for row in measured_rows(scenarios) if row.fitted and row.quantity == ITERATION]
    if len(rows) < max(1, len(terms)):
        raise InputError(Problem("calibrate runtime", f"at least {len(terms)} rows to fit", str(len(rows)), MARK))
    fit = fit_constants(rows, [runtime_constant(term) for term in terms], leave_one_out, watch)
    refused = [refusal_problem(item) for item in fit.refused if not item.weak]
    if refused:
        raise InputError(refused)
    return fit
