"""A sharded model of equal blocks, for tests of what GPUs do together to train it."""

from simulator.prediction.run import run
from simulator.scenario.scenario import Scenario

BLOCKS, NUMEL = 4, 64 * 10**6
"""Blocks of the model, and parameters of each."""
PARAMETERS = BLOCKS * NUMEL


def sharded(scheduler, *, nodes=4, gpus_per_node=4, micro_batches=1, gpu="gpus/ideal", network=None, **parts):
    """A model of equal blocks, 1 s forward and 2 s backward in all, on a network of 10 GB/s a NIC without latency."""
    layers = [
        {"name": f"h.{number}.w", "numel": NUMEL, "forward": 1 / BLOCKS, "backward": 2 / BLOCKS}
        for number in range(BLOCKS)
    ]
    workload = {
        "batch_size": 12, "micro_batches": micro_batches, "layers": layers, "optimiser": "adam",
        "precision": {"gradients": "bf16", "travels": "fp32"},
    }  # fmt: skip
    inside = {"bandwidth": "100 GB/s", "latency": "0 s"}
    fabric = {"kind": "single_switch", "bandwidth": "10 GB/s", "latency": "0 s", "intra_node": inside} | (network or {})
    cluster = {"nodes": nodes, "gpus_per_node": gpus_per_node, "gpu": gpu, "network": fabric}
    if "runtime" in parts:
        cluster["runtime"] = parts.pop("runtime")
    asked = {"name": "sharded", "workload": workload | parts.pop("workload", {}), "cluster": cluster}
    rest = {"topology": "ring", "sparsifier": "dense", "ignore_memory": True, "versus": "none", **parts}
    return Scenario.model_validate(asked | rest | {"scheduler": scheduler})


def predicted(scheduler, **parts):
    return run(sharded(scheduler, **parts), intervals=False)


def sent(scheduler, **parts):
    """Bytes that a GPU sends in an iteration."""
    return predicted(scheduler, **parts).result.traffic.sent_per_worker
