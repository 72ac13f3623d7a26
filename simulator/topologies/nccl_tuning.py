"""NCCL's own model of the time of a collective, by which it chooses algorithm and protocol."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from simulator.component import Spec
from simulator.models.curves import Floats
from simulator.models.exchange import Layout
from simulator.units import BytesPerSecond, Seconds

ALGORITHMS = ("tree", "ring")
PROTOCOLS = ("LL", "LL128", "Simple")
EFFICIENCY = {"LL": 0.5, "LL128": 120 / 128, "Simple": 1.0}
"""Share of the bandwidth that carries payload: LL sends a flag with every 4 bytes, LL128 one with every 120."""

# All constants: NVIDIA/nccl, src/graph/tuning.cc, v2.30.7, 2025. Rows: tree, ring; columns: LL, LL128, Simple.
_BASE = np.array([(6.8, 14.0, 8.4), (6.6, 14.0, 8.4)]) * 1e-6
_HOP = {
    "nvlink": np.array([(0.6, 1.25, 4.0), (0.6, 1.9, 3.4)]) * 1e-6,
    "pci": np.array([(1.0, 1.9, 4.0), (1.0, 2.5, 5.7)]) * 1e-6,
    "net": np.array([(5.0, 8.5, 14.0), (2.7, 4.0, 14.0)]) * 1e-6,
}
_POST = {"intel": 1e-6, "amd": 2e-6}  # seconds to post one message to the network; three times as much for Simple

# Highest rate of LL over all channels, in bytes per second: on one node; on two nodes, and on more.
_LL_MOST_INSIDE = {"volta": 39.0e9, "ampere": 87.7e9, "hopper": 141.0e9, "blackwell": 282.0e9}
_LL_MOST_ACROSS = {"intel": (39.0e9, 20.4e9), "amd": (22.5e9, 19.0e9)}
# Highest rate of one channel, in bytes per second: on one node, on two, and on more.
_RING_LL128 = {"volta": 20.0e9, "ampere": 20.0e9, "hopper": 36.7e9, "blackwell": 40.0e9}
_TREE_LL128 = {
    "volta": (20.0e9, 20.0e9, 20.0e9),
    "ampere": (20.0e9, 20.0e9, 20.0e9),
    "hopper": (36.7e9, 36.7e9, 29.0e9),
    "blackwell": (55.6e9, 31.67e9, 20.0e9),
}
_TREE = {
    "volta": (26.5e9, 18.5e9, 10.0e9),
    "ampere": (24.0e9, 23.6e9, 17.8e9),
    "hopper": (38.7e9, 41.4e9, 36.0e9),
    "blackwell": (70.0e9, 42.8e9, 24.0e9),
}
# Share of a tree's bandwidth that is left at 64 B, 128 B, ..., 512 MiB, by protocol.
_TREE_LEFT = np.array(
    [
        [float(share) for share in row.split()]
        for row in (
            "1 1 1 1 .9 .8 .7 .7 .7 .7 .6 .5 .4 .4 .5 .6 .7 .8 .9 1 1 1 1 1",
            "1 1 1 1 1 .9 .8 .8 .8 .7 .6 .6 .6 .6 .6 .6 .8 .9 .9 .9 .9 1 1 1",
            ".9 .9 .9 .9 .9 .9 .9 .8 .7 .6 .6 .5 .5 .5 .5 .6 .7 .8 .7 .7 .8 .9 .9 .9",
        )
    ]
)


class NcclTuning(Spec):
    """What NCCL knows about the machines when it chooses the smallest time = latency + bytes / bandwidth.

    `channels`: number that NCCL opens. `intra_bandwidth`: what all channels together carry inside a node (NCCL uses it
    for two nodes as well); `inter_bandwidth`: across nodes (default: the same). `net_latency`: start-up of the network,
    added to NCCL's constants. `ll128`: set it to false if NCCL does not use LL128; it does over NVLink, with GPUs of
    one kind and NICs near them. The constants are those of NVIDIA/nccl, src/graph/tuning.cc, v2.30.7, 2025. NVLS,
    CollNet and PAT are not among the candidates.

    - `gpu`: generation of the GPUs.
    - `cpu`: vendor of the CPUs.
    - `intra`: links between the GPUs of a node.
    """

    gpu: Literal["volta", "ampere", "hopper", "blackwell"]
    cpu: Literal["intel", "amd"] = "intel"
    intra: Literal["nvlink", "pci"] = "nvlink"
    channels: int = Field(ge=1, le=64)
    intra_bandwidth: BytesPerSecond
    inter_bandwidth: BytesPerSecond | None = None
    net_latency: Seconds = 0.0
    ll128: bool = True

    def seconds(self, primitive: str, nbytes: Floats, layout: Layout) -> Floats:
        """Predicted seconds (2, 3, b) by algorithm, protocol and payload; infinite for pairs that NCCL lacks."""
        latency = np.repeat(self._latency(primitive, layout)[:, :, None], len(nbytes), axis=2)
        bandwidth = np.repeat(self._bandwidth(primitive, layout)[:, :, None], len(nbytes), axis=2)
        power = np.floor(np.log2(np.maximum(nbytes, 1.0) / 64)).astype(np.int64)
        known = (power >= 0) & (power < _TREE_LEFT.shape[1])
        bandwidth[0] *= np.where(known, _TREE_LEFT.take(power, axis=1, mode="clip"), 1.0)
        if primitive == "all_reduce" and layout.nodes > 1:
            plateau = nbytes >= 64 * self.channels * layout.workers
            latency[1, 2, plateau] *= 1.9 if self.gpu == "volta" else 1.4
        time: Floats = latency + nbytes / bandwidth
        if primitive != "all_reduce":
            time[0] = np.inf
        if not self.ll128:
            time[:, 1] = np.inf
        return time

    def _latency(self, primitive: str, layout: Layout) -> Floats:
        """Start-up of the whole collective (2, 3)."""
        nodes, each = layout.nodes, layout.gpus_per_node
        inside = _HOP[self.intra]
        # With one GPU per node nothing hides the hops of a ring, and NCCL uses the latency of the tree's.
        across = _HOP["net"][[0, 0]] if each == 1 else _HOP["net"]
        across = across + self.net_latency * np.array([1, 1, 2])
        tree = 2 * ((each - 1) * inside[0] + (nodes.bit_length() - 1) * across[0])
        if primitive == "broadcast":
            ring = (inside if nodes == 1 else _HOP["net"])[1]
        else:
            passes = 2 if primitive == "all_reduce" else 1
            post = _POST[self.cpu] * np.array([1, 1, 3]) if nodes > 1 else 0.0
            hops = layout.workers - nodes
            ring = passes * (hops * np.maximum(inside[1], post) + (nodes - 1) * across[1])
        start_up: Floats = _BASE + np.array([tree, ring])
        return start_up

    def _bandwidth(self, primitive: str, layout: Layout) -> Floats:
        """Bytes of payload per second, (2, 3)."""
        nodes, ranks, channels = layout.nodes, layout.workers, self.channels
        scale = min(nodes, 3) - 1
        bus = self.intra_bandwidth if nodes <= 2 else self.inter_bandwidth or self.intra_bandwidth
        most = _LL_MOST_ACROSS[self.cpu][scale - 1] if scale else _LL_MOST_INSIDE[self.gpu]
        ring = np.array([min(most, 0.5 * bus), min(0.92 * bus, channels * _RING_LL128[self.gpu]), bus])
        whole = min(0.92 * bus, channels * _TREE[self.gpu][scale])
        lines = min(whole * (120 / 128 if scale else 7 / 9), channels * _TREE_LL128[self.gpu][scale])
        tree = np.array([min(whole / 3.8, most), lines, whole]) * (0.85 if layout.gpus_per_node == 1 else 1.0)
        passes = {"all_reduce": 2 * (ranks - 1), "broadcast": ranks}.get(primitive, ranks - 1)
        return np.array([tree / 2, ring * ranks / max(1, passes)])
