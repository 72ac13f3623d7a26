"""What differs between two results: a run with a run, or a sweep with a sweep."""

from __future__ import annotations

from simulator.errors import InputError, Problem
from simulator.reporting.answers.compared import RunDifferences, SweepDifferences
from simulator.studies.compare.outcomes import RunOutcome, SweepOutcome, open_outcome
from simulator.studies.compare.run_differences import compare_runs


def compare_outcomes(
    a: str, b: str, overrides_a: tuple[str, ...] = (), overrides_b: tuple[str, ...] = ()
) -> RunDifferences | SweepDifferences:
    """Compare two runs or two sweeps, named as `open_outcome` takes them.

    Raises InputError where one is a run and the other a sweep.
    """
    first, second = open_outcome(a, overrides_a), open_outcome(b, overrides_b)
    if isinstance(first, RunOutcome) and isinstance(second, RunOutcome):
        return compare_runs(first, second)
    if isinstance(first, SweepOutcome) and isinstance(second, SweepOutcome):
        from simulator.studies.compare.sweep_differences import compare_sweeps  # pandas is imported for sweeps only

        return compare_sweeps(first, second)
    run, sweep = (a, b) if isinstance(first, RunOutcome) else (b, a)
    raise InputError(Problem("compare", "two runs or two sweeps", f"the run {run} and the sweep {sweep}"))
