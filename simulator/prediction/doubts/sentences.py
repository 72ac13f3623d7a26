"""Warnings of a prediction: what its doubts say, with sizes from their responses, which agree with the interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from simulator.prediction.doubts.doubt import Doubt, Said, Sentence
from simulator.prediction.doubts.responses import Response
from simulator.prediction.doubts.spread import Spread
from simulator.prediction.doubts.warning import SMALL, SizedWarning
from simulator.prediction.simulated import Simulated
from simulator.records import Record

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
            low, high = self.spread.interval_of(responses)
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
        rows = [(self._weight(doubt, said, least), said) for doubt, said in members if said.name]
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

    def _weight(self, doubt: Doubt, said: Said, unknown: float) -> float:
        apart = self.apart(doubt) if said.weight is None else said.weight
        return unknown if apart is None else apart

    @cached_property
    def _places(self) -> Mapping[tuple[str, str], int]:
        """Which response each doubt is a part of, by the doubt's key."""
        return {
            (item.what, item.id): place
            for place, response in enumerate(self.spread.responses)
            for item in response.doubts
        }

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
        own = self.spread.responses[self._places[item.what, item.id]]
        if own.exact and len(own.doubts) == 1:
            return self.spread.time * abs(math.exp(own.high) - math.exp(own.low))
        return item.less + item.more if _is_known(own, (item,)) else None

    def _responses(self, members: Sequence[_Member]) -> list[Response]:
        """The responses to these doubts, each by the share that is theirs of what is wrong in the same way."""
        # Loops, since this is asked for every warning of every point of a sweep.
        places, chosen = self._places, dict[int, dict[tuple[str, str], float]]()
        for item, said in members:
            if item.width > 1:
                key = item.what, item.id
                chosen.setdefault(places[key], {})[key] = said.share
        found = []
        for place in sorted(chosen):
            response, shares = self.spread.responses[place], chosen[place]
            mine = response.doubts
            if len(mine) > 1:
                mine = tuple([item for item in mine if (item.what, item.id) in shares])
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
    if response.exact:
        return True
    for item in items:
        if item.more:
            return True
    return all([item.change is None for item in items])
