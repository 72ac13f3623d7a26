"""Decoupled: one half of the all-reduce overlaps the backward pass, the other half the next forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from simulator.models.exchange import Bucket
from simulator.models.fusing import fuse
from simulator.models.layers import Layer
from simulator.schedulers.base import FREE, Costs, Scheduler, buckets_of
from simulator.units import PartBytes


class Decoupled(Scheduler, kind="decoupled"):
    """Decoupled all-reduce (Zhang et al., DeAR, ICDCS 2023): reduce-scatter in backward, all-gather in forward.

    Tensors are fused to `bucket_size`. Once all buckets are reduced, the all-gathers follow in forward order, and the
    next forward pass of a layer waits for its own. An exchange that does not end in an all-reduce (gathered pairs, push
    and pull) has no second half: the whole exchange runs during the backward pass.
    """

    gated: ClassVar[bool] = True
    decoupled: ClassVar[bool] = True

    bucket_size: PartBytes = 25 * 2.0**20

    def plan(self, layers: Sequence[Layer], costs: Costs = FREE) -> list[Bucket]:
        """Fused buckets in backward order."""
        return buckets_of(fuse(layers, [self.bucket_size], costs.value_bytes), layers)
