"""What to use: the fastest method where it surely pays, else dense, or which measurement decides it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from simulator.prediction.doubts.spread import ALIKE, Ratio
from simulator.prediction.result_parts import Word
from simulator.records import Record, replace
from simulator.studies.advice.ranking import SAME, Ranking
from simulator.studies.advice.search import TO_TARGET, Combination, Key


class Rival(Record):
    """A combination, and how many times faster than another one it is, by default than dense."""

    ranked: Combination
    ratio: Ratio

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

    @property
    def risks_less(self) -> bool:
        """Whether dense may lose more against it than it against dense, but for one case in twenty each."""
        return self.ratio.interval()[1] > self.risk


class Recommendation(Record):
    """What to use, and the comparison that decides it.

    `chosen`: what to use. `rival`: the method in question, compared with `dense`; both are None where nothing is
    compared. `hidden`: the seconds of communication that compute does not hide, where they are too few to save
    anything, which no measurement of a method changes. `alike`: those that cannot be told apart from the rival, and
    itself, fastest first. `without`: what to use if the scenario, which is kept, were not there.
    """

    chosen: Combination
    rival: Rival | None = None
    dense: Combination | None = None
    hidden: float | None = None
    alike: Sequence[Rival] = ()
    without: Recommendation | None = None

    @property
    def verdict(self) -> Word | None:
        """Whether compression pays; None where nothing is compared."""
        if self.rival is None:
            return None
        small: Word = "alike" if abs(self.rival.ratio.value - 1) <= ALIKE else "no"
        return self.rival.word if self.hidden is None else small

    @property
    def compresses(self) -> bool:
        """Whether it is a method other than dense that is to be used, after a comparison."""
        return self.rival is not None and self.chosen is self.rival.ranked


def recommendation(ranking: Ranking) -> Recommendation:
    """Compress where that is faster with a probability of at least 95 %, stay dense where no method can be faster.

    Of the methods that surely pay and cannot be told apart from the fastest, the one with the smallest risk is taken.
    Where none surely pays it is not decided: until it is measured, the fastest that may pay is recommended if it is
    expected to be at least 1 % faster and loses less in the worst of 20 cases than dense, else dense.
    """
    dense = ranking.dense
    if dense is None or not ranking.others:
        return Recommendation((ranking.known or list(ranking.ranked))[0])
    rivals = [Rival(item, ratio) for item in ranking.others if (ratio := item.over(dense, ranking.key)) is not None]
    # A method has to read every gradient once, whatever its kernels cost; 1 % of the iteration is too small to matter.
    least, terms = max(SAME * dense.time, ranking.least_added), dense.row.breakdown
    exposed = terms.get("communication_exposed", math.inf) + terms.get("slowdown", 0.0)
    if ranking.key != TO_TARGET and exposed <= least:
        return Recommendation(dense, rivals[0], dense, hidden=exposed)
    paying = [item for item in rivals if item.word == "yes"]
    some = paying or [item for item in rivals if item.word == "undecided"]
    if not some:
        return Recommendation(dense, rivals[0], dense)
    best = some[0]
    ratios = ((item, item.ranked.over(best.ranked, ranking.key)) for item in some)
    alike = [item for item, ratio in ratios if ratio is not None and ratio.word in ("undecided", "alike")]
    if paying:
        safest = min(alike, key=lambda item: item.risk)
        best = safest if safest.risk < best.risk - SAME else best
    compress = bool(paying) or (best.ratio.value > 1 + SAME and best.risks_less)
    return Recommendation(best.ranked if compress else dense, best, dense, alike=alike)


def recommend_at_hand(ranking: Ranking, of_all: Recommendation) -> Recommendation:
    """What to use of what is offered, and nothing that is predicted to be slower than the scenario.

    Where the scenario is faster, what its own code can do counts, too; where it still is, it is kept. It is also where
    its method cannot be told apart from the one in question, and is expected to be slower by 1 % at the most: that is
    not worth another method. `of_all`: what to use of everything, where nothing is offered.
    """
    yours = ranking.yours
    advice = recommendation(ranking.offered) if ranking.offered.known else of_all
    own = next((item for item in advice.alike if item.ranked is yours), None)
    if own and advice.rival and advice.compresses and advice.rival.ratio.value <= own.ratio.value * (1 + SAME):
        return replace(advice, chosen=own.ranked, rival=own, without=advice)
    if yours is None or not _is_slower(advice, yours, ranking.key):
        return advice
    advice = recommendation(ranking.at_hand if ranking.offered.known else ranking)
    if not _is_slower(advice, yours, ranking.key):
        return advice
    dense = advice.dense
    ratio = None if dense is None else yours.over(dense, ranking.key)
    if dense is None or ratio is None or yours.row.method == dense.row.method or advice.hidden is not None:
        return replace(advice, chosen=yours, without=advice)
    return Recommendation(yours, Rival(yours, ratio), dense, without=advice)


def _is_slower(advice: Recommendation, yours: Combination, key: Key) -> bool:
    mine, theirs = advice.chosen.seconds(key), yours.seconds(key)
    return theirs is not None and (mine is None or mine > theirs)
