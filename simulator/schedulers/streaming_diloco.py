"""Streaming DiLoCo: the model is exchanged in fragments, while training goes on."""

from __future__ import annotations

from pydantic import Field

from simulator.component import expected
from simulator.models.graph import Period
from simulator.schedulers.local_steps import Fragmented, OuterStep


class StreamingDiLoCo(OuterStep, Fragmented, kind="streaming_diloco"):
    """Streaming DiLoCo (Douillard et al., 2501.18512, 2025): fragments in turn, each applied `delay` steps later.

    As many bytes as DiLoCo sends, of which at most one fragment is under way at a time. The exchange of a fragment is
    hidden by the compute of the `delay` steps after it; the worker waits for what is left. Then the outer step is taken
    and mixed with the worker's own parameters.

    - `delay`: steps between the start of an exchange and its use, at most those of a period.
    - `mixing`: share of the worker's own parameters in what it goes on with.
    - `one_program`: one compiled program holds exchange and compute, so that the delay hides nothing (MaxText).
    """

    delay: int = Field(default=0, ge=0, le=1_000_000)
    mixing: float = Field(default=0.5, ge=0, le=1)
    one_program: bool = False

    def refuse_unfit(self) -> None:
        steps = self.fragments * self.between
        if self.delay > steps:
            hint = "a fragment is in use before its next exchange starts"
            raise expected(f"a `delay` of at most {steps} steps, a period", str(self.delay), hint)

    @property
    def period(self) -> Period:
        """One fragment after the other, each awaited after the delay."""
        return self.after(0 if self.one_program else self.delay)
