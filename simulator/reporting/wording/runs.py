"""A run and the kinds of parts in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any, NamedTuple

from simulator.models.timeline import TERM_LABELS, split_idle
from simulator.prediction.result import RunResult
from simulator.prediction.result_parts import AxisUse, Goodput, PeriodTimes, WarningSize
from simulator.records import replace
from simulator.reporting.wording.blocks import Block, Facts, Text, texts
from simulator.reporting.wording.memory_tables import describe_memory, memory_blocks
from simulator.reporting.wording.shipped import NEXT
from simulator.reporting.wording.tables import BarColumn, Column, Table, columns
from simulator.reporting.wording.values import describe_interval
from simulator.reporting.wording.verdict_tables import decisive_table
from simulator.units import count_of, show_bytes, show_probability, show_time

_HEADING = 23
"""Characters of a line of a heading."""
_BAR, _BESIDE_BARS = 28, 52
"""Characters of a bar of the whole iteration, and of terms, times, shares and gaps."""
_RARE = ("slowdown", "data_loading", "waiting_for_host", "waiting_for_stages")
"""Terms that are told only where they take time."""
_WARNINGS = 3
"""Warnings that a run prints in full: the largest; `explain` prints the others."""
_TURNING = 2
"""Warnings of the first screen: the largest of those that can turn the answer."""
_LARGEST = 3
"""Terms of the first screen."""


def run_blocks(result: RunResult) -> Iterator[Block]:
    """The answer on one screen: whether it pays, time, throughput, the largest terms, and what would change it."""
    rival, sizes = result.comparison, result.warning_sizes or []
    yield Text(result.question or result.name, "title")
    if rival is not None and rival.short:
        sure = ""
        if rival.kind == "costs" and rival.word in ("yes", "no") and rival.probability is not None:
            faster = rival.word == "yes"
            likely = show_probability(rival.probability if faster else 1 - rival.probability)
            sure = f" It is {'faster' if faster else 'slower'} with probability {likely}."
        yield rival.short + sure
    elif result.elastic is not None and not result.elastic.finishes:
        yield f"The training never ends: {result.elastic.cause}."
    yield Facts(list(first_facts(result)))
    shown = sizes[:1]
    if rival is not None and rival.word is not None:
        gap = rival.opponent_time - result.iteration_time
        shown = [item for item in sizes if item.reaches(gap)][:_TURNING]
    yield from texts(map(describe_size, shown), "first line")
    left = count_of(len(sizes) - len(shown), "more warning" if shown else "warning")
    more = f"{left}: `sparsim explain`; " if len(sizes) > len(shown) else ""
    yield Text(f"{more}all figures: `sparsim run --full`", "dim")


def first_facts(result: RunResult) -> Iterator[tuple[str, str]]:
    """What people ask of a run first, by name."""
    rival, efficiency = result.comparison, result.scaling_efficiency
    yield _time(result)
    if result.measured is not None:
        yield "measured", result.measured
    if result.throughput is not None and efficiency is not None:
        yield "throughput", f"{_throughput(result)}, scaling efficiency {100 * efficiency:.1f} %"
    if result.elastic is not None and result.elastic.finishes:
        yield "machines", _describe_elastic(result.elastic)
    terms = sorted(terms_of(result)[:-1], key=lambda row: -row.seconds)[:_LARGEST]
    shares = [(row, f"{100 * (row.share or 0.0):.0f} %") for row in terms]
    parts = [f"{row.label} {show_time(row.seconds)} ({share})" for row, share in shares if share != "0 %"]
    if parts:
        yield "largest terms", ", ".join(parts)
    if rival is not None:
        yield "opponent", f"{show_time(rival.opponent_time)}: {rival.baseline}"
    if result.memory is not None and result.memory.fits is False:
        yield "memory", f"does not fit: {describe_memory(result.memory)}"
    if rival is not None and rival.word != "undecided" and rival.value_of_information:
        most = max(rival.value_of_information, key=lambda row: row.share)
        width = f"{most.level}, within x {most.width:.3g}"
        yield "of the doubt", f"{100 * most.share:.0f} % is {most.input} ({width})"


def describe_size(item: WarningSize) -> str:
    """A warning with how much shorter and longer the iteration may be because of it, in this order.

    >>> describe_size(WarningSize(text="topk was not timed", seconds=None, less=0.1, more=0.25, direction=None))
    '-100 ms, +250 ms: topk was not timed'
    """
    ends = (("-", item.less), ("+", item.more))
    known = [f"{sign}{show_time(float(f'{end:.2g}'))}" for sign, end in ends if end]
    unknown = ["of unknown size"] if None in (item.less, item.more) else []
    return f"{', '.join([*known, *unknown])}: {item.text}"


def full_run_blocks(result: RunResult) -> Iterator[Block]:
    """One prediction with all its figures: time, efficiency, where the time goes, traffic, density."""
    yield Text(result.name, "title")
    yield Facts(list(run_facts(result)))
    yield _breakdown(result)
    if result.memory is not None and result.memory.fits is False:
        yield from memory_blocks(result.memory)
    yield from texts(result.warnings[:_WARNINGS], "warning")
    if left := len(result.warnings[_WARNINGS:]):
        yield Text(f"{count_of(left, 'more warning')}: `sparsim explain --warnings` prints all of them", "dim")
    if result.comparison is not None:
        if result.question:
            yield from ("", Text(result.question, "title"))
        yield result.comparison.text
        worth = decisive_table(result.comparison)
        if worth is not None:
            yield from ("", worth)


def run_facts(result: RunResult) -> Iterator[tuple[str, str]]:
    """All figures of a run but its terms, by name."""
    yield _time(result)
    if result.measured is not None:
        yield "measured", result.measured
    if result.throughput is not None and result.scaling_efficiency is not None:
        yield "throughput", _throughput(result)
        yield "scaling efficiency", f"{100 * result.scaling_efficiency:.1f} %"
    traffic, density = result.traffic, result.density
    link, step = traffic.busiest_link, "local step" if result.period is not None else "iteration"
    yield (
        "traffic",
        f"{show_bytes(traffic.sent_per_worker)} sent per worker and {step}; busiest link {link.name}, "
        f"{show_bytes(link.nbytes)}, {100 * link.utilisation:.0f} % busy",
    )
    if result.axes is not None:
        yield "by axis", "; ".join(_describe_axis(name, use) for name, use in result.axes.each())
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


def _time(result: RunResult) -> tuple[str, str]:
    return "iteration time", f"{show_time(result.iteration_time)}   ({describe_interval(result.interval)})"


def _throughput(result: RunResult) -> str:
    return f"{result.throughput:.5g} samples/s on {count_of(result.workers, 'worker')}"


def _describe_axis(name: str, use: AxisUse) -> str:
    return f"{name} ({use.gpus:,} GPUs) {show_time(use.exposed)} exposed, {show_bytes(use.sent)} sent"


def _describe_period(period: PeriodTimes) -> str:
    own = period.exposed_inside
    inside = "" if own is None else f"; {show_time(own)} of exposed communication inside a site in each step"
    hour, utilisation = show_bytes(period.sent_per_worker_and_hour or 0.0), period.compute_utilisation or 0.0
    return (
        f"{count_of(period.inner_steps, 'step')} in {show_time(period.time)}, with exchanges of "
        f"{show_time(period.synchronisation)}; compute utilisation {100 * utilisation:.1f} %; "
        f"{show_bytes(period.sent_per_worker)} sent per worker and period, {hour} in an hour{inside}"
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


class TermTimes(NamedTuple):
    """A term of a run: its seconds, its share of the iteration, and the seconds of the opponent."""

    term: str
    label: str
    seconds: float
    share: float | None
    other: float | None


def terms_of(result: RunResult) -> list[TermTimes]:
    """Every term of a run, and last their sum; shares are None in an iteration of 0 s."""
    whole, rival = result.iteration_time, result.comparison
    others = {} if rival is None else split_idle(rival.opponent_breakdown, rival.opponent_idle)
    rows = [
        TermTimes(term, TERM_LABELS[term], seconds, seconds / whole if whole else None, others.get(term))
        for term, seconds in split_idle(result.breakdown, result.idle).items()
    ]
    sums = TermTimes("sum", "sum", whole, 1.0 if whole else None, None if rival is None else rival.opponent_time)
    return [*rows, sums]


def _breakdown(result: RunResult) -> Table:
    *terms, sums = (row for row in terms_of(result) if row.seconds or row.other or row.term not in _RARE)
    rows: list[Sequence[Any]] = [
        (row.label, row.seconds, f"{100 * (row.share or 0.0):.1f} %", row.share or 0.0, row.other) for row in terms
    ]
    bars = BarColumn("bar", "", longest=_BAR, beside=_BESIDE_BARS)
    heads = (*columns("words", "where the time goes"), *columns("time", "time"), *columns("figure", "share"), bars)
    if result.comparison is None:
        return Table("", heads, [row[:-1] for row in rows])
    # Its name may be long: it has several lines, so that terms and bars have room.
    other = Column("other", "\n".join(wrap(result.comparison.baseline, _HEADING)), "time")
    bars = replace(bars, beside=_BESIDE_BARS + _HEADING)
    rows.append((sums.label, sums.seconds, "", None, sums.other))
    return Table("", (*heads[:-1], bars, other), rows, styles={len(terms): "bold"})


def kinds_blocks(listing: dict[str, Sequence[Mapping[str, Any]]]) -> Iterator[Block]:
    """Families, kinds, first docstring lines and parameters; plug-ins that are broken; then what else can be listed."""
    for family, kinds in listing.items():
        if family == "broken_plugins":
            yield Text("plug-ins that could not be loaded", "title")
            yield from (f"  {item['name']} ({item['target']}): {item['reason']}" for item in kinds)
            continue
        yield Text(family, "title")
        rows = []
        for kind in kinds:
            parameters = ", ".join(
                item["name"] + ("" if item["required"] else f"={item['default']}") for item in kind["parameters"]
            )
            rows.append((f"  {kind['kind']}", kind["summary"], parameters))
        yield Facts(rows, dim=2)
    yield ""
    yield f"also: sparsim list {'|'.join(NEXT)}"
