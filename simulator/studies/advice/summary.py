"""Advice in words: what to do, what that gains and how surely, what would change it, and what else exists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from simulator.prediction.doubts.spread import ALIKE, Ratio
from simulator.prediction.doubts.verdict import value_of_information
from simulator.records import replace
from simulator.reporting.answers.advised import AdviceSummary, Border, Reason, Recommended, SecondBest, Unmeasured
from simulator.scenario.bandwidths import NIC, WORDS, met_rates
from simulator.scenario.changes import value_at
from simulator.scenario.scenario import Scenario
from simulator.studies.advice.crossings import bandwidth_axis
from simulator.studies.advice.ranking import SAME, Ranking, find_unmeasured
from simulator.studies.advice.recommendation import Recommendation, Rival
from simulator.studies.advice.search import DENSE, TO_TARGET, Combination, Key
from simulator.studies.compare.verdict_words import describe_measurement, describe_speed_up
from simulator.units import count_of, join_words, show_bandwidth, show_bytes, show_probability, show_time

_NAMED, _LOSERS = 3, 6
"""Methods that a sentence names, and such that lose against dense."""
_FEW = 2
"""Inputs that a sentence names."""


def describe_second(second: Rival, of_all: Recommended) -> SecondBest:
    """The best that is not offered, and the answer that would be given if everything were available."""
    names = ("method", "schedule", "topology", "overrides", "iteration_time", "availability")
    return SecondBest(
        **{name: getattr(second.ranked.row, name) for name in names},
        speed_up=second.ratio.value,
        speed_up_interval=second.ratio.interval(),
        probability=second.ratio.probability(),
        of_all=of_all,
    )


def summarise(
    ranking: Ranking, advice: Recommendation, of_all: Recommendation, second: Rival | None, border: str
) -> AdviceSummary:
    """The lines about a recommendation: what to do, what that gains and how surely, what would change it.

    `of_all`: the one if everything was available; `second`: the best that is not offered; `border`: where another
    bandwidth changes the answer, in a sentence.
    """
    elsewhere = [_second(second, of_all)]
    if advice.rival is None and second is not None and of_all.rival is not None:
        elsewhere += [_gain(of_all, ranking.key)] if second.ranked is not of_all.rival.ranked else []
    # Where no method is offered, what changes the answer of all is said.
    change = _changes(ranking, of_all if advice.rival is None else advice, border)
    return AdviceSummary(*_do_and_gain(ranking, advice), _sentences(change), _sentences(elsewhere))


def describe(ranking: Ranking, advice: Recommendation, of_all: Recommended | None = None) -> Recommended:
    """A recommendation in full: what to do and what that gains, then risks, what changes it, and what is as good.

    `of_all`: that of everything, of which it is asked whether compression pays where the recommendation compares none.
    """
    rival, details = advice.rival, _changes(ranking, advice)
    if rival is not None and advice.verdict == "undecided":
        low, high = rival.ratio.interval()
        reason = "risks less" if rival.risks_less == advice.compresses else "is expected to be faster"
        if not advice.compresses and rival.risks_less and rival.ratio.log > 0:
            reason = f"is expected to be slower by no more than {100 * SAME:.0f} %"
        details.insert(
            0,
            f"{'Compressing' if advice.compresses else 'Staying dense'} {reason}: {rival.ranked.row.method} may take "
            f"up to {1 / low:.2f} times as long as dense, and dense up to {high:.2f} times as long as that, but for "
            "one case in twenty each.",
        )
    others = [item.ranked.row.method for item in advice.alike if item is not rival]
    if rival is not None and others:
        more = [count_of(len(others) - _NAMED, "other method")] if len(others) > _NAMED else []
        text = f"{rival.ranked.row.method} cannot be told apart from {join_words([*others[:_NAMED], *more])}"
        why = "it is expected to be faster" if advice.alike[0] is rival else "its risk is smaller"
        why = "it is yours" if rival.ranked is ranking.yours else why
        details.append(f"{text}; {why}." if advice.verdict == "yes" else f"{text}.")
    known = {item.name: item for item in (advice.chosen, rival and rival.ranked, advice.dense) if item}
    times = ", ".join(f"{describe_times(item)} with {name}" for name, item in known.items())
    details.append(f"Expected time{'s' * (len(known) > 1)}: {times}.")
    if advice.without is not None:
        details.append(f"Without yours: {_sentences(_do_and_gain(ranking, advice.without))}")
    counted = rival.ratio if rival is not None and advice.hidden is None else None
    made = Recommended(
        answer=_sentences(_do_and_gain(ranking, advice)),
        details=details,
        recommended=advice.chosen.row.overrides,
        verdict=advice.verdict,
        probability=None if counted is None else counted.probability(),
        value_of_information=value_of_information(counted) if counted else [],
    )
    if of_all is None or rival is not None or made.answer == of_all.answer:
        return made
    if made.recommended == of_all.recommended and advice.without is None:
        return of_all
    answer, details = f"{made.answer} With research code: {of_all.answer}", [*of_all.details, *made.details]
    return replace(of_all, answer=answer, details=details, recommended=made.recommended)


def describe_opponent(ranking: Ranking, tried: int) -> str:
    """Dense at its best of so many combinations, and the best that is offered where that is something else.

    Methods are tried on schedules that no framework has, so that dense has them, too: neither side is at a
    disadvantage. What the framework offers stands beside it, since that is what can be used today.
    """
    dense, offered = ranking.dense, ranking.offered.dense
    if dense is None or ranking.alone:
        return ""
    text = (
        f"The opponent is dense at its best, {dense.name}: the fastest of {tried} dense combinations, of the same "
        "schedules and topologies as all other methods."
    )
    if offered is not None and offered is not dense:
        where = offered.row.availability.where
        text += f" With what {where} offers, dense takes {describe_times(offered)} at best, {offered.name}."
    return text


def describe_border(scenario: Scenario, border: Border | None) -> str:
    """Where another bandwidth would change the answer, in a sentence."""
    if border is None:
        return ""
    axis = bandwidth_axis(scenario)
    rate = value_at(scenario, axis.key)
    turns = border.bandwidth_below_which_it_wins is not None
    has = f"; here it is {show_bandwidth(rate, 3)}" if isinstance(rate, float) and turns else ""
    of, alone = "bandwidth" if axis.key == NIC else WORDS[axis.key], ", and by the best guess alone" * (not turns)
    least = met_rates(scenario)[0]
    stays = "" if least.key else f" The {least.words} stays {show_bandwidth(least.rate, 3)}."
    return f"By {of}{alone}, {border.method.partition(' (')[0]} is {border.bandwidth_words}{has}.{stays}"


def find_second(ranking: Ranking, advice: Recommendation, of_all: Recommendation) -> Rival | None:
    """What would be used if research code and other frameworks counted; else the fastest of what they have."""
    chosen, at_hand, offered = advice.chosen, ranking.at_hand.known, ranking.offered.known
    if chosen not in at_hand or advice is of_all:
        return None
    foreign = [item for item in ranking.known if item not in (offered if chosen in offered else at_hand)]
    best = of_all.chosen if of_all.chosen in foreign else foreign[0] if foreign else None
    ratio = None if best is None else best.over(chosen, ranking.key)
    return Rival(best, ratio) if best is not None and ratio is not None else None


def _do_and_gain(ranking: Ranking, advice: Recommendation) -> tuple[str, str]:
    yours = _against_yours(ranking, advice)
    return _do(ranking, advice), _sentences([_gain(advice, ranking.key, not yours), yours])


def _do(ranking: Ranking, advice: Recommendation) -> str:
    if ranking.alone:
        return "One worker exchanges nothing, so there is nothing to compress: keep the scenario as it is."
    chosen = advice.chosen
    place, row = chosen.row.availability, chosen.row
    offered = place.status == "offered"
    has = f" ({place.where})"
    if chosen is ranking.yours:
        much = f" by more than {100 * SAME:.0f} %" if advice.compresses and advice.alike else ""
        return f"Keep yours, {chosen.name}{has}: nothing at hand is expected to be faster{much}.{_rests(advice)}"
    if row.method != DENSE:
        # Dense gradients that are rounded are not compressed.
        text = f"{'Use' if advice.rival is None or row.sparsifier == DENSE else 'Compress with'} {chosen.name}{has}."
    else:
        text = f"Stay dense, {row.schedule} over {row.topology}{has}."
        if offered and not ranking.offered.others:
            text += f" {place.where} offers no method that compresses."
    against = None if ranking.yours is None else chosen.over(ranking.yours, ranking.key)
    if advice.verdict == "undecided" or (against is not None and against.word == "undecided"):
        what = "" if advice.verdict == "undecided" else " whether yours is slower"
        text = f"Not decided{what}; for now {text[0].lower()}{text[1:]}"
    if not offered and chosen in ranking.at_hand.ranked:
        text += " These are settings of what the scenario has."
    elif not offered:
        text += " This needs research code: no released framework has it."
    return text + _rests(advice)


def _rests(advice: Recommendation) -> str:
    """What a recommendation to compress, or an open question, rests on that was not measured."""
    rests = advice.compresses or advice.verdict == "undecided"
    return describe_unmeasured(find_unmeasured(advice.rival.ratio)) if advice.rival is not None and rests else ""


def _gain(advice: Recommendation, key: Key, with_times: bool = True) -> str:
    """The comparison of the method in question with dense; `with_times`: of both."""
    rival, dense = advice.rival, advice.dense
    if rival is None or dense is None:
        return ""
    if advice.hidden is not None:
        return (
            f"Compute hides all communication but for {show_time(advice.hidden)} of "
            f"{show_time(dense.row.iteration_time)}, on the network as it is stated. No method can save more, and its "
            "own work reduces that."
        )
    sure = show_probability(rival.ratio.probability())
    compared = f"{compare_speeds(rival.ratio)} {dense.name}{' to the target' if key == TO_TARGET else ''}"
    if advice.compresses:
        times = f"{describe_times(rival.ranked)} instead of {describe_times(dense)}"
        return f"It is {compared} and pays with probability {sure}{f': {times}' if with_times else ''}."
    place = f" ({rival.ranked.row.availability.where})" if rival.ranked.status != "offered" else ""
    return f"The best method, {rival.ranked.row.method}{place}, is {compared}; it pays with probability {sure}."


def _against_yours(ranking: Ranking, advice: Recommendation) -> str:
    chosen = advice.chosen
    yours = ranking.yours
    if yours is None or yours is chosen:
        return ""
    if advice.compresses and yours is advice.dense:
        return ""  # the comparison with dense says it
    ratio = chosen.over(yours, ranking.key)
    if ratio is None:
        return ""
    sure = show_probability(ratio.probability())
    times = f"{describe_times(chosen)} instead of {describe_times(yours)} with yours, {yours.name}"
    low, high = ratio.interval()
    if low == high:
        return f"{times}."
    return f"{times}: {compare_speeds(ratio, '')}, {'' if low > 1 else 'and faster '}with probability {sure}."


def _second(second: Rival | None, of_all: Recommendation) -> str:
    if second is None:
        return ""
    place, name = second.ranked.row.availability, second.ranked.name
    sure, in_question = show_probability(second.ratio.probability()), of_all.rival and of_all.rival.ranked
    where = f"research code ({place.where})" if place.status == "research_code" else place.where
    rests = describe_unmeasured(find_unmeasured(second.ratio), "that") if second.ranked is in_question else ""
    if second.ratio.value <= 1:
        return f"Nothing else is expected to be faster: {name} ({place.where}) is {compare_speeds(second.ratio)} that."
    if second.ratio.interval()[1] <= 1 + ALIKE:
        return f"Nothing else gains more than {100 * ALIKE:.0f} %, not even {name} ({place.where})."
    return f"With {where}: {name}, {compare_speeds(second.ratio)} that, and faster with probability {sure}.{rests}"


def _changes(ranking: Ranking, advice: Recommendation, border: str = "") -> list[str]:
    """What would change a recommendation: a measurement, another bandwidth, and more iterations."""
    if ranking.alone:
        return ["More than one worker."]
    rival, made = advice.rival, [border] if border else []
    if rival is not None and advice.verdict == "undecided":
        lines = rival.ranked.row.availability.lines
        made.insert(0, describe_measurement(value_of_information(rival.ratio), len(lines)))
    if rival is not None and advice.compresses and ranking.key != TO_TARGET and rival.ratio.value > 1:
        made.append(f"It pays as long as training needs fewer than {rival.ratio.value:.2f} times the iterations.")
    return made


def compare_speeds(ratio: Ratio, than: str = " than") -> str:
    """How a method compares with another: `1.31 times faster (90 % interval 1.12 to 1.50) than`."""
    low, high = ratio.interval()
    if low < 1 < high:
        return f"{low:.2f} to {high:.2f} times as fast{' as' if than else ''}"
    return f"{describe_speed_up(ratio)}{than}"


def describe_times(item: Combination) -> str:
    """How long a row takes, in words."""
    row = item.row
    time = f"{show_time(row.iteration_time)} per iteration"
    return time if row.time_to_target is None else f"{show_time(row.time_to_target)} to the target ({time})"


def describe_unmeasured(rows: Sequence[Unmeasured], than: str = "dense") -> str:
    """What a recommendation must say: kernels that were not measured, and all else that alone turns the answer.

    `than`: what the speed-ups of the rows are over.
    """
    named = sorted((row for row in rows if row.turns or row.is_kernel), key=lambda row: not row.is_kernel)[:_FEW]
    if not named:
        return ""
    parts = [f"{row.input} (at the worst {row.speed_up_at_worst:.2f} times as fast as {than})" for row in named]
    kind = "kernels" if all(row.is_kernel for row in named) else "inputs"
    return f" This rests on {kind} that were not measured: {join_words(parts)}."


def _sentences(parts: Iterable[str]) -> str:
    return " ".join(filter(None, parts))


_LOSING = ("selection", "combine", "communication_exposed", "idle")
Loss = tuple[Combination, float]
"""A method's best combination, and the seconds that it loses against dense in one term."""


def reasons(
    workers: int, dense: Combination | None, others: Sequence[Combination], own: Combination | None
) -> list[Reason]:
    """Why methods are slower or faster than dense.

    `dense` is its best combination, `others` the best of each other method, `own` the scenario's own combination.
    """
    if workers == 1:
        return [Reason("room", [], "There is no communication with one worker.")]
    if dense is None:
        return []
    made = [_possible_saving(dense)]
    faster = [item for item in others if item.time < dense.time * (1 - SAME)]
    if faster:
        made.append(_saving(dense, faster))
    losing: dict[str, list[Loss]] = {"selection": [], "combine": []}
    waiting: list[Loss] = []
    for item in (item for item in others if item.time > dense.time * (1 + SAME)):
        lost = {term: item.row.breakdown[term] - dense.row.breakdown[term] for term in _LOSING}
        most = max(lost, key=lambda term: lost[term])
        kind = _why_exposed(item, dense) if most == "communication_exposed" else most
        (waiting if kind == "idle" else losing.setdefault(kind, [])).append((item, lost[most]))
    made += [_loss(kind, group, dense, workers) for kind, group in (*losing.items(), ("waiting", waiting)) if group]
    if own is not None and own.time > dense.time * (1 + SAME) and own.row.method == "dense":
        text = (
            f"Another schedule or topology alone, {dense.name}, takes {show_time(dense.time)} instead of "
            f"{show_time(own.time)}, with {count_of(dense.calls, 'call')} instead of {own.calls}."
        )
        made.append(Reason("schedule", ["dense"], text))
    return made


def _possible_saving(dense: Combination) -> Reason:
    exposed, slowed = (dense.row.breakdown[term] for term in ("communication_exposed", "slowdown"))
    share, also = exposed + slowed, f" and {show_time(slowed)} of slowdown by communication" if slowed else ""
    share = share / dense.time if dense.time else 0.0
    text = (
        f"The fastest dense combination has {show_time(exposed)} of exposed communication{also} in an iteration of "
        f"{show_time(dense.time)} ({100 * share:.1f} %). No method can save more than that, and its own selection "
        "and combine reduce the saving."
    )
    return Reason("room", ["dense"], text)


def _saving(dense: Combination, faster: Sequence[Combination]) -> Reason:
    best, exposed = faster[0].row.breakdown, "communication_exposed"
    added = best["selection"] + best["combine"] - dense.row.breakdown["combine"]
    text = (
        f"{faster[0].row.method} reduces exposed communication from {show_time(dense.row.breakdown[exposed])} to "
        f"{show_time(best[exposed])} and adds {show_time(max(0.0, added))} of selection and combine."
    )
    return Reason("less communication", [item.row.method for item in faster], text)


def _list(losing: Sequence[Loss]) -> str:
    """The seconds that each method loses, the smallest loss first."""
    ordered = sorted(losing, key=lambda pair: pair[1])
    parts = [f"{show_time(seconds)} with {item.row.method}" for item, seconds in ordered[:_LOSERS]]
    more = len(ordered) - _LOSERS
    return ", ".join(parts) + (f", and more with {count_of(more, 'other method')}" if more > 0 else "")


def _why_exposed(item: Combination, dense: Combination) -> str:
    """The kind of reason for more exposed communication than dense, by what the method sends."""
    if item.row.sent_per_worker <= dense.row.sent_per_worker:
        return "start-up"
    return "build-up" if item.densities.target < 1 < item.densities.build_up else "bytes"


def _loss(kind: str, group: Sequence[Loss], dense: Combination, workers: int) -> Reason:
    """Why methods are slower, with the seconds that each loses, and the numbers of the one that loses least."""
    item = min(group, key=lambda pair: pair[1])[0]
    name, density = item.row.method, item.densities
    sent, sent_dense = show_bytes(item.row.sent_per_worker), show_bytes(dense.row.sent_per_worker)
    adds, longer = f"adds {_list(group)}.", f"Exposed communication is longer than with dense, by {_list(group)}."
    texts = {
        "selection": "Selection runs on the GPU, where nothing hides it, and it can save at most "
        f"{show_time(dense.row.breakdown['communication_exposed'])} of exposed communication. It {adds}",
        "combine": f"Every payload from {workers} workers is added up separately, so combine grows with the number of "
        f"workers: it {adds}",
        "start-up": f"{longer} They send fewer bytes but not in fewer calls, and every call has a start-up: each "
        f"worker sends {sent} in {count_of(item.calls, 'call')} with {name}, {sent_dense} in {dense.calls} with dense.",
        "build-up": f"{longer} Workers select different elements: with {name} each selects {density.selected:.3g} of "
        f"the gradient, all together {density.aggregated:.3g}, and each sends {sent} instead of {sent_dense}.",
        "bytes": f"{longer} Every worker's payload goes to all others without being added up on the way, so the bytes "
        f"grow with the number of workers: each worker sends {sent} with {name}, {sent_dense} with dense.",
        "waiting": f"All workers wait for the slowest worker: it {adds}",
    }
    return Reason(kind, [item.row.method for item, _ in group], texts[kind])
