"""signSGD: one bit per element."""

from __future__ import annotations

import numpy as np

from simulator.models.curves import Floats
from simulator.models.gradients import Block, Outcome, Values
from simulator.models.sampling import mean_of
from simulator.sparsifiers.compressor import SCALE_BYTES, BinaryCompressor, packed


class SignSGD(BinaryCompressor, kind="signsgd"):
    """signSGD: the sign of every element, one bit each, with majority vote or with error feedback.

    Plain (Bernstein et al., ICML 2018): signs by all-gather, (n-1) d/8 bytes, and each worker takes the majority. With
    servers, the servers vote: d/8 bytes are pushed and d/8 pulled. No magnitude travels: the update is the sign that
    most workers sent, -1 or 1, whose length the learning rate sets. Energies and residuals count a sign as mean |u| of
    the tensor, which has the smallest error. With `error_feedback` (EF-signSGD, Karimireddy et al., ICML 2019) this
    mean travels, too, 4 bytes per tensor, servers return fp32, and the update is the mean over workers. The sign of 0
    is +, and so is a tie, as in GRACE (ICDCS 2021).

    - `bits`: of a sign: 1 (eight signs are packed into a byte), or 8 as GRACE sends them; if left out, what the
      implementation sends.
    """

    @property
    def calls_per_payload(self) -> int:
        """Signs become numbers, which are added up; with error feedback two calls more read the scale and apply it."""
        return self.decode_calls + 2 * self.error_feedback

    def decoded(self, values: Values, weight: Floats | None) -> Values:
        """sign(u) mean |u|."""
        scale = np.float32(mean_of(np.abs(values), weight))
        return np.where(values >= 0, scale, -scale)

    def combine(self, outcome: Outcome, block: Block) -> Values:
        """The majority of the signs; with error feedback the mean of what was sent."""
        if self.error_feedback:
            return super().combine(outcome, block)
        against = np.sum([np.signbit(row) for row in outcome.sent], axis=0)
        voted: Values = np.where(2 * against > block.workers, np.float32(-1), np.float32(1))
        return voted

    def payload(self, pieces: tuple[int, ...]) -> tuple[float, ...]:
        """`bits` per element, packed over the bucket; with error feedback also a scale per tensor."""
        scales = float(SCALE_BYTES * len(pieces)) if self.error_feedback else 0.0
        return packed(sum(pieces), self.code_bits), scales

    def pulled(self, pieces: tuple[int, ...]) -> float:
        """The vote, `bits` per element; with error feedback the sum."""
        return super().pulled(pieces) if self.error_feedback else packed(sum(pieces), self.code_bits)

    def encoding(self) -> list[tuple[str, int]]:
        """Sign and packing (four calls per tensor; two without packing); with error feedback also mean |u| (two)."""
        scale = [("norm", 2)] if self.error_feedback else []
        return [*scale, self.kernel_of_codes()]
