"""NCCL: a tree for small payloads and a ring for the others, or what NCCL's tuning chooses."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import BeforeValidator

from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Layout
from simulator.topologies.base import Choice, Rounds, Topology
from simulator.topologies.double_binary_tree import DoubleBinaryTree
from simulator.topologies.nccl_tuner import TunerRow, rows_of
from simulator.topologies.nccl_tuning import ALGORITHMS, EFFICIENCY, PROTOCOLS, NcclTuning
from simulator.topologies.ring import Ring
from simulator.topologies.tree import Tree
from simulator.units import Bytes


class Nccl(Topology, kind="nccl"):
    """All-reduce by tree up to `tree_up_to` bytes and by ring above; gathers and scatters are always rings.

    The default is where NCCL 2.6.4 changes from tree to ring with 32 ranks on 8 nodes over sockets: 8 KiB still take
    half as long as the start-up of the ring (dexhunter/allreduce-experiments, 2020). NCCL has no tree for gathers.

    With `tuning`, each payload takes the algorithm and protocol that are fastest by NCCL's own model. Rows of a `tuner`
    plug-in, written out or in a .csv file, take precedence: the first row that fits a payload decides. Trees are then
    double binary trees. LL leaves half of the bandwidth, LL128 120 of 128 bytes, Simple all of it (NVIDIA/nccl,
    src/graph/tuning.cc, v2.30.7, 2025). The start-up of a message is still the fabric's.
    """

    tree_up_to: Bytes = 8 * 2.0**10
    tuning: NcclTuning | None = None
    tuner: Annotated[
        tuple[TunerRow, ...],
        BeforeValidator(rows_of, json_schema_input_type=str | tuple[TunerRow, ...]),
    ] = ()

    def choices(self, primitive: str, nbytes: Floats, layout: Layout) -> list[Choice]:
        """Tree and ring with the payloads that each carries; one choice per protocol if protocols are chosen."""
        small = nbytes <= self.tree_up_to if primitive == "all_reduce" else np.zeros(len(nbytes), dtype=bool)
        if self.tuning is None and not self.tuner:
            return [Choice(Tree(), small, "tree"), Choice(Ring(), ~small, "ring")]
        chosen, made = self._chosen_numbers(primitive, nbytes, layout), []
        for number in np.unique(chosen):
            mask = chosen == number
            if number < 0:
                made += [Choice(Tree(), mask & small, "tree"), Choice(Ring(), mask & ~small, "ring")]
                continue
            algorithm, protocol = divmod(int(number), len(PROTOCOLS))
            label, efficiency = f"{ALGORITHMS[algorithm]} {PROTOCOLS[protocol]}", EFFICIENCY[PROTOCOLS[protocol]]
            topology = DoubleBinaryTree() if ALGORITHMS[algorithm] == "tree" else Ring()
            parts = topology.choices(primitive, nbytes, layout)
            made += [Choice(part.topology, part.mask & mask, label, efficiency) for part in parts]
        return made

    def _chosen_numbers(self, primitive: str, nbytes: Floats, layout: Layout) -> Ints:
        """The number of the chosen pair of algorithm and protocol for each payload (b,); -1 if nothing chooses."""
        chosen = np.full(len(nbytes), -1, dtype=np.int64)
        if self.tuning is not None:
            time = self.tuning.seconds(primitive, nbytes, layout)
            chosen = time.reshape(-1, len(nbytes)).argmin(axis=0)
        protocols = [name.lower() for name in PROTOCOLS]
        for row in reversed(self.tuner):  # the first row that fits overwrites the others
            number = ALGORITHMS.index(row.algorithm) * len(PROTOCOLS) + protocols.index(row.protocol)
            chosen[row.matches(primitive, nbytes, layout)] = number
        return chosen

    def all_reduce(self, nbytes: Floats, layout: Layout) -> Rounds:
        """The rounds of the topology that carries the largest payload."""
        largest = np.array([nbytes.max(initial=0.0)])
        topologies = [choice.topology for choice in self.choices("all_reduce", largest, layout) if choice.mask.all()]
        return topologies[0].all_reduce(nbytes, layout)

    def all_gather(self, nbytes: Floats, layout: Layout) -> Rounds:
        """As on a ring."""
        return Ring().all_gather(nbytes, layout)

    def reduce_scatter(self, nbytes: Floats, layout: Layout) -> Rounds:
        """As on a ring."""
        return Ring().reduce_scatter(nbytes, layout)

    def broadcast(self, nbytes: Floats, layout: Layout) -> Rounds:
        """As on a ring."""
        return Ring().broadcast(nbytes, layout)
