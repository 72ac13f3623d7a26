"""Which inputs move an answer: slopes at the scenario, and what half and twice of each would give."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simulator.errors import InputError
from simulator.models.curves import Affine
from simulator.prediction.run import plan_of, run
from simulator.scenario.scenario import Scenario
from simulator.studies.explain.variation import closed_form, get, put, scaled_compute, scaled_curve, without_curves

STEP = 0.01
"""Inputs are moved by this share to either side for a slope."""
ITERATIONS = 40
"""Iterations that a study of slopes averages at most: every run sees the same draws, so few are enough."""
_BESIDE_OTHERS = 3
_STEEP = 3
_NOTHING = 1e-9
_RUNTIME = {
    "kernel_launch": "s",
    "negotiation": "s",
    "cycle_time": "s",
    "collective_launch": "s",
    "gather_overhead": "s",
    "compute_slowdown": "",
    "endpoint_bandwidth": "B/s",
    "message_overhead": "s",
    "host_element": "s",
}
_NETWORK = {
    "cluster.network.bandwidth": "B/s",
    "cluster.network.latency": "s",
    "cluster.network.intra_node.bandwidth": "B/s",
    "cluster.network.intra_node.latency": "s",
    "cluster.network.hop_latency": "s",
    "cluster.network.uplink": "B/s",
    "cluster.network.oversubscription": "",
}

Answer = Callable[[Scenario], float]


def iteration_time(scenario: Scenario) -> float:
    """Seconds per iteration."""
    return float(run(scenario).document["iteration_time_s"])


@dataclass(frozen=True, slots=True)
class Input:
    """A numeric input: its dotted key, value and unit, and the scenario with it times a factor (None: it can't be)."""

    key: str
    value: float
    unit: str
    scaled: Callable[[Scenario, float], Scenario | None]
    network: bool = False
    whole: bool = False


def inputs(scenario: Scenario) -> list[Input]:
    """The numeric inputs that a prediction depends on: network, cluster, method, compute, kernels and software."""
    made = [
        Input(key, float(get(scenario, key)), unit, _times(key), network=True)
        for key, unit in _NETWORK.items()
        if get(scenario, key)
    ]
    made.append(Input("cluster.nodes", float(scenario.cluster.nodes), "", _nodes, whole=True))
    if "density" in type(scenario.sparsifier).model_fields:
        density = float(get(scenario, "sparsifier.density"))
        made.append(Input("sparsifier.density", density, "", _density))
    plan = plan_of(scenario)
    compute = plan.work.forward + float(plan.work.backward.sum())
    if compute:
        made.append(Input("workload.compute_time", compute + plan.work.update, "s", scaled_compute))
    if scenario.workload.input_time:
        made.append(Input("workload.input_time", scenario.workload.input_time, "s", _times("workload.input_time")))
    if scenario.cluster.stragglers.jitter:
        key = "cluster.stragglers.jitter"
        made.append(Input(key, scenario.cluster.stragglers.jitter, "", _times(key)))
    if scenario.overlap_concentration:
        made.append(Input("overlap_concentration", scenario.overlap_concentration, "", _times("overlap_concentration")))
    made += _kernels(scenario, set(plan.work.kernels) | {"update"})
    for term, unit in _RUNTIME.items():
        if getattr(scenario.cluster.runtime, term):
            key = f"cluster.runtime.{term}"
            made.append(Input(key, float(get(scenario, key)), unit, _times(key)))
    return made


def _kernels(scenario: Scenario, used: set[str]) -> list[Input]:
    """The scale of every measured curve that is used, and what prices the kernels without one."""
    gpu = scenario.cluster.gpu
    if gpu.ideal:
        return []
    made = []
    bare = any(kernel not in gpu.kernels for kernel in used)
    floor = isinstance(gpu.kernels.get("elementwise"), Affine)
    for kernel in sorted(gpu.kernels):
        if kernel in used or (kernel == "elementwise" and bare and floor):
            made.append(Input(f"cluster.gpu.kernels.{kernel}", 1.0, "times as long", _kernel(kernel)))
    if bare and not floor and gpu.memory_bandwidth:
        key = "cluster.gpu.memory_bandwidth"
        made.append(Input(key, gpu.memory_bandwidth, "B/s", _times(key)))
    return made


def _times(key: str) -> Callable[[Scenario, float], Scenario]:
    return lambda scenario, factor: put(scenario, key, get(scenario, key) * factor)


def _density(scenario: Scenario, factor: float) -> Scenario:
    return put(scenario, "sparsifier.density", min(1.0, get(scenario, "sparsifier.density") * factor))


def _nodes(scenario: Scenario, factor: float) -> Scenario | None:
    nodes = round(scenario.cluster.nodes * factor)
    return put(scenario, "cluster.nodes", nodes) if nodes >= 1 else None


def _kernel(name: str) -> Callable[[Scenario, float], Scenario]:
    def scaled(scenario: Scenario, factor: float) -> Scenario:
        kernels = scenario.cluster.gpu.kernels
        return put(scenario, "cluster.gpu.kernels", {**kernels, name: scaled_curve(kernels[name], factor)})

    return scaled


def sensitivity(scenario: Scenario, answer: Answer = iteration_time) -> dict[str, Any]:
    """How an answer (default: the iteration time) moves with every numeric input.

    `inputs`, the one that moves it most first: `elasticity` is the slope in percent per percent, from 1 % to either
    side (nodes: one node to either side), `derivative` the same per unit of the input; `at_half` and `at_double` are
    the answer there, None where the parts no longer fit together, and `swing` the largest minus the smallest of the
    three. `top` names the first three, `without_effect` those that change nothing. A measured collective holds at one
    bandwidth and latency only, so inputs of the network are moved by the link law alone, against `base` by that law.
    Where exchanges share links, which takes long to simulate, only the first few have slopes.
    """
    bare, note = closed_form(scenario)
    kept = _BESIDE_OTHERS if bare.other_jobs else ITERATIONS
    bare = bare.model_copy(update={"iterations": min(bare.iterations, kept), "warmup": min(bare.warmup, kept)})
    by_law = without_curves(bare)
    uses_curves = bool(bare.cluster.network.measured)
    base = answer(bare)
    law = answer(by_law) if uses_curves else base
    moved = []
    for item in inputs(bare):
        at = _At(item, by_law if item.network and uses_curves else bare, answer)
        start = law if item.network and uses_curves else base
        reached = {factor: at(factor) for factor in (0.5, 2.0)}
        tried = [start, *(value for value in reached.values() if value is not None)]
        moved.append((max(tried) - min(tried), item, at, start, reached))
    moved.sort(key=lambda one: -one[0])
    steep = len(moved) if not plan_of(bare).live else _STEEP  # exchanges that share links take long to simulate
    rows = [
        _row(item, start, reached, swing, _slope(item, at, start) if place < steep and start > 0 else None)
        for place, (swing, item, at, start, reached) in enumerate(moved)
    ]
    silent = [row["input"] for row in rows if row["swing"] <= _NOTHING * abs(base) and not row["elasticity"]]
    return {
        "base": base,
        "inputs": rows,
        "top": [row["input"] for row in rows[:3] if row["input"] not in silent],
        "without_effect": silent,
        "notes": [note] if note else [],
    }


@dataclass(frozen=True, slots=True)
class _At:
    """The answer with one input times a factor; None where the parts do not fit together there."""

    item: Input
    scenario: Scenario
    answer: Answer

    def __call__(self, factor: float) -> float | None:
        changed = self.item.scaled(self.scenario, factor)
        try:
            return None if changed is None else self.answer(changed)
        except InputError:
            return None


def _row(
    item: Input, base: float, reached: dict[float, float | None], swing: float, elasticity: float | None
) -> dict[str, Any]:
    return {
        "input": item.key,
        "value": item.value,
        "unit": item.unit,
        "base": base,
        "elasticity": elasticity,
        "derivative": None if elasticity is None else elasticity * base / item.value,
        "at_half": reached[0.5],
        "at_double": reached[2.0],
        "swing": swing,
    }


def _slope(item: Input, at: _At, base: float) -> float | None:
    """d ln(answer) / d ln(input) by central difference, one-sided where one side can't be had."""
    step = 1 / item.value if item.whole else STEP
    below, above = at(1 - step), at(1 + step)
    low, high = (base, 0.0) if below is None else (below, -step), (base, 0.0) if above is None else (above, step)
    if low[1] == high[1] or low[0] <= 0 or high[0] <= 0:
        return None
    made = math.log(high[0] / low[0]) / (math.log1p(high[1]) - math.log1p(low[1]))
    return made if abs(made) > _NOTHING else 0.0


def described(result: dict[str, Any]) -> str:
    """The first three inputs in a sentence."""
    parts = []
    for row in [row for row in result["inputs"] if row["input"] in result["top"]]:
        slope = "" if row["elasticity"] is None else f" ({row['elasticity']:+.2f} % per %)"
        parts.append(f"{row['input']}{slope}")
    if not parts:
        return "No input moves it."
    return f"It hangs most on {', '.join(parts)}."


def warnings(result: dict[str, Any]) -> list[str]:
    """One line on inputs that change nothing."""
    silent = result["without_effect"]
    return [f"changes nothing here, from half to twice its value: {', '.join(silent)}"] if silent else []
