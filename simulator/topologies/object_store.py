"""Object store: every worker uploads its payload once and downloads those of the others."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from simulator.hardware.machine import Machine
from simulator.models.curves import Floats
from simulator.models.exchange import Layout, Round, send
from simulator.topologies.base import Rounds, Subset, Topology
from simulator.units import Seconds


class ObjectStore(Topology, kind="object_store"):
    """One store outside the workers: a payload is uploaded once, and downloaded by everybody who needs it.

    Workers never talk to each other, so that they need no address that others can reach; SparseLoCo exchanges its
    pseudo-gradients in this way (Sarfi et al. 2025, arXiv 2508.15706; Covenant-72B, arXiv 2603.08163). The store keeps
    objects and sums nothing: each worker adds up what it downloads. Downloads begin when all uploads have ended, since
    all need the same objects.

    On an idle network with one GPU per node, p workers of S bytes, rates up, down and W of the store each way, and a
    start-up alpha of a message to or from the store, an all-gather takes

        2 alpha + max(S/up, pS/W) + max((p-1) S/down, p(p-1) S/W) + requests * `request`,

    where requests = 1 + ceil((p-1) / `parallel`). An all-reduce takes the same, with S bytes of the dense payload. In a
    broadcast worker 0 uploads, and p-1 workers download S. In a reduce-scatter every worker uploads p-1 parts and
    downloads its own part from p-1 workers. The store is a machine of its own on the network (`store` of fabric
    `wide_area`; on other fabrics a node like the others). A worker is a GPU: describe machines that hold one replica
    together as one GPU.

    - `own`: whether workers download their own payload, too, and upload their own part of a sum.
    - `request`: seconds that the store takes to answer for one object, beside its bytes.
    - `parallel`: objects that a worker asks for at the same time; none: all of them.
    """

    own: bool = False
    request: Seconds = 0.0
    parallel: int | None = Field(default=None, ge=1, le=100_000)

    def layout(self, nodes: int, gpus_per_node: int) -> Layout:
        """The workers, then the store."""
        return Layout(nodes, gpus_per_node, 1)

    def choices(self, primitive: str, nbytes: Floats, layout: Layout, machine: Machine | None = None) -> list[Subset]:
        """All payloads, with the time of their requests beside the links."""
        every = super().choices(primitive, nbytes, layout, machine)[0]
        objects = max(1, layout.workers - (not self.own))
        up = objects if primitive == "reduce_scatter" else 1
        down = 1 if primitive == "broadcast" else objects
        waves = sum(-(-count // (self.parallel or count)) for count in (up, down))
        return [every._replace(beside=np.full(len(nbytes), self.request * waves))]

    def all_reduce(self, nbytes: Floats, layout: Layout) -> Rounds:
        """The payloads of all workers at all workers, each of which adds them up."""
        return self.all_gather(np.repeat(nbytes[:, None], layout.workers, axis=1), layout)

    def all_gather(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Every worker uploads its payload, then downloads all others."""
        whole = np.broadcast_to(nbytes.sum(axis=1, keepdims=True), nbytes.shape)
        return self._by_store(nbytes, whole if self.own else whole - nbytes, layout)

    def reduce_scatter(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Every worker uploads the parts of the others, then downloads its own part of each of them."""
        p = layout.workers
        parts = np.repeat(nbytes[:, None] * (p - (not self.own)) / p, p, axis=1)
        return self._by_store(parts, parts, layout)

    def broadcast(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Worker 0 uploads the payload, all others download it."""
        others = np.arange(1, layout.workers)
        store, whole = np.full_like(others, layout.workers), nbytes[:, None]
        return [send(0 * store[:1], store[:1], whole), send(store, others, whole)] if len(others) else []

    @staticmethod
    def _by_store(up: Floats, down: Floats, layout: Layout) -> Rounds:
        """Uploads of `up` bytes (b, p), then downloads of `down` bytes (b, p)."""
        workers = np.arange(layout.workers)
        store = np.full_like(workers, layout.workers)
        return [Round(workers, store, up), Round(store, workers, down)] if layout.workers > 1 else []
