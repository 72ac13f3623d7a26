"""Signum: the sign of the momentum."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from simulator.models.exchange import Bucket, Compute, Selection
from simulator.models.gradients import Block, State, Values
from simulator.records import replace
from simulator.sparsifiers.base import per_call
from simulator.sparsifiers.signsgd import SignSGD


class Signum(SignSGD, kind="signum"):
    """Signum: every worker sends the signs of its momentum; the majority decides.

    m = `momentum` m + (1 - `momentum`) gradient, starting from 0, and sign(m) is what `signsgd` makes of a gradient
    (Bernstein et al., ICML 2018, algorithm 2). Bytes are those of `signsgd`: `bits: 1` packed, `bits: 8` as in GRACE
    (ICDCS 2021). GRACE's PyTorch code starts from the first gradient instead of 0, with the same signs.

    - `momentum`: share of the old momentum.
    """

    keeps: ClassVar[tuple[str, ...]] = ("residual", "momentum")

    momentum: float = Field(default=0.9, ge=0, lt=1)

    def accumulate(self, state: State, block: Block) -> Values:
        """The momentum after this gradient, (n, m); with error feedback plus the residual."""
        momentum = state["momentum"]
        momentum *= np.float32(self.momentum)
        momentum += np.float32(1 - self.momentum) * block.values
        return super().accumulate(state, replace(block, values=momentum))

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """The momentum (three calls per tensor), then as `signsgd`."""
        return [per_call("elementwise", bucket.sizes, 3), *super().compute(selection, bucket, workers)]
