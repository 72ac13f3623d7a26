"""The distributed optimiser of Megatron-Core: shards of states, reduced and gathered once a step."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from simulator.schedulers.sharded import InBuckets
from simulator.schedulers.step import Step


class Megatron(InBuckets, kind="megatron"):
    """`--use-distributed-optimizer` of Megatron-Core (megatron/core/distributed, 2025): ZeRO-1 in buckets.

    Gradients are added up in one buffer, from which buckets are reduced and scattered once a step, and parameters are
    gathered once a step. With `shard` below the number of copies, those that have the same part exchange it
    (`--num-distributed-optimizer-instances`).

    - `bucket`: parameters of a bucket; the default of Megatron is the larger of 40 million and one million per copy.
    - `overlap_grad_reduce`: whether a bucket is reduced as soon as the last micro-batch has made its gradients, beside
      the rest of the backward pass; otherwise all are after it.
    - `overlap_param_gather`: whether parameters are gathered bucket by bucket beside the first forward pass; otherwise
      all are after the update.
    """

    bucket: int = Field(default=40_000_000, ge=1, le=10**12)
    overlap_grad_reduce: bool = True
    overlap_param_gather: bool = True

    @property
    def _details(self) -> str:
        beside = [self.overlap_grad_reduce * "reductions", self.overlap_param_gather * "gathers"]
        return f", {' and '.join(filter(None, beside)) or 'nothing'} beside compute"

    def reduced_at_once(self, units: Sequence[int], passes: int) -> float:
        """All gradients, which have one buffer."""
        return float(sum(units))

    def lay_out(self, step: Step) -> None:
        """The passes over all micro-batches, the update of a part, and the gathers of all parameters."""
        step.load()
        if self.overlap_param_gather:
            step.gather(step.units)
        for last in step.micro_batches():
            for unit in step.units:
                step.forward_unit(unit)
            for unit in step.units[::-1]:
                step.backward_unit(unit)
                if last and self.overlap_grad_reduce:
                    step.reduce(unit, exchanged=True, in_turn=False)
        if not self.overlap_grad_reduce:
            for unit in step.units[::-1]:
                step.reduce(unit, exchanged=True, in_turn=False)
        step.end_reductions()
        step.update()
        if not self.overlap_param_gather:
            step.gather(step.units)
            step.end_gathers()
