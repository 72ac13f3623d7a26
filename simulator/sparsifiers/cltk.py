"""CLT-k: all workers send the elements that one worker selected, another worker in every iteration."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from simulator.bounds import BOUNDS
from simulator.models.exchange import AllReduce, Broadcast, Bucket, Compute, PushPull, Selection, Step
from simulator.models.gradients import ALL, Block, Choice, State, Values, top
from simulator.sparsifiers.base import LocalSelection, Style, per_call, split_evenly


class CLTK(LocalSelection, kind="cltk"):
    """CLT-k of ScaleCom: in iteration t all workers use the Top-k of worker t mod n, the leader.

    The leader broadcasts its k indices (4k bytes), every worker gathers its own values there, and the values are
    all-reduced (2(n-1)/n 4k bytes): K = k for any n. The residual passes a low-pass filter, m' = (1 - beta) m +
    beta (u - sent) with u = m + gradient; beta = 1 is plain error feedback, and 0.1 to 0.3 was used for large batches
    (Chen et al., NeurIPS 2020). All workers run the selection, although only the leader's is used, as in the released
    code of kljp/exdyna (2024). With servers, the leader's indices are pushed and pulled first, then the values.

    - `beta`: coefficient of the low-pass filter.
    """

    builds_up: ClassVar[bool] = False

    beta: float = Field(default=1.0, ge=BOUNDS["share"].smallest, le=1)

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """The leader's Top-k, for all workers."""
        leader = block.iteration % block.workers
        own = slice(leader, leader + 1)
        (chosen,) = top(u[own], block, self.granularity, self.wanted, block.draws_of(ALL, own))
        return Choice([chosen] * block.workers, counts=self.top_counts(block))

    def accumulate(self, state: State, block: Block) -> Values:
        """The residual plus the gradients; the filter needs the residual afterwards."""
        if self.beta == 1:
            return super().accumulate(state, block)
        total: Values = state["residual"] + block.values
        return total

    def after(self, state: State, left: Values, choice: Choice) -> None:
        """The low-pass filter: the residual moves by beta towards what was not sent."""
        if self.beta == 1:
            super().after(state, left, choice)
        else:
            state["residual"] = (1 - self.beta) * state["residual"] + self.beta * left

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Top-k of each unit with error feedback; the filter is another pass over the residual."""
        kernels = super().compute(selection, bucket, workers)
        if self.beta != 1:
            kernels.append(per_call("elementwise", self.unit_sizes(bucket), 2))
        return kernels

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """Broadcast of the indices, gather, all-reduce of the values, and one write per unit."""
        units = len(self.units(bucket))
        k = selection.aggregated
        per_unit = split_evenly(k, units)
        gather = per_call("gather", per_unit, 1, "combine")
        write = per_call("scatter_add", per_unit, 1, "combine")
        nbytes = bucket.value_bytes * k
        if style == "push_pull":
            # Only the leader pushes indices; here every worker pushes 1/n of these bytes.
            indices = PushPull(bucket.index_bytes * k / workers, bucket.index_bytes * k)
            return [indices, gather, PushPull(nbytes, nbytes), write]
        return [Broadcast(bucket.index_bytes * k), gather, AllReduce(nbytes), write]
