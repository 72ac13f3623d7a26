"""Nodes with direct links to their neighbours, without switches: tori of any dimensions."""

from __future__ import annotations

import math

import numpy as np
from pydantic import Field, field_validator

from simulator.bounds import Count
from simulator.component import expected
from simulator.fabrics.base import Fabric
from simulator.models.exchange import Ints, Placement, Route
from simulator.models.limits import refuse_hops
from simulator.models.small_cache import cache_small_results
from simulator.models.wiring import Links
from simulator.units import Seconds

_MOST = 2**17
"""Largest number of nodes of a torus: all of its links are held in memory, used or not."""


class Direct(Fabric):
    """Base of fabrics whose nodes have a direct link to each neighbour and forward the messages of others.

    Each direction of a link has an end at its sender ("out") and an end at its receiver ("in"). A message leaves
    through the out end of its first hop, shares the out ends of the further hops with the traffic of the nodes there,
    and arrives through the in end of the last hop. With several NICs per node, neighbours have as many parallel links;
    the GPUs of a node are assigned to them in turn, and a message stays on the links of its sender. A limit to what the
    software of one endpoint moves holds for every end, since that software also forwards the messages of others.

    - `bandwidth`: of a link per direction.
    - `latency`: start-up of the first hop.
    - `hop_latency`: start-up of each further hop; none: as `latency`.
    """

    hop_latency: Seconds | None = None

    def grid(self, placement: Placement, nic: float, shape: tuple[int, ...]) -> Links:
        """Links of a torus of `shape`, nodes numbered with the last dimension fastest."""
        size, count, ways = math.prod(shape), self.rails, _ways(shape)
        # For each axis, the node's link that leads back and the one that leads forward. Ties go forward, so that a
        # dimension of 2 needs no link back.
        column = {way: number for number, way in enumerate(ways)}
        columns = np.array([[column.get((axis, way), -1) for way in (-1, 1)] for axis in range(len(shape))])
        strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        ends = count * size * len(ways)
        further = self.latency if self.hop_latency is None else self.hop_latency

        def route(src: Ints, dst: Ints) -> Route:
            here, there = placement.node[src], placement.node[dst]
            plane = placement.rank[src] % count
            at, to = np.stack(np.unravel_index(here, shape)), np.stack(np.unravel_index(there, shape))
            length = np.array(shape)[:, None]
            ahead = (to - at) % length
            forward = 2 * ahead <= length
            steps = np.where(forward, ahead, length - ahead)
            before, hops = np.cumsum(steps, axis=0) - steps, steps.sum(axis=0)
            longest = max(1, int(hops.max(initial=0)))
            refuse_hops(len(src), longest)
            way = np.full((len(src), longest), -1, dtype=np.int64)
            for axis, stride in enumerate(strides):
                sign, link = np.where(forward[axis], 1, -1), columns[axis, forward[axis].astype(np.int64)]
                for step in range(int(steps[axis].max(initial=0))):
                    on = np.flatnonzero(steps[axis] > step)
                    moved = (at[axis, on] + sign[on] * step) % shape[axis] - at[axis, on]
                    node = plane[on] * size + here[on] + moved * stride
                    way[on, before[axis, on] + step] = node * len(ways) + link[on]
                here = here + (to[axis] - at[axis]) * stride
            last = way[np.arange(len(src)), np.maximum(hops - 1, 0)] + ends
            latency = self.latency + further * np.maximum(hops - 1, 0)
            return Route(way[:, 0], last, latency, way[:, 1:] if way.shape[1] > 1 else None)

        return Links(np.full(2 * ends, nic), _names(shape, count), route)


class Torus(Direct, kind="torus"):
    """Torus of direct links: a message goes one dimension after the other, the shorter way round in each.

    `dimensions` such as [4, 4, 4]. Nodes are numbered along the last dimension first, and the torus may have more nodes
    than the job uses. Dimension-ordered routing (Dally and Seitz 1987): first along the first dimension, in each the
    shorter way round, and forward if both ways are equally long. A node has 2 links per dimension; only 1 if the
    dimension is 2, because two links would join the same nodes. h hops have a start-up of latency + (h-1) hop_latency.
    More nodes than the product of the dimensions are an expected-error.
    """

    dimensions: tuple[Count, ...] = Field(min_length=1, max_length=8)

    @field_validator("dimensions")
    @classmethod
    def _check_size(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if math.prod(value) > _MOST:
            raise expected(f"dimensions of at most {_MOST} nodes", list(value), "the number of nodes is their product")
        return value

    def across(self, placement: Placement, nic: float) -> Links:
        """The out ends of all direct links, node by node, then their in ends."""
        if placement.nodes > math.prod(self.dimensions):
            fits = f"at most {math.prod(self.dimensions)} nodes on a torus of {' x '.join(map(str, self.dimensions))}"
            raise expected(fits, f"{placement.nodes} nodes", "raise `dimensions`; dedicated servers are nodes, too")
        return self.grid(placement, nic, self.dimensions)


def _ways(shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """Dimension and direction of each link that leaves a node."""
    return [(axis, way) for axis, length in enumerate(shape) for way in (1, -1) if length > (1 if way > 0 else 2)]


@cache_small_results  # a sweep asks for the same cluster again and again
def _names(shape: tuple[int, ...], count: int) -> tuple[str, ...]:
    node = np.arange(math.prod(shape)).reshape(shape)
    towards = [np.roll(node, -way, axis=axis).ravel().tolist() for axis, way in _ways(shape)]
    number = [f" link {i}" if count > 1 else "" for i in range(count)]
    links = [f"node {a} to node {b[a]}{i}" for i in number for a in range(node.size) for b in towards]
    return tuple(f"{link} {end}" for end in ("out", "in") for link in links)
