"""A verdict in words: yes, no, no difference or not decided, how sure that is, and what would decide it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from simulator.prediction.doubts.spread import Ratio
from simulator.prediction.doubts.verdict import Verdict, value_of_information
from simulator.prediction.result_parts import Worth
from simulator.units import count_of, show_probability

_LIKELY = 0.2
"""A measurement that decides a question with less than this probability is not recommended."""
_LONG = 2.0
"""From this ratio on a cost is a factor instead of a share."""


class VerdictWords(NamedTuple):
    """How the answers to a question begin, and the claim whose probability they state."""

    yes: str
    no: str
    undecided: str
    claim: str


PAYS = VerdictWords("Yes", "No", "Not decided", "it pays")
TWO_RUNS = VerdictWords("B is faster than A", "B is slower than A", "Not decided which one is faster", "B is faster")


def describe_verdict(verdict: Verdict, question: VerdictWords = PAYS) -> str:
    """The answer with the speed-up, its interval and its probability, and what would decide it where that is open.

    With the default: `Yes: 1.31 times faster (90 % interval 1.12 to 1.50); it pays with probability 0.97.`
    """
    word, ratio = verdict.word, verdict.ratio
    if word == "alike":
        return f"It makes no difference{_in_brackets(_as_fast(ratio))}."
    sure = f"; {question.claim} with probability {show_probability(ratio.probability())}" if _has_width(ratio) else ""
    if word == "undecided":
        advice = describe_measurement(value_of_information(ratio))
        return f"{question.undecided}: {_as_fast(ratio)}{sure}. {advice}"
    return f"{question.yes if word == 'yes' else question.no}: {describe_speed_up(ratio)}{sure}."


def describe_cost(verdict: Verdict) -> str:
    """The answer to a question that is not about paying: the share of the iteration that something costs or saves."""
    word, ratio = verdict.word, verdict.ratio
    if word == "alike":
        return describe_verdict(verdict)
    high, low = (1 / end for end in ratio.interval())
    if word == "undecided":
        longer = show_probability(1 - ratio.probability())
        return (
            f"Not decided whether it costs time: an iteration takes {_number(low)} to {_number(high)} times as long "
            f"(90 % interval); it takes longer with probability {longer}. "
            f"{describe_measurement(value_of_information(ratio))}"
        )
    time = 1 / ratio.value
    if time >= _LONG:
        return f"It takes {_number(time)} times as long{_interval(low, high, ratio)}."
    sides = (low, high) if time > 1 else (high, low)
    percent = (f"{float(f'{100 * abs(end - 1):.2g}'):g} %" for end in sides)
    interval = _in_brackets(f"90 % interval {' to '.join(percent)}") if _has_width(ratio) else ""
    share = f"{float(f'{100 * abs(time - 1):.2g}'):g} %"
    return f"It {'costs' if time > 1 else 'saves'} {share}{interval}."


def describe_speed_up(ratio: Ratio) -> str:
    """How many times faster or slower, with the 90 % interval: `1.17 times slower (90 % interval 1.05 to 1.30)`."""
    low, high = ratio.interval()
    if ratio.log >= 0:
        return f"{_number(ratio.value)} times faster{_interval(low, high, ratio)}"
    return f"{_number(1 / ratio.value)} times slower{_interval(1 / high, 1 / low, ratio)}"


def describe_measurement(rows: Sequence[Worth], lines: int = 0) -> str:
    """What would decide an open question, from the entries of `value_of_information`.

    Where no single measurement is likely to, it is to be tried; `lines` of configuration are needed for that.
    """
    if not rows:
        return "No measurement that sparsim has a command for would decide it."
    best = rows[0]
    if best.decided < _LIKELY:
        needs = f": {count_of(lines, 'line')} to set" if lines else ""
        return f"No single measurement is likely to decide it; try it{needs}."
    minutes = f"{best.minutes:.2g} minute{'' if best.minutes == 1 else 's'}"
    command = f"(`{best.command}`, about {minutes})"
    sure = show_probability(best.decided)
    return f"Measure {best.input} on your machines {command}, and it is decided with probability {sure}."


def _as_fast(ratio: Ratio) -> str:
    low, high = ratio.interval()
    return f"{_number(low)} to {_number(high)} times as fast (90 % interval)" if _has_width(ratio) else ""


def _interval(low: float, high: float, ratio: Ratio) -> str:
    return _in_brackets(f"90 % interval {_number(low)} to {_number(high)}") if _has_width(ratio) else ""


def _has_width(ratio: Ratio) -> bool:
    low, high = ratio.interval()
    return high > low


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def _number(value: float) -> str:
    """A ratio to two decimals, large ones to three digits."""
    return f"{value:.2f}" if value < 100 else f"{value:,.3g}"
