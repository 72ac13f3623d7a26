"""Advice in blocks: the answer in three lines, ten rows, and how to use it; the whole study where it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from simulator.records import astuple
from simulator.reporting.answers.advised import Availability, LookedAt, MethodAdvice, RankedRow
from simulator.reporting.wording.blocks import Block, Table, Text, columns, texts
from simulator.reporting.wording.explanation import sensitivity_blocks
from simulator.scenario.cluster import LEFT_OUT
from simulator.units import show_probability

_RANKED = 10
_STUDY_LEGEND = (
    "against dense: how many times faster, with the 90 % interval; pays: probability that it is faster; "
    "risk: its time over that of dense that one case in twenty exceeds"
)


def full_advice_blocks(advice: MethodAdvice) -> Iterator[Block]:
    """All that the answer says: the brief form, then details, the whole ranking, break-even points and reasons."""
    yield from advice_blocks(advice)
    yield ""
    said, second = f"{advice.summary.do} {advice.summary.gain}".strip(), advice.second
    if second is not None and second.of_all.answer != said:
        yield f"With research code: {second.of_all.answer}"
    yield from texts((text for text in (*advice.details, advice.opponent) if text), "item")
    yield from ranking_blocks(advice)
    if advice.break_even:
        yield from ("", _break_even(advice))
    yield from ("", Text("Reasons", "title"))
    yield from texts((reason.text for reason in advice.reasons), "item")
    study = advice.sensitivity
    if study is not None:
        yield from ("", Text(f"What changes {study.of}", "title"))
        yield from sensitivity_blocks(study, "short")
        if study.turned_by:
            yield f"The answer changes with {', '.join(study.turned_by)}."
    yield from ("", Text("Limits of this answer", "title"))
    yield from texts([*advice.notes, _describe_search(advice.looked_at)], "item")


def ranking_blocks(advice: MethodAdvice) -> Iterator[Block]:
    """The best combination of each of the first methods."""
    yield from ("", _ranking(advice), Text(_STUDY_LEGEND, "dim"))


def _ranking(advice: MethodAdvice) -> Table:
    target = any(row.time_to_target is not None for row in advice.ranking)
    heads = (
        *columns("figure", ""),
        *columns("words", "method", "schedule, topology"),
        *columns("time", *(("to target", "iteration") if target else ("iteration",))),
        *columns("figure", "against dense", "pays"),
        *columns("ratio", "risk"),
        *columns("figure", "yours"),
    )
    best = [row for row in advice.ranking if row.best_of_method]
    yours = advice.yours
    shown = best[:_RANKED] + [row for row in best[_RANKED:] if row.method == "dense"]
    rows = [(f"{place}", *_ranked_cells(row, target)) for place, row in enumerate(best, start=1) if row in shown]
    styles = {number: "bold" for number, row in enumerate(shown) if row.method == "dense"}
    if yours is not None and yours not in shown:
        styles[len(rows)] = "italic"
        rows.append(("", *_ranked_cells(yours, target)))
    return Table("", heads, rows, styles=styles)


def _ranked_cells(row: RankedRow, target: bool) -> tuple[Any, ...]:
    times = (row.time_to_target, row.iteration_time) if target else (row.iteration_time,)
    against = _against_dense(row)
    yours = row.speed_up_over_yours
    name = row.method + ("" if row.overrides else " (yours)")
    place = f"{row.schedule}, {row.topology}"
    return (name, place, *times, *against, row.risk, None if yours is None else f"{yours:.2f} x")


def _against_dense(row: RankedRow, offered: bool = False) -> tuple[str, str]:
    """How many times faster than dense, of all or of what is offered, with the 90 % interval; the probability in at
    most five characters."""
    ratio, interval, probability = row.speed_up_over_dense, row.speed_up_over_dense_interval, row.probability
    if offered:
        group = row.against_offered_dense
        ratio, interval, probability = astuple(group) if group is not None else (None, None, None)
    against = "-" if ratio is None else f"{ratio:.2f}"
    if probability is None:
        return against, "-"
    if interval is not None:
        against += f" ({interval[0]:.2f} to {interval[1]:.2f})"
    return against, show_probability(probability).replace("over ", ">").replace("under ", "<")


def _break_even(advice: MethodAdvice) -> Table:
    """Where methods are faster than dense: the scenario's own, and those of the ranking."""
    best = [row.method for row in advice.ranking if row.best_of_method][:_RANKED]
    yours = "" if advice.yours is None else advice.yours.method
    rows = [
        (row.method, row.bandwidth_words, row.workers_words, f"{row.schedule}, {row.topology}")
        for row in advice.break_even
        if row.method in (*best, yours)
    ]
    return Table("", columns("words", "faster than dense", "by bandwidth", "by workers", "compared on"), rows)


def _describe_search(search: LookedAt) -> str:
    parts = [f"{search.run} of {search.combinations} combinations were run"]
    if search.refused:
        most = next(iter(search.refusals))
        parts.append(f"{search.refused} of them cannot work together (most often: {most})")
    if search.not_run:
        parts.append(f"{search.not_run} were not run, because their method or schedule was already slower")
    text = "; ".join(parts) + "."
    return f"{text} Not considered: {'; '.join(search.left_out)}." if search.left_out else text


_ROWS, _SWITCHES = 4, 3
_OFFERED = 2
_LABELS = {"do": "what to do", "gain": "what it gains", "change": "what changes it", "elsewhere": "elsewhere"}
_LEGEND = "against dense: times as fast as the best dense of its group (90 % interval); pays: its probability"
_BRIEF_LIMIT = "Convergence is not modelled (see --iterations-to-target). --full prints all else."


def advice_blocks(advice: MethodAdvice) -> Iterator[Block]:
    """The answer in lines, settings and rows, the command and the lines of configuration."""
    yield Text(advice.scenario, "title")
    if advice.interrupted:
        yield Text(f"Interrupted during {advice.interrupted}: what was not reached is missing.", "missing")
    said = [(label, text) for name, label in _LABELS.items() if (text := getattr(advice.summary, name))]
    if advice.second is not None and advice.second.speed_up <= 1:
        said = [fact for fact in said if fact[0] != _LABELS["elsewhere"]]  # nothing is faster, as the rows show
    settings = [(f"setting, {item.speed_up:.2f} x", item.lines[-1]) for item in advice.switches[:_SWITCHES]]
    yield Table.facts([*said[:2], *settings, *said[2:]])
    yield _rows(advice)
    yield Text(_LEGEND, "dim")
    yield Text(advice.command or "", "command")
    place = advice.availability
    if place is not None:
        yield from texts(_join_exports(place.lines), "command")
        yield from texts((f"{place.where}: {note}" for note in place.notes), "note")
    yield from texts((note for note in advice.notes if note == LEFT_OUT), "note")
    yield Text(_BRIEF_LIMIT, "dim")


def _join_exports(lines: Sequence[str]) -> list[str]:
    """Lines with the variables of the environment in one, where the first of them stands; those with remarks apart."""
    exports = [line for line in lines if line.startswith("export ") and "#" not in line]
    joined = " ".join(["export", *(line.removeprefix("export ") for line in exports)])
    return [joined if [line] == exports[:1] else line for line in lines if line not in exports[1:]]


def _rows(advice: MethodAdvice) -> Table:
    """The best of every method: first what the scenario's framework offers, then what needs something else."""
    ranking = advice.ranking
    target = any(row.time_to_target is not None for row in ranking)
    heads = (
        *columns("words", "method (schedule, topology)"),
        *columns("time", "to target" if target else "iteration"),
        *columns("figure", "against dense", "pays"),
        *columns("words", "where it exists"),
    )
    offered = _best_of_each(row for row in ranking if row.availability.status == "offered")
    others = _best_of_each(row for row in ranking if row.availability.status != "offered")
    shown = _with_yours(offered[:_OFFERED] if len(others) > _OFFERED else offered[:_ROWS], advice.yours, offered=True)
    listed = {row.method for row in shown}
    others = [row for row in others if row.method not in listed]
    more = _with_yours(others[: _ROWS - 1 - len(shown)], advice.yours, offered=False)
    rows, styles = list[tuple[Any, ...]](), dict[int, str]()
    for row in (*shown, *more):
        if row.method == "dense" or not row.overrides:
            styles[len(rows)] = "bold" if row.method == "dense" else "italic"
        seconds = row.time_to_target if target else row.iteration_time
        name = f"{'' if row.overrides else 'yours: '}{row.method} ({row.schedule.partition(' in ')[0]}, {row.topology})"
        rows.append((name, seconds, *_against_dense(row, row in shown), _short_place(row.availability)))
    return Table("", heads, rows, styles=styles)


def _best_of_each(rows: Iterable[RankedRow]) -> list[RankedRow]:
    """The first row of every method."""
    best: dict[str, RankedRow] = {}
    for row in rows:
        best.setdefault(row.method, row)
    return list(best.values())


def _with_yours(rows: list[RankedRow], yours: RankedRow | None, *, offered: bool) -> list[RankedRow]:
    """The rows of a group, and the scenario as it is, if it belongs to it and would be missing."""
    if yours is None or yours in rows or (yours.availability.status == "offered") != offered:
        return rows
    return [*rows, yours]


def _short_place(availability: Availability) -> str:
    """Where a row exists: the framework, or the code of its method and how many more there are to take parts from.

    >>> _short_place(Availability("research_code", "HKBU-HPML/MG-WFBP and kljp/micro"))
    'kljp/micro +1'
    """
    where = availability.where
    if availability.status != "research_code":
        return where
    *others, last = where.replace(" and ", ", ").split(", ")
    return f"{last} +{len(others)}" if others else last
