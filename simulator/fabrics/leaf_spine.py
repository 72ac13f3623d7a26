"""Leaf and spine switches: a folded Clos network of two layers; and the base of networks with layers of switches."""

from __future__ import annotations

from typing import Self

import numpy as np
from pydantic import Field

from simulator.bounds import Count, TimesAsMuch
from simulator.component import expected
from simulator.fabrics.base import Fabric
from simulator.models.exchange import Ints, Layout, Placement, Route
from simulator.models.sampling import splitmix64
from simulator.models.small_cache import cache_small_results
from simulator.models.wiring import Links
from simulator.units import BytesPerSecond, Seconds

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Switched(Fabric):
    """Base of fabrics with several layers of switches between the NICs.

    `oversubscription`: what the nodes below a switch can send, divided by what its uplinks carry, 1 or more. Instead
    of it, `uplink`: bytes/s of one link between switches and direction. `hop_latency`: start-up for every switch beyond
    the first.
    """

    oversubscription: TimesAsMuch = 1.0
    uplink: BytesPerSecond | None = None
    hop_latency: Seconds = 0.0

    def refuse_unfit(self) -> None:
        if self.uplink is not None and self.oversubscription != 1:
            got = f"`uplink` and `oversubscription: {self.oversubscription:g}`"
            raise expected("`uplink` or `oversubscription`", got, "one follows from the other")

    @property
    def between_switches(self) -> float:
        """Bytes/s of one link between switches and direction: `uplink`, or what `oversubscription` leaves."""
        raise NotImplementedError

    def shared_by(self, groups: int, in_node: int, stride: int = 1) -> Self:
        """The network with a group's share of NICs and of the links between switches."""
        share = {"uplink": self.between_switches / in_node, "oversubscription": 1.0}
        return super().shared_by(groups, in_node, stride).model_copy(update=share)

    def groups_on(self, link: str, part: Fabric, groups: int) -> float:
        """Those of a NIC on it, and those of a node on the links between switches."""
        if isinstance(part, Switched) and not link.startswith("node "):
            return self.between_switches / part.between_switches
        return super().groups_on(link, part, groups)

    def far_latency(self, layout: Layout) -> float:
        """Seconds that a way through all nodes in order and back spends on switches beyond the first of each step."""
        return self.latency_around(layout) if self.hop_latency else 0.0


class LeafSpine(Switched, kind="leaf_spine"):
    """Nodes below leaf switches, each joined to every spine switch: messages between leaves share the uplinks.

    Node n is below leaf n // nodes_per_leaf. A message within a leaf crosses that switch only. Any other message goes
    up to one spine, chosen by `spread`, and down again, with a start-up of latency + 2 hop_latency. Each link between
    a leaf and a spine carries, per direction and in bytes/s,

        nodes_per_leaf * nics_per_node * bandwidth / (oversubscription * spines),

    or `uplink`. One spine stands for uplinks that share their load perfectly. With more spines, pairs of nodes that
    hash to the same spine share its links while others are idle (Al-Fares et al., Hedera, NSDI 2010). Any number of
    nodes fits.

    - `nodes_per_leaf`: nodes under one leaf.
    - `spines`: spine switches; each has a link to every leaf.
    """

    nodes_per_leaf: Count
    spines: int = Field(default=1, ge=1, le=4096)

    @property
    def between_switches(self) -> float:
        """Bytes/s of one link between switches and direction."""
        below = self.nodes_per_leaf * self.nics_per_node * self.bandwidth
        return self.uplink or below / (self.oversubscription * self.spines)

    def shared_by(self, groups: int, in_node: int, stride: int = 1) -> Self:
        """The network with a group's share, below whose leaves every `stride`-th node is one of the group."""
        made, together = super().shared_by(groups, in_node, stride), min(stride, self.nodes_per_leaf)
        below = {"nodes_per_leaf": self.nodes_per_leaf // together, "uplink": made.between_switches / together}
        return made.model_copy(update=below)

    def across(self, placement: Placement, nic: float) -> Links:
        """The NICs, then the links of every leaf up to each spine, then those down from each spine."""
        ends, spines = self.nics(placement, nic), self.spines
        leaf, start_up = placement.node // self.nodes_per_leaf, 2 * self.hop_latency
        leaves = int(leaf.max()) + 1
        ups, downs = len(ends.capacity), len(ends.capacity) + leaves * spines

        def route(src: Ints, dst: Ints) -> Route:
            edge, low, high = ends.route(src, dst), leaf[src], leaf[dst]
            spine = spread(placement.node[src], placement.node[dst], spines)
            middle = np.stack([ups + low * spines + spine, downs + high * spines + spine], axis=1)
            crosses = low != high
            middle[~crosses] = -1
            return Route(edge.first, edge.last, edge.latency + start_up * crosses, middle)

        # The limit of the software at an endpoint holds for the NICs, not for the switches.
        capacity = np.concatenate([ends.capacity, np.full(2 * leaves * spines, self.between_switches)])
        return Links(capacity, ends.names + _names(leaves, spines), route)


def spread(src: Ints, dst: Ints, ways: int) -> Ints:
    """Which of `ways` equal ways, 0 to ways - 1, a message between nodes `src` and `dst` (m,) takes: ECMP.

    A switch hashes the ends of a flow, so that its packets stay in order (Hopps, RFC 2992, 2000). Here the hash is
    `splitmix64` of src * phi + dst, modulo `ways`. It has no seed, so that a pair takes the same way in any process.

    >>> spread(np.array([0, 0, 1]), np.array([1, 2, 0]), 4).tolist()
    [1, 2, 3]
    """
    hashed = splitmix64(src.astype(np.uint64) * _GOLDEN + dst.astype(np.uint64))
    return (hashed % np.uint64(ways)).astype(np.int64)


@cache_small_results  # a sweep asks for the same cluster again and again
def _names(leaves: int, spines: int) -> tuple[str, ...]:
    pairs = [(leaf, spine) for leaf in range(leaves) for spine in range(spines)]
    up = [f"leaf {leaf} to spine {spine}" for leaf, spine in pairs]
    return (*up, *(f"spine {spine} to leaf {leaf}" for leaf, spine in pairs))
