"""From measured scenarios to fitted constants: input, constants and fit, with every problem of the input at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from simulator.errors import InputError, Problem, suggest_nearest
from simulator.progress import Watch
from simulator.records import Record, replace
from simulator.studies.fit.constants import parse_constants
from simulator.studies.fit.default_constants import fit_what_is_not_measured
from simulator.studies.fit.iteration_fit import MARK, WHERE, IterationFit, fit_named
from simulator.studies.fit.measured_input import read_measured
from simulator.studies.validate.measured_rows import TIMES, MeasuredRow, measured_rows
from simulator.units import count_of

_HINT = f"{MARK}, or choose times with --fit-to"


class FromIterations(Record):
    """A fit, and the SHA-256 of each file that it was made from."""

    fit: IterationFit
    digests: Mapping[str, str]


def fit_from_iterations(
    places: Sequence[str | Path],
    names: Sequence[str] = (),
    fit_to: Sequence[str] = (),
    watch: Watch | None = None,
) -> FromIterations:
    """Fit constants to the measured times of scenarios in files, folders and tables.

    `names`: the constants; none: those that matter and were not measured, as many as the rows determine. `fit_to`:
    measured times to fit to; none: those that are marked `used_in_fit`. Raises InputError with every problem: files,
    constants, rows of several GPUs, too few rows, constants that the rows do not determine.
    """
    found = read_measured(places)
    unknown = [item for item in fit_to if item not in TIMES]
    problems = [Problem("--fit-to", "a measured time", item, suggest_nearest(item, TIMES)) for item in unknown]
    problems[:0] = found.problems
    rows = measured_rows(found.scenarios, fit_to)
    fitted = [row for row in rows if row.fitted]
    owners = {"gpu", "runtime"}
    if found.scenarios and names:
        try:
            owners = {item.owner for item in parse_constants(names, found.scenarios)}
        except InputError as error:
            problems += error.problems
    problems += _several_owners(fitted, owners)
    if found.scenarios and not fitted and not unknown:
        problems.append(Problem(WHERE, "measured times to fit to", f"none of {len(rows)}", _HINT))
    if problems:
        raise InputError(problems)
    alike = [row for row in rows if all(_spec(row, owner) == _spec(fitted[0], owner) for owner in owners)]
    fit = fit_named(alike, names, watch=watch) if names else fit_what_is_not_measured(alike, watch)
    if len(alike) < len(rows):
        aside = count_of(len(rows) - len(alike), "measured time")
        note = f"{aside} of another {' or '.join(sorted(owners))} left aside"
        fit = replace(fit, notes=(*fit.notes, note))
    return FromIterations(fit, found.digests)


def _spec(row: MeasuredRow, owner: str) -> str:
    """The fingerprint of a row's GPU, runtime or network."""
    return str(getattr(row.scenario.cluster, owner).fingerprint)


def _several_owners(fitted: Sequence[MeasuredRow], owners: set[str]) -> list[Problem]:
    """A config describes one GPU, runtime or network, so that rows of several cannot share its constants."""
    made = []
    for owner in sorted(owners):
        specs = {item.fingerprint: item.name for item in (getattr(row.scenario.cluster, owner) for row in fitted)}
        if len(specs) > 1:
            hint = "fit the rows of each by themselves"
            got = f"{len(specs)}: {', '.join(sorted(specs.values()))}"
            made.append(Problem(WHERE, f"rows of one {'GPU' if owner == 'gpu' else owner}", got, hint))
    return made
