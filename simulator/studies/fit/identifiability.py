"""Which constants the measured rows determine, and how well: by how much the rows change with each."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np

from simulator.errors import InputError
from simulator.hardware.kernels import KERNELS
from simulator.hardware.runtime import RUNTIME_COSTS
from simulator.models.curves import Floats
from simulator.models.layers import Layer
from simulator.models.linear_algebra import singular_values, weigh
from simulator.models.timeline import TERM_LABELS
from simulator.models.widths import NORMAL_95
from simulator.prediction.doubts.own_error import model_error
from simulator.prediction.measured import ITERATION
from simulator.prediction.run import plan_of
from simulator.records import Record, replace
from simulator.scenario.changes import with_value
from simulator.scenario.scenario import Scenario
from simulator.studies.fit.iteration_model import (
    Constant,
    IterationModel,
    distinct_scenarios,
    known_constants,
)
from simulator.studies.validate.measured_rows import TIMES, MeasuredRow

LARGEST_ERROR = 0.5
"""Relative standard error above which a constant counts as not determined."""
DECISIVE = 4.0
"""Sum of squared residuals, in variances of a row, by which rows must be worse without a constant: two deviations."""
_NOTHING = 1e-9
_SCENARIOS = 3
_LABELS = {ITERATION: "whole iteration"} | {name: name.replace("_", " ") for name in TIMES[1:]} | TERM_LABELS


class Refusal(Record):
    """A constant that the rows do not determine, why, and what measurement would.

    `weak`: the rows depend on it, but too little for what they are off by.
    """

    name: str
    reason: str
    measure: str = ""
    weak: bool = False


def row_deviation() -> float:
    """Standard deviation of a row by the model's own error, which other set-ups showed."""
    own = model_error()
    return math.log(own.errors.width) / NORMAL_95 if own is not None else 0.0


def deviation_of(residuals: Floats, elasticities: Floats) -> tuple[float, int]:
    """Standard deviation of a row from its residuals, and the degrees of freedom; rows without effect do not count.

    sqrt((s^2 + sum r^2) / (1 + m - n)): the model's own error s, known from other set-ups, counts as one more row, so
    that few rows that agree by chance do not look exact.
    """
    seen = np.abs(elasticities).max(axis=1, initial=0.0) > _NOTHING
    freedom = max(0, int(seen.sum()) - elasticities.shape[1])
    total = row_deviation() ** 2 + (float(np.square(residuals[seen]).sum()) if freedom else 0.0)
    return math.sqrt(total / (1 + freedom)), freedom


def standard_errors(elasticities: Floats, deviation: float) -> Floats:
    """Relative standard errors (n,) of constants: deviation times the roots of the diagonal of (E'E)^-1.

    By the singular values of E (m, n); a direction that no row sees has an infinite error.
    """
    if not elasticities.shape[1]:
        return np.zeros(0)
    sizes, directions = singular_values(elasticities)
    seen = sizes > _NOTHING
    shares = np.square(directions)
    unseen = (shares[~seen] > _NOTHING).any(axis=0)
    variances = (shares[seen] / np.square(sizes[seen])[:, None]).sum(axis=0)
    made: Floats = np.where(unseen, np.inf, deviation * np.sqrt(variances))
    return made


def refusals(model: IterationModel, values: Floats) -> Iterator[Refusal]:
    """The constants that the fitted rows do not determine at these values, each with its reason."""
    residuals, slopes = model.residuals(values), model.elasticities(values)
    deviation, freedom = deviation_of(residuals, slopes)
    errors = standard_errors(slopes, deviation)
    for place, constant in enumerate(model.constants):
        name, own = constant.name, math.sqrt(weigh(slopes[:, place], slopes[:, place]))
        alone = deviation / own if own > _NOTHING else np.inf
        ended = values[place] == constant.no_cost
        if (ended or own <= _NOTHING) and not _has_effect(model, values, place):
            yield Refusal(name, without_effect(name, model.rows))
        elif ended:
            continue
        elif own <= _NOTHING:
            limit = _limit_words(model, values, place, deviation)
            yield Refusal(name, f"over a range of its values the fitted times stay the same{limit}", _by_itself(name))
        elif errors[place] > LARGEST_ERROR and alone <= LARGEST_ERROR:
            both = f"{name} and {model.constants[_twin(slopes, place, deviation)].name}"
            reason = f"the fitted times change with {both} in the same way, so that they show only both together"
            yield Refusal(name, reason, _separating(model, values, place, deviation))
        elif freedom and alone > LARGEST_ERROR:
            most = 100 * (np.exp(np.abs(slopes[:, place]).max() * np.log(1.1)) - 1)
            reason = f"10 % more of it changes no fitted time by more than {most:.2g} %"
            reason += f", and rows are off by {100 * deviation:.2g} %"
            yield Refusal(name, reason, _separating(model, values, place, deviation), weak=True)
        elif freedom and _worse_without(model, values, place) < DECISIVE * deviation**2:
            limit = _limit_words(model, values, place, deviation)
            reason = f"without it the fitted times are met as well, within their errors{limit}"
            yield Refusal(name, reason, _by_itself(name), weak=True)


def _limit_words(model: IterationModel, values: Floats, place: int, deviation: float) -> str:
    limit = largest_value(model, values, place, deviation)
    return f"; they say that it is at most {limit:.3g} {model.constants[place].unit}".rstrip() if limit else ""


def _by_itself(name: str) -> str:
    return "timings of the kernel by itself would (`sparsim record kernels`)" if name.startswith("kernels.") else ""


def largest_value(model: IterationModel, values: Floats, place: int, deviation: float) -> float | None:
    """The value at which the rows are worse by two deviations than at `values`, others fixed; None if they never are.

    To a tenth: it is an upper bound for what the rows cannot see. They get worse the further it is above its value, so
    that the first of many values is found by halving.
    """
    if model.constants[place].unit == "B/s":
        return None
    limit = np.square(model.residuals(values)).sum() + DECISIVE * deviation**2

    def is_too_large(value: float) -> bool:
        at = values.copy()
        at[place] = value
        return bool(np.square(model.residuals(at)).sum() > limit)

    every = (np.geomspace(1e-3, 1e4, 170) * model.constants[place].start).tolist()
    larger = [value for value in every if value > values[place]]
    first = bisect_left(larger, True, key=is_too_large)
    return larger[first] if first < len(larger) else None


def without_effect(name: str, rows: Sequence[MeasuredRow]) -> str:
    """Why no row changes with a constant: a kernel that is used is hidden by what the host does meanwhile."""
    room, kernel, *_ = name.split(".")
    used = any(kernel in plan_of(row.scenario).work.kernels for row in rows)
    hidden = ", since the host takes longer to launch the kernel" if room == "kernels" and used else ""
    return f"no fitted time changes with it{hidden}"


def _has_effect(model: IterationModel, values: Floats, place: int) -> bool:
    """Whether any row changes while the constant goes through all that it may reasonably be."""
    here, at = model.times(values), values.copy()
    for factor in (1e-2, 1.0, 1e2, 1e4):
        at[place] = factor * model.constants[place].start
        if (np.abs(model.times(at) / here - 1) > _NOTHING).any():
            return True
    return False


def _twin(slopes: Floats, place: int, deviation: float) -> int:
    """The constant that would have to be known for this one to be determined best."""
    others = [other for other in range(slopes.shape[1]) if other != place]

    def error_if_known(other: int) -> float:
        kept = [column for column in range(slopes.shape[1]) if column != other]
        return float(standard_errors(slopes[:, kept], deviation)[kept.index(place)])

    return min(others, key=error_if_known)


def _worse_without(model: IterationModel, values: Floats, place: int) -> float:
    """How much larger the sum of squares is when the constant costs nothing and the others are fitted again."""
    bare = model.without(place)
    again = bare.solve(np.delete(values, place))
    return float(np.square(bare.residuals(again)).sum() - np.square(model.residuals(values)).sum())


def _separating(model: IterationModel, values: Floats, place: int, deviation: float) -> str:
    """The measurement that the simulator says would determine the constant best; else timings of its kernel."""
    known = model.elasticities(values)
    best, found = LARGEST_ERROR, ""
    for text, row in _further_rows(model.rows):
        try:
            more = IterationModel([row], model.constants).elasticities(values)
        except InputError:
            continue
        error = float(standard_errors(np.vstack([known, more]), deviation)[place])
        if error < best:
            best, found = error, f"{text} would give it within {100 * error:.0f} %"
    return found or _by_itself(model.constants[place].name)


def _further_rows(rows: Sequence[MeasuredRow]) -> Iterator[tuple[str, MeasuredRow]]:
    """Measurements near those that there are: another phase, density, number of nodes, or sizes of tensors."""
    stated = {(id(row.scenario), row.quantity) for row in rows}
    scenarios = {id(row.scenario): row for row in rows}
    for row in list(scenarios.values())[:_SCENARIOS]:
        for quantity in TIMES:
            if (id(row.scenario), quantity) not in stated:
                yield f"the {_LABELS[quantity]} of “{row.scenario.name}”", replace(row, quantity=quantity)
        for text, scenario in _further_scenarios(row.scenario):
            yield f"“{row.scenario.name}” {text}", replace(row, scenario=scenario, quantity=ITERATION)


def _further_scenarios(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    density = getattr(scenario.sparsifier, "density", None)
    for factor in (10.0, 0.1):
        if density is not None and density * factor <= 1:
            value = density * factor
            yield f"at a density of {100 * value:.3g} %", with_value(scenario, "sparsifier.density", value)
    nodes = scenario.cluster.nodes
    yield f"on {2 * nodes} nodes", with_value(scenario, "cluster.nodes", 2 * nodes)
    workload = scenario.workload
    if len(workload.layers) > 1 and not workload.gradients:
        forward, backward = workload.forward_time, workload.backward_time
        one = Layer(name="all", numel=workload.numel, forward=forward, backward=backward)
        yield "with a model of as many elements in one tensor", with_value(scenario, "workload.layers", (one,))


FACTORS = np.geomspace(0.1, 1000, 17)
"""By how much estimates of kernels may be too low."""


def choose_constants(fitted: Sequence[MeasuredRow]) -> tuple[list[Constant], list[Refusal]]:
    """Constants by their effect on the rows, each only while all that are chosen stay determined.

    The effect is the slope of the rows times the width of what is known, since what nobody timed may be further off.
    """
    candidates = list(_not_measured(distinct_scenarios(fitted)))
    model = IterationModel(fitted, candidates)
    slopes = np.zeros((0, len(candidates)))
    if fitted:
        # All estimated kernels are slower by one factor, the one that suits the rows best: an estimate may be a hundred
        # times too low, and would then seem not to matter.
        kernels = np.array([item.owner == "gpu" for item in model.constants])
        tried = [np.where(kernels, factor, 1.0) * model.read() for factor in FACTORS]
        slopes = model.elasticities(min(tried, key=lambda values: float(np.square(model.residuals(values)).sum())))
    # How far a constant may be off; a launch or a call by a factor of 2.
    widths = [fitted[0].scenario.cluster.gpu.width(c.kernel) if c.owner == "gpu" else 2.0 for c in candidates]
    effects = np.abs(slopes).max(axis=0, initial=0.0) * list(map(math.log, widths))
    chosen: list[int] = []
    refused = []
    most = max(1, len(fitted) - 1)
    for place in np.argsort(-effects, kind="stable").tolist():
        name, deviation = candidates[place].name, row_deviation()
        if not np.abs(slopes[:, place]).any():
            refused.append(Refusal(name, without_effect(name, fitted)))
        elif len(chosen) == most:
            refused.append(Refusal(name, f"{len(fitted)} fitted times give {most} constants, and others matter more"))
        elif (standard_errors(slopes[:, [*chosen, place]], deviation) <= LARGEST_ERROR).all():
            chosen.append(place)
        elif standard_errors(slopes[:, [place]], deviation)[0] > LARGEST_ERROR:
            refused.append(Refusal(name, "it changes the fitted times by less than they are off"))
        else:
            others = " and ".join(candidates[item].name for item in chosen)
            refused.append(Refusal(name, f"the fitted times cannot tell it from {others}"))
    return [candidates[place] for place in chosen], refused


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
        for name in RUNTIME_COSTS if runtime.held_out_mape is None else ():
            if getattr(runtime, name):
                found.setdefault(f"runtime.{name}", known[f"runtime.{name}"])
    yield from found.values()
