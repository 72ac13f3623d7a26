"""The answer in three lines: what to do, what that gains and how surely, what would change it; and what else exists."""

from __future__ import annotations

from simulator.component import build
from simulator.hardware.runtime import FRAMEWORKS
from simulator.prediction.doubts.spread import ALIKE
from simulator.prediction.doubts.verdict import value_of_information
from simulator.reporting.answers.advised import AdviceSummary, Border, SecondBest
from simulator.scenario.changes import value_at
from simulator.scenario.scenario import Scenario
from simulator.schedulers.base import Scheduler
from simulator.studies.advice.crossings import bandwidth_axis
from simulator.studies.advice.ranking import TO_TARGET, Key, Ranking
from simulator.studies.advice.reasons import describe_unmeasured, find_unmeasured
from simulator.studies.advice.recommendation import (
    Recommendation,
    Rival,
    compare_speeds,
    describe_times,
    name_of,
    say_target,
    use,
)
from simulator.studies.advice.search import DENSE, SearchResult
from simulator.studies.compare.verdict_words import describe_measurement
from simulator.studies.variants.names import sharded_part
from simulator.units import show_bandwidth, show_probability, show_time


def describe_second(second: Rival, of_all: Recommendation) -> SecondBest:
    """The best that is not offered, and the answer that would be given if everything were available."""
    row = second.ranked.row
    return SecondBest(
        method=row.method,
        schedule=row.schedule,
        topology=row.topology,
        overrides=row.overrides,
        iteration_time=row.iteration_time,
        availability=row.availability,
        speed_up=second.ratio.value,
        speed_up_interval=second.ratio.interval(),
        probability=second.ratio.probability(),
        of_all=of_all.described(),
    )


def summarise(
    ranking: Ranking, advice: Recommendation, of_all: Recommendation, second: Rival | None, border: str
) -> AdviceSummary:
    """The three lines about a recommendation.

    `of_all`: the one if everything was available; `second`: the best that is not offered; `border`: where another
    bandwidth changes the answer, in a sentence.
    """
    key = ranking.key
    yours = _against_yours(ranking, advice)
    gain = _sentences([_gain(advice, key, not yours), yours])
    elsewhere = [_second(second, of_all)]
    if advice.method is None and second is not None and second.ranked is not of_all.method:
        elsewhere.append(_gain(of_all, key))
    change = _change(of_all if advice.method is None else advice, key, border)  # where no method is offered, of all
    return AdviceSummary(_do(ranking, advice), gain, change, _sentences(elsewhere))


def describe_opponent(scenario: Scenario, found: SearchResult) -> str:
    """Dense at its best, and the best that the scenario's framework offers where that is something else.

    Methods are tried on schedules that no framework has, so that dense has them, too: neither side is at a
    disadvantage. What the framework offers stands beside it, since that is what can be used today.
    """
    dense = [item for item in found.outcomes if item.method == DENSE]
    if not dense:
        return ""
    framework = FRAMEWORKS[scenario.cluster.runtime.framework]
    schedulers = [scenario.scheduler, *(build(Scheduler, dict(offer.scheduler)) for offer in framework.schedules)]
    topologies = (scenario.topology.kind, *framework.topologies)
    parts = ((item, item.candidate.of(scenario)) for item in dense)
    matching = (item for item, of in parts if of.scheduler in schedulers and of.topology.kind in topologies)
    sharded = sharded_part(scenario.scheduler) is not None  # all of its meshes are settings
    offered = None if sharded else next(matching, None)
    text = (
        f"The opponent is dense at its best, {dense[0].name}: the fastest of {len(dense)} dense combinations, of the "
        "same schedules and topologies as all other methods."
    )
    if offered is not None and offered is not dense[0]:
        text += f" With what {framework.label} offers, dense takes {show_time(offered.time)} at best, {offered.name}."
    return text


def describe_border(scenario: Scenario, border: Border | None) -> str:
    """Where another bandwidth would change the answer, in a sentence."""
    if border is None:
        return ""
    axis = bandwidth_axis(scenario)
    rate = value_at(scenario, axis.key)
    turns = border.bandwidth_below_which_it_wins is not None
    has = f"; here it is {show_bandwidth(rate, 3)}" if isinstance(rate, float) and turns else ""
    where, alone = " inside the node" * ("intra_node" in axis.key), ", and by the best guess alone" * (not turns)
    return f"By bandwidth{where}{alone}, {border.method.partition(' (')[0]} is {border.bandwidth_words}{has}."


def find_second(ranking: Ranking, advice: Recommendation, of_all: Recommendation) -> Rival | None:
    """What would be used if research code and other frameworks counted; else the fastest of what they have."""
    chosen = advice.chosen
    at_hand = ranking.at_hand.known
    if chosen is None or chosen not in at_hand or advice is of_all:
        return None
    offered = ranking.offered.known
    foreign = [item for item in ranking.known if item not in (offered if chosen in offered else [*offered, *at_hand])]
    best = of_all.chosen if of_all.chosen in foreign else foreign[0] if foreign else None
    ratio = None if best is None else best.over(chosen, ranking.key)
    return Rival(best, ratio) if best is not None and ratio is not None else None


def _do(ranking: Ranking, advice: Recommendation) -> str:
    chosen = advice.chosen
    if chosen is None:
        return advice.answer
    place, row = chosen.row.availability, chosen.row
    offered = place.status == "offered"
    has = f" ({place.where})"
    if chosen is ranking.yours:
        return f"Keep yours, {name_of(chosen)}{has}: nothing at hand is expected to be faster.{_rests(advice)}"
    if advice.method is None and chosen.row.method != "dense":
        text = f"Use {name_of(chosen)}{has}."
    elif advice.compresses:
        first = use(chosen)
        first = f"Not decided; for now {first.lower()}" if advice.verdict == "undecided" else first
        text = f"{first} {name_of(chosen)}{has}."
    else:
        first = "Not decided; for now stay dense" if advice.verdict == "undecided" else "Stay dense"
        text = f"{first}, {row.schedule} over {row.topology}{has}."
        if offered and not ranking.offered.others:
            text += f" {place.where} offers no method that compresses."
    if not offered and chosen in ranking.at_hand.ranked:
        text += " These are settings of what the scenario has."
    elif not offered:
        text += " This needs research code: no released framework has it."
    return text + _rests(advice)


def _rests(advice: Recommendation) -> str:
    """What a recommendation to compress, or an open question, rests on that was not measured."""
    rests = advice.compresses or advice.verdict == "undecided"
    return describe_unmeasured(find_unmeasured(advice.ratio)) if advice.ratio and rests else ""


def _gain(advice: Recommendation, key: Key, with_times: bool = True) -> str:
    """The comparison of the method in question with dense; `with_times`: of both."""
    if advice.method is None or advice.dense is None or advice.ratio is None:
        return ""
    if advice.hidden:
        return advice.hidden
    sure = show_probability(advice.ratio.probability())
    compared = f"{compare_speeds(advice.ratio)} {name_of(advice.dense)}{say_target(key)}"
    if advice.compresses:
        times = f"{describe_times(advice.method)} instead of {describe_times(advice.dense)}"
        return f"It is {compared} and pays with probability {sure}{f': {times}' if with_times else ''}."
    place = f" ({advice.method.row.availability.where})" if advice.method.status != "offered" else ""
    return f"The best method, {advice.method.row.method}{place}, is {compared}; it pays with probability {sure}."


def _against_yours(ranking: Ranking, advice: Recommendation) -> str:
    chosen = advice.chosen
    yours = ranking.yours
    if chosen is None or yours is None or yours is chosen:
        return ""
    if advice.compresses and yours is advice.dense:
        return ""  # the comparison with dense says it
    ratio = chosen.over(yours, ranking.key)
    if ratio is None:
        return ""
    sure = show_probability(ratio.probability())
    times = f"{describe_times(chosen)} instead of {describe_times(yours)} with yours, {name_of(yours)}"
    low, high = ratio.interval()
    if low == high:
        return f"{times}."
    return f"{times}: {compare_speeds(ratio, '')}, {'' if low > 1 else 'and faster '}with probability {sure}."


def _second(second: Rival | None, of_all: Recommendation) -> str:
    if second is None:
        return ""
    place = second.ranked.row.availability
    sure, name = show_probability(second.ratio.probability()), second.name
    code = place.status == "research_code"
    head = f"With research code ({place.where})" if code else f"With {place.where}"
    rests = describe_unmeasured(find_unmeasured(second.ratio), "that") if second.ranked is of_all.method else ""
    if second.ratio.value <= 1:
        return f"Nothing else is expected to be faster: {name} ({place.where}) is {compare_speeds(second.ratio)} that."
    if second.ratio.interval()[1] <= 1 + ALIKE:
        return f"Nothing else gains more than {100 * ALIKE:.0f} %, not even {name} ({place.where})."
    return f"{head}: {name}, {compare_speeds(second.ratio)} that, and faster with probability {sure}.{rests}"


def _change(advice: Recommendation, key: Key, border: str) -> str:
    parts = [border]
    if advice.verdict == "undecided" and advice.ratio is not None:
        lines = () if advice.method is None else advice.method.row.availability.lines
        parts.insert(0, describe_measurement(value_of_information(advice.ratio), len(lines)))
    if advice.compresses and advice.ratio is not None and key != TO_TARGET and advice.ratio.value > 1:
        parts.append(f"It pays as long as training needs fewer than {advice.ratio.value:.2f} times the iterations.")
    return _sentences(parts)


def _sentences(parts: list[str]) -> str:
    return " ".join(part for part in parts if part)
