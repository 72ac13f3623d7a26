"""The links between the GPUs of one node: a switch with a port per GPU, or a mesh of links between pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import combinations, groupby, pairwise, permutations
from operator import itemgetter
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator

from simulator.bounds import Number
from simulator.component import Spec, expected
from simulator.fabrics.collectives import FittedLaw
from simulator.models.exchange import Ints, Placement, Route
from simulator.models.small_cache import cache_small_results
from simulator.models.wiring import Links, Rings
from simulator.units import BytesPerSecond, Seconds

Edge = tuple[int, int]
Order = tuple[int, ...]

MOST_GPUS = 8
_LEAST = 1e-6


@lru_cache(maxsize=64)
def pack_rings(links: tuple[tuple[int, int, int], ...], gpus: int) -> Rings:
    """The rings over GPUs 0 to `gpus` - 1 that together carry the most, each with its share as a number of links.

    An entry (0, 3, 2) of `links` means: two links join GPUs 0 and 3, and each of them carries both directions. A ring
    sends along each of its edges in one direction. The shares w maximise sum w_r over all rings r, such that the rings
    over an edge carry no more than its links: a packing of directed Hamiltonian cycles, which NCCL searches for too
    (src/graph/search.cc). On a DGX-1 with V100 GPUs, 2, 3, 4 and 8 GPUs get 1, 2, 4 and 6 links. Empty if no ring
    closes over the links alone, and for more than 8 GPUs.

    >>> sum(share for _, share in pack_rings(((0, 1, 1), (0, 2, 1), (1, 2, 2)), 3))
    2.0
    """
    count = {(a, b): n for first, second, n in links for a, b in ((first, second), (second, first))}
    orders = ((0, *rest) for rest in permutations(range(1, gpus)))
    return _pack(orders, gpus, count, lambda order: list(pairwise((*order, 0))))


@lru_cache(maxsize=64)
def pack_chains(links: tuple[tuple[int, int, int], ...], gpus: int) -> Rings:
    """The chains over GPUs 0 to `gpus` - 1 that together carry the most, each with its share as a number of links.

    A chain visits every GPU once and sends along each of its edges in both directions, which a link has too. NCCL uses
    chains, as trees inside a node, where no ring closes. `links` as for `pack_rings`; empty where no chain exists.

    >>> sum(share for _, share in pack_chains(((0, 1, 2), (1, 2, 2)), 3))
    2.0
    """
    count = {(min(a, b), max(a, b)): n for a, b, n in links}
    orders = (order for order in permutations(range(gpus)) if order[0] < order[-1])
    return _pack(orders, gpus, count, lambda order: [(min(pair), max(pair)) for pair in pairwise(order)])


def _pack(
    orders: Iterable[Order], gpus: int, count: Mapping[Edge, int], edges_of: Callable[[Order], list[Edge]]
) -> Rings:
    """The orders of GPUs that together carry the most, each with its share, where no edge carries more than `count`."""
    if not 2 <= gpus <= MOST_GPUS:
        return ()
    uses = {order: own for order in orders if (own := set(edges_of(order))) <= count.keys()}
    if not uses:
        return ()
    from scipy.optimize import linprog  # heavy, and only for direct links

    edges = sorted(set().union(*uses.values()))
    limits = np.array([[edge in own for own in uses.values()] for edge in edges], dtype=float)
    found = linprog(-np.ones(len(uses)), A_ub=limits, b_ub=np.array([count[edge] for edge in edges]), method="highs")
    return tuple((order, float(share)) for order, share in zip(uses, found.x, strict=True) if share > _LEAST)


_KINDS = {"nvlink": "NVLink", "xgmi": "xGMI", "pci": "PCIe"}
_PCI_MOST = 64e9  # bytes/s, PCIe 5.0 with 16 lanes


def _check_mesh(mesh: tuple[tuple[int, int, int], ...]) -> tuple[tuple[int, int, int], ...]:
    """The mesh, if it is possible. Raises an expected-error that shows the first impossible entry."""
    seen = set[tuple[int, int]]()
    for a, b, count in mesh:
        link, pair = [a, b, count], (min(a, b), max(a, b))
        if pair[0] < 0:
            raise expected("numbers of GPUs, 0 or more", link, "the GPUs of a node count from 0")
        if a == b:
            raise expected("two different GPUs", link, "a link joins a GPU to another one")
        if count < 1:
            raise expected("1 link or more", link, "leave out the pairs that no link joins")
        if pair in seen:
            raise expected("each pair once", link, "a link carries both directions, and [a, b, n] stands for n of them")
        seen.add(pair)
    return mesh


Mesh = Annotated[tuple[tuple[Number, Number, Number], ...], AfterValidator(_check_mesh)]


class IntraNode(Spec):
    """The links between the GPUs of one node (NVSwitch, PCIe through host memory): one port per GPU and direction.

    With `mesh` there are links between pairs instead: [a, b, n] joins GPUs a and b of every node by n links of
    `bandwidth` each (NVLink without a switch). Pairs without a link communicate through host memory, at `host` bytes/s;
    without `host` such a pair is an expected-error if both GPUs take part.

    - `latency`: start-up of one message inside a node.
    - `link`: kind of the links; if it is left out, `nvlink` for a mesh and above 64 GB/s, which no PCIe slot carries.
      `xgmi`, of AMD, counts as NVLink under its own name.
    - `fitted_for`: the measurements that bandwidth and latency were fitted to; none: the links are only described.
    """

    bandwidth: BytesPerSecond
    latency: Seconds = 0.0
    mesh: Mesh = ()
    host: BytesPerSecond | None = None
    link: Literal["nvlink", "xgmi", "pci"] | None = None
    fitted_for: FittedLaw | None = None

    @property
    def joined_by(self) -> Literal["nvlink", "pci"]:
        """The kind of the links between the GPUs, stated or assumed, as a library knows it."""
        if self.link == "xgmi":
            return "nvlink"
        return self.link or ("nvlink" if self.mesh or self.bandwidth > _PCI_MOST else "pci")

    def links(self, placement: Placement) -> Links:
        """The ports of every place; or the ports to the host, then the mesh of every node."""
        names = _port_names(placement.places, "host" if self.mesh else "local")
        ports = port_links(np.arange(placement.places), self.host or self.bandwidth, self.latency, names)
        return mesh_links(placement, self, ports) if self.mesh else ports

    def joins_all_alike(self, gpus: int) -> bool:
        """Whether as many links join every pair of the first `gpus` GPUs."""
        counts = [count for a, b, count in self.mesh if max(a, b) < gpus]
        return len(counts) == gpus * (gpus - 1) // 2 and len(set(counts)) == 1


@cache_small_results
def _port_names(places: int, label: str) -> tuple[str, ...]:
    return tuple(f"place {p} {label} {way}" for way in ("out", "in") for p in range(places))


def port_links(port: Ints, bandwidth: float, latency: float, names: tuple[str, ...]) -> Links:
    """Ports of a switch that never blocks, all links out and then all links in; `port` (P,) is that of each place."""

    def route(src: Ints, dst: Ints) -> Route:
        return Route(port[src], port[dst] + len(names) // 2, np.full(src.shape, latency))

    return Links(np.full(len(names), bandwidth), names, route)


def mesh_links(placement: Placement, mesh: IntraNode, host: Links) -> Links:
    """Direct links between pairs of GPUs of each node, out and in for each direction; other pairs use `host`.

    Raises an expected-error if two GPUs of a node have no link and there is no host bandwidth.
    """
    joined = {(a, b): n for first, second, n in mesh.mesh for a, b in ((first, second), (second, first))}
    known = {(int(n), int(r)): p for p, (n, r) in enumerate(zip(placement.node, placement.rank, strict=True))}
    for node, places in groupby(sorted(known), itemgetter(0)) if mesh.host is None else ():
        for (_, a), (_, b) in combinations(places, 2):
            if (a, b) not in joined:
                hint = "`host` is the bandwidth through host memory; co-located servers are numbered after the GPUs"
                raise expected(f"a link between GPUs {a} and {b} of node {node}, or `host`", "neither", hint)
    base, names, kind = len(host.capacity), list[str](), _KINDS[mesh.link or mesh.joined_by]
    capacity: list[float] = []
    table: dict[tuple[int, int], int] = {}
    for node in range(placement.nodes):
        for (a, b), count in sorted(joined.items()):
            if (node, a) in known and (node, b) in known:
                table[known[node, a], known[node, b]] = base + len(capacity)
                names += [f"node {node} {kind} {a} to {b} {way}" for way in ("out", "in")]
                capacity += 2 * [count * mesh.bandwidth]
    keys = np.array([a * placement.places + b for a, b in table], dtype=np.int64)
    order = np.argsort(keys)
    keys, links = keys[order], np.array(list(table.values()), dtype=np.int64)[order]

    def route(src: Ints, dst: Ints) -> Route:
        through = host.route(src, dst)
        if not len(keys):
            return through
        wanted = src * placement.places + dst
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        direct = keys[at] == wanted
        return Route(
            np.where(direct, links[at], through.first), np.where(direct, links[at] + 1, through.last), through.latency
        )

    return Links(np.concatenate([host.capacity, capacity]), (*host.names, *names), route)
