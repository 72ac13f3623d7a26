"""TicTac: whole tensors travel in the order in which the next forward pass uses them."""

from __future__ import annotations

from typing import ClassVar

from simulator.models.graph import Queue
from simulator.schedulers.base import Scheduler


class TicTac(Scheduler, kind="tictac"):
    """Transfers in the order of the computation that waits for them (Hashemi, Abdu Jyothi and Campbell, MLSys 2019).

    The authors order transfers by the computation in a dataflow graph that each of them makes possible (timing-aware,
    TAC), or by the number of others that it needs (timing-independent, TIC). In a chain of layers only the next
    transfer makes computation possible, so that both orders are the forward order, whatever the times. One whole tensor
    is under way at a time.
    """

    gated: ClassVar[bool] = True

    @property
    def queue(self) -> Queue:
        """By priority, one tensor at a time."""
        return Queue(self.streams, by_priority=True, credit=0.0)
