"""Axes along which methods are compared: the bandwidth and the number of workers."""

from __future__ import annotations

from simulator.scenario.scenario import Scenario
from simulator.studies.variants.crossing import VariedKey

DECADES = (7, 11)
"""Powers of ten, in bytes per second, between which bandwidths are tried."""
PER_DECADE = 2
MOST_WORKERS = 256


def bandwidth_axis(scenario: Scenario, per_decade: int = PER_DECADE) -> VariedKey:
    """The bandwidth of the NICs, or inside the node where there is only one node."""
    inside = scenario.cluster.nodes == 1 and scenario.cluster.network.intra_node is not None
    low, high = DECADES
    tried = tuple(10 ** (low + i / per_decade) for i in range(per_decade * (high - low) + 1))
    return VariedKey("cluster.network.intra_node.bandwidth" if inside else "cluster.network.bandwidth", tried)


def nodes_axis(scenario: Scenario) -> VariedKey:
    """The number of nodes, or of GPUs where there is only one node."""
    cluster = scenario.cluster
    one = cluster.nodes == 1 and cluster.gpus_per_node > 1
    each = 1 if one else cluster.gpus_per_node
    most = max(MOST_WORKERS // each, 2)
    tried = tuple(float(2**i) for i in range(17) if (1 if each > 1 else 2) <= 2**i <= most)
    return VariedKey("cluster.gpus_per_node" if one else "cluster.nodes", tried, whole=True)
