"""A small cluster on which methods, schedules and topologies make a difference."""

from simulator.scenario.scenario import Scenario
from simulator.studies.advice.candidates import Candidate, Grid

CARD = {
    "name": "card",
    "memory_bandwidth": 5e11,
    "kernels": {
        "elementwise": {"curve": "affine", "intercept": 1e-5, "slope": 2e-11},
        "topk": {"curve": "affine", "intercept": 2e-5, "slope": 1e-9, "spread": 0.05},
    },
}


IDEAL = {"name": "ideal", "ideal": True}


LAYERS = [
    {"name": f"tensor {i}", "numel": numel, "forward": 1e-3, "backward": 2e-3}
    for i, numel in enumerate((1000, 400_000, 20, 1_500_000, 3000, 800_000))
]


def scenario(bandwidth=1.25e8, latency=5e-5, gpu=CARD, layers=LAYERS, cluster=None, **parts):
    """A small cluster whose network can be felt."""
    switch = {"kind": "single_switch", "bandwidth": bandwidth, "latency": latency}
    made = {
        "workload": {"batch_size": 1, "layers": layers},
        "cluster": {"nodes": 4, "gpu": gpu, "network": switch, **(cluster or {})},
        "topology": "ring",
        "sparsifier": {"kind": "topk", "density": 0.01},
        "scheduler": "wfbp",
        "iterations": 4,
        **parts,
    }
    return Scenario.model_validate(made)


WITH_DENSITY, PLAIN = ("randomk", "threshold", "gtopk"), ("powersgd", "qsgd")
METHODS = (*({"kind": kind, "density": 0.01} for kind in WITH_DENSITY), *({"kind": kind} for kind in PLAIN))
SMALL = Grid(
    methods=tuple(Candidate(method) for method in (None, {"kind": "dense"}, *METHODS)),
    schedulers=(None, {"kind": "sequential"}, {"kind": "bucketed", "bucket_size": "1 MiB"}),
    topologies=(None, {"kind": "tree"}, {"kind": "double_binary_tree"}),
)


DENSE, TOPK = Candidate({"kind": "dense"}), Candidate({"kind": "topk", "density": 0.01})
