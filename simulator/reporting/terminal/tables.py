"""A run, a validation and the kinds of parts on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from simulator.models.terms import TERM_LABELS, split_idle
from simulator.prediction.result import RunResult
from simulator.prediction.result_parts import Goodput, PeriodTimes
from simulator.reporting.answers.validated import ValidatedModel
from simulator.reporting.terminal.memory import print_memory
from simulator.reporting.terminal.printing import (
    bar,
    describe_interval,
    plain_table,
    print_facts,
    print_lines,
    print_plain,
    print_table,
    print_title,
    print_warnings,
)
from simulator.reporting.terminal.shipped import NEXT
from simulator.reporting.wording.memory_tables import describe_memory
from simulator.reporting.wording.validation_tables import ERRORS, error_rows, validation_tables
from simulator.reporting.wording.values import format_value
from simulator.reporting.wording.verdict_tables import decisive_table
from simulator.units import count_of, show_bytes, show_time

_HEADING = 23
"""Characters of a line of a heading."""
_BAR, _BESIDE_BARS = 28, 52
"""Characters of a bar of the whole iteration, and of terms, times, shares and gaps."""
_WARNINGS = 3
"""Warnings that a run prints: the largest; `explain` prints the others."""


def print_run(result: RunResult, console: Console) -> None:
    """One prediction at a glance: time, efficiency, where the time goes, traffic, density."""
    print_title(result.name, console)
    print_facts(_facts(result), console)
    print_lines(_breakdown(result, console.width), console)
    if result.memory is not None and result.memory.fits is False:
        print_memory(result.memory, console)
    print_warnings(result.warnings, console, most=_WARNINGS)
    if result.comparison is not None:
        if result.question:
            print_title(f"\n{result.question}", console)
        print_plain(result.comparison.text, console)
        worth = decisive_table(result.comparison)
        if worth is not None:
            console.print()
            print_table(worth, console)


def _facts(result: RunResult) -> Iterator[tuple[str, str]]:
    time, interval = result.iteration_time, result.interval
    yield "iteration time", f"{show_time(time)}   ({describe_interval(interval)})"
    if result.throughput is not None and result.scaling_efficiency is not None:
        yield "throughput", f"{result.throughput:.5g} samples/s on {count_of(result.workers, 'worker')}"
        yield "scaling efficiency", f"{100 * result.scaling_efficiency:.1f} %"
    traffic, density = result.traffic, result.density
    link, step = traffic.busiest_link, "local step" if result.period is not None else "iteration"
    yield (
        "traffic",
        f"{show_bytes(traffic.sent_per_worker)} sent per worker and {step}; busiest link {link.name}, "
        f"{show_bytes(link.nbytes)}, {100 * link.utilisation:.0f} % busy",
    )
    if result.period is not None:
        yield "local steps", _describe_period(result.period)
    if result.elastic is not None:
        yield "machines", _describe_elastic(result.elastic)
    if result.precision not in (None, "fp32"):
        yield "precision", str(result.precision)
    if density.target < 1:
        yield (
            "density",
            f"target {density.target:.4g}, selected {density.selected:.4g}, aggregated {density.aggregated:.4g} "
            f"(build-up {density.build_up:.3g}, padding {density.padding:.3g})",
        )
    if result.replay is not None:
        yield "replay", str(result.replay)
    if result.implementation is not None:
        made = result.implementation
        saved = f"{show_time(made.saving)} ({100 * made.saving_share:.0f} %)"
        yield "implementation", f"{made.label}; a good one, fused and without waiting, would save {saved}"
    if result.memory is not None:
        yield "memory", describe_memory(result.memory)
    yield "fidelity", f"{result.fidelity.tier}: {result.fidelity.reason}"


def _describe_period(period: PeriodTimes) -> str:
    hour, utilisation = show_bytes(period.sent_per_worker_and_hour or 0.0), period.compute_utilisation or 0.0
    return (
        f"{count_of(period.inner_steps, 'step')} in {show_time(period.time)}, with exchanges of "
        f"{show_time(period.synchronisation)}; compute utilisation {100 * utilisation:.1f} %; "
        f"{show_bytes(period.sent_per_worker)} sent per worker and period, {hour} in an hour"
    )


def _describe_elastic(elastic: Goodput) -> str:
    if elastic.iteration_time is None:
        return f"the training never ends: {elastic.cause}"
    return (
        f"goodput {100 * elastic.goodput:.1f} % of the undisturbed progress, "
        f"{100 * elastic.participation:.1f} % of the workers take part in an exchange; "
        f"{elastic.failures_per_hour:.3g} failures in an hour; with them an iteration takes "
        f"{show_time(elastic.iteration_time)}"
    )


def _breakdown(result: RunResult, width: int) -> Table:
    comparison, total = result.comparison, result.iteration_time
    terms = split_idle(result.breakdown, result.idle)
    largest = max(terms.values()) / total if total else 0.0
    longest = min(_BAR, int((width - _BESIDE_BARS - (_HEADING if comparison else 0)) / (largest or 1.0)))
    table = plain_table(("where the time goes",), ("time", "share"))
    table.add_column("")
    others: dict[str, float] = {}
    if comparison:
        # Its name may be long: it has several lines, so that terms and bars have room.
        table.add_column(escape("\n".join(wrap(comparison.baseline, _HEADING))), justify="right")
        others = split_idle(comparison.opponent_breakdown, comparison.opponent_idle)
    for term, seconds in terms.items():
        if term in ("data_loading", "waiting_for_host") and not seconds:
            continue
        share = seconds / total if total else 0.0
        other = [show_time(others[term])] if comparison else []
        table.add_row(TERM_LABELS[term], show_time(seconds), f"{100 * share:.1f} %", bar(share, longest), *other)
    if comparison:
        table.add_row("sum", show_time(total), "", "", show_time(comparison.opponent_time), style="bold")
    return table


def print_validation(found: ValidatedModel, console: Console) -> None:
    """Every row with its signed error, then the errors per group and overall."""
    for table in validation_tables(found, brief=True):
        print_table(table, console, most=len(table.rows))


def accuracy_markdown(found: ValidatedModel) -> str:
    """The errors per group as a Markdown table, for the documentation: computed each time that it is built."""
    rows = [[column.label for column in ERRORS]]
    rows += [[format_value(column.kind, row[column.key], "-") for column in ERRORS] for row in error_rows(found)]
    head, *lines = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|---" * len(ERRORS) + "|", *lines])


def print_kinds(listing: dict[str, Sequence[Mapping[str, Any]]], console: Console) -> None:
    """Families, kinds, first docstring lines and parameters; plug-ins that are broken; then what else can be listed."""
    for family, kinds in listing.items():
        if family == "broken_plugins":
            print_title("plug-ins that could not be loaded", console)
            for item in kinds:
                print_plain(f"  {item['name']} ({item['target']}): {item['reason']}", console)
            continue
        print_title(family, console)
        table = Table.grid(padding=(0, 2))
        for kind in kinds:
            parameters = ", ".join(
                item["name"] + ("" if item["required"] else f"={item['default']}") for item in kind["parameters"]
            )
            table.add_row(f"  {kind['kind']}", escape(kind["summary"]), f"[dim]{escape(parameters)}[/dim]")
        print_lines(table, console)
    print_plain(f"\nalso: sparsim list {'|'.join(NEXT)}", console)
