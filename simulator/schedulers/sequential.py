"""Sequential: compute, then communicate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from simulator.models.exchange import Bucket
from simulator.models.fusing import fuse
from simulator.models.layers import Layer
from simulator.schedulers.base import FREE, Costs, Scheduler, buckets_of, partition
from simulator.units import PartBytes


class Sequential(Scheduler, kind="sequential"):
    """Bulk-synchronous: no exchange starts before the backward pass has ended.

    All gradients travel as one bucket, or in buckets of at least `bucket_size`; or `partition` cuts each tensor into
    slices (BytePS). With `merged`, it cuts the buffer of all gradients instead.
    """

    overlap: ClassVar[bool] = False

    bucket_size: PartBytes | None = None
    partition: PartBytes | None = None
    merged: bool = False

    def plan(self, layers: Sequence[Layer], costs: Costs = FREE) -> list[Bucket]:
        """One bucket, or buckets or slices of the given size."""
        if self.partition is not None:
            return partition(layers, self.partition, costs.value_bytes, merged=self.merged)
        limit = self.bucket_size if self.bucket_size is not None else float("inf")
        return buckets_of(fuse(layers, [limit], costs.value_bytes), layers)
