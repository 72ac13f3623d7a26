"""What a scenario is called where nobody says it: its model, its method and its cluster."""

from __future__ import annotations

from simulator.scenario.scenario import Scenario
from simulator.units import count_of, show_bandwidth


def make_title(scenario: Scenario) -> str:
    """Model, method and cluster: `resnet50, topk 0.001, 32 GPUs over 9.394 Gbit/s`."""
    return f"{model_name(scenario)}, {method_name(scenario)}, {cluster_name(scenario)}"


def model_name(scenario: Scenario) -> str:
    """The workload's name without the GPU that it was timed on."""
    model, _, device = scenario.workload.name.rpartition("-")
    return model if model and device in scenario.workload.device.lower() else scenario.workload.name


def method_name(scenario: Scenario) -> str:
    """The method with its density: `topk 0.01`."""
    density = getattr(scenario.sparsifier, "density", None)
    return scenario.sparsifier.kind + ("" if density is None else f" {density:.4g}")


def cluster_name(scenario: Scenario) -> str:
    """The number of GPUs, and the bandwidth of the network between several nodes: `32 GPUs over 10 Gbit/s`."""
    cluster = scenario.cluster
    gpus = count_of(cluster.workers, "GPU")
    return f"{gpus} over {show_bandwidth(cluster.network.bandwidth)}" if cluster.nodes > 1 else gpus
