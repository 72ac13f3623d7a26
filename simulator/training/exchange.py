"""The method on the gradients of all workers, iteration by iteration, with its state in between."""

from __future__ import annotations

import math

import numpy as np

from simulator.models.gradients import Block, State, Values
from simulator.models.sampling import sums_of_squares
from simulator.records import replace
from simulator.sparsifiers.base import Sparsifier


class GradientExchange:
    """What the workers send of their gradients, and what they keep.

    The whole model is one bucket of tensors of `numels` elements and `shapes`; a method with `granularity: layer`
    selects from each tensor by itself. `state` is the method's memory, as in a replay. Without `error_feedback` the
    residual is emptied before every iteration.
    """

    def __init__(
        self, sparsifier: Sparsifier, shapes: tuple[tuple[int, ...], ...], workers: int, error_feedback: bool = True
    ) -> None:
        numels = tuple(math.prod(shape) for shape in shapes)
        d = sum(numels)
        self.sparsifier, self.error_feedback = sparsifier, error_feedback
        self._block = Block(
            values=np.zeros((workers, d), dtype=np.float32),
            piece=np.repeat(np.arange(len(numels)), numels),
            coordinate=np.arange(d),
            weight=np.ones(d),
            numels=numels,
            shapes=shapes,
        )
        self.state: State = sparsifier.start(self._block)

    def run(self, values: Values, iteration: int) -> tuple[Values, dict[str, float]]:
        """What the method makes of what the workers send of `values` (n, d), and the figures of this iteration.

        That is their mean, unless the method makes more of it. Every sum is divided by n: with SkipReduce, whose sums
        lack the contributions of s workers, too, as in its released code, where gradients are divided by n before they
        are summed. Figures: `selected`, `aggregated`, `energy_kept` and `residual_norm`, as in a replay.
        """
        block = replace(self._block, values=values, iteration=iteration)
        if not self.error_feedback:
            self.state["residual"].fill(0)
        sparsifier = self.sparsifier.at(iteration)
        done = sparsifier.select(self.state, block)
        kept = math.fsum(sums_of_squares(self.state["residual"], None))
        figures = {
            "selected": float(done.selection.selected.mean()) / block.numel,
            "aggregated": done.selection.aggregated / block.numel,
            "energy_kept": done.energy_kept,
            "residual_norm": math.sqrt(kept / block.workers),
        }
        return sparsifier.combine(done, block), figures
