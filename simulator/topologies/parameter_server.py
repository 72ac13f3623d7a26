"""Parameter servers: push to the servers, pull the sum."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Layout, Round
from simulator.models.limits import refuse_messages
from simulator.topologies.base import Rounds, Topology, ring_pass


class ParameterServer(Topology, kind="parameter_server"):
    """Servers sum what the workers push; dedicated machines or co-located with the nodes.

    `placement: sharded` splits every payload evenly over the servers: 2(alpha + nS/(sB)) for n pushers, S each, s
    servers (Li et al. 2014). `round_robin` sends whole buckets to the servers in turn, so a few large tensors load them
    unevenly. With `local_aggregation` the GPUs of a node sum among themselves first and the node pushes once (BytePS
    2020); `servers: 0` means one per node.

    - `servers`: how many.
    - `colocated`: whether they share the nodes, and their NICs, with the workers.
    - `placement`: which of the two.
    """

    style: ClassVar[Literal["collective", "push_pull"]] = "push_pull"
    concurrent: ClassVar[bool] = True

    servers: int = Field(default=1, ge=0, le=100_000)
    colocated: bool = False
    placement: Literal["sharded", "round_robin"] = "sharded"
    local_aggregation: bool = True

    def layout(self, nodes: int, gpus_per_node: int) -> Layout:
        """Workers, and the servers behind them."""
        return Layout(nodes, gpus_per_node, self.servers or nodes, self.colocated)

    def push_pull(self, push: Floats, pull: Floats, layout: Layout, slot: int = 0) -> list[Rounds]:
        """Sum inside the node, push, pull, spread inside the node: empty phases are left out."""
        g = layout.gpus_per_node if self.local_aggregation else 1
        pushers = np.arange(layout.workers)
        servers = layout.workers + self._servers(layout, slot)
        refuse_messages(len(pushers) * len(servers))
        share = g * len(servers)
        src, dst = np.repeat(pushers, len(servers)), np.tile(servers, len(pushers))
        up = np.repeat(push[:, None] / share, len(src), axis=1)
        down = np.repeat(pull[:, None] / share, len(src), axis=1)
        phases = [
            self._inside(push, layout) if g > 1 else [],
            [Round(src, dst, up)],
            [Round(dst, src, down)],
            self._inside(pull, layout) if g > 1 else [],
        ]
        return [phase for phase in phases if phase]

    def _servers(self, layout: Layout, slot: int) -> Ints:
        if self.placement == "sharded":
            return np.arange(layout.servers)
        return np.array([slot % layout.servers])

    @staticmethod
    def _inside(nbytes: Floats, layout: Layout) -> Rounds:
        """A ring pass inside every node: reduce-scatter before the push, all-gather after the pull."""
        g, workers = layout.gpus_per_node, np.arange(layout.workers)
        following = workers - workers % g + (workers + 1) % g
        (inside,) = ring_pass(np.arange(g), nbytes[:, None] / g, g - 1)
        return [Round(workers, following, np.repeat(inside.nbytes[:, :1], len(workers), axis=1), inside.repeat)]
