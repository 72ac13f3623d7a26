"""Bucketed: tensors are fused into buckets, which travel when they are full."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from simulator.models.exchange import Bucket
from simulator.models.fusing import DDP_LIMITS, fuse
from simulator.models.layers import Layer
from simulator.schedulers.base import FREE, Costs, Scheduler, buckets_of
from simulator.units import PartBytes, Period

_HOROVOD_LIMIT = 64 * 2.0**20


class Bucketed(Scheduler, kind="bucketed"):
    """Tensor fusion by PyTorch DDP's rule, or by Horovod's buffer and cycle time.

    `ddp`: in reverse parameter order, a bucket closes when it holds `bucket_size` (25 MiB), the first bucket when it
    holds `first_bucket` (1 MiB) (Li et al. 2020). `horovod`: tensors that become ready within the same `cycle_time`
    share a buffer of at most `bucket_size` (64 MiB by default), which leaves at the end of that cycle (Sergeev and Del
    Balso 2018).

    - `rule`: of fusion.
    - `accumulate`: what micro-batches before the last one exchange: `none` (within `no_sync` of PyTorch DDP;
      `backward_passes_per_step` of Horovod), or `all` (DDP without it), where each pass ends when its gradients
      have arrived.
    """

    rule: Literal["ddp", "horovod"] = "ddp"
    bucket_size: PartBytes | None = None
    first_bucket: PartBytes = DDP_LIMITS[0]
    cycle_time: Period = Field(default=5e-3, gt=0)
    accumulate: Literal["all", "none"] = "none"

    @property
    def cycle(self) -> float:
        """Horovod's thread wakes up once in a `cycle_time`; DDP's hooks start an exchange at once."""
        return self.cycle_time if self.rule == "horovod" else 0.0

    def rounds(self, passes: int) -> int:
        """How often each bucket is exchanged."""
        return passes if self.accumulate == "all" else 1

    def plan(self, layers: Sequence[Layer], costs: Costs = FREE) -> list[Bucket]:
        """Buckets in the order in which they fill."""
        if self.rule == "ddp":
            limits = [self.first_bucket, self.bucket_size or DDP_LIMITS[1]]
            return buckets_of(fuse(layers, limits, costs.gradient_bytes), layers)
        return buckets_of(self._by_cycle(layers, self.bucket_size or _HOROVOD_LIMIT, costs.value_bytes), layers)

    def _by_cycle(self, layers: Sequence[Layer], limit: float, value_bytes: int) -> list[list[int]]:
        groups: list[list[int]] = []
        clock, size, cycle = 0.0, 0.0, -1
        for layer in reversed(range(len(layers))):
            clock += layers[layer].backward
            nbytes = value_bytes * layers[layer].numel
            now = math.ceil(clock / self.cycle_time)
            if now != cycle or size + nbytes > limit:
                groups.append([])
                size, cycle = 0.0, now
            groups[-1].append(layer)
            size += nbytes
        return groups
