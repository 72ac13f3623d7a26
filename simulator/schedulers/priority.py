"""Priority: what the next forward pass needs first travels first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from simulator.models.exchange import Bucket
from simulator.models.layers import Layer
from simulator.schedulers.base import FREE, Costs, Scheduler, partition, singles
from simulator.units import Bytes, PositiveBytes


class Priority(Scheduler, kind="priority"):
    """Slices of tensors, those of the first layers first; each layer's next forward pass waits for its own only.

    `partition` bounds a slice, `credit` the bytes that are handed to the network at once: what has been handed over
    is sent in that order, so the credit is the price of a full pipe in preemption (at least one slice is under way).
    P3 (Jayarajan et al., MLSys 2019): 160,000 bytes (40,000 elements), to servers in turn. ByteScheduler (Peng et al.,
    SOSP 2019): 4 MB and 16 MB in the runs of HKBU-HPML/ddl-benchmarks.
    """

    gated: ClassVar[bool] = True
    by_priority: ClassVar[bool] = True

    partition: PositiveBytes = 4e6
    credit: Bytes = 0.0

    @property
    def in_flight(self) -> float | None:
        """The credit."""
        return self.credit

    def plan(self, layers: Sequence[Layer], costs: Costs = FREE) -> list[Bucket]:
        """Slices in backward order."""
        return partition(singles(layers), self.partition)
