"""Warnings of a prediction: what its doubts say, with sizes from their responses, which agree with the interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

from simulator.prediction.doubts.doubt import Doubt, Said, Sentence
from simulator.prediction.doubts.spread import Response, Spread
from simulator.prediction.result_parts import WarningSize
from simulator.prediction.simulated import Simulated
from simulator.records import Record
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


Remark = Sentence | SizedWarning
"""What is said whether or not there is a doubt that says it."""
_Member = tuple[Doubt, Said]


class Reader(Record, dict=True):
    """A simulated scenario, and how its time responds to its doubts: what warnings are made of."""

    simulated: Simulated
    spread: Spread

    def says_of(self, what: str) -> bool:
        """Whether a doubt of a kind has a sentence."""
        return any(item.said and item.what == what for each in self.spread.responses for item in each.doubts)

    def seconds_of(self, *terms: str) -> float:
        """Seconds of some terms of the iteration."""
        breakdown = self.simulated.figures.timed
        return math.fsum([breakdown[term] for term in terms])

    def warnings(self, remarks: Iterable[Remark] = ()) -> Iterator[SizedWarning]:
        """One warning for each sentence of the doubts and of the remarks."""
        members = dict[Sentence, list[_Member]]()
        for response in self.spread.responses:
            for doubt in response.doubts:
                for said in doubt.said:
                    members.setdefault(said.sentence, []).append((doubt, said))
        sized = list[SizedWarning]()
        for remark in remarks:
            if isinstance(remark, SizedWarning):
                sized.append(remark)
            else:
                members.setdefault(remark, [])
        for sentence, each in sorted(members.items(), key=lambda item: item[0].place):
            yield self.warning(sentence, each)
        yield from sized

    def warning(self, sentence: Sentence, members: Sequence[_Member] = ()) -> SizedWarning:
        """A sentence about some doubts, with its size."""
        time, responses = self.spread.time, self._responses(members)
        less, more = sentence.less, sentence.more
        if responses:
            # As if no figures but those of these doubts were wrong.
            low, high = Spread(time, tuple(responses), tails=self.spread.tails).interval()
            less, more = time - low, high - time
        text, seconds = self._text(sentence, members), self._seconds(sentence, members)
        return SizedWarning(text, time, seconds, less, more, sentence.unbounded)

    def _seconds(self, sentence: Sentence, members: Sequence[_Member]) -> float | None:
        """Seconds of the iteration that a sentence is about; None where that is not known."""
        if sentence.terms is None:
            return None
        if sentence.terms:
            return self.seconds_of(*sentence.terms)
        if stated := [said.seconds for _, said in members if said.seconds is not None]:
            return sum(stated)
        touched = [value for value in (self.touched(doubt) for doubt, _ in members) if value is not None]
        return min(self.spread.time, math.fsum(touched)) if touched else None

    def _text(self, sentence: Sentence, members: Sequence[_Member]) -> str:
        """The words of a sentence. It names the doubts that change the iteration; all of them if none does."""
        least = SMALL * self.spread.time
        named = [(doubt, said) for doubt, said in members if said.name]
        sizes = [self.apart(doubt) if said.weight is None else said.weight for doubt, said in named]
        rows = [(least if size is None else size, said) for size, (_, said) in zip(sizes, named, strict=True)]
        if not rows:
            return sentence.text
        chosen = [row for row in rows if row[0] >= least] or rows
        chosen.sort(key=lambda row: -row[0])
        parts = []
        for number, (before, after) in enumerate(sentence.groups):
            if names := [said.name for _, said in chosen if said.group == number]:
                parts.append(f"{before}{sentence.between.join(names)}{after}")
        start = f"{sentence.text}; " if sentence.text else ""
        return f"{start}{sentence.before}{'; '.join(parts)}{sentence.after}"

    @cached_property
    def _places(self) -> Mapping[tuple[str, str], int]:
        """Which response each doubt is a part of, by the doubt's key."""
        return {item.key: place for place, each in enumerate(self.spread.responses) for item in each.doubts}

    def touched(self, item: Doubt) -> float | None:
        """Seconds of the iteration that are proportional to a doubt; None where that is not known.

        Seconds s are (w - 1 / w) s apart where the figure is w times as large and as small.
        """
        apart = self.apart(item)
        if apart is None or item.width == 1:
            return None
        seconds, over = (1.0, item.width - 1 / item.width) if item.touched is None else item.touched
        return apart * seconds / over

    def apart(self, item: Doubt) -> float | None:
        """Seconds between the iterations at both ends of a doubt; None where that is not known.

        As simulated, where the figure is wrong by itself, and elsewhere to first order.
        """
        own = self.spread.responses[self._places[item.key]]
        if own.exact and len(own.doubts) == 1:
            return self.spread.time * abs(math.exp(own.high) - math.exp(own.low))
        return item.less + item.more if _is_known(own, (item,)) else None

    def _responses(self, members: Sequence[_Member]) -> list[Response]:
        """The responses to these doubts, each by the share that is theirs of what is wrong in the same way."""
        chosen = dict[int, dict[tuple[str, str], float]]()
        for item, said in members:
            if item.width > 1:
                chosen.setdefault(self._places[item.key], {})[item.key] = said.share
        found = []
        for place in sorted(chosen):
            response, shares = self.spread.responses[place], chosen[place]
            mine = [item for item in response.doubts if item.key in shares]
            if _is_known(response, mine):
                whole = len(mine) == len(response.doubts) and all([share == 1 for share in shares.values()])
                found.append(response if whole else _part_of(response, mine, shares))
        return found


def _part_of(response: Response, mine: Sequence[Doubt], shares: Mapping[tuple[str, str], float]) -> Response:
    """The part of a response that is due to shares of some of its doubts."""
    whole = math.fsum(item.less + item.more for item in response.doubts)
    part = math.fsum(shares[item.key] * (item.less + item.more) for item in mine)
    share = part / whole if whole else max(shares.values())
    return response._replace(low=share * response.low, high=share * response.high)


def _is_known(response: Response, items: Sequence[Doubt]) -> bool:
    """Whether the response says what the doubts change: it was simulated, or first order is enough for them."""
    return response.exact or any([item.more for item in items]) or all([item.change is None for item in items])
