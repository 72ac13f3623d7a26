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

    On an idle network with one GPU per node, p workers of S bytes, rates up, down and W of the store each way, r of one
    connection over the line to the store, and a start-up alpha of a message to or from it, an all-gather takes

        2 alpha + max(S/up, S/r, pS/W) + max((p-1) S/down, n S/r, p(p-1) S/W) + (1 + n) `request`,

    where n = ceil((p-1) / `parallel`), since each request has connections of its own. An all-reduce takes the same,
    with S bytes of the dense payload. Of payloads of unlike sizes, each connection carries the mean. In a broadcast
    worker 0 uploads, and p-1 workers download S. In a reduce-scatter every worker uploads p-1 parts and downloads its
    own part from p-1 workers. The store is a machine of its own on the network (`store` of fabric `wide_area`; on other
    fabrics a node like the others). A worker is a GPU: describe machines that hold one replica together as one GPU.

    - `own`: whether workers download their own payload, too, and upload their own part of a sum.
    - `request`: seconds that the store takes to answer for one object, beside its bytes.
    - `parallel`: objects that a worker asks for at the same time, over connections of their own; none: all of them.
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
        waves = sum(map(self._waves, (up, down)))
        return [every._replace(beside=np.full(len(nbytes), self.request * waves))]

    def all_reduce(self, nbytes: Floats, layout: Layout) -> Rounds:
        """The payloads of all workers at all workers, each of which adds them up."""
        return self.all_gather(np.repeat(nbytes[:, None], layout.workers, axis=1), layout)

    def all_gather(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Every worker uploads its payload, then downloads all others."""
        whole = np.broadcast_to(nbytes.sum(axis=1, keepdims=True), nbytes.shape)
        down = whole if self.own else whole - nbytes
        return self._by_store(nbytes, down, 1.0, self._connections(layout), layout)

    def reduce_scatter(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Every worker uploads the parts of the others, then downloads its own part of each of them."""
        p = layout.workers
        parts = np.repeat(nbytes[:, None] * (p - (not self.own)) / p, p, axis=1)
        connections = self._connections(layout)
        return self._by_store(parts, parts, connections, connections, layout)

    def broadcast(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Worker 0 uploads the payload, all others download it."""
        others = np.arange(1, layout.workers)
        store, whole = np.full_like(others, layout.workers), nbytes[:, None]
        return [send(0 * store[:1], store[:1], whole), send(store, others, whole)] if len(others) else []

    def _waves(self, objects: int) -> int:
        """How often a worker that needs so many objects asks for as many as it may at the same time."""
        return -(-objects // (self.parallel or objects))

    def _connections(self, layout: Layout) -> float:
        """Over how many connections a worker has the objects of all, in the mean over its requests."""
        objects = max(1, layout.workers - (not self.own))
        return objects / self._waves(objects)

    @staticmethod
    def _by_store(up: Floats, down: Floats, rising: float, falling: float, layout: Layout) -> Rounds:
        """Uploads of `up` bytes (b, p) over `rising` connections, then downloads of `down` bytes over `falling`."""
        workers = np.arange(layout.workers)
        store = np.full_like(workers, layout.workers)
        if layout.workers == 1:
            return []
        return [
            Round(workers, store, up, connections=rising),
            Round(store, workers, down, connections=falling),
        ]
