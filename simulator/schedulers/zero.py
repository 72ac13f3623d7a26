"""ZeRO stages 1 and 2: whole parameters on every GPU, and an optimiser that each runs on its own part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal, Self

from simulator.bounds import Count
from simulator.models.sharding import Copies, Mesh
from simulator.schedulers.base import Additions
from simulator.schedulers.sharded import InBuckets, Place, most_together, zero_place
from simulator.schedulers.step import Step


class Zero(InBuckets, kind="zero"):
    """Stages 1 and 2 of ZeRO as DeepSpeed runs them (Rajbhandari et al. 2020, 1910.02054; deepspeed/runtime/zero).

    Gradients are copied to buckets, which are summed on all GPUs (`reduce_scatter: true` is an all-reduce of which each
    GPU keeps its part: `use_multi_rank_bucket_allreduce`, the default since 0.9); each GPU updates its part, and all
    parameters are gathered after that, which nothing hides. Stage 1 reduces after the last micro-batch only, stage 2
    after each.

    - `stage`: 1 (states) or 2 (states and gradients). For stage 3 take `fsdp`.
    - `bucket`: elements of a bucket (`reduce_bucket_size`).
    - `overlap_comm`: whether compute goes on while a bucket is reduced, up to when the next one is full.
    """

    sums_whole: ClassVar[bool] = True

    stage: Literal[1, 2] = 2
    bucket: Count = 500_000_000
    overlap_comm: bool = False

    @property
    def copies(self) -> Copies:
        """Gradients are copied to buckets; parameters are gathered to where they are."""
        return Copies(into=True)

    @property
    def additions(self) -> Additions:
        """To whole gradients in stage 1, which reduces once."""
        return "whole" if self.stage == 1 else "part"

    @property
    def _details(self) -> str:
        return f" stage {self.stage}"

    def settings(self, mesh: Mesh) -> Iterator[Self]:
        """Both stages beside compute, on all GPUs: DeepSpeed has no groups here, and only stage 1 in pipelines."""
        for stage in (1, 2)[: 1 if mesh.staged else 2] if mesh.replicas == 1 else ():
            yield self.model_copy(update={"stage": stage, "overlap_comm": True})

    def places(self, mesh: Mesh) -> Sequence[Place]:
        """DeepSpeed, on all GPUs and without rounding; of a pipeline's stages with stage 1 only."""
        if mesh.replicas > 1 or self.rounded or (mesh.staged and self.stage == 2):
            return ()
        bucket = None if self.bucket == type(self).model_fields["bucket"].default else self.bucket
        overlap = self.overlap_comm or None
        return [zero_place(self, stage=self.stage, overlap_comm=overlap, reduce_bucket_size=bucket)]

    def bucket_among(self, copies: int) -> float:
        """`reduce_bucket_size`, however many there are."""
        return self.bucket

    def reduced_at_once(self, units: Sequence[float], passes: int) -> float:
        """All gradients in stage 1, and those of two buckets in stage 2."""
        return most_together(units, len(units) if self.stage == 1 else 2)

    def lay_out(self, step: Step) -> None:
        """The passes over all micro-batches, the update of a part, and the gathers of all parameters."""
        step.load()
        for last in step.micro_batches():
            for unit in step.units:
                step.forward_unit(unit)
            for unit in step.units[::-1]:
                step.backward_unit(unit)
                if last or self.stage == 2:
                    step.reduce(unit, exchanged=last)
                if not self.overlap_comm:
                    step.end_reductions()
            step.end_reductions()
        step.update()
        step.gather(step.units)
        step.end_gathers()
