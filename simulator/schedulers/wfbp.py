"""Wait-free back-propagation: each tensor travels as soon as it is ready."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.models.exchange import Bucket
from simulator.models.layers import Layer
from simulator.schedulers.base import FREE, Costs, Scheduler, partition, singles
from simulator.units import PartBytes


class WaitFree(Scheduler, kind="wfbp"):
    """Wait-free back-propagation: one bucket per tensor, first in first out (Zhang et al. 2017, Poseidon).

    `partition` cuts large tensors into slices that travel separately (BytePS: 4,096,000 bytes).
    """

    partition: PartBytes | None = None

    def plan(self, layers: Sequence[Layer], costs: Costs = FREE) -> list[Bucket]:
        """One bucket per tensor or slice, in backward order."""
        return singles(layers) if self.partition is None else partition(layers, self.partition, costs.value_bytes)
