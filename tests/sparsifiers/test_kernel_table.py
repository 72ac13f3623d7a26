"""All kernels and all bytes of every method's released code, for one selection: sizes by hand, calls by name."""

import numpy as np
import pytest

from simulator.component import build
from simulator.models.exchange import AllGather, AllReduce, Broadcast, Bucket, Compute, Messages, Selection
from simulator.sparsifiers.base import Sparsifier

BUCKET, WORKERS, DENSITY = Bucket(0, (1000, 240), 0), 4, 0.1
COUNTS = (100.0, 110.0, 120.0, 150.0)
MEAN, LARGEST, UNION = 120.0, 150.0, 400.0

D = (1000.0, 240.0)
K = (100.0, 24.0)
HALVES, UNION_HALVES = (LARGEST / 2,) * 2, (UNION / 2,) * 2
WHOLE, ALL = (1240.0,), (UNION,)
COLUMNS = (100.0, 75.0, 50.0, 25.0, 60.0, 45.0, 30.0, 15.0)
"""Of P with rank 4: 25 x 40 and 15 x 16 elements; each column is taken out of those that are left, itself included."""

CLEARED = ("residual_clear", HALVES, "copy, set to 0")
FITTED = [("residual_add", D, "add"), ("threshold_scan", D, "compare, places, count"), ("gather", HALVES, "take")]
SORTED = [("residual_add", D, "add"), ("topk", D, ""), ("residual_clear", K, "set to 0")]
SCANNED = "abs, compare, places, take values, take indices"
PARTS = [("copy", WHOLE, "pack"), ("residual_add", WHOLE, "add")]
CHUNKED = [("elementwise", D, "decay"), ("residual_add", D, "add"), ("chunk_topk", D, "abs, top k")]
DCT = "cut into chunks, rows, columns, join"

SELECTED = {
    "cltk": [*SORTED, ("elementwise", D, "times 1 - beta, times beta and add")],
    "deft": [*PARTS, ("norm", (250.0,) * 4 + (240.0,), "norm"), ("topk", (155.0,) * 2, "abs, top k")],
    "demo": [
        *CHUNKED,
        *[("dct", D, DCT)] * 2,
        ("gather", HALVES, "take"),
        ("copy", D, "zeros"),
        ("scatter_add", HALVES, "put"),
        ("residual_add", D, "subtract"),
    ],
    "dgc": [
        ("elementwise", D, "times momentum, add"),
        *FITTED,
        ("topk", (20.0, 20.0), "stride, abs, top k"),  # 2/density elements are drawn of either
        ("topk", HALVES, "top k"),
        ("residual_clear", HALVES, "clear velocity, clear momentum"),
    ],
    "exdyna": [*PARTS, ("threshold_scan", (1240.0 - 3 * 256,), SCANNED)],  # 1,024 blocks of one; the rest is the last's
    "gaussiank": [*FITTED, CLEARED, ("statistics", D, "deviation, mean")],
    "gtopk": [("residual_add", WHOLE, "add"), ("topk", WHOLE, ""), ("residual_clear", (124.0,), "set to 0")],
    "micro": [*PARTS, ("threshold_scan", (310.0,), SCANNED)],
    "oktopk": [
        *[("residual_add", WHOLE, "add"), ("topk", (1240 / 32,), "top k")],
        ("threshold_scan", (310.0,) * 4, SCANNED),
    ],
    "omnireduce": [*SORTED, ("norm", WHOLE, "mark blocks"), ("copy", (MEAN,), "copy blocks")],
    "powersgd": [("residual_add", D, "add"), ("matmul", D, "M Q")],
    "quantised_all_reduce": [("norm", WHOLE, "scale"), ("quantise", WHOLE, "round")],
    "randomk": [
        *[("residual_add", D, "add"), ("random_indices", K, "draw"), ("gather", K, "take")],
        ("residual_clear", K, "set to 0"),
    ],
    "redsync": [*FITTED, CLEARED, ("statistics", D, "mean, largest")],
    "sage": [
        *[("residual_add", D, "add"), ("threshold_scan", D, SCANNED), ("residual_clear", HALVES, "set to 0")],
        *[("gather", (1.0,) * 302, "take"), ("statistics", (302.0,), "divide")],  # 1240 / (1 + 1240 * 0.05^2)
    ],
    "sidco": [
        *FITTED,
        CLEARED,
        ("norm", D, "norm"),
        ("elementwise", D, "abs, divide"),
        ("statistics", D, "mean, logarithm"),
    ],
    "threshold": [("residual_add", D, "add"), ("threshold_scan", D, SCANNED), ("residual_clear", K, "set to 0")],
    "topk": SORTED,
    "zen": [*SORTED, ("hash", (MEAN,), "hash")],
}
"""Kernels before the exchange: elements of each, and the framework calls that each entry takes."""

WRITE = "zeros, put, divide"
SUMMED = [("gather", ALL, "take"), ("scatter_add", ALL, WRITE), ("residual_clear", ALL, "set to 0")]
CUT = ("copy", ALL, "cut, cut, cut, cut, join")
"""The padding of every worker's indices is cut off."""

COMBINED = {
    "cltk": [("gather", UNION_HALVES, "take"), ("scatter_add", UNION_HALVES, "put")],
    "deft": [CUT, *SUMMED],
    "demo": [
        ("copy", D, "zeros"),
        ("scatter_add", (WORKERS * LARGEST / 2,) * 2, "zeros, mean, put"),
        ("dct", D, DCT),
        ("elementwise", D, "copy, sign"),
    ],
    "exdyna": [CUT, *SUMMED],
    "gtopk": [
        ("host_merge", (LARGEST,) * 2, "merge"),
        ("scatter_add", ALL, WRITE),
        ("residual_add", (LARGEST,), "put back"),
    ],
    "micro": [CUT, *SUMMED],
    "oktopk": [
        ("scatter_add", (MEAN / WORKERS,) * WORKERS, "add"),
        ("threshold_scan", (310.0,), SCANNED),
        ("topk", (UNION - UNION * (1 - 1 / 32),), "top k"),
        ("scatter_add", ALL, WRITE),
        ("residual_clear", ALL, "set to 0"),
    ],
    "omnireduce": [("elementwise", (MEAN,), "add"), ("copy", ALL, "write")],
    "powersgd": [
        ("elementwise", COLUMNS, "norm, divide, project, subtract"),
        ("matmul", D, "M^T P"),
        ("matmul", D, "P Q^T"),
        ("residual_clear", D, "subtract"),
    ],
    "quantised_all_reduce": [("dequantise", (1240 * 2 * 3 / 4,), "decode")],
    "randomk": [("scatter_add", K, "put")],
    "threshold": [("scatter_add", (LARGEST / 2,) * 8, f"cut values, cut indices, take, {WRITE}")],
    "zen": [("scatter_add", (MEAN,), "add"), ("norm", (1240 / 32,), "bitmap"), ("scatter_add", ALL, WRITE)],
}

PART = 2 * (155 + 4 * 256)
"""Two messages of a byte for each of 1240/8 elements, and 256 means."""
COMMON = (sum(COUNTS) - UNION) / (WORKERS - 1)
"""What all four workers count although it is in the union once."""
COUNTED = AllGather(8.0, counts=True)
SENT = {
    "cltk": [Broadcast(4 * UNION), AllReduce(4 * UNION)],
    "deft": [
        Broadcast(4.0 * WORKERS),
        Broadcast(4.0 * 5),
        COUNTED,
        AllGather(8 * (LARGEST - COMMON)),
        AllReduce(4 * UNION),
    ],
    "demo": [AllGather(width * LARGEST / 2) for _ in D for width in (8, 4)],
    "exdyna": [COUNTED, AllGather(8 * LARGEST), AllReduce(4 * UNION)],
    "gtopk": [(8 * LARGEST,)],
    "micro": [COUNTED, AllGather(8 * LARGEST), AllReduce(4 * UNION)],
    "oktopk": [
        (4.0,),
        (8 * (MEAN * 3 / 4) / 3,),
        AllGather(4.0, counts=True),
        AllGather((8 * UNION / 4,) * 4, padded=False),
    ],
    "omnireduce": [(4 * MEAN / 4,), AllGather(4 * UNION / 4)],
    "powersgd": [AllReduce(4.0 * 4 * (25 + 15)), AllReduce(4.0 * 4 * (40 + 16))],
    "quantised_all_reduce": [AllReduce(4.0 * PART)],
    "randomk": [AllReduce(4 * LARGEST)],
    "threshold": [COUNTED, AllGather(8 * LARGEST)],
    "zen": [(8 * MEAN / 4,), AllGather((4 * UNION + 1240 / 8) / 4)],
}
"""Bytes of each exchange in order; of messages, what a worker sends to each other one."""


def made(kind):
    density = {} if kind in ("demo", "powersgd", "quantised_all_reduce") else {"density": DENSITY}
    member = build(Sparsifier, {"kind": kind, **density, **({"beta": 0.5} if kind == "cltk" else {})})
    selection = Selection(np.array(COUNTS), UNION, LARGEST, DENSITY * BUCKET.numel)
    return member.carry_out(selection, BUCKET, WORKERS, "collective")


def told(steps):
    """Kernel, sizes and calls of each step, in an order that does not matter."""
    return sorted((step.kernel, step.elements, step.calls) for step in steps if isinstance(step, Compute))


def table(rows):
    return sorted((name, sizes, len(sizes) * len(calls.split(", ")) * bool(calls)) for name, sizes, calls in rows)


@pytest.mark.parametrize("kind", SELECTED)
def test_kernels_of_the_selection(kind):
    assert told(made(kind)[0]) == table(SELECTED[kind])


@pytest.mark.parametrize("kind", COMBINED)
def test_kernels_of_the_exchange(kind):
    assert told(made(kind)[1]) == table(COMBINED[kind])


@pytest.mark.parametrize("kind", SENT)
def test_bytes_of_the_exchange(kind):
    sent = [step for step in made(kind)[1] if not isinstance(step, Compute)]
    assert [step.nbytes if isinstance(step, Messages) else step for step in sent] == SENT[kind]
