"""INCEPTIONN: fewer bits for smaller elements, and a tag that says how many."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from pydantic import Field

from simulator.bounds import Magnitude
from simulator.models.exchange import AllGather, Bucket, Compute, PushPull, Selection, Step
from simulator.models.gradients import ALL, Block, Choice, State, Values
from simulator.models.overlap import Overlap
from simulator.records import replace
from simulator.sparsifiers.base import SIZE_BYTES, Style, per_call
from simulator.sparsifiers.compressor import Compressor

CLASSES = (8, 16, 32)
"""Bits of an element that is not dropped."""


class Inceptionn(Compressor, kind="inceptionn"):
    """INCEPTIONN: 0, 8, 16 or 32 bits per element by its magnitude, and a tag of 2 bits.

    With the error bound 2^-b, b = `bound_exponent`: 32 bits from 1 on, unchanged; 16 bits from 2^-floor(b/2) on; 8 bits
    from 2^-b on; smaller ones become 0 and only their tags travel (Li et al., MICRO 2018). Those of 16 and 8 bits are
    in fixed point, cut off to multiples of 2^-14 and 2^-6; a fraction of 0 is decoded as half a step. So the released
    code of GRACE (ICDCS 2021) does it, and the error of an element of 8 bits can therefore be above the bound. Each
    tensor sends its values of 32, 16 and 8 bits, floor(n/4) + 1 bytes of tags, and the lengths of these four arrays.

    How many elements are in each class depends on the gradients. A replay counts them (mean of the workers). The closed
    form assumes a Laplace law of standard deviation `deviation`; without it, that every element takes 16 bits, which is
    the most while gradients are below 1. Times are those of fused kernels, with as many calls and reads of the host as
    GRACE's TensorFlow code.

    - `deviation`: standard deviation of a worker's gradients, for the closed form; none: not known.
    """

    bound_exponent: int = Field(default=10, ge=1, le=28)
    deviation: Magnitude | None = None

    decode_calls: ClassVar[int] = 70

    @property
    def follows_gradients(self) -> bool:
        """The bits of an element depend on its magnitude."""
        return True

    def borders(self) -> tuple[float, float, float]:
        """The smallest magnitudes of 8, 16 and 32 bits."""
        return 2.0**-self.bound_exponent, 2.0 ** -(self.bound_exponent // 2), 1.0

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """All elements after decoding; `detail` holds the elements of 8, 16 and 32 bits, mean of the workers."""
        classes = np.searchsorted(self.borders(), np.abs(u), side="right")
        sent = np.select([classes == 1, classes == 2, classes == 3], [_fixed(u, 6), _fixed(u, 14), u], np.float32(0))
        counts = [math.fsum(block.weight[row == i].sum() for row in classes) / block.workers for i in (1, 2, 3)]
        return Choice([ALL] * len(u), decoded=sent, detail=_named(counts))

    def expect(self, bucket: Bucket, workers: int, concentration: Overlap) -> Selection:
        """All elements; those of each class by the Laplace law, P(|u| >= t) = exp(-sqrt(2) t / deviation)."""
        d = float(bucket.numel)
        counts = [0.0, d, 0.0]
        if self.deviation is not None:
            above = [d * math.exp(-math.sqrt(2) * border / self.deviation) for border in self.borders()]
            counts = [above[0] - above[1], above[1] - above[2], above[2]]
        return replace(super().expect(bucket, workers, concentration), detail=_named(counts))

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """The classes and tags (30 calls per tensor); for each class its indices and its codes.

        The host reads the number of each class.
        """
        units = bucket.sizes
        parts = [tuple(n * share for n in units) for share in self._shares(selection, bucket)]
        return [
            *self.before(bucket),
            per_call("quantise", units, 30),
            per_call("threshold_scan", units, 1, times=len(CLASSES), reads=1),
            *(per_call("gather", part, calls) for part, calls in zip(parts, (13, 13, 1), strict=True)),
        ]

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """One all-gather for the values of each class, one for the tags, one for the lengths; then decoding.

        The host reads the number of each class again for the tensors of every worker.
        """
        units = bucket.sizes
        shares = self._shares(selection, bucket)
        values = [bits / 8 * share * bucket.numel for bits, share in zip(CLASSES, shares, strict=True)]
        tags = float(sum(n // 4 + 1 for n in bucket.pieces))
        if style == "push_pull":
            return [PushPull(sum(values) + tags, self.pulled(bucket.pieces)), per_call("copy", units, 1, "combine")]
        lengths = float(SIZE_BYTES * (len(CLASSES) + 1) * len(units))
        # An array without elements is gathered, too: its length is known only after the lengths have travelled.
        gathers = [AllGather(nbytes) for nbytes in (*values, tags, lengths)]
        return [*gathers, per_call("dequantise", units * workers, self.decode_calls, "combine", reads=len(CLASSES))]

    def _shares(self, selection: Selection, bucket: Bucket) -> list[float]:
        return [selection.detail[name] / bucket.numel for name in _named([0.0] * len(CLASSES))]


def _fixed(u: Values, bits: int) -> Values:
    """u in fixed point, cut off to multiples of 2^-bits; 0 becomes half a step."""
    step = np.float32(2.0**-bits)
    cut = np.floor(np.abs(u) / step) * step
    signed: Values = np.copysign(np.where(cut == 0, step / 2, cut), u)
    return signed


def _named(counts: list[float]) -> dict[str, float]:
    return {f"bits_{bits}": count for bits, count in zip(CLASSES, counts, strict=True)}
