"""A doubt: a figure that a prediction rests on, how far it may be off, what would settle it, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from simulator.hardware.kernels import Level as KernelLevel
from simulator.prediction.result_parts import Basis
from simulator.scenario.scenario import Scenario

Level = Literal["measured", "transferred", "assumed"]
"""Timed here, with a held-out error; carried over from other set-ups, with the error of leaving them out; a prior."""
LEVELS: dict[KernelLevel, Level] = {"measured": "measured", "transferred": "transferred", "estimated": "assumed"}
"""How a figure of a GPU is known, as a level of a doubt."""
Change = Callable[[Scenario, float], Scenario]
"""A scenario in which a figure has its upper end (1), its lower end (-1), or what it is taken to be (0)."""
FACTORS = "in brackets the factor by which each may be wrong"


class Measurement(NamedTuple):
    """A measurement that would settle a doubt: what to measure, by which command, and the minutes that it takes.

    `argument`: the last one of the command, where several measurements can be joined in one, by commas.
    """

    what: str
    command: str
    minutes: float
    argument: str = ""


class Sentence(NamedTuple):
    """What is said of all doubts that have this sentence, together: `text`; then, between `before` and `after`, what
    each of them is called in it, the largest first.

    `groups`: what stands before and after the names of each group (`Said.group`), which are named apart.
    `terms`: terms of the iteration that it is about; where there are none, it is about the seconds that its doubts are
    proportional to, and None: about no part of the iteration. `less`, `more`: seconds by which the iteration may be
    shorter and longer, where its doubts do not say so. `unbounded`: what is not known may be more than all of it.
    `place`: sentences of one size are told in its order.
    """

    text: str = ""
    before: str = ""
    after: str = ""
    terms: tuple[str, ...] | None = ()
    between: str = ", "
    groups: tuple[tuple[str, str], ...] = (("", ""),)
    less: float | None = None
    more: float | None = None
    unbounded: bool = False
    place: int = 0


class Said(NamedTuple):
    """The place of a doubt in a sentence: its `name` there, if it is named, and the group of names it belongs to.

    `weight`: seconds by which names are put in order; by how much the doubt changes the iteration if None. `seconds` of
    the iteration and `share` of the doubt's effect that the sentence is about, if not all.
    """

    sentence: Sentence
    name: str = ""
    group: int = 0
    weight: float | None = None
    seconds: float | None = None
    share: float = 1.0


class Doubt(NamedTuple):
    """One figure that a prediction rests on, and by what it may be wrong.

    `what` and `id`: its kind and which one it is; two predictions share a doubt if both are equal. `level`: how it is
    known. `width`: the factor by which it may be wrong either way in nine of ten cases; 1 if it is exact. `source`:
    where the width comes from. `measurement`: what would settle it. `said`: the sentences that warn of it. `change`: a
    scenario with one of the ends; None where first order is enough. `less`, `more`: seconds by which the iteration is
    shorter and longer at the ends of the width, to first order. `shared`: doubts with the same text are wrong the same
    way, and are changed together; all others are wrong independently of each other. `inside`: whether it was used only
    where it was measured; as its level says if None. `touched`: seconds that are proportional to it, over the seconds
    between both ends, as a fraction; what a factor gives if None. `shift`: as `change`, where a measurement moves it
    and first order is enough for its ends. `stepwise`: its ends are other possibilities, with nothing between them.
    `absolute`: `change` sets its figure instead of multiplying it.
    """

    what: str
    id: str
    level: Level
    width: float
    source: str = ""
    measurement: Measurement | None = None
    said: tuple[Said, ...] = ()
    change: Change | None = None
    less: float = 0.0
    more: float = 0.0
    shared: str = ""
    held_out_mape: float | None = None
    inside: bool | None = None
    touched: tuple[float, float] | None = None
    shift: Change | None = None
    stepwise: bool = False
    absolute: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Equal for a doubt that two predictions share."""
        return self.what, self.id

    @property
    def response_key(self) -> tuple[str, str]:
        """Equal for doubts that are wrong the same way, and so have one response together."""
        return ("shared", self.shared) if self.shared else self.key

    @property
    def in_range(self) -> bool:
        """Whether it was used only where it was measured."""
        return self.level == "measured" if self.inside is None else self.inside

    def with_seconds(self, less: float, more: float) -> Doubt:
        """The doubt with the seconds that it decides."""
        return self._replace(less=less, more=more)

    def over(self, seconds: float) -> Doubt:
        """The doubt about a factor on so many seconds of the iteration."""
        return self.with_seconds(*seconds_at_ends(seconds, self.width))

    def as_row(self) -> Basis:
        """The doubt as an entry of `calibration` in the result."""
        return Basis(self.what, self.id, self.level, self.width, self.held_out_mape, self.in_range)


def say(text: str, *terms: str) -> tuple[Said, ...]:
    """The sentence that warns of a doubt, and the terms of the iteration that it is about."""
    return (Said(Sentence(text, terms=terms)),)


def seconds_at_ends(seconds: float, width: float) -> tuple[float, float]:
    """By how much a time is shorter and longer where what it is proportional to is divided and multiplied by a width.

    t (1 - 1/w) and t (w - 1), in seconds.
    """
    return seconds * (1 - 1 / width), seconds * (width - 1)
