"""Implementations: how software carries out a method, and the steps that these are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, Literal, TypeVar

from simulator.models.curves import Floats
from simulator.models.exchange import (
    AllGather,
    AllReduce,
    Bucket,
    Communication,
    Compute,
    Messages,
    Phase,
    PushPull,
    Rows,
    Selection,
    Step,
    all_to_all,
)
from simulator.records import Record, replace

SIZE_BYTES = 4
"""Bytes of a number that is neither a value nor an index of the gradient, such as a size, as int32."""
COUNT_BYTES = 8
"""Bytes of a count as torch keeps it, int64."""

Style = Literal["collective", "push_pull"]


def per_call(
    kernel: str,
    elements: tuple[float, ...],
    launches: int,
    phase: Phase = "selection",
    times: int = 1,
    *,
    reads: int = 0,
) -> Compute:
    """One kernel per entry of `elements`, each with `launches` framework calls and `reads` reads of the host."""
    each = len(elements) * times
    return Compute(kernel, elements, launches * each, phase, times, reads * each)


def split_evenly(total: float, parts: int) -> tuple[float, ...]:
    """The sizes of `parts` equal parts of `total` elements."""
    return (total / parts,) * parts


def by_size(value: Callable[[Size], float], sizes: Sequence[Size]) -> list[float]:
    """A value for each size, with or without a shape; units of the same size have the same one, which is found once."""
    known = {size: value(size) for size in set(sizes)}
    return [known[size] for size in sizes]


def sum_step(nbytes: float, style: Style) -> Step:
    """The sum of equally long payloads: an all-reduce, or push and pull with servers."""
    return PushPull(nbytes, nbytes) if style == "push_pull" else AllReduce(nbytes)


def pairs_gathered(selection: Selection, bucket: Bucket, units: int, workers: int, style: Style) -> list[Step]:
    """Exchange of pairs of a value and an int32 index: 8 bytes per selected element.

    Among peers: one all-gather of the values and one of the indices, then a scatter-add per worker and unit (p k
    elements in all) with three framework calls each. With servers: push the pairs, pull the pairs of the union, then
    one scatter-add per unit.
    """
    pair = bucket.value_bytes + bucket.index_bytes
    if style == "push_pull":
        mean = float(selection.selected.mean())
        return [
            PushPull(pair * mean, pair * selection.aggregated),
            per_call("scatter_add", split_evenly(selection.aggregated, units), 3, "combine"),
        ]
    return [
        AllGather(each_sends(bucket.value_bytes * selection.selected)),
        AllGather(each_sends(bucket.index_bytes * selection.selected)),
        per_call("scatter_add", split_evenly(selection.largest, units), 3, "combine", workers),
    ]


def aggregated(label: str, push: float, pull: float, add: Compute, *, workers: int, style: Style) -> list[Step]:
    """Sums by aggregators of equal load: every worker pushes `push` bytes to them and pulls `pull` bytes.

    Aggregators are the servers, or among peers the workers, each of which adds up a part and sends the sums to all.
    """
    if style == "push_pull":
        return [PushPull(push, pull)]
    return [Messages(label, (push / workers,), all_to_all), add, AllGather(pull / workers)]


def each_sends(nbytes: Floats) -> float | tuple[float, ...]:
    """Bytes per worker (p,) for an all-gather: one number if all are equal, since that is priced faster."""
    return float(nbytes[0]) if (nbytes == nbytes[0]).all() else tuple(nbytes)


def rows_gathered(rows: Rows, bucket: Bucket, workers: int) -> list[Step]:
    """The gradient of an embedding as rows: their values and indices are gathered, averaged, and equal rows added."""
    elements = rows.count * rows.width
    return [
        AllGather(bucket.value_bytes * elements),
        AllGather(bucket.long_index_bytes * rows.count),
        per_call("elementwise", (workers * elements,), 1, "combine"),
        per_call("unique", (workers * rows.count,), 1, "combine"),
        per_call("scatter_add", (workers * elements,), 1, "combine"),
    ]


RELEASED = "released"
GOOD = "good"

S = TypeVar("S", bound=Communication)
Size = TypeVar("Size", bound=Hashable)

Steps = tuple[list[Compute], list[Step]]
"""Kernels of the selection before anything is sent, then the exchange with the kernels between and after it."""


class Implementation(Record):
    """One way in which software carries out a method: `label` in words, `source` with its year."""

    label: str
    source: str

    def steps(self, member: Any, selection: Selection, bucket: Bucket, workers: int, style: Style) -> Steps:
        """The steps of a bucket: here those that the member names, which are its released code's."""
        chosen = member.compute(selection, bucket, workers)
        return chosen, member.exchange(selection, bucket, workers, style)


class FusedImplementation(Implementation):
    """Kernels of the released code over all tensors of a bucket at once, and one gather for all arrays of a payload.

    Each kernel is called once with the sum of its elements, so that its bytes are the same and its start-ups are paid
    once; the host reads no value of the GPU. Gathers that follow each other become one with the sum of their bytes.
    A gather of a single count, which says how much the next one carries, stays. It is what the method could cost, not
    what anyone has measured.
    """

    def steps(self, member: Any, selection: Selection, bucket: Bucket, workers: int, style: Style) -> Steps:
        """The member's steps, fused."""
        chosen = [_fused(item) for item in member.compute(selection, bucket, workers)]
        exchange: list[Step] = []
        for step in member.exchange(selection, bucket, workers, style):
            last = exchange[-1] if exchange else None
            if isinstance(step, Compute):
                exchange.append(_fused(step))
            elif (
                isinstance(step, AllGather)
                and isinstance(last, AllGather)
                and last.padded == step.padded
                and not (last.counts or step.counts)
            ):
                exchange[-1] = AllGather(_added(last, step, workers), last.padded)
            else:
                exchange.append(step)
        return chosen, exchange


RELEASED_CODE = Implementation("released code", "the source that the method's description names")
GOOD_CODE = FusedImplementation("one fused call per kernel", "derived from the released code's kernels")


def _fused(item: Compute) -> Compute:
    """One call of the kernel instead of one per tensor."""
    if not item.elements:
        return item
    return Compute(item.kernel, (item.times * math.fsum(item.elements),), 1, item.phase)


def _added(first: AllGather, second: AllGather, workers: int) -> float | tuple[float, ...]:
    """Bytes of both payloads, per worker where they differ."""
    if isinstance(first.nbytes, tuple) or isinstance(second.nbytes, tuple):
        return tuple((first.sizes(workers) + second.sizes(workers)).tolist())
    return first.nbytes + second.nbytes


class GraphImplementation(Implementation):
    """A method as a graph of TensorFlow operations, tensor by tensor, as GRACE runs it.

    Every operation is a kernel over the whole tensor with a start of its own (kernel `elementwise`). Each tensor
    gathers its own arrays; embeddings whose gradients are rows pass the method by, and their rows are gathered. What
    arrives from a worker is cut out, array by array, and decoded by `decode` operations; the decoded tensors are then
    added up, which is one of `after`. Cutting takes `CUT` operations on a few numbers for each array, and `CUT_SIZED`
    where its length is known only at run time.

    - `before`: operations per tensor before the exchange.
    - `decode`: operations per payload; `own` times more for the error feedback, which decodes the worker's own.
    - `after`: operations per tensor once everything is decoded.
    - `arrays`: gathers per tensor. `sized`: one more for the lengths of the arrays.
    - `summed`: payloads are summed on the way, fused as the scheduler says, so that one is decoded. `matrices`: vectors
      are summed as they are, without operations.
    - `host`, `host_decode`: operations that TensorFlow 1 runs on the CPU, with copies to the host and back (kernel
      `host_op`), before the exchange and per payload: those on int32 numbers, among others. An operation on single
      bytes counts as a quarter.
    - `reads`, `reads_decode`: values of the GPU that the host waits for, before the exchange and per payload.
    - `kernels`: further kernels over the tensor, by the names of `simulator.hardware.kernels`.
    - `ahead`: kernels that need no gradient and run on the host from the start of the iteration on.
    - `rounds`: of a loop with `LOOP` operations and `LOOP_READS` reads each: a function of the member and the elements
      of a tensor.
    """

    CUT: ClassVar[int] = 2
    CUT_SIZED: ClassVar[int] = 6
    LOOP: ClassVar[int] = 10
    LOOP_READS: ClassVar[int] = 2

    before: int = 0
    decode: int = 0
    after: int = 1
    own: int = 0
    arrays: int = 1
    sized: bool = False
    summed: bool = False
    matrices: bool = False
    host: float = 0.0
    host_decode: float = 0.0
    reads: int = 0
    reads_decode: int = 0
    kernels: tuple[str, ...] = ()
    ahead: tuple[str, ...] = ()
    rounds: Callable[[Any, int], float] | None = None

    def steps(self, member: Any, selection: Selection, bucket: Bucket, workers: int, style: Style) -> Steps:
        """The operations of every tensor, with the bytes of the member's own exchange."""
        rows = bucket.rows or (None,) * len(bucket.pieces)
        pieces = [n for n, own in zip(bucket.pieces, rows, strict=True) if own is None]
        worked = [
            n
            for (n, shape), own in zip(bucket.shaped, rows, strict=True)
            if own is None and not (self.matrices and len(shape) == 1)
        ]
        sizes, few = tuple(map(float, worked)), (1.0,) * len(pieces)
        payloads = 1 if self.summed else workers
        cut = 0 if self.summed else payloads * self.arrays * (self.CUT_SIZED if self.sized else self.CUT)
        chosen = [
            *_operations(sizes, self.before + self.own * self.decode, reads=self.reads),
            *(item for kernel in self.kernels for item in _operations(sizes, 1, kernel)),
            *(replace(item, ahead=True) for kernel in self.ahead for item in _operations(sizes, 1, kernel)),
            *(item for n in pieces for item in self._loop(member, n)),
            *_host_operations(sizes, self.host),
            *_host_operations(sizes, self.host_decode, self.own),
        ]
        combined = [
            *_operations(sizes, payloads * self.decode + self.after, reads=payloads * self.reads_decode),
            *_operations(few, cut),
            *_host_operations(sizes, self.host_decode, payloads),
        ]
        steps = member.exchange(selection, bucket, workers, style)
        shares = [sum(pieces) / bucket.numel] if self.summed else [n / bucket.numel for n in pieces]
        sent: list[Step] = [step for own in rows if own is not None for step in rows_gathered(own, bucket, workers)]
        for share in filter(None, shares):
            sent += self._arrays([step for step in steps if not isinstance(step, Compute)], share, workers)
        return chosen, [*sent, *(replace(item, phase="combine") for item in combined)]

    def _loop(self, member: Any, numel: int) -> list[Compute]:
        """The kernels of the loop over one tensor."""
        rounds = round(self.rounds(member, numel)) if self.rounds else 0
        return _operations((float(numel),), self.LOOP * rounds, reads=self.LOOP_READS * rounds)

    def _arrays(self, sent: Sequence[Communication], share: float, workers: int) -> list[Communication]:
        """The part of the bucket's communication that belongs to one tensor, in `arrays` gathers."""
        gathers = [_scaled(step, share) for step in sent if isinstance(step, AllGather)]
        for rest in gathers[self.arrays :]:
            gathers[0] = AllGather(_added(gathers[0], rest, workers), gathers[0].padded)
        lengths = [AllGather(float(SIZE_BYTES * self.arrays))] if self.sized and gathers else []
        others = [_scaled(step, share) for step in sent if not isinstance(step, AllGather)]
        return [*others, *lengths, *gathers[: self.arrays]]


def _operations(sizes: tuple[float, ...], times: int, kernel: str = "elementwise", reads: int = 0) -> list[Compute]:
    """`times` operations on every tensor, and `reads` reads of the host for each."""
    return (
        [Compute(kernel, sizes, times * len(sizes), "selection", times, reads * len(sizes))] if times and sizes else []
    )


def _host_operations(sizes: tuple[float, ...], count: float, times: int = 1) -> list[Compute]:
    """`count` operations of the CPU on every tensor, `times` over."""
    whole = math.ceil(count)
    return _operations(tuple(n * count / whole for n in sizes), whole * times, "host_op") if count else []


def _scaled(step: S, share: float) -> S:
    """A share of the bytes of a step."""
    changed: dict[str, Any] = {}
    for name in {"nbytes", "push_nbytes", "pull_nbytes"}.intersection(step.__struct_fields__):
        nbytes = getattr(step, name)
        changed[name] = tuple(share * each for each in nbytes) if isinstance(nbytes, tuple) else share * nbytes
    return replace(step, **changed)


def grace(**counts: Any) -> GraphImplementation:
    """GRACE's TensorFlow code of a method, with the operations `counts` that stand in it."""
    return GraphImplementation(
        "GRACE, TensorFlow 1", "Xu et al., ICDCS 2021: sands-lab/grace, grace_dl/tensorflow (BSD-2-Clause)", **counts
    )


GRACE = {
    "efsignsgd": grace(before=7, decode=4, after=2, own=1, arrays=2),
    "eight_bit": grace(before=23, decode=8, own=1, arrays=2, host=1, host_decode=2),
    "inceptionn": grace(before=57, decode=70, arrays=5, host=11, host_decode=10, reads=3, reads_decode=3),
    "natural": grace(before=20, decode=10, own=1, host=5, host_decode=0.25),
    "onebit": grace(before=24, decode=6, own=1, arrays=2, reads=2),
    "powersgd": grace(before=20, after=0, summed=True, matrices=True),
    "qsgd": grace(before=15, decode=3, arrays=2),
    "randomk": grace(before=10, after=3, summed=True, ahead=("shuffle",)),
    "signsgd": grace(before=1, decode=3, after=5),
    "signum": grace(before=5, decode=3, after=5),
    "sketch": grace(before=25, decode=2, own=1, arrays=2, host=1, kernels=("sort",)),
    "terngrad": grace(before=22, decode=2, arrays=2),
    "threshold": grace(before=13, decode=4, own=1, sized=True, reads=2),
    "topk": grace(before=9, decode=4, own=1, kernels=("topk",)),
}
"""GRACE's code of each method by its kind; that of DGC, whose loop depends on its parameters, stands in `dgc.py`."""
