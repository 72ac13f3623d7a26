"""Constants fitted to whole iterations and phases, with their errors; for what no benchmark shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from simulator.errors import InputError, Problem
from simulator.models.curves import Floats
from simulator.models.groups import leave_out
from simulator.models.widths import DEVIATION
from simulator.progress import Watch
from simulator.records import Record, replace
from simulator.studies.fit.identifiability import (
    LARGEST_ERROR,
    Refusal,
    choose_constants,
    deviation_of,
    largest_value,
    refusals,
    row_deviation,
    standard_errors,
)
from simulator.studies.fit.iteration_model import Constant, IterationModel, distinct_scenarios, parse_constants
from simulator.studies.validate.measured_rows import MeasuredRow

WHERE = "calibrate"
MARK = "mark rows with `measured: {used_in_fit: true}`"


class FittedConstant(Record):
    """A constant as fitted, and as it was in the scenarios, in SI.

    `error`: relative standard error, the larger of what the residuals say (`error_of_residuals`) and of how the
    constant moves when set-ups are left out (`error_of_set_ups`); None where neither is known. `if_rows_are_off`: the
    error that the model's own error of a row would make. `at_most`: where the rows ask for none of it, what they allow.
    """

    constant: Constant
    value: float
    before: float
    error_of_residuals: float | None
    error_of_set_ups: float | None
    if_rows_are_off: float
    at_most: float | None

    @property
    def error(self) -> float | None:
        """The larger of the two errors."""
        known = (item for item in (self.error_of_residuals, self.error_of_set_ups) if item is not None)
        return max(known, default=None)

    @property
    def mean_error(self) -> float | None:
        """The error as a mean absolute one, as curves state it: that of a normal error is sqrt(2 / pi) deviations."""
        return None if self.error is None else self.error / DEVIATION

    def as_dict(self) -> Mapping[str, Any]:
        """The part of a result document that states it."""
        return {
            "name": self.constant.name,
            "value": self.value,
            "unit": self.constant.unit,
            "before": self.before,
            "error": self.error,
            "error_of_residuals": self.error_of_residuals,
            "error_of_set_ups": self.error_of_set_ups,
            "error_if_rows_are_off": self.if_rows_are_off if math.isfinite(self.if_rows_are_off) else None,
            "at_most": self.at_most,
        }


class RowErrors(Record):
    """Signed relative errors of a row: before the fit, after it, and by constants fitted to other rows."""

    row: MeasuredRow
    before: float
    after: float
    left_out: float | None


class IterationFit(Record):
    """Fitted constants, the errors of every measured row, and constants that the rows do not determine."""

    constants: tuple[FittedConstant, ...]
    rows: tuple[RowErrors, ...]
    refused: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def fitted(self) -> list[RowErrors]:
        """The rows that the constants were fitted to."""
        return [item for item in self.rows if item.row.fitted]

    @property
    def rms(self) -> float:
        """Root mean square of the relative errors of fitted rows."""
        return float(np.sqrt(np.mean([item.after**2 for item in self.fitted])))

    @property
    def held_out_mape(self) -> float | None:
        """Mean absolute relative error of rows that were left out."""
        known = [abs(item.left_out) for item in self.fitted if item.left_out is not None]
        return float(np.mean(known)) if known else None

    def as_dict(self) -> Mapping[str, Any]:
        """The result document."""
        return {
            "constants": [item.as_dict() for item in self.constants],
            "refused": [{"name": i.name, "reason": i.reason, "measure": i.measure} for i in self.refused],
            "rows": [
                {
                    "scenario": item.row.scenario.name,
                    "set_up": item.row.set_up,
                    "quantity": item.row.quantity,
                    "measured": item.row.seconds,
                    "before": item.before,
                    "after": item.after,
                    "left_out": item.left_out,
                    "fitted": item.row.fitted,
                }
                for item in self.rows
            ],
            "set_ups": len({item.row.set_up for item in self.fitted}),
            "rms": self.rms,
            "held_out_mape": self.held_out_mape,
            "notes": list(self.notes),
        }


def fit_named(rows: Sequence[MeasuredRow], names: Sequence[str], watch: Watch | None = None) -> IterationFit:
    """The constants of these names, fitted. Raises InputError with every name that is unknown or not determined."""
    constants = parse_constants(names, distinct_scenarios(rows))
    fit = fit_constants(rows, constants, watch)
    if fit.refused:
        raise InputError([refusal_problem(item) for item in fit.refused])
    return fit


def fit_what_is_not_measured(rows: Sequence[MeasuredRow], watch: Watch | None = None) -> IterationFit:
    """Kernels without a curve and costs of a runtime without a stated error, as many as the fitted rows determine.

    They are taken by how much the rows change with them; where two cannot be told apart, the smaller one stays as it
    is. What the fit then does not determine is given back, and the others are fitted again. Raises InputError where
    none is left.
    """
    fitted = [row for row in rows if row.fitted]
    constants, refused = choose_constants(fitted)
    while constants:
        fit = fit_constants(rows, constants, watch=watch)
        if not fit.refused:
            return replace(fit, refused=tuple(refused))
        last = fit.refused[-1]
        refused.append(last)
        constants = [item for item in constants if item.name != last.name]
    nothing = Problem(WHERE, "constants that were not measured", "none", "name some with --constants")
    raise InputError([refusal_problem(item) for item in refused] or nothing)


def refusal_problem(item: Refusal) -> Problem:
    """A refusal as an input error."""
    return Problem(f"{WHERE}: {item.name}", "times that determine it", item.reason, item.measure)


def fit_constants(
    rows: Sequence[MeasuredRow], constants: Sequence[Constant], watch: Watch | None = None
) -> IterationFit:
    """Least squares on ln(predicted / measured) over the fitted rows; the other rows are judged by the result.

    Each set-up (model and cluster) is also left out once, and predicted by constants fitted to the others; with one
    set-up each scenario. Raises InputError where fewer rows than constants are to be fitted.
    """
    fitted = [row for row in rows if row.fitted]
    if len(fitted) < max(1, len(constants)):
        raise InputError(Problem(WHERE, f"at least {max(1, len(constants))} rows to fit", str(len(fitted)), MARK))
    before = IterationModel(rows, ()).errors(())
    model = IterationModel(fitted, constants)
    values = model.solve()
    refused = tuple(refusals(model, values))
    others, left_out = _leave_out(model, values, watch or Watch())
    after = IterationModel(rows, constants).errors(values)
    outcomes = tuple(
        RowErrors(row, float(old), float(new), left_out.get(id(row)))
        for row, old, new in zip(rows, before, after, strict=True)
    )
    found = _with_errors(model, values, others)
    unsteady = [_unsteady(item) for item in found if (item.error_of_set_ups or 0.0) > LARGEST_ERROR]
    names = {item.name for item in unsteady}
    refused = (*(item for item in refused if item.name not in names), *unsteady)
    return IterationFit(found, outcomes, refused, tuple(_notes(model, found)))


def _leave_out(model: IterationModel, values: Floats, watch: Watch) -> tuple[list[Floats], dict[int, float]]:
    """Constants fitted without each set-up (with one set-up each scenario), and the errors of its rows by their ids,
    where the others determine the constants."""
    parts = list(leave_out(model.rows, lambda row: row.set_up))
    parts = parts or list(leave_out(model.rows, lambda row: id(row.scenario)))
    made, errors = [], dict[int, float]()
    watch.expect(len(parts))
    for _, held, rest in parts:
        watch.step()
        others = IterationModel(rest, model.constants)
        if len(rest) < len(model.constants):
            continue
        again = others.solve(values)
        slopes = others.elasticities(again)
        seen = np.isfinite(standard_errors(slopes, 1.0)) | (again == [item.no_cost for item in model.constants])
        if seen.all():
            made.append(again)
            errors |= zip(map(id, held), IterationModel(held, model.constants).errors(again).tolist(), strict=True)
    return made, errors


def _with_errors(model: IterationModel, values: Floats, others: Sequence[Floats]) -> tuple[FittedConstant, ...]:
    """The constants with both errors; that of set-ups by the jackknife, sqrt((g - 1) / g sum (v_i - mean)^2)."""
    slopes, before = model.elasticities(values), model.read()
    deviation, freedom = deviation_of(model.residuals(values), slopes)
    errors, own = standard_errors(slopes, deviation), standard_errors(slopes, row_deviation())
    made = []
    for place, constant in enumerate(model.constants):
        value, ended = float(values[place]), values[place] == constant.no_cost
        moved = None
        if len(others) > 1 and not ended:
            again = np.array([item[place] for item in others])
            count = len(again)
            moved = math.sqrt((count - 1) / count * float(np.square(again - again.mean()).sum())) / value
        error = float(errors[place]) if freedom > 0 and not ended else None
        limit = largest_value(model, values, place, deviation) if ended else None
        made.append(FittedConstant(constant, value, float(before[place]), error, moved, float(own[place]), limit))
    return tuple(made)


def _unsteady(item: FittedConstant) -> Refusal:
    moved = 100 * (item.error_of_set_ups or 0.0)
    reason = f"it moves by {moved:.0f} % when set-ups are left out: they ask for different values"
    return Refusal(item.constant.name, reason, "fit set-ups by themselves, and see what differs", weak=True)


def _notes(model: IterationModel, found: Sequence[FittedConstant]) -> list[str]:
    made = []
    for item in found:
        name = item.constant.name
        if item.value == item.constant.no_cost:
            limit = f"; at most {item.at_most:.3g} {item.constant.unit}".rstrip() if item.at_most else ""
            made.append(f"{name} is at its bound: the fitted times ask for none of it{limit}")
        elif item.error is None:
            off = 100 * row_deviation(), 100 * item.if_rows_are_off
            made.append(
                f"the error of {name} is not known: as many constants as rows are met exactly, and only a repeat or a "
                f"further row tells; rows that are off by {off[0]:.1f} %, as elsewhere, make it {off[1]:.0f} % wrong"
            )
    for owner in ("runtime", "network"):
        names = {getattr(row.scenario.cluster, owner).name for row in model.rows}
        if len(names) > 1 and any(item.constant.owner == owner for item in found):
            made.append(f"the rows have {len(names)} {owner}s, {', '.join(sorted(names))}: one value is fitted for all")
    return made
