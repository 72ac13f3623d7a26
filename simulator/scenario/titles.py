"""What a scenario is called where nobody says it: its model, its method and its cluster."""

from __future__ import annotations

import re
from collections.abc import Sequence

from simulator.scenario.scenario import Scenario
from simulator.units import count_of, show_bandwidth

_MOST_OF_OVERRIDE = 60
"""Characters of an override that a title repeats."""
_CHANGES = re.compile(r" \((?:[^()]* )?with [^()]*=.*\)")


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
    """The number of GPUs, and the bandwidth of the network between several nodes: `32 GPUs over 10 Gbit/s`.

    Where links between switches or sites are stated apart, their bandwidth, too.
    """
    cluster = scenario.cluster
    gpus = count_of(cluster.workers, "GPU")
    if cluster.nodes == 1:
        return gpus
    network = cluster.network
    uplink, rate = getattr(network, "uplink", None), getattr(getattr(network, "between", None), "rate", None)
    between = f" and {show_bandwidth(uplink)} between leaves" if uplink else ""
    between = f" and {show_bandwidth(rate)} between sites" if rate else between
    return f"{gpus} over {show_bandwidth(network.bandwidth)}{between}"


def tell_changes(file: str, changed: Sequence[str]) -> str:
    """What follows a made title: the file and the overrides that changed its prediction; nothing without them.

    >>> tell_changes("quickstart", ["cluster.nodes=16"])
    ' (quickstart with cluster.nodes=16)'
    """
    parts = (item if len(item) <= _MOST_OF_OVERRIDE else f"{item[: _MOST_OF_OVERRIDE - 3]}..." for item in changed)
    return f" ({f'{file} with' if file else 'with'} {', '.join(parts)})" if changed else ""


def leave_out_changes(title: str) -> str:
    """A title without its overrides, for labels.

    >>> leave_out_changes("resnet50, dense, 64 GPUs (quickstart with cluster.nodes=16)")
    'resnet50, dense, 64 GPUs'
    """
    return _CHANGES.sub("", title)
