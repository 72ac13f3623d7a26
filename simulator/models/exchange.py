"""What travels: buckets, what was selected in them, the steps of their exchange, and rounds of messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.models.curves import Floats

Ints = npt.NDArray[np.int64]
Phase = Literal["selection", "combine"]


@dataclass(frozen=True, slots=True)
class Bucket:
    """Gradients that travel together: whole tensors, fused tensors, or a slice of one tensor.

    `pieces` are the elements of each tensor (or slice) in it; it is ready when `ready_layer`'s backward has ended.
    `layers` are the tensors' places in forward order, `offset` the first element where it is a slice of one tensor.
    `density`, where it is given, takes the place of the sparsifier's.
    """

    index: int
    pieces: tuple[int, ...]
    ready_layer: int
    layers: tuple[int, ...] = ()
    offset: int = 0
    density: float | None = None

    @property
    def numel(self) -> int:
        """Elements of the bucket."""
        return sum(self.pieces)


@dataclass(frozen=True, slots=True)
class Layout:
    """Who takes part: workers numbered node by node, then parameter servers."""

    nodes: int
    gpus_per_node: int
    servers: int = 0
    colocated: bool = False

    @property
    def workers(self) -> int:
        """Number of workers (GPUs), p."""
        return self.nodes * self.gpus_per_node

    @property
    def places(self) -> int:
        """Workers and servers."""
        return self.workers + self.servers

    def node_of(self, places: Ints) -> Ints:
        """Node of each place; dedicated servers stand on nodes of their own behind the workers'."""
        server = places - self.workers
        hosts = server % self.nodes if self.colocated else self.nodes + server
        return np.where(server < 0, places // self.gpus_per_node, hosts)

    def placement(self) -> Placement:
        """Where everyone stands; co-located servers come after the GPUs of their node."""
        places = np.arange(self.places)
        server = places - self.workers
        rank = np.where(server < 0, places % self.gpus_per_node, 0)
        if self.colocated:
            rank = np.where(server < 0, rank, self.gpus_per_node + server // self.nodes)
        return Placement(self.node_of(places), rank)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where places stand: the node of each (P,), and its number on that node (P,)."""

    node: Ints
    rank: Ints

    @property
    def places(self) -> int:
        """How many there are, P."""
        return len(self.node)

    @property
    def nodes(self) -> int:
        """Nodes, the last one taken included."""
        return int(self.node.max()) + 1


@dataclass(frozen=True, slots=True)
class Selection:
    """What was selected in one bucket, whether replayed or in closed form.

    `selected` k_i per worker (p,), or one number where all are alike; `aggregated` K coordinates finally summed;
    `largest` m, what an equal-size gather pads to; `target` what was asked for. `scanned` elements that the busiest
    worker looks at in each of `passes` passes (0: all of them, once). `aggregated_error`: standard error of K where
    coordinates were sampled. `detail`: figures of the method's own.
    """

    selected: Floats
    aggregated: float
    largest: float
    target: float
    scanned: float = 0.0
    passes: float = 1.0
    aggregated_error: float = 0.0
    detail: dict[str, float] = field(default_factory=dict)


def alike(workers: int, value: float) -> Floats:
    """One number for each of the workers (p,), held once: of large clusters, there are thousands such arrays."""
    return np.ndarray(workers, buffer=np.array([value], dtype=float), strides=(0,))


@dataclass(frozen=True, slots=True)
class Compute:
    """GPU work: `calls` launches in all, and one kernel of each size in `elements`, all of them `times` over."""

    kernel: str
    elements: tuple[float, ...]
    calls: int
    phase: Phase
    times: int = 1


@dataclass(frozen=True, slots=True)
class AllReduce:
    """Sum `nbytes` over all workers."""

    nbytes: float


@dataclass(frozen=True, slots=True)
class AllGather:
    """Every worker receives what each worker i holds, `nbytes` (p,) or one number for all.

    `padded`: the library needs equal sizes, so everyone sends the largest.
    """

    nbytes: float | tuple[float, ...]
    padded: bool = True

    def sizes(self, workers: int) -> Floats:
        """Bytes that each worker contributes on the wire, (p,)."""
        if not isinstance(self.nbytes, tuple):
            return np.full(workers, self.nbytes, dtype=float)
        sizes = np.asarray(self.nbytes, dtype=float)
        return np.full(workers, sizes.max()) if self.padded else sizes


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Worker 0 sends `nbytes` to all."""

    nbytes: float


@dataclass(frozen=True, slots=True)
class ReduceScatter:
    """Sum `nbytes` over all workers; each keeps one part."""

    nbytes: float


@dataclass(frozen=True, slots=True)
class PushPull:
    """Every worker pushes to the servers and pulls the sum."""

    push_nbytes: float
    pull_nbytes: float


@dataclass(frozen=True, slots=True)
class Round:
    """Messages that may start together: places (m,), and bytes (b, m) for b payloads at once.

    `repeat`: the same messages again, each following the previous one at its place.
    """

    src: Ints
    dst: Ints
    nbytes: Floats
    repeat: int = 1


class Route(NamedTuple):
    """The way of each message: first and last link (m,), start-up in seconds (m,), links between (m, h), -1: none."""

    first: Ints
    last: Ints
    latency: Floats
    middle: Ints | None = None


@dataclass(frozen=True, slots=True)
class Messages:
    """Rounds that belong to one method alone: `pattern(nbytes, layout)` makes them from `nbytes`, in bytes."""

    label: str
    nbytes: tuple[float, ...]
    pattern: Callable[[tuple[float, ...], Layout], list[Round]]


Communication = AllReduce | AllGather | Broadcast | ReduceScatter | PushPull | Messages
Step = Compute | Communication


@dataclass(slots=True)
class Traffic:
    """Bytes that crossed each link and left each place, added up."""

    sent: Floats
    links: Floats

    def add(self, src: Ints, route: Route, nbytes: Floats) -> None:
        """Count `nbytes` (m,) of messages at their senders and over every link of their routes."""
        self.sent += np.bincount(src, weights=nbytes, minlength=len(self.sent))
        for links in (route.first, route.last, *(() if route.middle is None else route.middle.T)):
            on = links >= 0
            self.links += np.bincount(links[on], weights=nbytes[on], minlength=len(self.links))
