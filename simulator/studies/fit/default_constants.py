"""The constants that are fitted where none are named: those that matter, were not measured, and that rows determine."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from simulator.errors import InputError, Problem
from simulator.hardware.kernels import KERNELS
from simulator.prediction.run import plan_of
from simulator.progress import Watch
from simulator.records import replace
from simulator.scenario.scenario import Scenario
from simulator.studies.fit.constants import FITTABLE, Constant, known_constants
from simulator.studies.fit.identifiability import (
    LARGEST_ERROR,
    Refusal,
    row_deviation,
    standard_errors,
    without_effect,
)
from simulator.studies.fit.iteration_fit import (
    WHERE,
    IterationFit,
    distinct_scenarios,
    fit_constants,
    refusal_problem,
)
from simulator.studies.fit.iteration_model import IterationModel
from simulator.studies.validate.measured_rows import MeasuredRow

FACTORS = np.geomspace(0.1, 1000, 17)
"""By how much estimates of kernels may be too low."""


def fit_what_is_not_measured(rows: Sequence[MeasuredRow], watch: Watch | None = None) -> IterationFit:
    """Kernels without a curve and costs of a runtime without a stated error, as many as the fitted rows determine.

    They are taken by how much the rows change with them; where two cannot be told apart, the smaller one stays as it
    is. What the fit then does not determine is given back, and the others are fitted again. Raises InputError where
    none is left.
    """
    fitted = [row for row in rows if row.fitted]
    constants, refused = _choose(fitted)
    while constants:
        fit = fit_constants(rows, constants, watch=watch)
        if not fit.refused:
            return replace(fit, refused=tuple(refused))
        last = fit.refused[-1]
        refused.append(last)
        constants = [item for item in constants if item.name != last.name]
    nothing = Problem(WHERE, "constants that were not measured", "none", "name some with --constants")
    raise InputError([refusal_problem(item) for item in refused] or nothing)


def _choose(fitted: Sequence[MeasuredRow]) -> tuple[list[Constant], list[Refusal]]:
    """Constants by their effect on the rows, each only while all that are chosen stay determined.

    The effect is the slope of the rows times the width of what is known, since what nobody timed may be further off.
    """
    candidates = list(_not_measured(distinct_scenarios(fitted)))
    model = IterationModel(fitted, candidates)
    slopes = model.elasticities(_rough_values(model)) if fitted else np.zeros((0, len(candidates)))
    effects = np.abs(slopes).max(axis=0, initial=0.0) * [_log_width(fitted[0].scenario, item) for item in candidates]
    order = np.argsort(-effects, kind="stable").tolist()
    chosen: list[int] = []
    refused = []
    most = max(1, len(fitted) - 1)
    for place in order:
        errors = standard_errors(slopes[:, [*chosen, place]], row_deviation())
        name = candidates[place].name
        if not np.abs(slopes[:, place]).any():
            refused.append(Refusal(name, without_effect(name, fitted)))
        elif len(chosen) == most:
            refused.append(Refusal(name, f"{len(fitted)} fitted times give {most} constants, and others matter more"))
        elif (errors <= LARGEST_ERROR).all():
            chosen.append(place)
        else:
            refused.append(Refusal(name, _why(slopes, place, chosen, [item.name for item in candidates])))
    return [candidates[place] for place in chosen], refused


def _log_width(scenario: Scenario, item: Constant) -> float:
    """ln of the factor by which a constant may be off; that of a launch or a call is taken as 2."""
    return math.log(scenario.cluster.gpu.width(item.name.split(".")[1]) if item.owner == "gpu" else 2.0)


def _rough_values(model: IterationModel) -> np.ndarray:
    """The constants with all estimated kernels slower by one factor, the one that suits the rows best.

    An estimate may be a hundred times too low, and would then seem not to matter.
    """
    kernels = np.array([item.owner == "gpu" for item in model.constants])
    tried = [np.where(kernels, factor, 1.0) * model.read() for factor in FACTORS]
    return min(tried, key=lambda values: float(np.square(model.residuals(values)).sum()))


def _why(slopes: np.ndarray, place: int, chosen: Sequence[int], names: Sequence[str]) -> str:
    alone = float(standard_errors(slopes[:, [place]], row_deviation())[0])
    if alone > LARGEST_ERROR:
        return "it changes the fitted times by less than they are off"
    return f"the fitted times cannot tell it from {' and '.join(names[item] for item in chosen)}"


def _not_measured(scenarios: Sequence[Scenario]) -> Iterator[Constant]:
    """Constants that the scenarios use, and whose value is an estimate or has no stated error.

    Kernels of plain passes over memory are left out: the bytes that they move give their time.
    """
    found: dict[str, Constant] = {}
    for scenario in scenarios:
        known = known_constants(scenario)
        gpu, runtime = scenario.cluster.gpu, scenario.cluster.runtime
        for kernel in plan_of(scenario).work.kernels:
            name, streams = f"kernels.{kernel}", kernel in KERNELS and KERNELS[kernel].kind == "streaming"
            if name in known and not streams and gpu.level(kernel) != "measured":
                found.setdefault(name, known[name])
        for name in FITTABLE if runtime.held_out_mape is None else ():
            if getattr(runtime, name):
                found.setdefault(f"runtime.{name}", known[f"runtime.{name}"])
    yield from found.values()
