"""The base of compressors: all elements travel, in fewer bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import AllGather, Bucket, Compute, PushPull, Selection, Step
from simulator.models.gradients import ALL, Block, Choice, State, Values
from simulator.sparsifiers.base import Sparsifier, Style, per_call

SCALE_BYTES = 4
"""Bytes of a norm or scale: fp32, whatever the precision of the gradients."""
SUM_BYTES = 4
"""Bytes of an element that servers summed: fp32, since payloads of different scales are decoded before."""


class Compressor(Sparsifier):
    """Base of methods that send all d coordinates in a coarser form, so that k_i = K = d.

    `error_feedback`: the rounding error is added to the next gradient; otherwise it is lost, although `residual` still
    holds it for the figures. A member that gathers its payloads implements `decoded` or `quantised`, `payload` and
    `encoding`.
    """

    error_feedback: bool = False

    decode_calls: ClassVar[int] = 3
    """Framework calls that decode a tensor of one worker and add it to the sum."""

    @property
    def calls_per_payload(self) -> int:
        """The calls that decode a tensor with these parameters."""
        return self.decode_calls

    def encoding(self) -> Sequence[tuple[str, int] | tuple[str, int, int]]:
        """The kernels that encode a tensor, in order, each with its framework calls, and reads of the host if any."""
        raise NotImplementedError

    def accumulate(self, state: State, block: Block) -> Values:
        """The gradients; with error feedback plus the residual."""
        if self.error_feedback:
            return super().accumulate(state, block)
        u: Values = state["residual"]
        u[:] = block.values
        return u

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """All elements, with their values after decoding."""
        return Choice([ALL] * len(u), decoded=self.quantised(u, block))

    def quantised(self, u: Values, block: Block) -> Values:
        """The values of u (n, m) that other workers decode, each worker's scale included: here tensor by tensor."""
        sent = np.empty_like(u)
        for unit, _ in block.units("layer"):
            weight = block.weight_of(unit)
            for worker, row in enumerate(u[:, unit]):
                sent[worker, unit] = self.decoded(row, weight)
        return sent

    def decoded(self, values: Values, weight: Floats | None) -> Values | Floats:
        """What other workers decode of one worker's values (m,) of a tensor, of which each stands for `weight` elements
        (None: one)."""
        raise NotImplementedError

    def payload(self, pieces: tuple[int, ...]) -> tuple[float, ...]:
        """Bytes of each array that a worker sends for tensors of these sizes."""
        raise NotImplementedError

    def pulled(self, pieces: tuple[int, ...]) -> float:
        """Bytes that a worker pulls from servers: fp32 in any precision, as the server adds up decoded values."""
        return float(SUM_BYTES * sum(pieces))

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """One all-gather per array; then the payload of every worker is decoded and added, tensor by tensor.

        With servers: push the payload, pull `pulled` bytes.
        """
        payload, units = self.payload(bucket.pieces), bucket.sizes
        if style == "push_pull":
            return [PushPull(sum(payload), self.pulled(bucket.pieces)), per_call("copy", units, 1, "combine")]
        gathers = [AllGather(nbytes) for nbytes in payload if nbytes]
        return [*gathers, per_call("dequantise", units * workers, self.calls_per_payload, "combine")]

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Error feedback, and the kernels of `encoding`."""
        encode = [per_call(name, bucket.sizes, calls, reads=sum(reads)) for name, calls, *reads in self.encoding()]
        return [*self.before(bucket), *encode]

    def before(self, bucket: Bucket) -> list[Compute]:
        """The kernels of error feedback: the residual is added first, the decoded values are subtracted last."""
        kernels = [per_call("residual_add", bucket.sizes, 1), per_call("dequantise", bucket.sizes, 2)]
        return kernels if self.error_feedback else []


class BinaryCompressor(Compressor):
    """Base of compressors with one of two codes per element.

    `bits` per code: 1, with eight codes packed into a byte, or 8 as GRACE's code sends them (ICDCS 2021); if left out,
    what the implementation sends.
    """

    bits: Literal[1, 8] | None = None

    @property
    def code_bits(self) -> int:
        """Bits of a code as it travels."""
        return self.bits or (8 if self.implementation == "grace" else 1)

    def kernel_of_codes(self) -> tuple[str, int]:
        """The kernel that makes the codes: two calls per tensor, and two for packing."""
        return "quantise", 4 if self.code_bits == 1 else 2


def packed(elements: int, bits: int) -> float:
    """Bytes of `elements` codes of `bits` bits each, packed."""
    return float(math.ceil(elements * bits / 8))
