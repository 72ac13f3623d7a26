"""The distributed optimiser of Megatron-Core: shards of states, reduced and gathered once a step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar, Self

from simulator.bounds import Count
from simulator.models.sharding import Mesh
from simulator.schedulers.base import Additions
from simulator.schedulers.sharded import InBuckets, Place
from simulator.schedulers.step import Step


class Megatron(InBuckets, kind="megatron"):
    """`--use-distributed-optimizer` of Megatron-Core (megatron/core/distributed, 2025): ZeRO-1 in buckets.

    Gradients are added up in one buffer, from which buckets are reduced and scattered once a step, and parameters are
    gathered once a step. With `shard` below the number of copies, those that have the same part exchange it
    (`--num-distributed-optimizer-instances`).

    - `bucket`: parameters of a bucket; none: what Megatron takes, the larger of 40 million and one million for each GPU
      with the same weights (copies x context), and one bucket where reductions are not beside compute.
    - `overlap_grad_reduce`: whether a bucket is reduced as soon as the last micro-batch has made its gradients, beside
      the rest of the backward pass; otherwise all are after it.
    - `overlap_param_gather`: whether parameters are gathered bucket by bucket beside the first forward pass; otherwise
      all are after the update.
    - `fused_accumulation`: whether the products that make the gradients of weights add them to the buffer as they write
      them (`gradient_accumulation_fusion`, megatron/core/tensor_parallel/layers.py, the default); otherwise kernels of
      their own do.
    """

    wires: ClassVar = (
        {"gather_wire": "fp8"},
        {"reduce_wire": "sdp4bit"},
        {"reduce_wire": "sdp4bit", "gather_wire": "int8"},
    )

    bucket: Count | None = None
    overlap_grad_reduce: bool = True
    overlap_param_gather: bool = True
    fused_accumulation: bool = True

    @property
    def additions(self) -> Additions:
        """To whole gradients, by `fused_accumulation` in the products."""
        return "in_products" if self.fused_accumulation else "whole"

    @property
    def _details(self) -> str:
        beside = [self.overlap_grad_reduce * "reductions", self.overlap_param_gather * "gathers"]
        return f", {' and '.join(filter(None, beside)) or 'nothing'} beside compute"

    def settings(self, mesh: Mesh) -> Iterator[Self]:
        """Reductions and gathers beside compute."""
        yield self.model_copy(update={"overlap_grad_reduce": True, "overlap_param_gather": True})

    def places(self, mesh: Mesh) -> Sequence[Place]:
        """Megatron-Core; reductions that are rounded, and gathers in other formats than fp8, are code of their own."""
        grouped = mesh.replicas > 1 and mesh.size > 1
        flags = {
            "--use-distributed-optimizer": mesh.size > 1,
            f"--num-distributed-optimizer-instances {mesh.replicas}": grouped,
            "--overlap-grad-reduce": self.overlap_grad_reduce,
            "--overlap-param-gather": self.overlap_param_gather and mesh.size > 1,
            "--grad-reduce-in-bf16": self.reduce_in == "bf16",
            "--fp8-param-gather": self.gather_wire == "fp8",
            "--no-gradient-accumulation-fusion": not self.fused_accumulation,
        }
        lines = [" ".join(flag for flag, is_set in flags.items() if is_set)]
        source = "NVIDIA/Megatron-LM (megatron/training/arguments.py)"
        if self.reduce_wire is not None or self.gather_wire not in (None, "fp8"):
            lines.append("dist_reduce_scatter_func = rounded  # in megatron/core/distributed/param_and_grad_buffer.py")
            return [{"in": "code", "where": "code of your own for Megatron-Core", "lines": lines}]
        hook = ["torch.distributed.all_reduce = compressed  # in megatron/core/distributed/param_and_grad_buffer.py"]
        note = "it has no hook: what replaces the all-reduce between instances is yours to write"
        attached = {"lines": lines + hook, "note": note} if mesh.compressed else {"lines": lines}
        return [{"in": "megatron", "source": source, **attached}]

    def bucket_among(self, copies: int) -> float:
        """The rule of megatron/core/distributed/distributed_data_parallel.py, where none is stated."""
        if self.bucket is not None:
            return self.bucket
        return max(40_000_000, 1_000_000 * copies) if self.overlap_grad_reduce else math.inf

    def reduced_at_once(self, units: Sequence[float], passes: int) -> float:
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
