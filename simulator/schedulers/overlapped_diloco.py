"""Overlapped DiLoCo: the exchange runs during the next period."""

from __future__ import annotations

from pydantic import Field

from simulator.component import expected
from simulator.models.graph import Fragment, Period
from simulator.schedulers.local_steps import OuterStep


class OverlappedDiLoCo(OuterStep, kind="overlapped_diloco"):
    """DiLoCo with its exchange behind the next inner steps (Kale, Douillard and Donchev, 2502.12996, 2025).

    What is exchanged at the end of a period is applied `delay` steps later. `eager`: the worker goes on with the outer
    step of its own pseudo-gradient at once, and corrects it when the mean has arrived, which takes one more outer step
    and one more copy of the model. In a steady state a period takes max(compute, exchange) where the delay is H.

    - `delay`: steps between the start of an exchange and its use; none: H.
    - `eager`: whether the worker's own part is applied at once.
    """

    delay: int | None = Field(default=None, ge=0, le=1_000_000)
    eager: bool = False

    def refuse_unfit(self) -> None:
        if self.delay is not None and self.delay > self.inner_steps:
            hint = "the next exchange starts then"
            raise expected(f"a `delay` of at most {self.inner_steps} steps", str(self.delay), hint)

    @property
    def copies(self) -> int:
        """The outer parameters, what is under way, and, if eager, the worker's own part of it."""
        return 3 if self.eager else 2

    @property
    def period(self) -> Period:
        """One exchange, awaited in the next period."""
        delay = self.inner_steps if self.delay is None else self.delay
        return Period(self.inner_steps, (Fragment(self.inner_steps, self.inner_steps + delay),))
