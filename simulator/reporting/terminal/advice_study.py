"""The whole study behind an advice on the terminal: details, ranking, break-even points, reasons and limits."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from simulator.reporting.answers.advised import LookedAt, MethodAdvice, RankedRow
from simulator.reporting.terminal.printing import (
    add_rows,
    plain_table,
    print_lines,
    print_list,
    print_plain,
    print_title,
)
from simulator.reporting.terminal.sensitivity import print_sensitivity
from simulator.units import show_probability, show_time

_RANKED = 10
_LEGEND = (
    "against dense: how many times faster, with the 90 % interval; pays: probability that it is faster; "
    "risk: its time over that of dense that one case in twenty exceeds"
)


def print_study(advice: MethodAdvice, console: Console) -> None:
    """The answer in full, the ranking, the break-even points, the reasons, and what the answer does not cover."""
    print_title(f"\n{advice.answer}", console)
    second = advice.second
    if second is not None and second.of_all.answer not in advice.answer:
        print_plain(f"With research code: {second.of_all.answer}", console)
    print_list((text for text in (*advice.details, advice.opponent) if text), console)
    console.print()
    print_lines(_ranking(advice), console)
    print_plain(_LEGEND, console, "dim")
    options = "; ".join(
        f"{row.method} ({row.schedule}, {row.topology}) {show_time(row.iteration_time)}"
        for row in advice.other_densities
    )
    if options:
        print_plain(f"fastest sparsifier at other densities: {options}", console, "dim")
    if advice.break_even:
        console.print()
        print_lines(_break_even(advice), console)
    print_title("\nReasons", console)
    print_list((reason.text for reason in advice.reasons), console)
    study = advice.sensitivity
    if study is not None:
        print_title(f"\nWhat changes {study.of}", console)
        print_sensitivity(study, console, lambda value: f"{value:.3g}")
        if study.turned_by:
            print_plain(f"The answer changes with {', '.join(study.turned_by)}.", console)
    print_title("\nLimits of this answer", console)
    print_list([*advice.notes, _describe_search(advice.looked_at)], console)


def _ranking(advice: MethodAdvice) -> Table:
    target = any(row.time_to_target is not None for row in advice.ranking)
    times = ("to target", "iteration") if target else ("iteration",)
    table = Table(box=None, pad_edge=False)
    table.add_column("", justify="right")
    for name in ("method", "schedule, topology"):
        table.add_column(name, overflow="fold")
    for name in (*times, "against dense", "pays", "risk", "yours"):
        table.add_column(name, justify="right")
    best = [row for row in advice.ranking if row.best_of_method]
    yours = advice.yours
    shown = best[:_RANKED] + [row for row in best[_RANKED:] if row.method == "dense"]
    for place, row in enumerate(best, start=1):
        if row in shown:
            table.add_row(f"{place}", *_ranked_cells(row, target), style="bold" if row.method == "dense" else None)
    if yours is not None and yours not in shown:
        table.add_row("", *_ranked_cells(yours, target), style="italic", end_section=True)
    return table


def _ranked_cells(row: RankedRow, target: bool) -> list[str]:
    times = [show_time(row.iteration_time)]
    if target:
        seconds = row.time_to_target
        times = ["-" if seconds is None else show_time(seconds), *times]
    ratio, interval = row.speed_up_over_dense, row.speed_up_over_dense_interval
    against = "-" if ratio is None else f"{ratio:.2f}"
    if row.probability is not None and interval is not None:
        against += f" ({interval[0]:.2f} to {interval[1]:.2f})"
    cells = [
        against,
        show_chance(row.probability),
        "-" if row.risk is None else f"{row.risk:.2f}",
    ]
    yours = row.speed_up_over_yours
    name = row.method + ("" if row.overrides else " (yours)")
    return [
        escape(name),
        f"{row.schedule}, {row.topology}",
        *times,
        *cells,
        "-" if yours is None else f"{yours:.2f} x",
    ]


def show_chance(value: float | None) -> str:
    """A probability in at most five characters."""
    return "-" if value is None else show_probability(value).replace("over ", ">").replace("under ", "<")


def _break_even(advice: MethodAdvice) -> Table:
    """Where methods are faster than dense: the scenario's own, and those of the ranking."""
    best = [row.method for row in advice.ranking if row.best_of_method][:_RANKED]
    yours = "" if advice.yours is None else advice.yours.method
    rows = (
        (row.method, row.bandwidth_words, row.workers_words, f"{row.schedule}, {row.topology}")
        for row in advice.break_even
        if row.method in (*best, yours)
    )
    return add_rows(plain_table(("faster than dense", "by bandwidth", "by workers", "compared on")), rows)


def _describe_search(search: LookedAt) -> str:
    parts = [f"{search.run} of {search.combinations} combinations were run"]
    if search.refused:
        most = next(iter(search.refusals))
        parts.append(f"{search.refused} of them cannot work together (most often: {most})")
    if search.not_run:
        parts.append(f"{search.not_run} were not run, because their method or schedule was already slower")
    text = "; ".join(parts) + "."
    return f"{text} Not considered: {'; '.join(search.left_out)}." if search.left_out else text
