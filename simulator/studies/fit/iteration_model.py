"""Constants by dotted name, and measured rows as a function of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from simulator.errors import InputError, Problem, suggest_nearest
from simulator.hardware.gpu import Gpu
from simulator.hardware.kernels import HOST_KERNELS, KERNELS
from simulator.hardware.runtime import RUNTIME_COSTS
from simulator.models.curves import Affine, Curve, Floats, NLogN, Piecewise
from simulator.models.groups import group_by
from simulator.models.linear_algebra import least_squares
from simulator.models.small_cache import LatestResults
from simulator.prediction.run import plan_of, run, run_batch
from simulator.records import Record, replace
from simulator.scenario.changes import INFINITE, scale_curve, value_at, with_value, without_measured_collectives
from simulator.scenario.scenario import Scenario
from simulator.studies.validate.measured_rows import MeasuredRow, predicted_value

START = {
    "endpoint_bandwidth": 1e9,
    "server_bandwidth": 1e9,
    "compute_slowdown": 0.1,
    "host_element": 1e-8,
    "exchange_element": 1e-8,
    "update_launch": 1e-5,
    "forward_hook": 1e-3,
}
"""Where the search for a cost of the runtime starts, in SI; 0.1 ms for the other times."""
_PARTS: dict[type[Curve], dict[str, float]] = {
    Affine: {"slope": 1e-11, "intercept": 1e-5},
    NLogN: {"coefficient": 1e-10, "intercept": 1e-5},
    Piecewise: {"scale": 1.0},
}
"""What can be fitted of a curve, and where the search starts; the first is meant where only the kernel is named."""
_QUANTITY = re.compile(r"\S+ (s|B/s)")


class Constant(Record):
    """A constant with its unit (s, B/s, or none), and where the search for it starts."""

    name: str
    unit: str
    start: float

    @property
    def owner(self) -> str:
        """The config that it stands in: `gpu`, `runtime` or `network`."""
        room = self.name.partition(".")[0]
        return "gpu" if room == "kernels" else room

    @property
    def kernel(self) -> str:
        """The kernel whose curve it is a part of; of others, its own name."""
        return self.name.split(".")[1]

    @property
    def no_cost(self) -> float:
        """The value at which it costs nothing: 0, or a bandwidth that is as good as infinite."""
        return INFINITE if self.unit == "B/s" else 0.0

    def read(self, scenario: Scenario) -> float:
        """Its value in a scenario; 0 where it has none, and 1 for a factor on a curve."""
        if self.owner != "gpu":
            return float(value_at(scenario, f"cluster.{self.name}") or 0.0)
        part = self.name.rpartition(".")[2]
        return 1.0 if part == "scale" else float(getattr(curve_of(scenario.cluster.gpu, self.kernel), part))

    def put(self, scenario: Scenario, value: float) -> Scenario:
        """A scenario with another value."""
        if self.owner == "network":
            scenario = without_measured_collectives(scenario)  # they hold at one bandwidth and latency only
        if self.owner != "gpu":
            return with_value(scenario, f"cluster.{self.name}", value)
        gpu, part = scenario.cluster.gpu, self.name.rpartition(".")[2]
        curve = curve_of(gpu, self.kernel)
        # A piecewise curve has no time of 0: its points are times on a log axis.
        made = scale_curve(curve, max(value, 1e-9)) if part == "scale" else curve.model_copy(update={part: value})
        return with_value(scenario, "cluster.gpu.kernels", {**gpu.kernels, self.kernel: made})


def parse_constants(names: Sequence[str], scenarios: Sequence[Scenario]) -> list[Constant]:
    """The constants of these names, each once. Raises InputError with every name that is not known.

    `kernels.NAME` is the slope of an affine curve, the coefficient of n log n, and a factor on a piecewise one; a
    kernel without a curve has that of its estimate. `kernels.NAME.intercept`: the start-up. `runtime.NAME`: a cost of
    the runtime. `network.NAME`: what the network states.
    """
    known = known_constants(scenarios[0]) if scenarios else {}
    if unknown := [name for name in names if name not in known]:
        what = "kernels.NAME, runtime.NAME or network.NAME"
        raise InputError(Problem("calibrate", what, name, suggest_nearest(name, known)) for name in unknown)
    return list({known[name].name: known[name] for name in names}.values())


def known_constants(scenario: Scenario) -> dict[str, Constant]:
    """Every constant that a scenario has, by each of its names."""
    gpu, made = scenario.cluster.gpu, dict[str, Constant]()
    for kernel in dict.fromkeys((*gpu.kernels, *KERNELS)):
        if kernel in HOST_KERNELS or gpu.ideal:
            continue
        for part, start in reversed(_PARTS[type(curve_of(gpu, kernel))].items()):
            own = Constant(f"kernels.{kernel}.{part}", "" if part == "scale" else "s", start)
            made[own.name] = made[f"kernels.{kernel}"] = own
    for name, cost in RUNTIME_COSTS.items():
        made[f"runtime.{name}"] = Constant(f"runtime.{name}", cost.unit, START.get(name, 1e-4))
    for name, unit in _quantities(scenario.cluster.network.model_dump(mode="json"), "network."):
        value = value_at(scenario, f"cluster.{name}")
        if isinstance(value, float) and value > 0:
            made[name] = Constant(name, unit, value)
    return made


def curve_of(gpu: Gpu, kernel: str) -> Curve:
    """The curve of a kernel, its own or its estimate."""
    return gpu.curve(kernel) or gpu.estimate(kernel).curve


def _quantities(data: Mapping[str, Any], above: str) -> Iterator[tuple[str, str]]:
    """Dotted names and units of the quantities in a dumped spec; a quantity above 0 is text with its unit."""
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _quantities(value, f"{above}{key}.")
        elif isinstance(value, str) and (found := _QUANTITY.fullmatch(value)):
            yield f"{above}{key}", found[1]


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
        """Predicted seconds of each row (m,)."""
        return self.times_of([values])[0]

    def times_of(self, points: Sequence[Sequence[float] | Floats]) -> list[Floats]:
        """Predicted seconds of each row (m,) at each of several values, which are predicted together."""
        runs = list(enumerate(seen for _, seen in self._runs))
        asked = [(number, tuple(float(values[place]) for place in seen)) for values in points for number, seen in runs]
        new = dict.fromkeys(each for each in asked if each not in self._known)
        made = dict(zip(new, self._predict(list(new)), strict=True))
        seconds = np.zeros((len(points), len(self.rows)))
        for place, each in enumerate(asked):
            rows, _ = self._runs[each[0]]
            seconds[place // len(runs), rows] = self._known.get(each, partial(made.__getitem__, each))
        return [*np.maximum(seconds, _NEVER)]

    def _predict(self, asked: Sequence[tuple[int, tuple[float, ...]]]) -> list[list[float]]:
        """Seconds of the rows of runs, each with the values of the constants that may change it."""
        scenarios = [self._with_values(*each) for each in asked]
        made = []
        for place, prediction in enumerate(run_batch(scenarios, intervals=False)):
            number, values = asked[place]
            rows = [self.rows[row] for row in self._runs[number][0]]
            if isinstance(prediction, InputError):
                # With no constant changed that is the row's own fault; otherwise no value so far off is the right one.
                if not values:
                    run(scenarios[place])  # raises the error that says what would help
                made.append([_IMPOSSIBLE] * len(rows))
            else:
                made.append([predicted_value(row.quantity, prediction) for row in rows])
        return made

    def _with_values(self, number: int, values: Sequence[float]) -> Scenario:
        places, seen = self._runs[number]
        scenario = with_value(self.rows[places[0]].scenario, "measured", None)
        for place, value in zip(seen, values, strict=True):
            scenario = self.constants[place].put(scenario, value)
        return scenario

    @cached_property
    def _runs(self) -> list[tuple[list[int], list[int]]]:
        """Rows of each scenario, and the constants that may change them; kernels that it does not use can't."""
        made = []
        for places in group_by(range(len(self.rows)), lambda place: id(self.rows[place].scenario)).values():
            kernels = plan_of(self.rows[places[0]].scenario).work.kernels
            used = {*kernels, *_ALWAYS}
            seen = [i for i, item in enumerate(self.constants) if item.owner != "gpu" or item.kernel in used]
            made.append((places, seen))
        return made

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
        made = np.zeros((len(self.measured), len(values)))
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
                seconds = self.times_of([factors * self._start for factors in tried])
                errors = [float(np.square(np.log(each / self.measured)).sum()) for each in seconds]
                start = tried[errors.index(min(errors))]
        else:
            start = np.clip(near / self._start, 1.01 * _LOWEST, 0.99 * _HIGHEST)
        found, _ = least_squares(at, start, (_LOWEST, _HIGHEST), step=STEP, tolerance=1e-6)
        ends = [item.no_cost for item in self.constants]
        is_cost = np.array([item.no_cost == 0.0 for item in self.constants])
        off = np.where(is_cost, found < _TRIED[0], found > _TRIED[-1])
        values: Floats = np.where(off, ends, found * self._start)
        return values

    def without(self, place: int) -> IterationModel:
        """The other constants, with this one at no cost in every row."""
        gone = self.constants[place]
        bare = {id(row.scenario): gone.put(row.scenario, gone.no_cost) for row in self.rows}
        rows = [replace(row, scenario=bare[id(row.scenario)]) for row in self.rows]
        return IterationModel(rows, self.constants[:place] + self.constants[place + 1 :])


def distinct_scenarios(rows: Sequence[MeasuredRow]) -> list[Scenario]:
    """The scenarios of rows, each once."""
    return list({id(row.scenario): row.scenario for row in rows}.values())
