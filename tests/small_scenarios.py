"""Small scenarios, from what matters of them."""

from simulator.scenario.scenario import Scenario


def small_scenario(workload, gpu, network, nodes=2, cluster=None, **parts):
    """A cluster on a single switch; one sample, dense gradients, a ring and WFBP where nothing else is stated."""
    switch = {"kind": "single_switch", **network}
    made = {"workload": {"batch_size": 1, **workload}, "topology": "ring", "sparsifier": "dense", "scheduler": "wfbp"}
    made["cluster"] = {"nodes": nodes, "gpu": gpu, "network": switch, **(cluster or {})}
    return Scenario.model_validate({**made, **parts})
