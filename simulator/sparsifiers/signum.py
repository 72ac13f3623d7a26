"""Signum: the sign of the momentum."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from simulator.models.exchange import Bucket, Compute, Selection
from simulator.models.gradients import Block, State, Values
from simulator.records import replace
from simulator.sparsifiers.base import per_call
from simulator.sparsifiers.implementation import Implementation, grace
from simulator.sparsifiers.signsgd import SignSGD


class Signum(SignSGD, kind="signum"):
    """Signum: every worker sends the signs of its momentum; the majority decides.

    m = `momentum` m + (1 - `momentum`) gradient, starting from 0, and sign(m) is what `signsgd` makes of a gradient
    (Bernstein et al., ICML 2018, algorithm 2). Bytes are those of `signsgd`: `bits: 1` packed, `bits: 8` as in GRACE
    (ICDCS 2021). GRACE's PyTorch code starts from the first gradient instead of 0, with the same signs.

    - `momentum`: share of the old momentum.
    """

    implementations: ClassVar[dict[str, Implementation]] = {"grace": grace(before=5, decode=3, after=5)}

    momentum: float = Field(default=0.9, ge=0, lt=1)

    def start(self, block: Block) -> State:
        """A residual and a momentum of zeros."""
        return {**super().start(block), "momentum": np.zeros_like(block.values)}

    def state_values(self, pieces: tuple[int, ...]) -> float:
        """The momentum; with error feedback also the residual."""
        return super().state_values(pieces) + sum(pieces)

    def accumulate(self, state: State, block: Block) -> Values:
        """The momentum after this gradient, (n, m); with error feedback plus the residual."""
        momentum = state["momentum"]
        momentum *= np.float32(self.momentum)
        momentum += np.float32(1 - self.momentum) * block.values
        return super().accumulate(state, replace(block, values=momentum))

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """The momentum (three calls per tensor), then as `signsgd`."""
        units = tuple(float(n) for n in bucket.pieces)
        return [per_call("elementwise", units, 3), *super().compute(selection, bucket, workers)]
