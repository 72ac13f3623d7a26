"""SparseLoCo: the largest elements of every chunk of 4,096, in 14 bits each."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from simulator.bounds import Count
from simulator.component import expected
from simulator.models.curves import Floats
from simulator.models.exchange import AllGather, Bucket, Compute, Selection, Step
from simulator.models.gradients import Block, Choice, State, Values
from simulator.sparsifiers.base import Style, per_call
from simulator.sparsifiers.chunked import Chunked
from simulator.sparsifiers.compressor import SCALE_BYTES, packed

INDEX_BITS = 12
"""Bits of an index within a chunk of at most 64 x 64 elements, packed."""


class SparseLoCo(Chunked, kind="sparseloco"):
    """SparseLoCo: Top-k of every chunk, values of 2 bits, indices of 12 bits, and error feedback that forgets.

    e = `decay` e + difference; the k largest magnitudes of every chunk of e are sent and subtracted, as they are
    decoded, so that rounding errors stay in e. Every worker gathers what all have sent, from peers or through an object
    store, and applies the mean, without an outer momentum (Sarfi et al., 2508.15706, 2025; Covenant-72B, 2603.08163,
    2026). An entry is 12 bits of index and 2 of value: 4096 x 32 / (64 x 14) = 146.3 times less than fp32. With it
    go 4 (`bins` + 1) bytes for each tensor, with which it is decoded.

    Values of a tensor less their mean are rounded to `bins` steps of 6 deviations / `bins`, and decoded as the mean of
    their step (one-covenant/templar, MIT). That code sends whole bytes of value (`bits: 8`, 102.4 times less than
    fp32), divides a coordinate by the number of workers that sent it, and shortens payloads longer than the median;
    here, as in the paper, all sums are divided by the number of workers. It keeps e in the memory of the host between
    exchanges; here it stays on the GPU. Give it differences: a scheduler with local steps, such as `diloco` with
    an outer optimiser without momentum, and, as the code stores all tensors as one object, one bucket for the model.

    - `decay`: share of the residual that is kept.
    - `bins`: different values of a tensor that can be sent.
    - `bits`: that a value travels in.
    """

    peers_only: ClassVar[str] = (
        "every worker decodes what all others have sent: use peers, such as ring, or an object store"
    )

    k: Count = 64
    decay: float = Field(default=0.95, ge=0, le=1)
    bins: int = Field(default=4, ge=2, le=256)
    bits: Literal[2, 4, 8] = 2

    def refuse_unfit(self) -> None:
        if self.bins > 2**self.bits:
            hint = "values of more bins need more `bits`"
            raise expected(f"at most {2**self.bits} bins for values of {self.bits} bits", str(self.bins), hint)

    def accumulate(self, state: State, block: Block) -> Values:
        """e = decay e + difference, in place."""
        state["residual"] *= np.float32(self.decay)
        return super().accumulate(state, block)

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """The k largest of every chunk, as others decode them."""
        sent, chosen = np.zeros_like(u), np.zeros(u.shape, dtype=bool)
        for unit, chunks in self.tensors(block):
            for row, out, mask in zip(u[:, unit], sent[:, unit], chosen[:, unit], strict=True):
                mask[:] = self.largest_of_chunks(row, chunks)
                out[mask] = _decode_steps(row[mask].astype(np.float64), self.bins)
        return Choice([np.flatnonzero(mask) for mask in chosen], decoded=sent)

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Decay and addition; chunks, their Top-k, packing and rounding; the residual less what others decode.

        The host reads whether indices fit, and the deviation four times.
        """
        units, kept = bucket.sizes, self.entries(selection, bucket)
        return [
            per_call("elementwise", units, 1),
            per_call("residual_add", units, 1),
            per_call("copy", units, 1),
            per_call("chunk_topk", units, 2),
            per_call("gather", kept, 1),
            per_call("pack_indices", kept, 18, reads=1),
            per_call("statistics", kept, 6, reads=4),
            per_call("quantise", kept, 7),
            per_call("scatter_add", kept, 2),
            per_call("scatter_add", kept, 3),
            per_call("dequantise", kept, 3),
            per_call("unpack_indices", kept, 13),
            per_call("copy", units, 2),
            per_call("scatter_add", kept, 1),
            per_call("residual_add", units, 1),
        ]

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """One gather of everything; then every worker's payload is unpacked, decoded and added."""
        units, kept = bucket.sizes, self.entries(selection, bucket)
        entries = round(selection.largest)
        steps = float(SCALE_BYTES * (self.bins + 1) * len(units))
        return [
            AllGather(packed(entries, INDEX_BITS) + packed(entries, self.bits) + steps),
            per_call("unpack_indices", kept, 13, "combine", workers),
            per_call("dequantise", kept, 3, "combine", workers),
            per_call("scatter_add", tuple(workers * n for n in kept), 3, "combine"),
            per_call("copy", units, 2, "combine"),
        ]


def _decode_steps(values: Floats, bins: int) -> Floats:
    """What is decoded of values (k,) of a tensor: the means of those that round to the same step."""
    centred = values - values.mean()
    deviation = float(np.sqrt(np.square(centred).sum() / max(1, len(values) - 1)))
    step = 6 * deviation / bins
    code = np.clip(np.rint(centred / (step or 1.0) + bins // 2), 0, bins - 1).astype(np.int64)
    counts = np.bincount(code, minlength=bins)
    means = np.bincount(code, weights=values, minlength=bins) / np.maximum(counts, 1)
    decoded: Floats = means[code]
    return decoded
