"""DeMo: the momentum stays with the worker, and only its largest cosine coefficients are sent."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from simulator.bounds import Count
from simulator.models.exchange import AllGather, Bucket, Compute, Selection, Step
from simulator.models.gradients import Block, Choice, Outcome, State, Values
from simulator.sparsifiers.base import Style, per_call
from simulator.sparsifiers.chunked import Chunked, join_chunks, split_chunks


class DeMo(Chunked, kind="demo"):
    """DeMo: cosine transform of every chunk of the momentum, its k largest coefficients, and the sign of their mean.

    m = `momentum` m + gradient. Every chunk of m is transformed (orthonormal DCT-II of its rows and columns), the k
    coefficients of largest magnitude are gathered and subtracted from m, and every worker takes a step by the sign of
    the inverse transform of the mean, of each coefficient over the workers that sent it (Peng et al., 2411.19870, 2024;
    bloc97/DeMo). Each tensor is gathered by itself: int64 indices and values, in fp32 12 bytes for each entry.
    OLMo-1B of 1,176,764,416 parameters sends 287,296 x 32 x 12 B = 110.32 MB in a step, as published.

    Coordinates are those of the coefficients: selections, unions and the residual, which is the momentum, are counted
    in the transformed space. Energies are the same there, since the transform keeps norms. The optimiser should be SGD:
    no other state is needed, and a training with the method in the loop uses no momentum of its own.

    - `momentum`: share of the old momentum.
    """

    peers_only: ClassVar[str] = (
        "every worker takes the mean of what all others have sent: use a topology of peers, such as ring"
    )

    k: Count = 32
    momentum: float = Field(default=0.999, ge=0, lt=1)

    def encode(self, values: Values, block: Block) -> Values:
        """The coefficients of values (n, m), at the places of their chunks. Raises InputError on a sample."""
        self.refuse_sample(block)
        return self._transformed(values, block, inverse=False)

    def accumulate(self, state: State, block: Block) -> Values:
        """m = momentum m + gradient, as coefficients, in place."""
        total: Values = state["residual"]
        total *= np.float32(self.momentum)
        total += self.encode(block.values, block)
        return total

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """The k largest coefficients of every chunk."""
        chosen = np.zeros(u.shape, dtype=bool)
        for unit, chunks in self.tensors(block):
            for row, mask in zip(u[:, unit], chosen[:, unit], strict=True):
                mask[:] = self.largest_of_chunks(row, chunks)
        return Choice([np.flatnonzero(mask) for mask in chosen])

    def combine(self, outcome: Outcome, block: Block) -> Values:
        """The sign of what the coefficients, each the mean over those who sent it, stand for."""
        total = np.zeros(outcome.left.shape[1], dtype=np.float32)
        senders = np.zeros(len(total), dtype=np.float32)
        for places, values in zip(outcome.choice.sent_places, outcome.sent, strict=True):
            total[places] += values
            senders[places] += 1
        total /= np.maximum(senders, np.float32(1))
        signs: Values = np.sign(self._transformed(total[None], block, inverse=True)[0])
        return signs

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Decay and addition; transform, Top-k of the chunks; what is sent, transformed back and subtracted."""
        units, kept = bucket.sizes, self.entries(selection, bucket)
        return [
            per_call("elementwise", units, 1),
            per_call("residual_add", units, 1),
            per_call("dct", units, 4),
            per_call("chunk_topk", units, 2),
            per_call("gather", kept, 1),
            per_call("copy", units, 1),
            per_call("scatter_add", kept, 1),
            per_call("dct", units, 4),
            per_call("residual_add", units, 1),
        ]

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """Two gathers for each tensor; then the mean, transformed back, and its sign."""
        units, kept = bucket.sizes, self.entries(selection, bucket)
        gathers = [AllGather(width * n) for n in kept for width in (bucket.long_index_bytes, bucket.value_bytes)]
        return [
            *gathers,
            per_call("copy", units, 1, "combine"),
            per_call("scatter_add", tuple(workers * n for n in kept), 3, "combine"),
            per_call("dct", units, 4, "combine"),
            per_call("elementwise", units, 2, "combine"),
        ]

    def _transformed(self, values: Values, block: Block, inverse: bool) -> Values:
        made = np.empty_like(values)
        for unit, chunks in self.tensors(block):
            for row, out in zip(values[:, unit], made[:, unit], strict=True):
                out[:] = join_chunks([_turn(part, inverse) for _, part in split_chunks(row, chunks)], chunks)
        return made


def _turn(parts: Values, inverse: bool) -> Values:
    """Chunks (number, rows, columns) with both sides transformed, in fp64, so that all processors choose the same."""
    from scipy.fft import dctn, idctn  # heavy, and only for recorded gradients

    turned: Values = (idctn if inverse else dctn)(parts.astype(float), axes=(1, 2), norm="ortho").astype(np.float32)
    return turned
