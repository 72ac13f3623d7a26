"""What travels: buckets, their selections, the steps of their exchange, and rounds of messages with their patterns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, groupby
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from simulator.bounds import BOUNDS
from simulator.component import Spec
from simulator.models.curves import Floats
from simulator.models.limits import refuse_messages
from simulator.models.precision import FP32_BYTES, INDEX_BYTES
from simulator.records import Record, field, replace

MAX_WIDTH = 10**9


class Rows(Spec):
    """The gradient of an embedding as the framework makes it: one row of values and one index per row looked up.

    It is TensorFlow's IndexedSlices, or the sparse gradient of a PyTorch embedding. Rows that are looked up several
    times count each time: TensorFlow merges them only in its optimiser, after they have travelled.

    - `count`: rows that a worker looks up in one iteration (for words: batch size times words per sample).
    - `width`: elements of a row.
    """

    count: float = Field(ge=BOUNDS["elements"].smallest, le=10**12)
    width: int = Field(ge=1, le=MAX_WIDTH)


Ints = npt.NDArray[np.int64]
Phase = Literal["selection", "combine"]


Shape = tuple[int, ...]
"""Dimensions of a tensor; empty where they are not known."""


class Bucket(Record):
    """Gradients that travel together: whole tensors, fused tensors, or a slice of one tensor.

    `pieces` are the elements of each tensor (or slice) in it; it is ready when the backward pass of `ready_layer` has
    ended. `layers` are the positions of the tensors in forward order, `offset` the first element of a slice. `density`,
    if given, is used instead of the sparsifier's. As they travel: `value_bytes` of an element, `index_bytes` of an
    index, and `long_index_bytes` of one in methods whose released code sends the framework's own int64 indices.
    `filled`: the runtime has copied the tensors to one place, and copies them back.
    `rows`: of pieces that are whole embeddings, what their gradients consist of; None for a dense piece, and empty if
    all pieces are dense. `shapes`: dimensions of pieces that are whole tensors, `()` of others; empty if none is known.
    `fragment`: the part of the model that it belongs to, where parts are exchanged after
    different local steps.
    """

    index: int
    pieces: tuple[int, ...]
    ready_layer: int
    layers: tuple[int, ...] = ()
    offset: int = 0
    density: float | None = None
    value_bytes: int = FP32_BYTES
    index_bytes: int = INDEX_BYTES["int32"]
    long_index_bytes: int = INDEX_BYTES["int64"]
    filled: bool = False
    rows: tuple[Rows | None, ...] = ()
    shapes: tuple[Shape, ...] = ()
    fragment: int = 0

    @property
    def in_one_piece(self) -> bool:
        """Whether its gradients lie one after the other in memory, so that nothing has to pack them."""
        return self.filled or len(self.pieces) == 1

    @property
    def numel(self) -> int:
        """Elements of the bucket."""
        return sum(self.pieces)

    @property
    def shaped(self) -> tuple[tuple[int, Shape], ...]:
        """Elements and dimensions of each piece."""
        return tuple(zip(self.pieces, self.shapes or [()] * len(self.pieces), strict=True))

    @property
    def sizes(self) -> tuple[float, ...]:
        """Elements of each piece, as kernels take them."""
        return tuple(float(n) for n in self.pieces)


def sum_by_bucket(values: Floats, buckets: Sequence[Bucket]) -> Floats:
    """The sums over the tensors of each bucket, (B, ...), of values (L, ...) of tensors, which slices count whole."""
    ends = [*accumulate(len(bucket.layers) for bucket in buckets)]
    return np.add.reduceat(values[[layer for bucket in buckets for layer in bucket.layers]], [0, *ends[:-1]], axis=0)


class Layout(Record):
    """The places that take part: workers, numbered node by node, then parameter servers."""

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

    def placement(self) -> Placement:
        """Node and rank of every place.

        Co-located servers come after the GPUs of their node, dedicated ones are on nodes of their own after all others.
        """
        worker, server, g = np.arange(self.workers), np.arange(self.servers), self.gpus_per_node
        hosts = server % self.nodes if self.colocated else self.nodes + server
        ranks = g + server // self.nodes if self.colocated else 0 * server
        node, rank = np.concatenate([worker // g, hosts]), np.concatenate([worker % g, ranks])
        return Placement(node, rank, hosts[:0] if self.colocated else hosts)


class Placement(Record):
    """The node of each place (P,), its number on that node (P,), and the nodes that are servers of their own."""

    node: Ints
    rank: Ints
    servers: Ints

    @property
    def places(self) -> int:
        """Number of places, P."""
        return len(self.node)

    @property
    def nodes(self) -> int:
        """Number of nodes up to the last one in use."""
        return int(self.node.max()) + 1


class Selection(Record):
    """The selection in one bucket, from a replay or in closed form.

    `selected`: k_i per worker (p,). `aggregated`: K, elements of the sum. `largest`: m, the size to which an equal-size
    gather is padded. `target`: elements to select. `scanned`: elements that the busiest worker reads per pass, in
    `passes` passes (0: all of them, once). `aggregated_error`: standard error of K on sampled coordinates. `detail`:
    other figures of the method. `exclusive`: workers select in disjoint parts, so that nothing is selected twice.
    """

    selected: Floats
    aggregated: float
    largest: float
    target: float
    scanned: float = 0.0
    passes: float = 1.0
    aggregated_error: float = 0.0
    detail: dict[str, float] = field(default_factory=dict)
    exclusive: bool = False

    @property
    def without_overlap(self) -> float:
        """What K is without build-up: the mean selection, or the sum of all in disjoint parts."""
        return float(self.selected.sum() if self.exclusive else self.selected.mean())


def alike(workers: int, value: float) -> Floats:
    """One number for all workers (p,), stored once, since large clusters have thousands of such arrays."""
    return np.ndarray(workers, buffer=np.array([value], dtype=float), strides=(0,))


class Compute(Record):
    """GPU work: `calls` launches in all, and one kernel of each size in `elements`, all of them `times` over.

    `reads`: values of the GPU that the host waits for before it goes on, in all. `ahead`: work of the host that needs
    no gradient, one thread for each entry of `elements`: it starts with the iteration, and only what is longer than the
    forward and backward pass delays the exchange.
    """

    kernel: str
    elements: tuple[float, ...]
    calls: int
    phase: Phase
    times: int = 1
    reads: int = 0
    ahead: bool = False


class Collective(Record):
    """Base of what all workers do with `nbytes` together."""

    nbytes: float


class AllReduce(Collective):
    """Sum `nbytes` over all workers."""


class AllGather(Record):
    """Every worker receives the payloads of all workers: `nbytes` (p,), or one number for all.

    `padded`: the library needs equal sizes, so that all workers send the largest. `counts`: it says how much the next
    gather carries, which therefore cannot begin with it.
    """

    nbytes: float | tuple[float, ...]
    padded: bool = True
    counts: bool = False

    def sizes(self, workers: int) -> Floats:
        """Bytes that each worker sends (p,), padding included."""
        if not isinstance(self.nbytes, tuple):
            return np.full(workers, float(self.nbytes))
        sizes = np.asarray(self.nbytes, dtype=float)
        return np.full(workers, sizes.max()) if self.padded else sizes


class Broadcast(Collective):
    """Worker 0 sends `nbytes` to all."""


class ReduceScatter(Collective):
    """Sum `nbytes` over all workers; each keeps one part."""


PRIMITIVES: dict[str, type[AllReduce | AllGather | ReduceScatter | Broadcast]] = {
    "all_reduce": AllReduce,
    "all_gather": AllGather,
    "reduce_scatter": ReduceScatter,
    "broadcast": Broadcast,
}
PRIMITIVE: dict[type, str] = {step: name for name, step in PRIMITIVES.items()}
"""Collectives by the names of their functions in a topology, and these names."""


class PushPull(Record):
    """Every worker pushes to the servers and pulls the sum."""

    push_nbytes: float
    pull_nbytes: float


class Round(Record):
    """Messages that are sent at the same time: their places (m,), and their bytes (b, m) for b payloads at once.

    `repeat`: how often the same messages are sent, one after the other. `independent`: they pass on nothing that their
    senders receive in a round before, so that only links, which send in order, make them wait. `connections`: over how
    many a message travels, each of which gets what a link gives one message at most; a part of one where some are idle.
    """

    src: Ints
    dst: Ints
    nbytes: Floats
    repeat: int = 1
    independent: bool = False
    connections: float = 1.0

    def backwards(self) -> Round:
        """The messages of a round, each from its receiver to its sender."""
        return replace(self, src=self.dst, dst=self.src)


def send(src: Ints, dst: Ints, nbytes: Floats, repeat: int = 1) -> Round:
    """A round in which all messages have the same bytes, (b, 1), or each its own, (b, m)."""
    return Round(src, dst, np.broadcast_to(nbytes, (len(nbytes), len(src))), repeat)


class Route(NamedTuple):
    """The route of each message: first and last link (m,), start-up in seconds (m,), links between (m, h), -1: none."""

    first: Ints
    last: Ints
    latency: Floats
    middle: Ints | None = None

    @property
    def links(self) -> tuple[Ints, ...]:
        """The links of every message (m,), place by place of the way."""
        return self.first, self.last, *(() if self.middle is None else self.middle.T)


class Messages(Record):
    """Rounds of messages of a single method: `pattern(nbytes, layout)` makes them from payloads in bytes."""

    label: str
    nbytes: tuple[float, ...]
    pattern: Callable[[Floats, Layout], list[Round]]

    def rounds(self, layout: Layout) -> list[Round]:
        """What is sent on a cluster."""
        return self.pattern(np.array(self.nbytes), layout)


Communication = AllReduce | AllGather | Broadcast | ReduceScatter | PushPull | Messages
Step = Compute | Communication


def bytes_of_step(step: Communication, workers: int) -> tuple[float, float]:
    """Bytes that a worker hands over, and that it is given; of messages only the payloads, whatever their pattern."""
    if isinstance(step, PushPull):
        return step.push_nbytes, step.pull_nbytes
    if isinstance(step, AllGather):
        sizes = step.sizes(workers)
        return float(sizes.max()), float(np.sum(sizes))
    return (sum(step.nbytes) if isinstance(step, Messages) else step.nbytes,) * 2


def rotations(nbytes: Floats, layout: Layout) -> list[Round]:
    """Every worker sends `nbytes` (b, 1) or (b, p) to every other: p-1 rounds, in round t to the worker t places on."""
    p = layout.workers
    refuse_messages(p * (p - 1))
    workers = np.arange(p)
    around = np.concatenate([workers, workers])  # the receivers of all rounds are windows of one array
    return [send(workers, around[t : t + p], nbytes) for t in range(1, p)]


def all_to_all(nbytes: Floats, layout: Layout) -> list[Round]:
    """Every worker sends a payload (b,) to every other: first in its node, then to those of the next one, and so on.

    In a round all send to the node that is as far away, each to the GPU that is as far from its own place, as NCCL
    orders point-to-point calls (`p2pSchedule`, src/init.cc): no message within a node waits behind one between nodes.
    """
    refuse_messages(layout.workers * (layout.workers - 1))
    return _send_on(nbytes, layout, range(layout.nodes), range(layout.gpus_per_node))


def all_to_all_in_nodes(nbytes: Floats, layout: Layout) -> list[Round]:
    """Every worker sends a payload (b,) to every other one of its node, in rotations."""
    return _send_on(nbytes, layout, range(1), range(layout.gpus_per_node))


def all_to_all_between_nodes(nbytes: Floats, layout: Layout) -> list[Round]:
    """Every worker sends a payload (b,) to those of its rank on all other nodes, in rotations."""
    return _send_on(nbytes, layout, range(layout.nodes), range(1))


def _send_on(nbytes: Floats, layout: Layout, nodes: range, places: range) -> list[Round]:
    """A round for every so many nodes and places on that a worker sends to, all but to itself."""
    workers, p, g = np.arange(layout.workers), layout.workers, layout.gpus_per_node
    rounds = [
        send(workers, (workers - workers % g + node * g) % p + (workers + place) % g, nbytes[:, None])
        for node in nodes
        for place in places
        if node or place
    ]
    return [replace(item, independent=True) for item in rounds]


def binomial_reduce(nbytes: Floats, layout: Layout) -> list[Round]:
    """Payloads (b,) up the binomial tree, in which worker 0 has the children 1, 2, 4, ... and the nearest one first."""
    rounds, distance = [], 1
    while distance < layout.workers:
        parents = np.arange(0, layout.workers - distance, 2 * distance)
        rounds.append(send(parents + distance, parents, nbytes[:, None]))
        distance *= 2
    return rounds


def merge_tree(nbytes: Floats, layout: Layout) -> list[Round]:
    """Pairs merge payloads (b,) up a tree in log2 p rounds; then worker 0 broadcasts as many bytes down again.

    gTop-k (Shi et al., ICDCS 2019). p must be a power of two.
    """
    up = binomial_reduce(nbytes, layout)
    return up + [item.backwards() for item in reversed(up)]


def ring_rounds(nbytes: Floats, layout: Layout) -> list[Round]:
    """In round t, every worker sends `nbytes[t]` to the next one on a ring of all workers."""
    workers = np.arange(layout.workers)
    following = np.roll(workers, -1)
    return [send(workers, following, np.array([[size]]), len(list(equal))) for size, equal in groupby(nbytes.tolist())]
