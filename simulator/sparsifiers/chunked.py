"""The base of methods that select a fixed number of elements of every chunk of a tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np
from pydantic import Field

from simulator.bounds import Count
from simulator.models.curves import Floats
from simulator.models.exchange import Bucket, Selection, Shape, alike
from simulator.models.gradients import Block, Mask, Values
from simulator.models.overlap import Overlap, union_density
from simulator.sparsifiers.base import Sparsifier
from simulator.sparsifiers.implementation import by_size

Part = TypeVar("Part", Values, Mask)


class Chunks(NamedTuple):
    """Chunks of one size: `down` times `across` of them lie in a tensor, each with `rows` times `columns` elements."""

    down: int
    across: int
    rows: int
    columns: int

    @property
    def number(self) -> int:
        """Number of chunks."""
        return self.down * self.across

    @property
    def size(self) -> int:
        """Elements of a chunk."""
        return self.rows * self.columns


class Chunked(Sparsifier):
    """Base of methods whose workers each select the `k` elements of largest magnitude of every chunk of a tensor.

    A tensor is a matrix of its first dimension times all others, and is cut into blocks. The sides of a block are the
    largest divisors of the sides of the matrix that are at most `chunk`: 64 x 64 = 4,096 elements where both are
    multiples of 64, and 29 x 64 of an embedding of 50,257 x 256, so that nothing is left over. A vector is cut into
    pieces of at most `chunk` elements by the same rule. All elements of a chunk of at most k are selected. So does the
    released code of DeMo (bloc97/DeMo), and that of SparseLoCo, which came from it.

    Shapes are those of the gradients in a replay, and else of the layers. Where a layer has none, or was cut, a tensor
    of n elements has the shape in `matrices` with a b = n (1 x n is a vector). If there is none, chunks are `chunk`^2
    elements in a row, and the last one is what is left, which is the same where both sides are multiples of `chunk`.

    - `chunk`: longest side of a chunk, in elements.
    - `k`: elements of each chunk.
    """

    whole_only: ClassVar[str] = "it selects from chunks of elements that lie together"

    chunk: int = Field(default=64, ge=1, le=64)
    k: Count
    matrices: tuple[tuple[Count, Count], ...] = ()

    def target(self, bucket_numel: int) -> float:
        """k of every chunk of `chunk`^2 elements."""
        return bucket_numel * min(1.0, self.k / self.chunk**2)

    @property
    def follows_gradients(self) -> bool:
        """Which elements of a chunk workers select is what their union depends on."""
        return True

    def chunks_of(self, numel: int, shape: Shape = ()) -> tuple[Chunks, ...]:
        """The chunks of a tensor, in the order of its elements."""
        if not shape or math.prod(shape) != numel:
            shape = next(((a, b) for a, b in self.matrices if a * b == numel), ())
        return _cut(numel, shape, self.chunk)

    def counts(self, bucket: Bucket) -> Floats:
        """Elements that a worker selects of each tensor."""
        each = by_size(lambda piece: sum(c.number * min(self.k, c.size) for c in self.chunks_of(*piece)), bucket.shaped)
        return np.array(each, dtype=float)

    def expect(self, bucket: Bucket, workers: int, concentration: Overlap) -> Selection:
        """k of every chunk, and K by the overlap law, chunk by chunk."""

        def union(piece: tuple[int, Shape]) -> float:
            chunks = self.chunks_of(*piece)
            shares = [union_density(min(1.0, self.k / c.size), workers, concentration) for c in chunks]
            return math.fsum(c.number * c.size * share for c, share in zip(chunks, shares, strict=True))

        k, total = float(self.counts(bucket).sum()), math.fsum(by_size(union, bucket.shaped))
        return Selection(alike(workers, k), total, k, self.target(bucket.numel))

    def entries(self, selection: Selection, bucket: Bucket) -> tuple[float, ...]:
        """Entries of each tensor in what a worker sends."""
        counts = self.counts(bucket)
        return tuple((counts * (selection.largest / counts.sum())).tolist())

    def tensors(self, block: Block) -> Iterator[tuple[slice, tuple[Chunks, ...]]]:
        """Where each tensor of a block lies, and its chunks."""
        for unit, numel in block.units("layer"):
            shape = block.shapes[int(block.piece[unit.start])] if block.shapes else ()
            yield unit, self.chunks_of(numel, shape)

    def largest_of_chunks(self, values: Values, chunks: tuple[Chunks, ...]) -> Mask:
        """The k largest magnitudes of every chunk of a tensor (n,), of equal ones the first, zeros included."""
        made = [_top(np.abs(each).reshape(c.number, c.size), self.k) for c, each in split_chunks(values, chunks)]
        return join_chunks(made, chunks)


def split_chunks(values: Values, chunks: tuple[Chunks, ...]) -> Iterator[tuple[Chunks, Values]]:
    """The chunks of a tensor (n,), each kind as (number, rows, columns)."""
    start = 0
    for c in chunks:
        part = values[start : start + c.number * c.size].reshape(c.down, c.rows, c.across, c.columns)
        yield c, part.transpose(0, 2, 1, 3).reshape(c.number, c.rows, c.columns)
        start += c.number * c.size


def join_chunks(parts: Sequence[Part], chunks: tuple[Chunks, ...]) -> Part:
    """The tensor (n,) of its chunks: the opposite of `split_chunks`."""
    ordered = [
        part.reshape(c.down, c.across, c.rows, c.columns).transpose(0, 2, 1, 3).ravel()
        for c, part in zip(chunks, parts, strict=True)
    ]
    joined: Part = np.concatenate(ordered)
    return joined


def _top(magnitudes: Values, k: int) -> Mask:
    """The k largest of each row of (c, s), of equal ones the first."""
    size = magnitudes.shape[1]
    if k >= size:
        return np.ones(magnitudes.shape, dtype=bool)
    smallest = np.partition(magnitudes, size - k, axis=1)[:, size - k, None]
    above, equal = magnitudes > smallest, magnitudes == smallest
    wanted = k - above.sum(axis=1, keepdims=True)
    chosen: Mask = above | (equal & (np.cumsum(equal, axis=1) <= wanted))
    return chosen


@lru_cache(maxsize=4096)
def _cut(numel: int, shape: Shape, side: int) -> tuple[Chunks, ...]:
    """The chunks of a tensor; without a shape `side`^2 elements in a row, and what is left.

    >>> _cut(50257 * 256, (50257, 256), 64), _cut(5000, (), 64)
    ((Chunks(down=1733, across=4, rows=29, columns=64),), (Chunks(down=1, across=1, rows=64, columns=64), \
Chunks(down=1, across=1, rows=1, columns=904)))
    """
    if not shape:
        whole, rest = divmod(numel, side * side)
        full = (Chunks(whole, 1, side, side),) if whole else ()
        return (*full, Chunks(1, 1, 1, rest)) if rest else full
    a = shape[0] if len(shape) > 1 else 1
    b = numel // a
    rows, columns = _divisor(a, side), _divisor(b, side)
    return (Chunks(a // rows, b // columns, rows, columns),)


def _divisor(n: int, most: int) -> int:
    """The largest divisor of n up to `most`."""
    return next(d for d in range(min(n, most), 0, -1) if n % d == 0)
