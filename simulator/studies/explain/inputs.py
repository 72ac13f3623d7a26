"""The numeric inputs that a prediction depends on, and scenarios in which one of them is scaled."""

from __future__ import annotations

from collections.abc import Callable

from simulator.hardware.runtime import RUNTIME_COSTS
from simulator.prediction.run import plan_of
from simulator.records import Record
from simulator.scenario.changes import scale_compute, scale_curve, value_at, with_value
from simulator.scenario.scenario import Scenario

_NETWORK = {
    "cluster.network.bandwidth": ("B/s", "network bandwidth"),
    "cluster.network.latency": ("s", "network latency"),
    "cluster.network.intra_node.bandwidth": ("B/s", "bandwidth inside nodes"),
    "cluster.network.intra_node.latency": ("s", "latency inside nodes"),
    "cluster.network.hop_latency": ("s", "latency per hop"),
    "cluster.network.uplink": ("B/s", "bandwidth of the uplinks"),
    "cluster.network.oversubscription": ("", "oversubscription"),
    "cluster.network.between.rate": ("B/s", "bandwidth between sites"),
    "cluster.network.between.latency": ("s", "latency between sites"),
    "cluster.network.between.loss": ("", "loss between sites"),
    "cluster.network.store.bandwidth": ("B/s", "bandwidth of the store"),
    "cluster.network.store.latency": ("s", "latency of the store"),
}
_OTHERS = {
    "workload.input_time": ("s", "loading time of a batch"),
    "cluster.loading.rate": ("samples/s", "rate of data loading"),
    "cluster.stragglers.jitter": ("", "jitter"),
    "overlap_concentration": ("", "overlap concentration"),
}
_RUNTIME = {f"cluster.runtime.{name}": (cost.unit, cost.label) for name, cost in RUNTIME_COSTS.items()}
_NODES, _DENSITY, _COMPUTE = "cluster.nodes", "sparsifier.density", "workload.compute_time"
_KERNELS, _MEMORY = "cluster.gpu.kernels.", "cluster.gpu.memory_bandwidth"
_LABELS = {key: label for key, (_, label) in (_NETWORK | _OTHERS | _RUNTIME).items()} | {
    _NODES: "number of nodes",
    _DENSITY: "density",
    _COMPUTE: "compute time",
    _MEMORY: "GPU memory bandwidth",
}


class Input(Record):
    """A numeric input: its dotted key, value and unit, and a function that scales it in a scenario.

    `scale` takes a scenario and a factor, and returns None where the input cannot have that value. `network`: a
    property of the network. `whole`: a whole number.
    """

    key: str
    value: float
    unit: str
    scale: Callable[[Scenario, float], Scenario | None]
    network: bool = False
    whole: bool = False


def input_label(key: str) -> str:
    """What an input is called in a sentence.

    >>> input_label("workload.compute_time"), input_label("cluster.gpu.kernels.topk")
    ('compute time', 'topk kernel time')
    """
    return _LABELS.get(key) or f"{key.removeprefix(_KERNELS)} kernel time"


def inputs_of(scenario: Scenario) -> list[Input]:
    """The inputs of network, cluster, method, compute, kernels and runtime that the scenario uses."""
    made = [_plain_input(scenario, key, unit, network=True) for key, (unit, _) in _NETWORK.items()]
    made.append(Input(_NODES, float(scenario.cluster.nodes), "", _scale_nodes, whole=True))
    if "density" in type(scenario.sparsifier).model_fields:
        made.append(Input(_DENSITY, float(value_at(scenario, _DENSITY)), "", _scale_density))
    plan = plan_of(scenario)
    compute = plan.work.compute_alone
    if compute:
        made.append(Input(_COMPUTE, compute + plan.work.update, "s", scale_compute))
    made += [_plain_input(scenario, key, unit) for key, (unit, _) in _OTHERS.items()]
    made += _kernel_inputs(scenario, set(plan.work.kernels) | {"update"})
    made += [_plain_input(scenario, key, unit) for key, (unit, _) in _RUNTIME.items()]
    return [item for item in made if item.value]


def _kernel_inputs(scenario: Scenario, used: set[str]) -> list[Input]:
    """The scale of every measured curve that is used, and the input that kernels without a curve depend on."""
    gpu = scenario.cluster.gpu
    if gpu.ideal:
        return []
    not_measured = any(gpu.curve(kernel) is None for kernel in used)
    floor = "elementwise" in gpu.kernels
    made = [
        Input(_KERNELS + kernel, 1.0, "times as long", _scale_kernel(kernel))
        for kernel in sorted(gpu.kernels)
        if kernel in used or (kernel == "elementwise" and (not_measured or "residual_add" in used))
    ]
    return [*made, _plain_input(scenario, _MEMORY, "B/s")] if not_measured and not floor else made


def _plain_input(scenario: Scenario, key: str, unit: str, network: bool = False) -> Input:
    """The input that is the value at a key; its value is 0 where the scenario does not have it."""

    def scale(changed: Scenario, factor: float) -> Scenario:
        return with_value(changed, key, value_at(changed, key) * factor)

    return Input(key, float(value_at(scenario, key) or 0.0), unit, scale, network)


def _scale_density(scenario: Scenario, factor: float) -> Scenario:
    return with_value(scenario, _DENSITY, min(1.0, value_at(scenario, _DENSITY) * factor))


def _scale_nodes(scenario: Scenario, factor: float) -> Scenario | None:
    nodes = round(scenario.cluster.nodes * factor)
    return with_value(scenario, _NODES, nodes) if nodes >= 1 else None


def _scale_kernel(name: str) -> Callable[[Scenario, float], Scenario]:
    def scale(scenario: Scenario, factor: float) -> Scenario:
        kernels = scenario.cluster.gpu.kernels
        return with_value(scenario, "cluster.gpu.kernels", {**kernels, name: scale_curve(kernels[name], factor)})

    return scale
