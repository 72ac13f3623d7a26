"""An uncertain input: a figure that a prediction rests on, and the factor by which it may be wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from simulator.hardware.kernel_estimates import Level as KernelLevel
from simulator.prediction.result_parts import Basis
from simulator.scenario.scenario import Scenario

Level = Literal["measured", "transferred", "assumed"]
"""Timed here, with a held-out error; carried over from other set-ups, with the error of leaving them out; a prior."""
LEVELS: dict[KernelLevel, Level] = {"measured": "measured", "transferred": "transferred", "estimated": "assumed"}
"""How a figure of a GPU is known, as a level of an input."""
Change = Callable[[Scenario, float], Scenario]
"""A scenario in which an input has its upper end (1), its lower end (-1), or what it is taken to be (0)."""


class Measurement(NamedTuple):
    """A measurement that would settle an input: what to measure, by which command, and the minutes that it takes.

    `argument`: the last one of the command, where several measurements can be joined in one, by commas.
    """

    what: str
    command: str
    minutes: float
    argument: str = ""


def seconds_at_ends(seconds: float, width: float) -> tuple[float, float]:
    """By how much a time is shorter and longer where what it is proportional to is divided and multiplied by a width.

    t (1 - 1/w) and t (w - 1), in seconds.
    """
    return seconds * (1 - 1 / width), seconds * (width - 1)


class UncertainInput(NamedTuple):
    """One figure that a prediction rests on, and by what it may be wrong.

    `what` and `id`: its kind and which one it is; two predictions share an input if both are equal. `level`: how it is
    known. `width`: the factor by which it may be wrong either way in nine of ten cases; 1 if it is exact. `in_range`:
    whether it was used only where it was measured. `less`, `more`: seconds by which the iteration is shorter and longer
    at the ends of the width, to first order. `change`: a scenario with one of the ends; None where first order is
    enough. `shared`: inputs with the same text are wrong the same way, and are changed together; all others are wrong
    independently of each other. `source`: where the width comes from. `measurement`: what would settle it.
    """

    what: str
    id: str
    level: Level
    width: float
    in_range: bool = True
    less: float = 0.0
    more: float = 0.0
    change: Change | None = None
    shared: str = ""
    source: str = ""
    measurement: Measurement | None = None
    held_out_mape: float | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Equal for an input that two predictions share."""
        return self.what, self.id

    @property
    def response_key(self) -> tuple[str, str]:
        """Equal for inputs that are wrong the same way, and so have one response together."""
        return ("shared", self.shared) if self.shared else self.key

    def with_seconds(self, less: float, more: float) -> UncertainInput:
        """The input with the seconds that it decides."""
        return UncertainInput._make((*self[:5], less, more, *self[7:]))

    def as_row(self) -> Basis:
        """The input as an entry of the result."""
        return Basis(self.what, self.id, self.level, self.width, self.held_out_mape, self.in_range)
