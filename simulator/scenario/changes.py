"""A scenario with one thing changed: a value, its randomness, or the time of its kernels and its compute."""

from __future__ import annotations

from typing import Any, TypeVar

from simulator.component import Spec
from simulator.hardware.cost_widths import fill_costs
from simulator.hardware.gpu import Gpu
from simulator.models.curves import Affine, Curve, NLogN
from simulator.models.layers import Workload
from simulator.models.small_cache import ResultsOfObjects
from simulator.records import replace
from simulator.scenario.named_parts import read_runtime
from simulator.scenario.scenario import Scenario

INFINITE = 1e18
"""Bytes per second that stand for an infinite bandwidth."""
AnySpec = TypeVar("AnySpec", bound=Spec)


def with_value(spec: AnySpec, key: str, value: Any) -> AnySpec:
    """A copy with the dotted `key` set to a value that is already validated."""
    head, _, rest = key.partition(".")
    return spec.model_copy(update={head: with_value(getattr(spec, head), rest, value) if rest else value})


def with_runtime(scenario: Scenario, name: str) -> Scenario:
    """The scenario with the software of this name or file on its GPUs. Raises InputError where there is none."""
    runtime = fill_costs(read_runtime(name), scenario.cluster.gpu.framework)
    return with_value(scenario, "cluster.runtime", runtime)


def value_at(spec: Spec, key: str) -> Any:
    """The value at a dotted key; None where the key does not exist."""
    value: Any = spec
    for part in key.split("."):
        value = getattr(value, part, None)
    return value


def without_randomness(scenario: Scenario) -> Scenario:
    """Without differences from iteration to iteration, so that one iteration represents all; itself without any."""
    cluster = scenario.cluster
    others = tuple(with_value(item, "gpu", without_spread(item.gpu)) for item in cluster.other_gpus)
    changes = {"gpu": without_spread(cluster.gpu), "other_gpus": others}
    if not cluster.stragglers.jitter and all(getattr(cluster, name) == value for name, value in changes.items()):
        return scenario
    changes["stragglers"] = cluster.stragglers.model_copy(update={"jitter": 0.0})
    return with_value(scenario, "cluster", cluster.model_copy(update=changes))


def without_measured_collectives(scenario: Scenario) -> Scenario:
    """By the link law alone: a measured collective holds at one bandwidth and latency only."""
    return with_value(scenario, "cluster.network.measured", ())


def without_spread(gpu: Gpu) -> Gpu:
    """The GPU with kernels that always take the same time."""
    if not any(curve.spread for curve in gpu.kernels.values()):
        return gpu
    kernels = {name: curve.model_copy(update={"spread": 0.0}) for name, curve in gpu.kernels.items()}
    return gpu.model_copy(update={"kernels": kernels})


def scale_curve(curve: Curve, factor: float) -> Curve:
    """The curve with every time multiplied by `factor`."""
    if isinstance(curve, Affine | NLogN):
        keys = ("intercept", "slope" if isinstance(curve, Affine) else "coefficient")
        return curve.model_copy(update={key: getattr(curve, key) * factor for key in keys})
    return curve.model_copy(update={"points": tuple((size, seconds * factor) for size, seconds in curve.points)})


def scale_compute(scenario: Scenario, factor: float) -> Scenario:
    """The scenario whose model computes `factor` times as long on one GPU, its host's launches included."""
    workload = scenario.workload
    made = changed_workloads.get((workload,), lambda: _scale(workload, factor), factor)
    return with_value(scenario, "workload", made)


changed_workloads: ResultsOfObjects[Workload] = ResultsOfObjects(16)
"""Workloads with all of their layers changed, which predictions with one model have in common."""


def _scale(workload: Workload, factor: float) -> Workload:
    if workload.compute_time is not None:
        return with_value(workload, "compute_time", workload.compute_time * factor)
    times = ("forward", "backward", "forward_host", "backward_host")
    layers = tuple(
        replace(layer, **{name: getattr(layer, name) * factor for name in times}) for layer in workload.layers
    )
    return with_value(workload, "layers", layers)
