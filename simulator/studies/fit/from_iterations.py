"""Constants from measured scenarios, and the configs that state them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simulator.calibration.configs import About, config_text
from simulator.calibration.yaml_text import percent_text
from simulator.component import Spec
from simulator.errors import InputError, Problem, collect_problems, suggest_nearest
from simulator.hardware.gpu import Gpu
from simulator.hardware.runtime import Runtime
from simulator.hardware.widths import FACTOR_COSTS
from simulator.models.curves import Curve
from simulator.models.groups import group_by
from simulator.models.widths import width_of_deviation
from simulator.prediction.run import plan_of
from simulator.progress import Watch
from simulator.records import replace
from simulator.scenario.scenario import Scenario
from simulator.studies.fit.iteration_fit import (
    MARK,
    WHERE,
    FittedConstant,
    IterationFit,
    fit_named,
    fit_what_is_not_measured,
)
from simulator.studies.fit.iteration_model import UPDATE, distinct_scenarios, parse_constants
from simulator.studies.validate.measured_rows import TIMES, MeasuredRow, measured_rows, read_measured
from simulator.units import count_of


def fit_from_iterations(
    places: Sequence[str | Path],
    names: Sequence[str] = (),
    fit_to: Sequence[str] = (),
    watch: Watch | None = None,
) -> tuple[IterationFit, Mapping[str, str]]:
    """Constants fitted to the measured times of scenarios in files, folders and tables, and the SHA-256 of each file.

    `names`: the constants; none: those that matter and were not measured, as many as the rows determine. `fit_to`:
    measured times to fit to; none: those that are marked `used_in_fit`. Raises InputError with every problem: files,
    constants, rows of several GPUs, too few rows, constants that the rows do not determine.
    """
    found = read_measured(places)
    unknown = [item for item in fit_to if item not in TIMES]
    problems = list(found.problems)
    problems += [Problem("--fit-to", "a measured time", item, suggest_nearest(item, TIMES)) for item in unknown]
    rows = measured_rows(found.samples, fit_to)
    fitted = [row for row in rows if row.fitted]
    owners = {"gpu", "runtime"}
    if found.samples and names:
        with collect_problems(problems):
            owners = {item.owner for item in parse_constants(names, found.samples)}
    problems += _several_owners(fitted, owners)
    if found.samples and not fitted and not unknown:
        hint = f"{MARK}, or choose times with --fit-to"
        problems.append(Problem(WHERE, "measured times to fit to", f"none of {len(rows)}", hint))
    if problems:
        raise InputError(problems)
    specs = {owner: getattr(fitted[0].scenario.cluster, owner).fingerprint for owner in owners}
    alike = [row for row in rows if all(getattr(row.scenario.cluster, o).fingerprint == specs[o] for o in owners)]
    fit = fit_named(alike, names, watch=watch) if names else fit_what_is_not_measured(alike, watch)
    if len(alike) < len(rows):
        aside = count_of(len(rows) - len(alike), "measured time")
        note = f"{aside} of another {' or '.join(sorted(owners))} left aside"
        fit = replace(fit, notes=(*fit.notes, note))
    return fit, found.digests


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


_NAMED = 8
"""Rows that the source of a config names."""


def fitted_configs(fit: IterationFit, about: About) -> dict[str, str]:
    """The text of a config for each owner of fitted constants: `gpu`, `runtime`, `network`.

    What was not fitted is as in the config that the rows name. `held_out_mape` of a curve is the mean absolute error
    of its constant, that of a runtime the error of whole iterations that were left out.
    """
    scenarios = distinct_scenarios([item.row for item in fit.fitted])
    made = {}
    for owner, own in group_by(fit.constants, lambda item: item.constant.owner).items():
        changed = scenarios[0]
        for item in own:
            changed = item.constant.put(changed, item.value)
        base, spec = getattr(scenarios[0].cluster, owner), getattr(changed.cluster, owner)
        source = f"{about.source} {_words(fit, own)}; all else as in {base.name or 'the scenarios'}."
        spec = _with_evidence(spec, base, fit, own, scenarios).model_copy(update={"name": about.name, "source": source})
        made[owner] = config_text(owner, spec, about.comment())
    return made


def _words(fit: IterationFit, own: Sequence[FittedConstant]) -> str:
    errors = ["" if item.error is None else f" (within {percent_text(item.error)})" for item in own]
    constants = ", ".join(f"{item.constant.name}{error}" for item, error in zip(own, errors, strict=True))
    named = [f"{item.row.scenario.name} ({item.row.quantity.replace('_', ' ')})" for item in fit.fitted]
    rows = "; ".join(named[:_NAMED]) + (f"; and {len(named) - _NAMED} more" if len(named) > _NAMED else "")
    return f"Fitted to whole iterations: {constants}. Rows: {rows}"


def _with_evidence(
    spec: Spec, base: Spec, fit: IterationFit, own: Sequence[FittedConstant], scenarios: Sequence[Scenario]
) -> Spec:
    if isinstance(spec, Runtime):
        errors = {item.constant.name.removeprefix("runtime."): item.error for item in own}
        widths = {name: width_of_deviation(error) for name, error in errors.items() if error and name in FACTOR_COSTS}
        changes: dict[str, Any] = {
            "held_out_mape": fit.held_out_mape,
            "widths": spec.widths | {name: float(f"{width:.3g}") for name, width in widths.items()},
            "fitted_rows": spec.fitted_rows | dict.fromkeys(errors, len(fit.fitted)),
        }
        if any(item.constant.name == "runtime.compute_slowdown" for item in own):
            changes["slowdown_width"] = 0.0  # no longer an estimate
        return spec.model_copy(update=changes)
    if not isinstance(spec, Gpu) or not isinstance(base, Gpu):
        return spec.model_copy(update={"held_out_mape": _largest_error(own), "measured": ()})
    kernels: dict[str, Curve] = dict(spec.kernels)
    for kernel, items in group_by(own, lambda item: item.constant.kernel).items():
        parts = ", ".join(item.constant.name.rpartition(".")[2] for item in items)
        source = f"{parts}: fitted to whole iterations ({count_of(len(fit.fitted), 'time')}, as above)"
        old = base.curve(kernel)
        source += "; before: " + " ".join(old.source.split()) if old else "; the rest is an estimate"
        evidence = {"held_out_mape": _largest_error(items), "range": _sizes(scenarios, kernel), "source": source}
        kernels[kernel] = kernels[kernel].model_copy(update={**evidence, "derived": True})
    return spec.model_copy(update={"kernels": kernels})


def _largest_error(items: Sequence[FittedConstant]) -> float | None:
    errors = [item.mean_error for item in items]
    known = [error for error in errors if error is not None]
    return min(1.0, max(known)) if len(known) == len(errors) else None


def _sizes(scenarios: Sequence[Scenario], kernel: str) -> tuple[float, float] | None:
    """The smallest and largest call of a kernel in the rows, in elements."""
    uses = [plan_of(scenario).work.kernels.get(kernel) for scenario in scenarios]
    sizes = [size for use in uses if use for size in (use.smallest, use.largest)]
    if kernel == UPDATE:
        sizes += [float(size) for scenario in scenarios for size in scenario.workload.numels]
    return (max(1.0, min(sizes)), max(1.0, *sizes)) if sizes else None
