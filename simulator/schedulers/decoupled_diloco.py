"""Decoupled DiLoCo: workers exchange fragments without waiting for each other."""

from __future__ import annotations

from simulator.models.graph import Period
from simulator.schedulers.local_steps import Fragmented, OuterStep


class DecoupledDiLoCo(OuterStep, Fragmented, kind="decoupled_diloco"):
    """Decoupled DiLoCo (2604.21428, 2026): fragments are exchanged with whoever is there, without a barrier.

    A worker waits only for its own exchange of a fragment before it starts the next one of the same fragment. The time
    of a step is the harmonic mean over workers, so that samples per second add up. An exchange takes each worker as
    long as if all had started it together.
    """

    @property
    def period(self) -> Period:
        """Fragments in turn, each awaited when it is to be exchanged again; every worker by itself."""
        made = self.after(self.fragments * self.between)
        return made._replace(together=False)
