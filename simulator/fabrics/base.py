"""The fabric family: links with capacities, routes over them, and the collectives measured on them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, Field, field_validator

from simulator.component import Component, Spec, expected
from simulator.models.curves import Floats, Piecewise, rising
from simulator.models.exchange import Ints, Layout, Placement, Route
from simulator.models.remembering import remembered
from simulator.models.rings import Rings
from simulator.units import BytesPerSecond, Density, Fraction, PositiveBytes, Seconds


def _each_pair_once(mesh: tuple[tuple[int, int, int], ...]) -> tuple[tuple[int, int, int], ...]:
    """Links between pairs of GPUs as they can be. Raises an expected-error that shows the first that cannot."""
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


Mesh = Annotated[tuple[tuple[int, int, int], ...], AfterValidator(_each_pair_once)]


class IntraNode(Spec):
    """What joins the GPUs of one node (NVSwitch, PCIe through host memory): one port per GPU and direction.

    With `mesh` there are links between pairs instead: [a, b, n] joins GPUs a and b of every node by n links of
    `bandwidth` each (NVLink without a switch). Pairs that no link joins talk through `host`; without `host` they are an
    expected-error as soon as both are present.

    - `latency`: start-up of one message inside a node.
    """

    bandwidth: BytesPerSecond
    latency: Seconds = 0.0
    mesh: Mesh = ()
    host: BytesPerSecond | None = None

    def links(self, placement: Placement) -> Links:
        """Ports of every place, or the mesh of every node with the ports to the host behind it."""
        ports = port_links(placement, self.host or self.bandwidth, self.latency, "host" if self.mesh else "local")
        return mesh_links(placement, self, ports) if self.mesh else ports


class Protocol(Spec):
    """A wire protocol of the collective library, used while the payload per worker is small enough.

    NCCL's LL sends 4 bytes of data with a 4-byte flag, so it reaches half the bandwidth, at a low latency.

    - `name`: of the protocol.
    - `up_to_per_worker`: largest payload per worker that it carries.
    - `efficiency`: share of the bandwidth that it leaves to the payload.
    """

    name: str
    up_to_per_worker: PositiveBytes
    efficiency: Density = 1.0


class MeasuredCollective(Spec):
    """A measured collective at one worker count: bytes of the payload to seconds.

    `bandwidth` and `latency` are the fabric's as it was measured: on any other fabric the curve does not apply.

    - `primitive`: the collective.
    - `topology`: kind whose price the curve replaces.
    - `workers`: at which it was measured, and at which alone it applies.
    - `gpus_per_node`: of the cluster it was measured on.
    - `points`: pairs of payload and seconds, payloads rising.
    - `held_out_mape`: mean absolute relative error on points that were left out.
    - `source`: where the measurement was published.
    """

    primitive: Literal["all_reduce", "all_gather", "reduce_scatter", "broadcast"]
    topology: str
    workers: int = Field(ge=2)
    gpus_per_node: int = Field(ge=1)
    bandwidth: BytesPerSecond
    latency: Seconds
    points: tuple[tuple[PositiveBytes, Seconds], ...] = Field(min_length=2)
    held_out_mape: Fraction | None = None
    source: str

    _checked = field_validator("points")(rising)

    @cached_property
    def curve(self) -> Piecewise:
        """The points as a curve, straight on log-log axes between them."""
        return Piecewise(points=self.points)

    @property
    def id(self) -> str:
        """Name of the curve in a result's `calibration`."""
        return f"{self.primitive}/{self.topology}/{self.workers}x{self.gpus_per_node}"


@dataclass(frozen=True)
class Links:
    """Links of one kind: capacities in bytes/s (L,), names, and the route of messages over them.

    `route(src, dst)` takes places (m,) and numbers the links from 0. A message leaves through its first link and
    arrives through its last, which differ: a place sends its messages over one link in order, and takes them in order.
    `burst`: bytes that each of them lets through at once after it was idle.
    """

    capacity: Floats
    names: tuple[str, ...]
    route: Callable[[Ints, Ints], Route]
    burst: float = 0.0


@dataclass(frozen=True)
class Wiring:
    """A fabric laid out for one cluster: the links between the nodes, then those inside them.

    `incast` (n, 2): share of an arriving NIC's capacity that is left at each number of concurrent senders. `burst`
    (L,): bytes that each link lets through at once after it was idle; None where no link does.
    """

    layout: Layout
    node: Ints
    capacity: Floats
    names: tuple[str, ...]
    across: Callable[[Ints, Ints], Route]
    inside: Callable[[Ints, Ints], Route]
    offset: int
    incast: Floats | None = None
    burst: Floats | None = None

    def arriving(self) -> Floats:
        """1 for links (L,) by which messages from other nodes arrive, else 0."""
        made, places = np.zeros(len(self.capacity)), np.arange(len(self.node))
        others = [int(np.argmax(self.node != node)) for node in range(int(self.node.max()) + 1)]
        senders = np.array(others)[self.node]
        apart = self.node[senders] != self.node
        if apart.any():
            made[self.across(senders[apart], places[apart]).last] = 1
        return made

    def route(self, src: Ints, dst: Ints) -> Route:
        """The route of each message, (m,) places: inside a node where both ends stand on it."""
        local = self.node[src] == self.node[dst]
        if not local.any():
            return self.across(src, dst)
        within = self.inside(src, dst)
        within = Route(
            within.first + self.offset,
            within.last + self.offset,
            within.latency,
            None if within.middle is None else np.where(within.middle < 0, -1, within.middle + self.offset),
        )
        if local.all():
            return within
        between = self.across(src, dst)
        return Route(
            np.where(local, within.first, between.first),
            np.where(local, within.last, between.last),
            np.where(local, within.latency, between.latency),
            _either(local, within.middle, between.middle),
        )


def _either(first: npt.NDArray[np.bool_], one: Ints | None, other: Ints | None) -> Ints | None:
    """Rows of `one` where `first` holds, else of `other`; padded to the same width."""
    if one is None and other is None:
        return None
    width = max(0 if part is None else part.shape[1] for part in (one, other))
    made = np.full((len(first), width), -1, dtype=np.int64)
    for mask, part in ((first, one), (~first, other)):
        if part is not None:
            made[mask, : part.shape[1]] = part[mask]
    return made


class Fabric(Component, family="fabric"):
    """Base of all fabrics: a NIC per node, a link inside the node, and what was measured on them.

    - `bandwidth`: what a NIC carries per direction after protocol headers.
    - `latency`: start-up of one message between nodes, end to end.
    - `intra_node`: what joins the GPUs of a node; without it they talk at the NIC's figures.
    - `incast`: measured pairs of concurrent senders and the share of a NIC's bandwidth that is left; none: all of it.
    - `name`: what results call it.
    - `source`: where the figures come from.
    - `held_out_mape`: mean absolute relative error of the link law on measurements that it was not fitted to.
    - `nics_per_node`: NICs of a node, which its GPUs take in turn.
    - `protocols`: wire protocols by payload; none: the full bandwidth for all.
    - `measured`: collectives that were measured on this fabric; a curve is used where it applies.

    What a collective takes beside the wires, whatever the number of workers; exchanges that meet others on the links go
    without both:

    - `collective_start_up`: seconds of every collective, once.
    - `copy_bandwidth`: at which its payload goes through the GPU's own memory.
    """

    name: str = ""
    source: str = ""
    bandwidth: BytesPerSecond
    latency: Seconds = 0.0
    held_out_mape: Fraction | None = None
    intra_node: IntraNode | None = None
    nics_per_node: int = Field(default=1, ge=1, le=64)
    incast: tuple[tuple[Annotated[int, Field(ge=1)], Density], ...] = ()
    protocols: tuple[Protocol, ...] = ()
    collective_start_up: Seconds = 0.0
    copy_bandwidth: BytesPerSecond | None = None
    measured: tuple[MeasuredCollective, ...] = ()

    def wire(self, layout: Layout, endpoint_bandwidth: float | None = None) -> Wiring:
        """Lay the fabric out; `endpoint_bandwidth` caps what the software of one endpoint moves.

        Raises an expected-error where the cluster does not fit on the fabric.
        """
        return self.lay(layout, layout.placement(), endpoint_bandwidth)

    def lay(self, layout: Layout, placement: Placement, endpoint_bandwidth: float | None = None) -> Wiring:
        """Lay the fabric out for places that stand anywhere; `layout` is that of the job in question."""
        across = self.across(placement, min(self.bandwidth, endpoint_bandwidth or np.inf))
        inside = self.inside(placement)
        return Wiring(
            layout=layout,
            node=placement.node,
            capacity=np.concatenate([across.capacity, inside.capacity]),
            names=across.names + inside.names,
            across=across.route,
            inside=inside.route,
            offset=len(across.capacity),
            incast=np.array(self.incast) if self.incast else None,
            burst=np.repeat([across.burst, 0.0], [len(across.names), len(inside.names)]) if across.burst else None,
        )

    def across(self, placement: Placement, nic: float) -> Links:
        """Links between the nodes; `nic` is what one NIC moves per second and direction."""
        raise NotImplementedError

    def inside(self, placement: Placement) -> Links:
        """Links inside the nodes: `intra_node`, or ports at the NIC's figures."""
        return (self.intra_node or IntraNode(bandwidth=self.bandwidth, latency=self.latency)).links(placement)

    def nics(self, placement: Placement, nic: float) -> Links:
        """The NICs alone, out then in: the GPUs of a node share its `nics_per_node` in turn."""
        count, nodes = self.nics_per_node, placement.nodes
        out = placement.node * count + placement.rank % count
        ports, latency = nodes * count, np.float64(self.latency)

        def route(src: Ints, dst: Ints) -> Route:
            return Route(out[src], out[dst] + ports, np.broadcast_to(latency, src.shape))

        return Links(np.full(2 * ports, nic), _nic_names(nodes, count), route)

    def protocol_factor(self, nbytes: Floats, workers: int) -> Floats:
        """How many bytes the wire carries per byte of payload, for each payload (b,)."""
        factor = np.ones_like(nbytes)
        for protocol in sorted(self.protocols, key=lambda item: -item.up_to_per_worker):
            factor = np.where(nbytes <= protocol.up_to_per_worker * workers, 1 / protocol.efficiency, factor)
        return factor

    def beside(self, nbytes: Floats) -> Floats:
        """Seconds that collectives of payloads (b,) take beside the wires."""
        copied = nbytes / self.copy_bandwidth if self.copy_bandwidth else np.zeros(len(nbytes))
        return np.where(nbytes > 0, self.collective_start_up + copied, 0.0)

    def rings(self, layout: Layout) -> Rings:
        """The rings that a ring topology is to use here; none: one in node order."""
        return ()

    def measured_curve(self, primitive: str, topology: str, layout: Layout) -> MeasuredCollective | None:
        """The collective measured at exactly this layout and on this very fabric, or None."""
        wanted = (primitive, topology, layout.workers, layout.gpus_per_node, self.bandwidth, self.latency)
        for item in self.measured:
            same = (item.primitive, item.topology, item.workers, item.gpus_per_node, item.bandwidth, item.latency)
            if same == wanted:
                return item
        return None

    def foreign_curves(self) -> list[MeasuredCollective]:
        """Curves that were measured at another bandwidth or latency, and so are not used."""
        return [item for item in self.measured if (item.bandwidth, item.latency) != (self.bandwidth, self.latency)]


@remembered  # a sweep lays the same cluster out again and again
def _nic_names(nodes: int, count: int) -> tuple[str, ...]:
    number = [f" {i}" if count > 1 else "" for i in range(count)]
    return tuple(f"node {n} NIC{i} {way}" for way in ("out", "in") for n in range(nodes) for i in number)


@remembered
def _port_names(places: int, label: str) -> tuple[str, ...]:
    return tuple(f"place {p} {label} {way}" for way in ("out", "in") for p in range(places))


def port_links(placement: Placement, bandwidth: float, latency: float, label: str) -> Links:
    """One link per place and direction, on a switch that never blocks."""
    places, start_up = placement.places, np.float64(latency)

    def route(src: Ints, dst: Ints) -> Route:
        return Route(src, dst + places, np.broadcast_to(start_up, src.shape))

    return Links(np.full(2 * places, bandwidth), _port_names(places, label), route)


def _all_joined(places: Iterable[tuple[int, int]], joined: Container[tuple[int, int]]) -> None:
    """Raise an expected-error that names the first two GPUs of one node (node, number) that no link joins."""
    ranks = defaultdict[int, list[int]](list)
    for node, rank in sorted(places):
        ranks[node].append(rank)
    for node, present in ranks.items():
        for a, b in combinations(present, 2):
            if (a, b) not in joined:
                raise expected(
                    f"a link between GPUs {a} and {b} of node {node}, or `host`",
                    "neither",
                    "`host` is the bandwidth through host memory; co-located servers are numbered behind the GPUs",
                )


def mesh_links(placement: Placement, mesh: IntraNode, host: Links) -> Links:
    """Direct links between pairs of GPUs of each node, each direction out and in; the others go by `host`.

    Raises an expected-error where two GPUs of a node have neither a link nor a host to go through.
    """
    joined = {(a, b): n for first, second, n in mesh.mesh for a, b in ((first, second), (second, first))}
    known = {(int(n), int(r)): p for p, (n, r) in enumerate(zip(placement.node, placement.rank, strict=True))}
    if mesh.host is None:
        _all_joined(known, joined)
    base, names = len(host.capacity), list[str]()
    capacity: list[float] = []
    table: dict[tuple[int, int], int] = {}
    for node in range(placement.nodes):
        for (a, b), count in sorted(joined.items()):
            if (node, a) in known and (node, b) in known:
                table[known[node, a], known[node, b]] = base + len(capacity)
                names += [f"node {node} NVLink {a} to {b} {way}" for way in ("out", "in")]
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
