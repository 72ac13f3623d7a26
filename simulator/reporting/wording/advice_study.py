"""The whole study behind an advice in blocks: details, ranking, break-even points, reasons and limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from simulator.reporting.answers.advised import LookedAt, MethodAdvice, RankedRow
from simulator.reporting.wording.blocks import Block, Text, texts
from simulator.reporting.wording.sensitivity import sensitivity_blocks
from simulator.reporting.wording.tables import Table, columns
from simulator.units import show_probability, show_time

_RANKED = 10
_LEGEND = (
    "against dense: how many times faster, with the 90 % interval; pays: probability that it is faster; "
    "risk: its time over that of dense that one case in twenty exceeds"
)


def study_blocks(advice: MethodAdvice) -> Iterator[Block]:
    """The answer in full, the ranking, the break-even points, the reasons, and what the answer does not cover."""
    yield from ("", Text(advice.answer, "title"))
    second = advice.second
    if second is not None and second.of_all.answer not in advice.answer:
        yield f"With research code: {second.of_all.answer}"
    yield from texts((text for text in (*advice.details, advice.opponent) if text), "item")
    yield from ranking_blocks(advice)
    options = "; ".join(
        f"{row.method} ({row.schedule}, {row.topology}) {show_time(row.iteration_time)}"
        for row in advice.other_densities
    )
    if options:
        yield Text(f"fastest sparsifier at other densities: {options}", "dim")
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
    yield from ("", _ranking(advice), Text(_LEGEND, "dim"))


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
    against = compare_with_dense(row.speed_up_over_dense, row.speed_up_over_dense_interval, row.probability)
    yours = row.speed_up_over_yours
    name = row.method + ("" if row.overrides else " (yours)")
    place = f"{row.schedule}, {row.topology}"
    return (name, place, *times, *against, row.risk, None if yours is None else f"{yours:.2f} x")


def compare_with_dense(
    ratio: float | None, interval: Sequence[float] | None, probability: float | None
) -> tuple[str, str]:
    """How many times faster than dense, with the 90 % interval, and the probability in at most five characters."""
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
