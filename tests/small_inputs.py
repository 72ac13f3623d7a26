"""A small scenario and a small sweep as texts, which tests change word by word."""

from simulator.loading.documents import parse_document

NETWORK = "{kind: single_switch, bandwidth: 10 Gbit/s, latency: 50 us}"
SCENARIO = f"""name: small
workload: {{batch_size: 1, layers: [{{name: a, numel: 1000, backward: 1 ms}}, {{name: b, numel: 10}}]}}
cluster:
  nodes: 4
  gpu: gpus/ideal
  network: {NETWORK}
topology: ring
sparsifier: {{kind: topk, density: 0.01}}
scheduler: wfbp
"""
WHOLE = parse_document(SCENARIO).data | {
    "cluster": parse_document(SCENARIO).data["cluster"] | {
        "gpu": {"name": "x", "kernels": {"topk": {"curve": "affine", "slope": "1 ns"}}},
        "runtime": {"negotiation": "1 ms", "compute_slowdown": 0.1}, "stragglers": {"jitter": 0.1},
    },
    "overlap_concentration": 30, "iterations": 2,
}  # fmt: skip
LAYERS = "{name: a, numel: 100000, backward: 1 ms}, {name: b, numel: 10}"
BASE = f"""base:
  name: small
  workload: {{batch_size: 1, layers: [{LAYERS}]}}
  cluster: {{nodes: 4, gpu: gpus/ideal, network: {{kind: single_switch, bandwidth: 10 Gbit/s, latency: 50 us}}}}
  topology: ring
  sparsifier: {{kind: topk, density: 0.01}}
  scheduler: wfbp
"""
VARY = """vary:
  sparsifier: [dense, topk, {kind: randomk}]
  sparsifier.density: {from: 1e-4, to: 0.5, scale: log, points: 4}
  cluster.nodes: [1, 2, 4, 8]
  cluster.network.bandwidth: {from: 100 Mbit/s, to: 100 Gbit/s, scale: log, points: 5}
"""
NOTHING = {
    "name": "nothing",
    "workload": {"batch_size": 8, "layers": [{"name": "a", "numel": 1000}]},
    "cluster": {"nodes": 1, "gpu": "gpus/ideal", "network": {"kind": "single_switch", "bandwidth": "1 GB/s"}},
    "topology": "ring",
    "sparsifier": "dense",
    "scheduler": "wfbp",
}
"""One worker without work: its iteration takes no time."""
