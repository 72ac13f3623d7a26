"""Parameter servers: push to the servers, pull the sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from simulator.models.curves import Floats
from simulator.models.exchange import Bucket, Layout, send
from simulator.models.limits import refuse_messages
from simulator.topologies.base import Rounds, Topology, rings_in_nodes

KEYS_PER_TENSOR = 65_536
"""Keys that BytePS keeps for the slices of a tensor."""


def djb2(key: int) -> int:
    """DJB2, a hash by D. J. Bernstein, of a key in decimal digits, modulo 2^64: h = 33 h + c, from 5381 on.

    >>> djb2(0), djb2(65536) % 8
    (177621, 6)
    """
    made = 5381
    for digit in str(key):
        made = (33 * made + ord(digit)) % 2**64
    return made


class ParameterServer(Topology, kind="parameter_server"):
    """Servers sum what the workers push; servers are machines of their own, or run on the workers' nodes.

    `placement: sharded` splits every payload evenly over the servers: 2(alpha + nS/(sB)) for n pushers of S bytes and s
    servers (Li et al. 2014). `round_robin` sends whole buckets to the servers in turn, so that a few large tensors load
    them unevenly. `hashed` does as BytePS: a slice goes to the server DJB2(key) mod s. Keys count the tensors in the
    order of their names, times 65,536, plus the number of the slice; a buffer of merged gradients comes after all
    gradients and parameters (Jiang et al., OSDI 2020; byteps/common/global.cc). With `local_aggregation` the GPUs of a
    node first sum their gradients, and the node pushes once (BytePS 2020).

    - `servers`: number of servers; 0: one per node.
    - `colocated`: whether servers share the nodes and their NICs with the workers.
    - `placement`: how payloads are placed on the servers.
    - `in_order`: whether a slice that was handed over earlier goes first at every step of its way, so that pushes of
      some slices overlap pulls of others; otherwise the steps of all slices that are under way queue first in, first
      out. BytePS keeps a queue for every step and takes the slice of the highest priority from it (Jiang et al.,
      OSDI 2020; byteps/common/scheduled_queue.cc), ByteScheduler hands slices over by priority (SOSP 2019).
    """

    style: ClassVar[Literal["collective", "push_pull"]] = "push_pull"
    concurrent: ClassVar[bool] = True
    sums_on_hosts: ClassVar[bool] = True

    servers: int = Field(default=1, ge=0, le=100_000)
    colocated: bool = False
    placement: Literal["sharded", "round_robin", "hashed"] = "sharded"
    local_aggregation: bool = True
    in_order: bool = False

    def layout(self, nodes: int, gpus_per_node: int) -> Layout:
        """The workers, then the servers."""
        return Layout(nodes, gpus_per_node, self.servers or nodes, self.colocated)

    def push_pull(self, push: Floats, pull: Floats, layout: Layout, slot: int = 0) -> list[Rounds]:
        """Reduce-scatter inside the nodes, push, pull, all-gather inside the nodes; empty phases are left out.

        The sum of a node has at most the bytes of all its GPUs, which choose different elements or scales, and at most
        those of the sum of all nodes, which is pulled.
        """
        g = layout.gpus_per_node if self.local_aggregation else 1
        pushers = np.arange(layout.workers)
        chosen = (djb2(slot) if self.placement == "hashed" else slot) % layout.servers
        servers = layout.workers + (np.arange(layout.servers) if self.placement == "sharded" else np.array([chosen]))
        refuse_messages(len(pushers) * len(servers))
        share = g * len(servers)
        src, dst = np.repeat(pushers, len(servers)), np.tile(servers, len(pushers))
        phases = [
            rings_in_nodes(push, layout) if g > 1 else [],
            [send(src, dst, np.minimum(g * push, np.maximum(push, pull))[:, None] / share)],
            [send(dst, src, pull[:, None] / share)],
            rings_in_nodes(pull, layout) if g > 1 else [],
        ]
        return [phase for phase in phases if phase]

    def slots(self, buckets: Sequence[Bucket], names: Sequence[str]) -> list[int]:
        """The keys of the buckets where servers are chosen by a hash, else their numbers."""
        if self.placement != "hashed":
            return super().slots(buckets, names)
        if any(len(bucket.layers) > 1 for bucket in buckets):
            return [2 * len(names) * KEYS_PER_TENSOR + bucket.index for bucket in buckets]
        declared = {name: number for number, name in enumerate(sorted(names))}
        made, parts = list[int](), Counter[int]()
        for bucket in buckets:
            tensor = declared[names[bucket.layers[0]]]
            made.append(tensor * KEYS_PER_TENSOR + parts[tensor])
            parts[tensor] += 1
        return made
