"""Constants that can be fitted to whole iterations: of a kernel, of the runtime, of the network, by dotted name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from simulator.errors import InputError, Problem, suggest_nearest
from simulator.hardware.gpu import Gpu
from simulator.hardware.kernels import HOST_KERNELS, KERNELS
from simulator.hardware.runtime import RUNTIME_COSTS
from simulator.models.curves import Affine, Curve, NLogN, Piecewise
from simulator.records import Record
from simulator.scenario.changes import INFINITE, scale_curve, value_at, with_value, without_measured_collectives
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
"""Where the search for a cost of the runtime starts, in SI; 0.1 ms for the other times."""
_PARTS: dict[type[Curve], tuple[str, ...]] = {
    Affine: ("slope", "intercept"),
    NLogN: ("coefficient", "intercept"),
    Piecewise: ("scale",),
}
"""What can be fitted of a curve; the first is meant where only the kernel is named."""
_PART_START = {"slope": 1e-11, "intercept": 1e-5, "coefficient": 1e-10, "scale": 1.0}
_QUANTITY = re.compile(r"\S+ (s|B/s)")


class Constant(Record):
    """A constant with its unit (s, B/s, or none), where the search for it starts, and how a scenario takes it.

    `read` gives its value in a scenario (0 where it has none), `put` a scenario with another one.
    """

    name: str
    unit: str
    start: float
    read: Callable[[Scenario], float]
    put: Callable[[Scenario, float], Scenario]

    @property
    def owner(self) -> str:
        """The config that it stands in: `gpu`, `runtime` or `network`."""
        room = self.name.partition(".")[0]
        return "gpu" if room == "kernels" else room

    @property
    def no_cost(self) -> float:
        """The value at which it costs nothing: 0, or a bandwidth that is as good as infinite."""
        return INFINITE if self.unit == "B/s" else 0.0


def parse_constants(names: Sequence[str], scenarios: Sequence[Scenario]) -> list[Constant]:
    """The constants of these names, each once. Raises InputError with every name that is not known.

    `kernels.NAME` is the slope of an affine curve, the coefficient of n log n, and a factor on a piecewise one; a
    kernel without a curve has that of its estimate. `kernels.NAME.intercept`: the start-up. `runtime.NAME`: a cost of
    the runtime. `network.NAME`: what the network states.
    """
    made: dict[str, Constant] = {}
    problems = []
    known = known_constants(scenarios[0]) if scenarios else {}
    for name in names:
        found = known.get(name)
        if found is None:
            hint = suggest_nearest(name, known)
            problems.append(Problem("calibrate", "kernels.NAME, runtime.NAME or network.NAME", name, hint))
        else:
            made[found.name] = found
    if problems:
        raise InputError(problems)
    return list(made.values())


def known_constants(scenario: Scenario) -> dict[str, Constant]:
    """Every constant that a scenario has, by each of its names."""
    gpu, made = scenario.cluster.gpu, dict[str, Constant]()
    for kernel in dict.fromkeys((*gpu.kernels, *KERNELS)):
        if kernel in HOST_KERNELS or gpu.ideal:
            continue
        parts = _PARTS[type(curve_of(gpu, kernel))]
        for part in reversed(parts):
            made[f"kernels.{kernel}.{part}"] = made[f"kernels.{kernel}"] = _kernel_constant(kernel, part)
    made |= {f"runtime.{name}": runtime_constant(name) for name in FITTABLE}
    made |= {item.name: item for item in _network_constants(scenario)}
    return made


def curve_of(gpu: Gpu, kernel: str) -> Curve:
    """The curve of a kernel, its own or its estimate."""
    return gpu.curve(kernel) or gpu.estimate(kernel).curve


def runtime_constant(name: str) -> Constant:
    """A cost of the runtime as a constant."""
    key = f"cluster.runtime.{name}"
    return Constant(
        f"runtime.{name}",
        RUNTIME_COSTS[name].unit,
        START.get(name, 1e-4),
        lambda scenario: float(value_at(scenario, key) or 0.0),
        lambda scenario, value: with_value(scenario, key, value),
    )


def _kernel_constant(kernel: str, part: str) -> Constant:
    def read(scenario: Scenario) -> float:
        return 1.0 if part == "scale" else float(getattr(curve_of(scenario.cluster.gpu, kernel), part))

    def put(scenario: Scenario, value: float) -> Scenario:
        gpu = scenario.cluster.gpu
        curve = curve_of(gpu, kernel)
        # A piecewise curve has no time of 0: its points are times on a log axis.
        made = scale_curve(curve, max(value, 1e-9)) if part == "scale" else curve.model_copy(update={part: value})
        return with_value(scenario, "cluster.gpu.kernels", {**gpu.kernels, kernel: made})

    return Constant(f"kernels.{kernel}.{part}", "" if part == "scale" else "s", _PART_START[part], read, put)


def _network_constants(scenario: Scenario) -> Iterator[Constant]:
    """Times and rates that the network states, above 0."""
    for name, unit in _quantities(scenario.cluster.network.model_dump(mode="json")):
        key = f"cluster.network.{name}"
        value = value_at(scenario, key)
        if isinstance(value, float) and value > 0:
            yield _network_constant(name, unit, value)


def _network_constant(name: str, unit: str, start: float) -> Constant:
    key = f"cluster.network.{name}"

    def put(scenario: Scenario, value: float) -> Scenario:
        # A measured collective holds at one bandwidth and latency only.
        return with_value(without_measured_collectives(scenario), key, value)

    return Constant(f"network.{name}", unit, start, lambda scenario: float(value_at(scenario, key) or 0.0), put)


def _quantities(data: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Dotted names and units of the quantities in a dumped spec; a quantity above 0 is text with its unit."""
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _quantities(value, f"{above}{key}.")
        elif isinstance(value, str) and (found := _QUANTITY.fullmatch(value)):
            yield f"{above}{key}", found[1]
