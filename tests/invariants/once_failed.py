"""Small scenarios in which an invariant did not hold once."""

_SWITCH = {"kind": "single_switch", "bandwidth": 1e9, "latency": 1.5e-5}
_ONE = {"batch_size": 8, "layers": [{"name": "a", "numel": 85515, "backward": 0.008}]}
_NO_FORWARD = {"batch_size": 8, "input_time": 0.00590706194953503, "layers": [{"name": "a", "numel": 289}]}

_SMALL = {"batch_size": 8, "layers": [{"name": "a", "numel": 227}]}
_KERNELS = {"elementwise": {"curve": "piecewise", "points": [[10000, 8e-5], [1000000, 8e-4]]}}
_OTHER = [{"nodes": [1], "gpu": {"name": "card", "kernels": _KERNELS}, "factor": 2}]
_IDEAL = {"name": "card", "ideal": True}


def _made(topology, sparsifier, scheduler, *, workload=None, network=None, other_jobs=(), **cluster):
    cluster = {"nodes": 3, "gpu": {"name": "card"}, "network": _SWITCH | (network or {}), **cluster}
    parts = {"topology": topology, "sparsifier": sparsifier, "scheduler": scheduler, "other_jobs": list(other_jobs)}
    return {"workload": workload or _ONE, "cluster": cluster, "iterations": 2, **parts}


_NEIGHBOUR = {
    "nodes": [1, 2],
    "workload": {"batch_size": 1, "layers": [{"name": name, "numel": 10**5, "backward": 1e-3} for name in "ab"]},
    **{"topology": "nccl", "sparsifier": "dense", "scheduler": "asc_wfbp"},
}
_SIX = {
    "batch_size": 8,
    "micro_batches": 4,
    "precision": {"gradients": "fp16", "residuals": "fp16"},
    "layers": [
        {
            "name": "part0.0",
            "numel": 507480,
            "forward": 0.0001775377464810588,
            "backward": 0.0020898256702774035,
            "rows": {"count": 12, "width": 1},
        },
        {"name": "part2.1", "numel": 405, "forward": 3.713018893624786e-05, "backward": 0.00015607858060677927},
        {"name": "part0.2", "numel": 4376, "forward": 0.0, "backward": 9.146336116054143e-05},
        {"name": "part0.3", "numel": 321, "forward": 0.0, "backward": 0.00022375115313810108},
        {"name": "part2.4", "numel": 10371, "forward": 0.0, "backward": 2.523831936663705e-05},
        {"name": "part0.5", "numel": 3862, "forward": 0.0, "backward": 0.0004465002077246879},
    ],
}
_CARD = {
    "name": "card",
    "memory_bandwidth": 1046407676708.1896,
    "fp32_rate": 1e13,
    "clock": 1.5e9,
    "multiprocessors": 80,
    "kernels": {
        "elementwise": {"curve": "affine", "intercept": 7.0937334007756945e-06, "slope": 7.822720086517784e-11},
        "topk": {"curve": "n_log_n", "intercept": 2.8065823466124434e-05, "coefficient": 1.4474914421398808e-11},
        "compact": {
            "curve": "piecewise",
            "points": [
                [10, 1.9185322149131694e-06],
                [10000.0, 3.837064429826339e-06],
                [1000000.0, 3.837064429826339e-05],
            ],
        },
        "sort": {
            "curve": "piecewise",
            "points": [
                [10, 4.882023838306706e-05],
                [10000.0, 9.764047676613412e-05],
                [1000000.0, 0.0009764047676613412],
            ],
        },
    },
}
ONCE_FAILED = {
    "which of two messages took a token bucket's bytes first depended on a hash of the latencies": _made(
        "recursive_doubling",
        {"kind": "qsgd", "levels": 29},
        "wfbp",
        gpus_per_node=3,
        network={"bandwidth": 984700544.9943334, "latency": 1.4330765344542363e-05, "burst": 307245.01772770024},
    ),
    "forward passes that take no time took less than none": _made(
        "nccl", "inceptionn", "omgs", nodes=1, gpus_per_node=3, workload=_NO_FORWARD,
        runtime={"compute_slowdown": 0.37648458580073174}, stragglers={"jitter": 0.2954706597925824},
    ),
    "an iteration was shorter than the loading of its batches": _made(
        "halving_doubling", "dense", "decoupled", nodes=2, loading={"rate": 400}
    ),
    "cycles of the runtime that a wait shifts found the tensors sooner, before the batches were loaded": _made(
        "halving_doubling", "sketch", "wfbp", network={"bandwidth": 865382186.9098238, "latency": 0.000387378898166},
        workload={"batch_size": 8, "micro_batches": 4, "layers": [{"name": "a", "numel": 1810, "forward": 2.3e-5}]},
        runtime={"cycle_time": 2.6619664267593775e-05}, loading={"rate": 4255.504641959064},
        gpu={"name": "card", "memory_bandwidth": 996523772872.6705},
    ),
    "a neighbour looked for the background's places among its own": _made(
        "ring", "dense", "wfbp", gpus_per_node=2, other_jobs=[_NEIGHBOUR],
        background=[{"source": 2, "destination": 0, "bandwidth": 1e8}],
    ),
    "a link that failed until the batches were loaded had recovered when the exchange began": _made(
        "all_to_all", {"kind": "redsync", "density": 0.10743348113306254}, "lags", nodes=5,
        workload={"batch_size": 8, "layers": [{"name": "a", "numel": 1}]}, network={"bandwidth": 355946400.57411647},
        links=[{"link": "node 2", "factor": 0.5, "until": 0.023029723126815393}], loading={"rate": 250.36482488183745},
    ),
    "the busiest link of a tree over two spines was not always in use": _made(
        "nccl", "powersgd", "omgs", nodes=5, workload={"batch_size": 8, "layers": [{"name": "a", "numel": 5}]},
        network={"kind": "leaf_spine", "bandwidth": 25791928.60109684, "nodes_per_leaf": 1, "spines": 2},
    ),
    "a flow that had ended was still the next one to end, so that the compiled loop never went on": _made(
        {"kind": "gloo", "queue": 186431.87059346828},
        {"kind": "dgc", "density": 0.09228801886577116, "lower": 0.0187726322898102},
        {"kind": "omgs", "streams": 2}, nodes=4, gpu=_CARD, workload=_SIX,
        runtime={"host_element": 1.3622135746916728e-10},
        network={"bandwidth": 213097584.82845914, "latency": 5.274560020786366e-05, "burst": 120487.09191769648},
    ),
    "workers waited for less than nothing, by a rounding of their mean": _made(
        "recursive_doubling", "natural", "decoupled", nodes=4, gpus_per_node=2, gpu=_IDEAL,
        workload={"batch_size": 8, "model": "gpt2", "layers": 1, "hidden": 16, "heads": 2},
        network={"bandwidth": 1238672725.1562252, "latency": 0.0}, runtime={"kernel_launch": 0.0001275633994171908},
        stragglers={"slow": [{"worker": 4, "factor": 1.070304906912873}]},
    ),
    "workers were idle for less than nothing, by a rounding of their mean": _made(
        {"kind": "parameter_server", "servers": 0}, {"kind": "omnireduce", "density": 0.2723433409141396}, "tictac",
        nodes=5, gpu=_IDEAL, workload={"batch_size": 8, "model": "vit", "layers": 1, "hidden": 16, "heads": 2},
        network={
            "kind": "leaf_spine", "bandwidth": 6325359554.3543415, "nodes_per_leaf": 4,
            "latency": 7.331683495802722e-06, "transport": "tcp",
        },
        runtime={"forward_hook": 1.1583713457227266e-05},
        stragglers={"slow": [{"worker": 1, "factor": 3.828250295234432}]},
    ),
    "the fold left out what several messages of one sender cost a NIC whose bandwidth depends on their number": _made(
        "object_store", "terngrad", "sequential", nodes=1, gpus_per_node=2,
        network={"kind": "direct_ring", "bandwidth": 8.4e9, "nics_per_node": 2, "incast": [[2, 0.9]]},
    ),
    "kernels inside exchanges counted as communication of workers that waited longer": _made(
        "gloo", "powersgd", "priority", nodes=2,
        gpu=_OTHER[0]["gpu"], other_gpus=[_OTHER[0] | {"gpu": {"name": "card"}}],
        network={"bandwidth": 5e7, "latency": 0.0},
        workload={
            "batch_size": 8, "precision": "fp16",
            "layers": [{"name": "a", "numel": 5, "forward": 8.9e-5}, {"name": "b", "numel": 62}],
        },
    ),
    "kernels inside exchanges counted as communication where the first worker did not wait": _made(
        "nccl", {"kind": "oktopk", "density": 0.01}, {"kind": "decoupled_diloco", "inner_steps": 3},
        workload=_SMALL, network={"burst": 10683}, other_gpus=_OTHER,
    ),
    "the same with exchanges of their own": _made(
        "gloo", {"kind": "oktopk", "density": 0.1}, {"kind": "decoupled_diloco", "inner_steps": 3, "fragments": 2},
        workload={"batch_size": 8, "layers": [{"name": "a", "numel": 91401}, {"name": "b", "numel": 178}]},
        nodes=4, other_gpus=[_OTHER[0] | {"nodes": [0]}],
    ),
    "unlike workers pushed to servers after every micro-batch": _made(
        "parameter_server", {"kind": "threshold", "density": 0.1}, {"kind": "bucketed", "accumulate": "all"},
        workload=_SMALL | {"micro_batches": 2}, other_gpus=[{"nodes": [1], "gpu": {"name": "card"}, "factor": 2.7}],
    ),
}  # fmt: skip
