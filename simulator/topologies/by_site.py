"""By site: first inside each site, then between the sites, so that slow lines carry every byte once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from simulator.bounds import Count
from simulator.component import expected
from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Layout, Round, send
from simulator.topologies.base import Rounds, Topology, pass_blocks, ring_gather
from simulator.topologies.hierarchical import exchange_across

Sizes = Count | tuple[Count, ...]
"""What a user may write for the sizes of sites."""


class BySite(Topology, kind="by_site"):
    """Rings inside the sites, and another topology between the heads of the sites, each of which carries one share.

    Every site has the same number of heads h, spread over its workers. An all-reduce is a reduce-scatter inside each
    site, after which heads collect the parts of the workers that follow them; an all-reduce of S/h between the first
    heads of all sites, between the second ones, and so on, at once; then the way back. Sites need not be alike. For k
    sites of n workers with one GPU per node, n a multiple of h, NICs of rate B and start-up a inside a site, lines of
    rate L (shared by the h heads) and start-up b, on an idle network:

        2 [(n-1)(a + S/(nB)) + (if n > h) (a + (n-h)/(hn) S/B)] + 2(k-1)(b + S/(kL))

    with `inter: ring` (the idea is that of Cho et al., BlueConnect 2019, with sites in the place of nodes). An
    all-gather collects the blocks of a site at all of its workers, exchanges them between the heads, a share by each,
    and spreads what came from other sites. There is no reduce-scatter: where sites differ, heads have unequal shares.

    - `nodes_per_site`: nodes of each site in order, as a list; or one number for all sites, the last of which may have
      fewer.
    - `heads`: workers of each site that exchange with other sites; none: as many as the smallest site has. More heads
      open more connections over a line, but do not make more bytes.
    - `inter`: topology between the heads.
    """

    nodes_per_site: Annotated[
        tuple[Count, ...],
        Field(min_length=1, max_length=1024),
        BeforeValidator(lambda value: (value,) if isinstance(value, int) else value, json_schema_input_type=Sizes),
    ]
    heads: Count | None = None
    inter: Literal["ring", "halving_doubling", "tree"] = "ring"

    def all_reduce(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Sums at the heads of each site, sums of these between sites, and the way back."""
        sites = self._sites(layout)
        across = self._across("all_reduce", [nbytes / len(sites[0])] * len(sites[0]), sites)
        collected = [item for site in sites for item in _collect(site, nbytes)]
        return [*collected, *across, *(item for site in sites for item in _spread(site, nbytes))]

    def all_gather(self, nbytes: Floats, layout: Layout) -> Rounds:
        """All blocks of a site at its workers, then at the heads of the other sites, then at all workers there."""
        sites = self._sites(layout)
        members = [np.concatenate(site) for site in sites]
        inside = [item for some in members for item in ring_gather(some, nbytes[:, some])]
        held = np.stack([nbytes[:, some].sum(axis=1) for some in members], axis=1)
        across = self._across("all_gather", [held / len(sites[0])] * len(sites[0]), sites)
        others = held.sum(axis=1, keepdims=True) - held
        spread = [item for number, site in enumerate(sites) for item in _spread(site, others[:, number])]
        return [*inside, *across, *spread]

    def broadcast(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Worker 0 sends a share to each head of its site, each of which sends it on; then inside every site."""
        sites = self._sites(layout)
        heads = np.array([group[0] for group in sites[0]])
        first = [send(np.zeros_like(heads[1:]), heads[1:], nbytes[:, None] / len(heads))] if len(heads) > 1 else []
        across = self._across("broadcast", [nbytes / len(heads)] * len(heads), sites)
        return [*first, *across, *(item for site in sites for item in _spread(site, nbytes))]

    def _across(self, primitive: str, payloads: Sequence[Floats], sites: Sequence[Sequence[Ints]]) -> Rounds:
        lanes = np.array([[group[0] for group in site] for site in sites]).T
        return exchange_across(self.inter, primitive, payloads, lanes) if len(sites) > 1 else []

    def _sites(self, layout: Layout) -> list[list[Ints]]:
        """The workers of each site, in the groups of its heads. Raises an expected-error where nodes do not fit."""
        nodes, given = layout.nodes, self.nodes_per_site
        ends = list(accumulate(given)) if len(given) > 1 else [*range(given[0], nodes, given[0]), nodes]
        if ends[-1] != nodes:
            raise expected(f"sites of {nodes} nodes together", f"{ends[-1]}", "`nodes_per_site` lists every site")
        parts = [np.arange(low, high) for low, high in pairwise(end * layout.gpus_per_node for end in (0, *ends))]
        smallest = min(len(part) for part in parts)
        heads = self.heads or smallest
        if heads > smallest:
            raise expected(f"at most {smallest} heads, as the smallest site has workers", f"{heads}", "lower `heads`")
        return [np.array_split(part, heads) for part in parts]


def _collect(groups: Sequence[Ints], nbytes: Floats) -> Rounds:
    """Sums over a site at its heads: a reduce-scatter on a ring, then each group's parts at its first member."""
    blocks = _blocks(groups, nbytes)
    ring = pass_blocks(np.concatenate(groups), blocks, range(1, blocks.shape[1]))
    return [*ring, *_between_heads_and_groups(groups, blocks, collect=True)]


def _spread(groups: Sequence[Ints], nbytes: Floats) -> Rounds:
    """What the heads of a site hold, a share each, at all of its workers: the reverse of `_collect`."""
    blocks = _blocks(groups, nbytes)
    return [
        *_between_heads_and_groups(groups, blocks, collect=False),
        *ring_gather(np.concatenate(groups), blocks),
    ]


def _blocks(groups: Sequence[Ints], nbytes: Floats) -> Floats:
    """Bytes (b, n) of each worker's part: the groups have equal shares, of which their workers have equal parts."""
    shares = np.concatenate([np.full(len(group), 1 / (len(groups) * len(group))) for group in groups])
    made: Floats = nbytes[:, None] * shares
    return made


def _between_heads_and_groups(groups: Sequence[Ints], blocks: Floats, *, collect: bool) -> Rounds:
    """One round, in which all workers but the heads send their parts to their head, or receive them from it."""
    heads = np.concatenate([np.full(len(group) - 1, group[0]) for group in groups])
    others = np.concatenate([group[1:] for group in groups])
    if not len(others):
        return []
    sizes = blocks[:, others - groups[0][0]]
    return [Round(others, heads, sizes) if collect else Round(heads, others, sizes)]
