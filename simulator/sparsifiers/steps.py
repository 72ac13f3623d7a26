"""Steps that many methods have in common: kernels, and exchanges of values and indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from simulator.models.curves import Floats
from simulator.models.exchange import (
    AllGather,
    AllReduce,
    Bucket,
    Compute,
    Messages,
    Phase,
    PushPull,
    Rows,
    Selection,
    Step,
    all_to_all,
)

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


def by_size(value: Callable[[int], float], sizes: Sequence[int]) -> list[float]:
    """A value for each size; units of the same size have the same one, which is found once."""
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
