"""What a collective of NCCL takes besides its bytes at the links' rate: start-up, and what a protocol leaves."""

from __future__ import annotations

from functools import cached_property
from typing import cast

import numpy as np
import numpy.typing as npt

from simulator.hardware.machine import PROTOCOLS, Machine
from simulator.models.curves import Floats
from simulator.models.exchange import Layout
from simulator.records import Record, replace
from simulator.topologies.nccl_tuning import (
    ALGORITHMS,
    COLLNET,
    COLLNET_EFFICIENCY,
    LL,
    NEWEST,
    NVLS,
    NVLS_EFFICIENCY,
    NVLS_TREE,
    PAT,
    PAT_EFFICIENCY,
    RING,
    SIMPLE,
    TREE,
    TREE_EFFICIENCY,
    Knowledge,
    ring_rates,
    start_up,
    tables_of,
    tree_left,
    tree_rates,
)

WITHIN_CONSTANTS = 2e-6
"""Start-up of a message over InfiniBand (seconds, one way), which NCCL's constants for the network contain."""
_MOST_SWITCH_CHUNK = 128 * 2.0**10
_SWITCH_CHUNKS = {
    NVLS: ((64, 64 * 2.0**10), (8, 32 * 2.0**10), (2, 16 * 2.0**10)),
    NVLS_TREE: ((4, 64 * 2.0**10), (1, 32 * 2.0**10)),
}
"""Below so many times the chunks of all channels and heads together, chunks of sums in switches are smaller."""
_LEAST_CHUNK, _MOST_CHUNK = 32 * 2.0**10, 512 * 2.0**10


class NcclTimes(Record, dict=True):
    """Start-up and efficiency of one primitive on a machine, as measured, or else by NCCL's constants.

    Where the time of a step between nodes was measured by its bytes (`step_overhead`), a chunk of a ring takes one such
    time for every node that it passes, and trees the same share of it for every chunk: transports treat messages of
    each size in their own way, whatever the number of nodes. Elsewhere start-ups are NCCL's constants for every step,
    and what the network's messages take beyond those of InfiniBand; LL, LL128 and trees get the shares of the rate that
    NCCL's own model gives them.
    """

    known: Knowledge
    machine: Machine
    primitive: str
    layout: Layout

    def expected(self, nbytes: Floats) -> Floats:
        """Seconds (6, 3, b) that NCCL's model expects by algorithm, protocol and payload; infinite for pairs that it
        does not have."""
        latency, bandwidth = (np.repeat(each[:, :, None], len(nbytes), axis=2) for each in self._model[:2])
        bandwidth[TREE] *= tree_left(nbytes)
        if self.primitive == "all_reduce" and self.layout.nodes > 1:
            plateau = nbytes >= 64 * self.known.channels * self.layout.workers
            latency[RING, SIMPLE, plateau] *= self.known.plateau
        with np.errstate(divide="ignore", invalid="ignore"):
            time: Floats = latency + nbytes / bandwidth
        time[~self._model[2]] = np.inf
        return time

    @cached_property
    def _model(self) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
        """Start-ups, rates and availability (6, 3) by NCCL's model."""
        asked = self.primitive, self.layout
        return self.known.latency(*asked), self.known.bandwidth(*asked), self.known.available(*asked)

    def efficiency(self, algorithm: int, protocol: int, nbytes: Floats) -> Floats:
        """Share of the links' rate (b,) that each payload gets."""
        if self._by_steps(algorithm, protocol):
            return np.ones(len(nbytes))
        known, layout, name = self.known, self.layout, f"{ALGORITHMS[algorithm]} {PROTOCOLS[protocol]}"
        measured = cast(dict[str, float], self.machine.terms.efficiency)
        if name in measured:
            share = measured[name]
        elif algorithm == RING:
            # Older versions count less for LL than its flags take when they choose.
            now = replace(known, tables=tables_of(NEWEST))
            share = ring_rates(now, layout)[protocol] / known.ring
        elif algorithm == TREE:
            share = tree_rates(known, layout)[protocol] / known.tree
            if layout.nodes == 1:  # no gaps between messages inside a node: the factor for networks does not hold
                share /= TREE_EFFICIENCY
        else:
            share = {
                NVLS: NVLS_EFFICIENCY[known.gpu] or 1.0,
                NVLS_TREE: TREE_EFFICIENCY,
                COLLNET: COLLNET_EFFICIENCY,
                PAT: PAT_EFFICIENCY,
            }[algorithm]
        by_size = algorithm == TREE and layout.nodes > 1
        left: Floats = tree_left(nbytes)[protocol] if by_size else np.ones(len(nbytes))
        return np.minimum(1.0, float(share) * left)

    def start_up(self, algorithm: int, protocol: int, nbytes: Floats) -> Floats:
        """Seconds (b,) beyond the bytes over the busiest link; 0 for no bytes."""
        known, layout = self.known, self.layout
        made = np.full(len(nbytes), self._constants[algorithm, protocol])
        if (algorithm, protocol, self.primitive) == (RING, SIMPLE, "all_reduce") and layout.nodes > 1:
            made[nbytes >= 64 * known.channels * layout.workers] *= known.plateau
        if self._by_steps(algorithm, protocol):
            terms = self.machine.terms
            if algorithm == RING:
                each = terms.overhead_of_step(nbytes / layout.workers) + self._beyond_measured
                inside = (self._steps - self._across) * known.tables.hop[known.intra][RING, protocol]
                made = self._base[RING, protocol] + inside + self._across * np.maximum(0.0, each)
            else:
                chunk = self._tree_chunk(nbytes)
                carried = nbytes if layout.nodes == 2 else 2 * nbytes
                # While a chunk of a ring goes from node to node, the link between them carries one of every GPU.
                each = terms.overhead_of_step(chunk) / layout.gpus_per_node
                made = made + carried / chunk * each
        elif algorithm in (NVLS, NVLS_TREE) and self.primitive == "all_reduce":
            # A share of the rate that was fitted here holds all that sums in switches take.
            fitted = f"{ALGORITHMS[algorithm]} Simple" in self.machine.terms.efficiency
            made = made if fitted else made + self._filling(algorithm, nbytes)
        return np.where(nbytes > 0, made + self._far(algorithm), 0.0)

    def _filling(self, algorithm: int, nbytes: Floats) -> Floats:
        """Seconds (b,) until the pipeline of a sum in switches is full: chunks of all channels, one for each stage.

        A chunk is copied to the switch's buffers, summed and multicast, and copied back: three stages, of which two
        fill before bytes come out at the full rate. Every head of every channel has a chunk of 16 to 128 KiB in each
        (NVIDIA/nccl, src/enqueue.cc and src/transport/nvls.cc, v2.30.7, 2025). The way between nodes is in the
        start-ups of its steps.
        """
        known, layout = self.known, self.layout
        alone = layout.nodes == 1
        channels = (24 if alone else 32) if known.gpu == "blackwell" else 16
        parts = channels * (layout.gpus_per_node if alone else self.machine.nics)
        chunk = np.full(len(nbytes), _MOST_SWITCH_CHUNK if layout.nodes < 4 else _MOST_SWITCH_CHUNK / 2)
        for times, smaller in _SWITCH_CHUNKS[algorithm]:
            chunk = np.where(nbytes < times * parts * chunk, np.minimum(chunk, smaller), chunk)
        rate = self._model[1][NVLS, SIMPLE]
        filling: Floats = 2 * np.minimum(nbytes, parts * chunk) / rate
        return filling

    def _far(self, algorithm: int) -> float:
        """Seconds for which data travel between nodes beyond the network's latency: through switches or between sites.

        A chunk of a ring goes through all nodes in order: once for a gather, twice for an all-reduce, each time without
        the step that would lead back. One of PAT goes forward in the same way, past some of them. Trees over nodes in
        order cross each border between sites at most once in each direction, as the way through all nodes and back
        does, and a broadcast has one direction only.
        """
        far, layout = self.machine.far_latency, self.layout
        if algorithm in (RING, PAT):
            return far * self._across / layout.nodes
        return far / 2 if self.primitive in ("broadcast", "reduce") else far

    @cached_property
    def _constants(self) -> Floats:
        """Start-ups (6, 3) by NCCL's constants, in which messages take as long as those of InfiniBand, and what they
        take beyond that. A chunk of a ring crosses one step between nodes for every node, one of PAT ceil(log2 N).
        """
        known, terms = self.known, self.machine.terms
        message = max(0.0, self.machine.latency - WITHIN_CONSTANTS)
        beyond = message * np.array([1, 1, 2])
        for number, name in enumerate(PROTOCOLS):
            if name in terms.hop_latency:
                beyond[number] = max(0.0, terms.hop_latency[name] + self._beyond_measured)
        inside = known.tables.hop[known.intra]
        slow = np.array([0, 0, max(0.0, self.machine.inside_latency - inside[RING, SIMPLE])])
        primitive = "all_reduce" if self.primitive == "all_reduce" else "all_gather"
        hops = inside + slow, known.tables.hop["net"] + beyond
        # NCCL takes 1/3.5 of a hop for a step of PAT, but each waits for the whole message of the step before.
        hops[1][PAT] = known.tables.hop["net"][PAT]
        made = start_up(self._base, hops, primitive, self.layout, self._across)
        made[PAT, SIMPLE] += (self.layout.nodes - 1).bit_length() * message
        return made

    @property
    def _base(self) -> Floats:
        return self.known.tables.base * (not self.machine.start_up_measured)

    @property
    def _across(self) -> float:
        """Steps between nodes that a chunk of a ring makes, on average over the chunks."""
        return self._steps / self.layout.gpus_per_node if self.layout.nodes > 1 else 0.0

    @property
    def _beyond_measured(self) -> float:
        """By how much the network's latency is above the one of the measurement."""
        then = self.machine.terms.latency
        return 0.0 if then is None else self.machine.latency - then

    @property
    def _steps(self) -> int:
        return (2 if self.primitive == "all_reduce" else 1) * (self.layout.workers - 1)

    def _by_steps(self, algorithm: int, protocol: int) -> bool:
        """Whether the measured time of a step says what an algorithm takes: for rings, and trees but for LL."""
        if self.layout.nodes < 2 or not self.machine.terms.step_overhead or self.primitive in ("broadcast", "reduce"):
            return False
        return algorithm == RING or (algorithm == TREE and protocol != LL)

    def _tree_chunk(self, nbytes: Floats) -> Floats:
        """Bytes (b,) of a chunk in all channels: 32 to 512 KiB in each, so that 8 of them fill every level of a tree.

        As in NVIDIA/nccl, src/enqueue.cc, v2.18 (2023), where chunks are halved as long as there are fewer.
        """
        depth = self.layout.gpus_per_node - 1 + self.layout.nodes.bit_length() - 1
        wanted = np.maximum(nbytes, 1.0) / (8 * depth * self.known.channels)
        powers = np.ldexp(1.0, np.frexp(wanted)[1] - 1)  # the largest powers of two that are not above
        each = np.clip(powers, _LEAST_CHUNK, _MOST_CHUNK)
        made: Floats = self.known.channels * each
        return made
