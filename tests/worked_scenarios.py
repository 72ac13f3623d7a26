"""Small scenarios whose times can be worked out by hand, as a person writes them."""

import pytest

from simulator.scenario.cluster import Cluster

M = 1_000_000
IDEAL = {"name": "ideal", "ideal": True}
_COLUMNS = ("forward", "backward", "forward_host", "backward_host")


def worked(layers, *, bandwidth=4e6, latency=0.0, network=None, workload=None, **parts):
    """Two ideal GPUs on a switch where an all-reduce of a million elements takes 1 s, unless told otherwise.

    Layers are (millions of elements, seconds of forward, of backward, of the host for both), in forward order; `parts`
    are keys of the cluster or of the whole.
    """
    tensors = [
        {"name": f"layer {i}", "numel": max(1, round(n * M))}
        | {name: f"{float(time)} s" for name, time in zip(_COLUMNS, times, strict=False)}
        for i, (n, *times) in enumerate(layers)
    ]
    rates = {"bandwidth": f"{float(bandwidth)} B/s", "latency": f"{float(latency)} s"}
    wires = {"kind": "single_switch", **rates, **(network or {})}
    cluster = {"nodes": 2, "gpu": IDEAL, "network": wires}
    cluster |= {name: parts.pop(name) for name in Cluster.model_fields if name in parts}
    made = {"workload": {"batch_size": 1, "layers": tensors, **(workload or {})}, "cluster": cluster}
    return made | {"topology": "ring", "sparsifier": "dense", "scheduler": "wfbp"} | parts


def exact(seconds):
    """These seconds, to rounding."""
    return pytest.approx(seconds, rel=1e-9)
