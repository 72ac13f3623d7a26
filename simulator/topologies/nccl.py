"""NCCL's own mixture: a tree for tiny payloads, the ring for the rest."""

from __future__ import annotations

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Layout
from simulator.topologies.base import Choice, Rounds, Topology
from simulator.topologies.ring import Ring
from simulator.topologies.tree import Tree
from simulator.units import Bytes


class Nccl(Topology, kind="nccl"):
    """All-reduce by tree up to `tree_up_to` bytes, by ring above; gathers and scatters are always rings.

    The default is where NCCL 2.6.4 changes over on 32 ranks on 8 nodes over sockets: 8 KiB still take half of what the
    ring's start-up would (dexhunter/allreduce-experiments, 2020). NCCL has no tree for gathers.
    """

    tree_up_to: Bytes = 8 * 2.0**10

    def choices(self, primitive: str, nbytes: Floats, layout: Layout) -> list[Choice]:
        """Tree and ring, each with the payloads that it carries."""
        small = nbytes <= self.tree_up_to if primitive == "all_reduce" else np.zeros(len(nbytes), dtype=bool)
        return [Choice(Tree(), small, "tree"), Choice(Ring(), ~small, "ring")]

    def all_reduce(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Rounds of payloads that are all on the same side of the threshold."""
        chosen = Tree() if nbytes.max(initial=0.0) <= self.tree_up_to else Ring()
        return chosen.all_reduce(nbytes, layout)

    def all_gather(self, nbytes: Floats, layout: Layout) -> Rounds:
        """The ring's."""
        return Ring().all_gather(nbytes, layout)

    def reduce_scatter(self, nbytes: Floats, layout: Layout) -> Rounds:
        """The ring's."""
        return Ring().reduce_scatter(nbytes, layout)

    def broadcast(self, nbytes: Floats, layout: Layout) -> Rounds:
        """The ring's."""
        return Ring().broadcast(nbytes, layout)
