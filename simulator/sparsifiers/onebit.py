"""1-bit SGD: the mean of what is negative, and the mean of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simulator.models.curves import Floats
from simulator.models.gradients import Values
from simulator.models.sampling import mean_of
from simulator.sparsifiers.compressor import SCALE_BYTES, BinaryCompressor, packed


class OneBit(BinaryCompressor, kind="onebit"):
    """1-bit SGD: a bit per element says which of two means replaces it; error feedback.

    Elements below 0 become the mean of all that are below 0, the others the mean of the others, which has the smallest
    squared error for this threshold (Seide et al., Interspeech 2014). The paper takes both means of each column of a
    matrix; here they are taken of each tensor, as in GRACE (ICDCS 2021), so that 8 bytes per tensor travel with the
    codes. Times are those of fused kernels, with as many
    calls and reads of the host as GRACE's PyTorch code: it compresses both parts by a mask, and asks for both counts.

    - `bits`: of a code: 1 packed as in the paper, or 8 as in GRACE; if left out, what the implementation sends.
    """

    error_feedback: bool = True

    decode_calls: ClassVar[int] = 5

    def decoded(self, values: Values, weight: Floats | None) -> Values:
        """One of the two means; that of no element is 0."""
        below = values < 0
        means = [mean_of(values[part], None if weight is None else weight[part]) for part in (below, ~below)]
        return np.where(below, *map(np.float32, means))

    def payload(self, pieces: tuple[int, ...]) -> tuple[float, ...]:
        """The codes, packed over the bucket; two means per tensor."""
        return packed(sum(pieces), self.code_bits), float(2 * SCALE_BYTES * len(pieces))

    def encoding(self) -> Sequence[tuple[str, int] | tuple[str, int, int]]:
        """Both means (14 calls and 4 reads per tensor), the codes (two calls, four with packing)."""
        return ("statistics", 14, 4), self.kernel_of_codes()
