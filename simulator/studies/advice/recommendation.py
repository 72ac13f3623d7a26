"""What to use: the fastest method where it surely pays, else dense, or which measurement decides it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from simulator.prediction.doubts.spread import ALIKE, Ratio
from simulator.prediction.doubts.verdict import value_of_information
from simulator.prediction.result_parts import Word
from simulator.records import Record, field, replace
from simulator.reporting.answers.advised import Overrides, Recommended
from simulator.studies.advice.ranking import TO_TARGET, Key, Ranked, Ranking
from simulator.studies.advice.reasons import SAME, describe_unmeasured, find_unmeasured
from simulator.studies.advice.search import DENSE
from simulator.studies.compare.verdict_words import describe_measurement, describe_speed_up
from simulator.units import count_of, join_words, show_probability, show_time

_NAMED = 3
"""Methods that a sentence names."""


class Recommendation(Record):
    """The answer in one line, and what else there is to say about it.

    `verdict`: whether compression pays (None where nothing is compared); `ratio`: how many times faster than dense the
    method in question is. `hidden`: why nothing can be saved, which no measurement of a method changes. `chosen`: what
    to use; `method` and `dense`: what is compared, None where nothing is.
    """

    answer: str
    details: list[str] = field(default_factory=list)
    verdict: Word | None = None
    ratio: Ratio | None = None
    chosen: Ranked | None = None
    method: Ranked | None = None
    dense: Ranked | None = None
    hidden: str = ""

    @property
    def overrides(self) -> Overrides:
        """The keys of the scenario to change."""
        return {} if self.chosen is None else self.chosen.row.overrides

    @property
    def compresses(self) -> bool:
        """Whether it is a method other than dense that is to be used, after a comparison."""
        return self.chosen is not None and self.chosen is self.method

    def described(self) -> Recommended:
        """The recommendation as part of the answer of `advise`."""
        return Recommended(
            answer=self.answer,
            details=self.details,
            recommended=self.overrides,
            verdict=self.verdict,
            probability=None if self.ratio is None or self.hidden else self.ratio.probability(),
            value_of_information=value_of_information(self.ratio) if self.ratio and not self.hidden else [],
        )


class Rival(Record):
    """A combination, and how many times faster than another one it is, by default than dense."""

    ranked: Ranked
    ratio: Ratio

    @property
    def name(self) -> str:
        """Its method, schedule and topology."""
        return name_of(self.ranked)

    @property
    def word(self) -> Word:
        """The verdict; what can gain 2 % at the most does not pay."""
        word = self.ratio.word
        if word == "yes" and self.ratio.value <= 1 + SAME:
            return "alike"
        return "no" if word == "undecided" and self.ratio.interval()[1] <= 1 + ALIKE else word

    @property
    def risk(self) -> float:
        """Its time over dense's that one case in twenty exceeds."""
        return 1 / self.ratio.interval()[0]


def recommendation(ranking: Ranking) -> Recommendation:
    """Compress where that is faster with a probability of at least 95 %, stay dense where no method can be faster.

    Else it is not decided: compression is recommended where it is expected to be faster and loses less in the worst of
    20 cases than dense, else dense, with the measurement that decides best.
    """
    dense = ranking.dense
    if dense is None or not ranking.others:
        row = (ranking.known or list(ranking.ranked))[0]
        return Recommendation(f"Use {name_of(row)}: it takes {describe_times(row)}.", chosen=row)
    rivals = [Rival(item, ratio) for item in ranking.others if (ratio := item.over(dense, ranking.key)) is not None]
    # A method has to read every gradient once, whatever its kernels cost; 1 % of the iteration is too small to matter.
    least = max(SAME * dense.row.iteration_time, ranking.least_added)
    if ranking.key != TO_TARGET and rivals and _can_save(dense) <= least:
        return _nothing_to_save(rivals[0], dense)
    paying = [item for item in rivals if item.word == "yes"]
    open_ones = [item for item in rivals if item.word == "undecided"]
    if paying:
        return _compress(paying, dense, ranking.key)
    if open_ones:
        return _undecided(open_ones, dense, ranking.key)
    return _stay_dense(rivals[0], dense, ranking.key)


def recommend_at_hand(ranking: Ranking, of_all: Recommendation) -> Recommendation:
    """What to use of what is offered, and nothing that is predicted to be slower than the scenario.

    Where the scenario is faster, what its own code can do counts, too; where it still is, it is kept. `of_all`: what to
    use of everything, where nothing is offered.
    """
    yours = ranking.yours
    advice = recommendation(ranking.offered) if ranking.offered.known else of_all
    if yours is None or not _is_slower(advice, yours, ranking.key):
        return advice
    advice = recommendation(ranking.at_hand if ranking.offered.known else ranking)
    if not _is_slower(advice, yours, ranking.key):
        return advice
    dense, answer = advice.dense, f"Keep {name_of(yours)}: it takes {describe_times(yours)}. {advice.answer}"
    ratio = None if dense is None else yours.over(dense, ranking.key)
    if dense is None or ratio is None or yours.row.method == dense.row.method or advice.hidden:
        return replace(advice, answer=answer, chosen=yours)
    return Recommendation(answer, advice.details, Rival(yours, ratio).word, ratio, yours, yours, dense)


def _is_slower(advice: Recommendation, yours: Ranked, key: Key) -> bool:
    if advice.chosen is None:
        return False
    mine, theirs = advice.chosen.seconds(key), yours.seconds(key)
    return theirs is not None and (mine is None or mine > theirs)


def _can_save(dense: Ranked) -> float:
    """The seconds that no method can save more than: exposed communication, and slowdown by communication."""
    terms = dense.row.breakdown
    return terms.get("communication_exposed", math.inf) + terms.get("slowdown", 0.0)


def _compress(paying: Sequence[Rival], dense: Ranked, key: Key) -> Recommendation:
    """Of the methods that cannot be told apart from the fastest, the one with the smallest risk."""
    alike = _not_told_apart(paying[0], paying, key)
    best = min(alike, key=lambda item: item.risk)
    best = best if best.risk < paying[0].risk - SAME else paying[0]
    sure = show_probability(best.ratio.probability())
    answer = (
        f"{use(best.ranked)} {best.name}: {compare_speeds(best.ratio)} dense{say_target(key)}; it pays with "
        f"probability {sure}.{describe_unmeasured(find_unmeasured(best.ratio))}"
    )
    details = [_both_times(best, dense)]
    others = [item.ranked.row.method for item in alike if item is not best]
    if others:
        reason = "its risk is smaller" if best is not paying[0] else "it is expected to be faster"
        details.append(f"It cannot be told apart from {_list(others)}; {reason}.")
    if key == "iteration_time":
        details.append(f"It pays as long as training needs fewer than {best.ratio.value:.2f} times the iterations.")
    return Recommendation(answer, details, "yes", best.ratio, best.ranked, best.ranked, dense)


def _nothing_to_save(best: Rival, dense: Ranked) -> Recommendation:
    """Stay dense, since communication is hidden: what a method may gain is too small to ask for measurements."""
    word: Word = "alike" if abs(best.ratio.value - 1) <= ALIKE else "no"
    hidden = (
        f"Compute hides all communication but for {show_time(_can_save(dense))} of "
        f"{show_time(dense.row.iteration_time)}, on the network as it is stated. No method can save more, and its own "
        "work reduces that."
    )
    answer = f"Stay dense, with {name_of(dense)}: no other method pays. {hidden}"
    return Recommendation(answer, [_both_times(best, dense)], word, best.ratio, dense, best.ranked, dense, hidden)


def _stay_dense(best: Rival, dense: Ranked, key: Key) -> Recommendation:
    if best.word == "alike":
        low, high = best.ratio.interval()
        reason = f"makes no difference (90 % interval {low:.2f} to {high:.2f} times as fast as dense{say_target(key)})"
    else:
        sure = show_probability(best.ratio.probability())
        reason = f"is {compare_speeds(best.ratio)} dense{say_target(key)}, and pays with probability {sure}"
    answer = f"Stay dense, with {name_of(dense)}: no other method pays. The fastest of them, {best.name}, {reason}."
    return Recommendation(answer, [_both_times(best, dense)], best.word, best.ratio, dense, best.ranked, dense)


def _undecided(open_ones: Sequence[Rival], dense: Ranked, key: Key) -> Recommendation:
    """The fastest method that may pay; until it is measured, it is used if it is expected to pay and may lose less."""
    best = open_ones[0]
    low, high = best.ratio.interval()
    compress = best.ratio.log > 0 and high > 1 / low
    reason = "risks less" if (high > 1 / low) == compress else "is expected to be faster"
    choice = f"{'compress' if compress else 'stay dense'} for now"
    answer = (
        f"Not decided, {choice}: {best.name} is {compare_speeds(best.ratio)} dense{say_target(key)}; it pays with "
        f"probability {show_probability(best.ratio.probability())}.{describe_unmeasured(find_unmeasured(best.ratio))}"
    )
    details = [
        f"{'Compressing' if compress else 'Staying dense'} {reason}: {best.ranked.row.method} may take up to "
        f"{1 / low:.2f} times as long as dense, and dense up to {high:.2f} times as long as that, but for one case in "
        "twenty each.",
        describe_measurement(value_of_information(best.ratio)),
        _both_times(best, dense),
    ]
    others = [item.ranked.row.method for item in _not_told_apart(best, open_ones, key) if item is not best]
    if others:
        details.append(f"{best.ranked.row.method} cannot be told apart from {_list(others)}.")
    chosen = best.ranked if compress else dense
    return Recommendation(answer, details, "undecided", best.ratio, chosen, best.ranked, dense)


def _not_told_apart(first: Rival, rivals: Sequence[Rival], key: Key) -> list[Rival]:
    """The first, and those of which it is not decided whether they are slower."""
    ratios = ((item, item.ranked.over(first.ranked, key)) for item in rivals)
    return [item for item, ratio in ratios if ratio is not None and ratio.word in ("undecided", "alike")]


def compare_speeds(ratio: Ratio, than: str = " than") -> str:
    """How a method compares with another: `1.31 times faster (90 % interval 1.12 to 1.50) than`."""
    low, high = ratio.interval()
    if low < 1 < high:
        return f"{low:.2f} to {high:.2f} times as fast{' as' if than else ''}"
    return f"{describe_speed_up(ratio)}{than}"


def _both_times(best: Rival, dense: Ranked) -> str:
    times = describe_times(best.ranked), describe_times(dense)
    return f"Expected times: {times[0]} with {best.name}, {times[1]} with {name_of(dense)}."


def say_target(key: Key) -> str:
    """What speeds are about, where that is not an iteration."""
    return " to the target" if key == TO_TARGET else ""


def _list(methods: Sequence[str]) -> str:
    more = len(methods) - _NAMED
    return join_words([*methods[:_NAMED], *([count_of(more, "other method")] if more > 0 else [])])


def name_of(item: Ranked) -> str:
    """Its method, schedule and topology."""
    row = item.row
    return f"{row.method} ({row.schedule}, {row.topology})"


def use(item: Ranked) -> str:
    """The words that tell to use a method: dense gradients, rounded or not, are not compressed."""
    return "Use" if item.row.sparsifier == DENSE else "Compress with"


def describe_times(item: Ranked) -> str:
    """How long a row takes, in words."""
    row = item.row
    time = f"{show_time(row.iteration_time)} per iteration"
    if row.time_to_target is None:
        return time
    return f"{show_time(row.time_to_target)} to the target ({time})"
