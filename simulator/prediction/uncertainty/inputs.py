"""An uncertain input: a figure that a prediction rests on, and the factor by which it may be wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

from simulator.scenario.scenario import Scenario

NORMAL_95 = NormalDist().inv_cdf(0.95)
"""Standard deviations between the median and the 95th percentile of a normal distribution."""
DEVIATION = math.sqrt(math.pi / 2)
"""Standard deviation of a normal error whose mean absolute value is 1."""

Level = Literal["measured", "transferred", "assumed"]
"""Timed here, with a held-out error; carried over from other set-ups, with the error of leaving them out; a prior."""
Change = Callable[[Scenario, float], Scenario]
"""A scenario in which an input has its upper end (1), its lower end (-1), or what it is taken to be (0)."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measurement that would settle an input: what to measure, by which command, and the minutes that it takes.

    `argument`: the last one of the command, where several measurements can be joined in one, by commas.
    """

    what: str
    command: str
    minutes: float
    argument: str = ""


@dataclass(frozen=True, slots=True)
class UncertainInput:
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

    def as_row(self) -> dict[str, Any]:
        """The input as an entry of the result document."""
        return {
            "what": self.what,
            "id": self.id,
            "level": self.level,
            "width": self.width,
            "held_out_mape": self.held_out_mape,
            "in_range": self.in_range,
        }


def width_of(mean_error: float) -> float:
    """The factor that holds nine of ten cases, of a normal error of logarithms whose mean absolute value is given."""
    return math.exp(NORMAL_95 * DEVIATION * mean_error)


def mean_error(width: float) -> float:
    """Mean absolute relative error of what is right within a factor in nine of ten cases.

    The standard deviation of its logarithm is ln(width) / 1.645.
    """
    return math.log(width) / NORMAL_95 / DEVIATION
