"""What a plan is to reach, and what it may change: bandwidth, local steps, density or number of machines."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from pydantic import ValidationError

from simulator.errors import InputError, Problem, suggest_nearest
from simulator.loading.documents import Document, problems_of
from simulator.prediction.result import RunResult
from simulator.records import Record
from simulator.scenario.bandwidths import bandwidth_key
from simulator.scenario.changes import value_at
from simulator.scenario.scenario import Scenario
from simulator.studies.variants.crossing import VariedKey
from simulator.units import parse, show_bandwidth, show_time

_HOUR = 3600.0
_LEAST_GOODPUT = 1e-12
"""In place of none at all, so that the time of what never ends is finite."""
_NEVER = 1e12
"""Seconds, 30,000 years."""
_DAYS = {"d": 24 * _HOUR, "day": 24 * _HOUR, "days": 24 * _HOUR, "hours": _HOUR, "hour": _HOUR, "minutes": 60.0}


class Training(NamedTuple):
    """What a whole training is, for targets of its time and cost: its samples, and the price of one GPU per hour.

    `node_rate`: samples per second of a GPU in a cluster of one node, for the node efficiency. `dense_time`: seconds of
    an iteration of dense at its best, with all that is lost, for what is to be faster.
    """

    samples: float | None = None
    price: float | None = None
    node_rate: float | None = None
    dense_time: float | None = None


class ResultQuantity(NamedTuple):
    """A quantity of a result: its dimension, how it follows from the result, and whether more of it is better.

    `needs`: what a `Training` must state. `over_compute`: whether it is the share of compute in the time, so that
    slower compute raises it. `against`: what the value is compared with, in words.
    """

    dimension: str
    of: Callable[[RunResult, Training], float]
    more: bool
    needs: tuple[str, ...] = ()
    over_compute: bool = False
    against: str = "the value that is given"


def _efficiency(result: RunResult) -> float:
    return result.scaling_efficiency or 0.0


def _goodput(result: RunResult) -> float:
    return 1.0 if result.elastic is None else max(result.elastic.goodput, _LEAST_GOODPUT)


def lasting_time(result: RunResult) -> float:
    """The iteration time with what is lost where machines come and go; very long where the training never ends."""
    return result.iteration_time / _goodput(result)


def _throughput(result: RunResult) -> float:
    return (result.throughput or 0.0) * _goodput(result)


def _seconds(result: RunResult, training: Training) -> float:
    return (training.samples or 0.0) / (_throughput(result) or math.inf)


def _cost(result: RunResult, training: Training) -> float:
    return _seconds(result, training) / _HOUR * result.workers * (training.price or 0.0)


NODE = "node efficiency"
FASTER = "faster than dense"
"""Target of a method: how many times as fast as dense at its best on the same cluster, 1 unless more is asked for."""
_ONE, _COMPUTE, _SINGLE = "one GPU by itself", "an iteration that is all compute", "one node by itself, dense"
_over_compute = partial(ResultQuantity, more=True, over_compute=True)
QUANTITIES: dict[str, ResultQuantity] = {
    "compute utilisation": _over_compute("fraction", lambda r, _: r.compute_utilisation, against=_COMPUTE),
    "scaling efficiency": _over_compute("fraction", lambda r, _: _efficiency(r), against=_ONE),
    NODE: _over_compute(
        "fraction", lambda r, t: (r.throughput or 0.0) / r.workers / (t.node_rate or math.inf), against=_SINGLE
    ),
    "speed-up": _over_compute("number", lambda r, _: r.workers * _efficiency(r), against=_ONE),
    FASTER: ResultQuantity("ratio", lambda r, training: (training.dense_time or 0.0) / lasting_time(r), more=True),
    "throughput": ResultQuantity("throughput", lambda r, _: _throughput(r), more=True),
    "iteration time": ResultQuantity("time", lambda r, _: lasting_time(r), more=False),
    "time": ResultQuantity("time", _seconds, more=False, needs=("samples",)),
    "cost": ResultQuantity("number", _cost, more=False, needs=("samples", "price")),
}
"""Quantities by their names. The node efficiency is the rate of a GPU over that in one node by itself, the speed-up
that over one GPU by itself; time and cost are those of a training. Times, throughput and cost are those with what is
lost where machines come and go."""


class PlanTarget(Record):
    """A quantity and the value that it must have at least, or at most where less of it is better."""

    name: str
    value: float
    training: Training

    @property
    def quantity(self) -> ResultQuantity:
        """What is to be reached."""
        return QUANTITIES[self.name]

    def reached(self, result: RunResult) -> float:
        """The value of the quantity in a result."""
        return self.quantity.of(result, self.training)

    def margin(self, result: RunResult, longer: float = 1.0) -> float:
        """By which share the target is exceeded (below 0: missed), if everything takes `longer` times as long.

        Of a share of compute, all that is not compute takes `longer` times as long.
        """
        value = self.reached(result)
        if self.quantity.over_compute:
            whole = float(result.workers) if self.name == "speed-up" else 1.0
            if 0 < value < whole:
                value = whole / (1 + longer * (whole / value - 1))
            return value / self.value - 1
        return value / longer / self.value - 1 if self.quantity.more else self.value / (value * longer) - 1

    def show(self, value: float) -> str:
        """A value of the quantity with its unit."""
        match self.quantity.dimension:
            case "fraction":
                return f"{100 * value:.1f} %"
            case "time" if value >= _NEVER:
                return "never"
            case "time":
                return show_time(value) if value < _HOUR else f"{value / _HOUR:.4g} h"
            case "throughput":
                return f"{value:.5g} samples/s"
            case "ratio":
                return f"{value:.3g} times as fast"
        return f"{value:.4g}"


def parse_target(text: str, training: Training) -> PlanTarget:
    """Read `compute utilisation 90 %`, `iteration time 200 ms`, `speed-up 30` and alike.

    Raises InputError with what would be right: a quantity, a value with its unit, and what the quantity needs.
    """
    if re.fullmatch(rf"\s*{FASTER}\s*", text, re.IGNORECASE):
        text = f"{FASTER} 1"
    match = re.fullmatch(r"\s*([a-z][a-z -]*?)\s+([-+.\d].*?)\s*", text, re.IGNORECASE)
    name = re.sub(r"\s+", " ", match[1].lower()).replace("utilization", "utilisation") if match else text.strip()
    name = re.sub(r"^speed ?up$", "speed-up", name)
    if match is None or name not in QUANTITIES:
        what = f"a quantity and its value, such as 'compute utilisation 90 %'; quantities are {', '.join(QUANTITIES)}"
        known = name.lower().startswith(tuple(QUANTITIES))
        hint = "the value is a finite number with its unit" if known else suggest_nearest(name, QUANTITIES)
        raise InputError(Problem("target", what, f"'{text}'", hint))
    quantity = QUANTITIES[name]
    absent = [need for need in quantity.needs if getattr(training, need) is None]
    if absent:
        options = " and ".join(f"--{need}" for need in absent)
        raise InputError(Problem(f"target '{name}'", f"{options} of the training", "none"))
    value = _value(match[2], quantity.dimension, name)
    if not value > 0 or (quantity.dimension == "fraction" and value > 1):
        limit = "above 0 and at most 100 %" if quantity.dimension == "fraction" else "above 0"
        raise InputError(Problem(f"target '{name}'", f"a value {limit}", match[2]))
    return PlanTarget(name, value, training)


def _value(text: str, dimension: str, name: str) -> float:
    number, _, unit = text.partition(" ")
    try:
        if dimension == "time" and unit.strip() in _DAYS:
            return float(number) * _DAYS[unit.strip()]
        made = float(text) if dimension in ("number", "ratio") else parse(text, dimension)
    except ValueError as error:
        what = "a number" if dimension in ("number", "ratio") else str(error)
        raise InputError(Problem(f"target '{name}'", what, f"'{text}'")) from None
    if not math.isfinite(made):
        raise InputError(Problem(f"target '{name}'", "a finite number", f"'{text}'"))
    return made


_MOST_GPUS = 1024
NAMES = ("bandwidth", "inner_steps", "density", "nodes")


class Unknown(VariedKey, kw_only=True):
    """An axis of the scenario, its name, and whether as little as possible is wanted.

    `least`: whether the least value that meets the target is asked for, or the most; of nodes, whichever end of their
    range meets it.
    """

    name: str
    least: bool

    def at(self, scenario: Scenario, value: float) -> Scenario:
        """The scenario with that value. Raises InputError where it does not fit the others."""
        made = VariedKey.at(self, scenario, value)
        if self.name != "nodes":
            return made
        try:
            return Scenario.model_validate(made.resolved())
        except ValidationError as error:
            raise InputError(problems_of(error, Document(f"with {round(value)} nodes", None, {}))) from None

    def show(self, value: float) -> str:
        """A value with its unit."""
        if self.name == "bandwidth":
            return show_bandwidth(value)
        return f"{round(value):,}" if self.whole else f"{value:.4g}"


def unknowns_of(scenario: Scenario, wanted: Sequence[str] = ()) -> list[Unknown]:
    """The unknowns of those names that the scenario has; without names all of them.

    Raises InputError for an unknown name, and for one that the scenario has no value of.
    """
    known = {item.name: item for item in _all(scenario)}
    hints = {
        "inner_steps": f"scheduler {scenario.scheduler.kind} exchanges gradients in every step",
        "density": f"sparsifier {scenario.sparsifier.kind} has no density",
    }
    what, got = f"one of {', '.join(NAMES)}", f"'{scenario.name}'"
    problems = [Problem("vary", what, f"'{n}'", suggest_nearest(n, NAMES)) for n in wanted if n not in NAMES]
    absent = [n for n in wanted if n not in known]
    problems = problems or [Problem("vary", f"a scenario with {n}", got, hints.get(n, "")) for n in absent]
    if problems:
        raise InputError(problems)
    return [known[name] for name in (wanted or known)]


def _all(scenario: Scenario) -> list[Unknown]:
    cluster, rates, made = scenario.cluster, tuple(10 ** (exponent / 2) for exponent in range(6, 29)), list[Unknown]()
    if cluster.nodes > 1:
        made.append(Unknown(bandwidth_key(scenario), rates, name="bandwidth", least=True))
    if value_at(scenario, "scheduler.inner_steps") is not None:
        steps = tuple(float(2**power) for power in range(20))
        made.append(Unknown("scheduler.inner_steps", steps, whole=True, name="inner_steps", least=True))
    if value_at(scenario, "sparsifier.density") is not None:
        densities = tuple(10 ** (power / 2) for power in range(-12, 1))
        made.append(Unknown("sparsifier.density", densities, name="density", least=False))
    most = max(_MOST_GPUS // cluster.gpus_per_node, 8 * cluster.nodes, 2)
    nodes = tuple(float(2**power) for power in range(1, most.bit_length()))
    made.append(Unknown("cluster.nodes", nodes, whole=True, name="nodes", least=True))
    return made
