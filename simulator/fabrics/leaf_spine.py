"""Leaves and spines: a folded Clos network of two layers, and what switched networks of layers share."""

from __future__ import annotations

from typing import Self

import numpy as np
from pydantic import Field, model_validator

from simulator.component import expected
from simulator.fabrics.base import Fabric
from simulator.models.exchange import Ints, Placement, Route
from simulator.models.small_cache import cache_small_results
from simulator.models.wiring import Links
from simulator.units import BytesPerSecond, Seconds

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


class Switched(Fabric):
    """Base of fabrics with several layers of switches between the NICs.

    `oversubscription`: what the nodes below a switch can send over what its uplinks carry, 1 or more; `uplink`, bytes/s
    of one link between switches and direction, in its place. `hop_latency`: seconds for every switch beyond the first.
    """

    oversubscription: float = Field(default=1.0, ge=1)
    uplink: BytesPerSecond | None = None
    hop_latency: Seconds = 0.0

    @model_validator(mode="after")
    def _said_once(self) -> Self:
        if self.uplink is not None and self.oversubscription != 1:
            got = f"`uplink` and `oversubscription: {self.oversubscription:g}`"
            raise expected("`uplink` or `oversubscription`", got, "one follows from the other")
        return self


class LeafSpine(Switched, kind="leaf_spine"):
    """Nodes under leaves, every leaf joined to every spine: what crosses leaves shares the uplinks.

    Node n stands under leaf n // nodes_per_leaf. A message within a leaf crosses that switch alone; any other goes up
    to one spine, picked by `spread`, and down again: latency + 2 hop_latency seconds. Each link between a leaf and a
    spine carries, per direction and in bytes/s,

        nodes_per_leaf * nics_per_node * bandwidth / (oversubscription * spines),

    or `uplink`. One spine stands for uplinks that share their load perfectly; with more of them, pairs that hash to
    the same one collide while another idles (Al-Fares et al., Hedera, NSDI 2010). Any number of nodes fits.

    - `nodes_per_leaf`: nodes under one leaf.
    - `spines`: each joined to every leaf.
    """

    nodes_per_leaf: int = Field(ge=1)
    spines: int = Field(default=1, ge=1, le=4096)

    def across(self, placement: Placement, nic: float) -> Links:
        """The NICs, then the links of every leaf up to each spine, then those down from each spine."""
        ends, spines = self.nics(placement, nic), self.spines
        leaf, start_up = placement.node // self.nodes_per_leaf, 2 * self.hop_latency
        leaves = int(leaf.max()) + 1
        # What software moves at an endpoint caps the NICs, not the switches.
        uplink = self.uplink or self.nodes_per_leaf * self.nics_per_node * self.bandwidth / (
            self.oversubscription * spines
        )
        ups, downs = len(ends.capacity), len(ends.capacity) + leaves * spines

        def route(src: Ints, dst: Ints) -> Route:
            edge, low, high = ends.route(src, dst), leaf[src], leaf[dst]
            spine = spread(placement.node[src], placement.node[dst], spines)
            middle = np.stack([ups + low * spines + spine, downs + high * spines + spine], axis=1)
            crosses = low != high
            middle[~crosses] = -1
            return Route(edge.first, edge.last, edge.latency + start_up * crosses, middle)

        capacity = np.concatenate([ends.capacity, np.full(2 * leaves * spines, uplink)])
        return Links(capacity, ends.names + _names(leaves, spines), route)


def spread(src: Ints, dst: Ints, ways: int) -> Ints:
    """Which of `ways` equal ways, 0 to ways - 1, a message between nodes `src` and `dst` (m,) takes: ECMP.

    A switch hashes the ends of a flow, so that its packets stay in order (Hopps, RFC 2992, 2000). Here src * phi + dst
    goes through SplitMix64's finaliser (Steele, Lea and Flood 2014), in 64-bit integers modulo 2**64, and the way is
    the remainder by `ways`: no seed, so a pair takes the same way in any process.

    >>> spread(np.array([0, 0, 1]), np.array([1, 2, 0]), 4).tolist()
    [1, 2, 3]
    """
    mixed = src.astype(np.uint64) * _GOLDEN + dst.astype(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX[0]
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX[1]
    mixed = mixed ^ (mixed >> np.uint64(31))
    return (mixed % np.uint64(ways)).astype(np.int64)


@cache_small_results  # a sweep lays the same cluster out again and again
def _names(leaves: int, spines: int) -> tuple[str, ...]:
    pairs = [(leaf, spine) for leaf in range(leaves) for spine in range(spines)]
    up = [f"leaf {leaf} to spine {spine}" for leaf, spine in pairs]
    return (*up, *(f"spine {spine} to leaf {leaf}" for leaf, spine in pairs))
