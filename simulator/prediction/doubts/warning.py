"""A warning with its size: how much of the iteration it touches, and how much shorter or longer that makes it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from simulator.prediction.result_parts import WarningSize
from simulator.units import show_time

Direction = Literal["too fast", "too slow", "either way"]
"""How a prediction errs: the iteration may be longer than predicted, shorter, or both."""
SMALL = 1e-3
"""Share of the iteration below which a warning is a note, and a change is not worth a number."""


class SizedWarning(NamedTuple):
    """One sentence on an iteration of `time` seconds, and what depends on it.

    `seconds`: how much of the iteration it touches; None where that is not known. `less`, `more`: seconds by which the
    iteration may be shorter and longer because of it, in nine of ten cases; None where that is not known, 0 where it
    cannot be. `unbounded`: what is not known may be more than the whole iteration.
    """

    text: str
    time: float
    seconds: float | None = None
    less: float | None = None
    more: float | None = None
    unbounded: bool = False

    @property
    def direction(self) -> Direction | None:
        """How the prediction errs because of it; None where it changes less than 0.1 % of the time."""
        shorter, longer = self._matters(self.less), self._matters(self.more)
        if shorter and longer:
            return "either way"
        return "too fast" if longer else "too slow" if shorter else None

    @property
    def is_note(self) -> bool:
        """Whether it changes the iteration by less than 0.1 %, or touches less of it where the change is not known."""
        if not self.time:
            return self.seconds is not None
        sizes = self._known
        if len(sizes) < 2:
            sizes.append(self.time if self.seconds is None else self.seconds)
        return max(sizes) < SMALL * self.time

    @property
    def size(self) -> tuple[bool, float, float]:
        """What warnings are put in order by: no bound, then the seconds that may change, then those it touches.

        To nine digits: what differs by rounding only is equal, and stays in the order of the parts of the scenario.
        """
        changed, touched = (float(f"{value:.9g}") for value in (max(self._known, default=0.0), self.seconds or 0.0))
        return self.unbounded, changed, touched

    @property
    def _known(self) -> list[float]:
        return [value for value in (self.less, self.more) if value is not None]

    @property
    def sized(self) -> str:
        """The sentence with its size.

        >>> SizedWarning("topk was not timed", 1.0, 0.38, 0.12, 0.26).sized
        'topk was not timed: 38 % of this iteration; it may be 120 ms shorter or 260 ms longer'
        """
        if not self.time:
            return self.text
        share = "" if self.seconds is None else f"{_show_share(self.seconds / self.time)} of this iteration; "
        return f"{self.text}: {share}{self._describe_change('it' if share else 'this iteration')}"

    def as_row(self) -> WarningSize:
        """The warning as an entry of the result."""
        return WarningSize(
            text=self.text, seconds=self.seconds, less=self.less, more=self.more, direction=self.direction
        )

    def _matters(self, seconds: float | None) -> bool:
        return seconds is None or seconds >= SMALL * self.time > 0

    def _describe_change(self, subject: str) -> str:
        sides = ((self.less, "shorter"), (self.more, "longer"))
        numbers = [f"{_show(value)} {word}" for value, word in sides if value is not None and self._matters(value)]
        unknown = [word for value, word in sides if value is None]
        if numbers and not unknown:
            return f"{subject} may be {' or '.join(numbers)}"
        if len(unknown) == 1:
            return f"{subject} may be {' or '.join([*numbers, unknown[0]])}, by how much is not known"
        return "how wrong this may be is not known" if unknown else f"{subject} changes by less than 0.1 %"


def _show(seconds: float) -> str:
    return show_time(float(f"{seconds:.2g}"))


def _show_share(share: float) -> str:
    if share < SMALL:
        return "less than 0.1 %"
    return f"{100 * share:.0f} %" if share >= 0.01 else f"{100 * share:.1g} %"
