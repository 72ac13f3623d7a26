"""Priority: the gradients that the next forward pass needs first travel first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from simulator.models.exchange import Bucket
from simulator.models.graph import Queue
from simulator.models.layers import Layer
from simulator.schedulers.base import FREE, Costs, Scheduler, partition
from simulator.units import Bytes, PartBytes


class Priority(Scheduler, kind="priority"):
    """Slices of tensors, those of the first layers first; the next forward pass of a layer waits for its own only.

    `partition`: largest bytes of a slice. `credit`: bytes that are given to the network at once; their order is then
    fixed. A larger credit keeps the network busy but delays slices that become more urgent. At least one slice is
    always under way. P3 (Jayarajan et al., MLSys 2019): slices of 160,000 bytes (40,000 elements), sent to the
    servers in turn. ByteScheduler (Peng et al., SOSP 2019): slices of 4 MB and a credit of 16 MB in the runs of
    HKBU-HPML/ddl-benchmarks.
    """

    gated: ClassVar[bool] = True

    partition: PartBytes = 4e6
    credit: Bytes = 0.0

    @property
    def queue(self) -> Queue:
        """By priority, with the credit."""
        return Queue(self.streams, by_priority=True, credit=self.credit)

    def plan(self, layers: Sequence[Layer], costs: Costs = FREE) -> list[Bucket]:
        """Slices in backward order."""
        return partition(layers, self.partition, costs.value_bytes)
