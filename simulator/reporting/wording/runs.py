"""A run in blocks, with its memory, and what decides its comparison; a single collective."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any, NamedTuple

from simulator.models.timeline import TERM_LABELS, split_idle
from simulator.prediction.collective import CollectiveTimes
from simulator.prediction.memory_parts import PART_LABELS
from simulator.prediction.result import RunResult
from simulator.prediction.result_parts import Comparison, Goodput, MemoryUse, PeriodTimes, WarningSize, Worth
from simulator.records import replace
from simulator.reporting.wording.blocks import BarColumn, Block, Column, Table, Text, columns, texts
from simulator.reporting.wording.values import describe_interval
from simulator.units import count_of, join_words, show_bytes, show_memory, show_probability, show_time

_PARTS_NAMED = 2
"""Parts that the line names."""
_MEMORY = (
    *columns("text", part="memory of a worker"),
    *columns("figure", "size", "least", "most"),
    *columns("text", "how"),
)


def describe_memory(memory: MemoryUse) -> str:
    """The memory in a line: the sum and what there is; what is not known, or else the largest parts."""
    text = show_memory(memory.total)
    if memory.capacity is not None:
        text += f" of {show_memory(memory.capacity)}"
    text += memory.where
    if memory.not_known:
        return f"{text}, without {' and '.join(memory.not_known)}, which are not known"
    known = sorted(((nbytes, name) for name, nbytes in memory.parts.items() if nbytes), reverse=True)
    return f"{text}: " + ", ".join(
        f"{PART_LABELS[name]} {show_memory(nbytes)}" for nbytes, name in known[:_PARTS_NAMED]
    )


def memory_table(memory: MemoryUse) -> Table:
    """Every part with its size, the range that it may be in, and how it is computed; then the sum."""
    rows = [
        (PART_LABELS[part.name], *_sizes(part.nbytes, part.least, part.most), part.how) for part in memory.details or ()
    ]
    total, capacity = memory.total, memory.capacity
    there = "how much the GPU has is not stated" if capacity is None else f"{memory.gpu} has {show_memory(capacity)}"
    sums = ("sum", *_sizes(total, memory.least, memory.most), there)
    return Table("Memory", _MEMORY, [*rows, sums], note=_describe_fit(memory))


def memory_blocks(memory: MemoryUse) -> Iterator[Block]:
    """Every part with its size, range and how it is computed, and the sum; then whether it fits."""
    table = memory_table(memory)
    parts = replace(_MEMORY[0], kind="unbroken", label=f"{_MEMORY[0].label}{memory.where}")
    yield replace(table, title="", columns=(parts, *_MEMORY[1:]))
    yield table.note


def _sizes(nbytes: float | None, least: float, most: float) -> tuple[str, str, str]:
    """A size and its range; no range where it is exact."""
    if nbytes is None:
        return "not known", "", ""
    if least == most:
        return show_memory(nbytes), "", ""
    return show_memory(nbytes), show_memory(least), show_memory(most)


def _describe_fit(memory: MemoryUse) -> str:
    """Whether the sum fits, in a sentence."""
    if memory.fits:
        return "It fits."
    if memory.fits is False:
        return "It does not fit, even where every part is as small as it may be."
    if memory.capacity is None:
        return "Whether it fits is not known: give `memory_size` of the GPU."
    if memory.total <= memory.capacity:
        return f"What is known fits; the {' and '.join(memory.not_known or ())} are not known."
    return "It may not fit: the sum is too large, and the least that is needed is not."


SHOWN = 3
"""Measurements that the terminal lists."""
_DECIDED = "the probability that the answer is a sure yes or no once the input is measured"
_WORTH = (
    Column("input", "to measure"),
    Column("level", "level"),
    Column("width", "within", "factor", "the factor by which the input may be wrong either way in nine of ten cases"),
    Column("share", "doubt", "percent", "its share of the variance of the speed-up's logarithm"),
    Column(
        "decided",
        "decided",
        "probability",
        _DECIDED,
    ),
    Column("command", "command"),
)


def decisive_table(comparison: Comparison | None) -> Table | None:
    """The few measurements that would decide an open comparison; None where it is decided, or there is none."""
    if comparison is None or comparison.word != "undecided":
        return None
    return value_table(comparison.word, comparison.value_of_information, SHOWN)


def value_table(word: str | None, rows: Sequence[Worth] | None, most: int | None = None) -> Table | None:
    """What each measurement is worth to a verdict; None where there is nothing to measure.

    Where the answer is open, those that are likeliest to decide it come first; where it is sure, those that hold most
    of the doubt that is left.
    """
    if not rows:
        return None
    times = Counter(row.input for row in rows)
    rows = [
        row if times[row.input] == 1 else replace(row, input=join_words([each.rpartition("/")[2] for each in row.id]))
        for row in rows
    ]
    open_ = word == "undecided"
    heads = [column for column in _WORTH if open_ or column.key != "decided"]
    note = " ".join(f"{column.label.capitalize()}: {column.about}." for column in heads if column.about)
    title = "What decides it" if open_ else "What the doubt that is left rests on"
    ranked = rows if open_ else sorted(rows, key=lambda row: -row.share)
    return Table.of(title, heads, ranked[:most], note=note)


_HEADING = 23
"""Characters of a line of a heading."""
_BAR, _BESIDE_BARS = 28, 52
"""Characters of a bar of the whole iteration, and of terms, times, shares and gaps."""
_RARE = ("slowdown", "data_loading", "waiting_for_host", "waiting_for_stages", "communication_of_stages")
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
    yield Table.facts(first_facts(result))
    shown = sizes[:1]
    if rival is not None and rival.word is not None and rival.speed_up is not None:
        gap = (rival.speed_up - 1) * result.iteration_time
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
    yield Table.facts(run_facts(result))
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
        axes = ((f"{name} ({use.gpus:,} GPUs)", use) for name, use in result.axes.each())
        sides = (f"{name} {show_time(use.exposed)} exposed, {show_bytes(use.sent)} sent" for name, use in axes)
        where = f"; layers send most in stage {result.axes.stage}" if result.axes.stage else ""
        yield "by axis", "; ".join(sides) + where
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


_COLLECTIVE = (
    *columns("unbroken", "payload"),
    *columns("time", "time"),
    *columns("unbroken", "90 % interval", "carried by"),
    *columns("giga", algorithm_bandwidth="algbw", bus_bandwidth="busbw"),
)


def _name_sources(answer: CollectiveTimes) -> str:
    """How many times are from the measured curve; nothing where none is."""
    count, measured = len(answer.times), sum(item.source == "measured" for item in answer.times)
    if measured == count:
        return f" {'The time is' if count == 1 else 'All times are'} from the measured curve."
    others = "the other" if measured == count - 1 else "the others"
    return f" {count_of(measured, 'time')} from the measured curve, {others} from the links." if measured else ""


def collective_blocks(answer: CollectiveTimes) -> Iterator[Block]:
    """A table over payloads, why the algorithm of a single one was chosen, and what the times rest on."""
    nodes, gpus = count_of(answer.nodes, "node"), count_of(answer.gpus_per_node, "GPU")
    yield Text(f"{answer.kind} on {answer.network}, {nodes} of {gpus} ({answer.device})", "title")
    rows = []
    for item in answer.times:
        ends = " to ".join(map(show_time, item.interval))
        carrier = f"{item.algorithm} {item.protocol}".strip()
        known = ends, carrier, item.algorithm_bandwidth, item.bus_bandwidth
        rows.append((show_memory(item.payload), item.time, *known))
    yield Table("", _COLLECTIVE, rows)
    yield f"algbw, busbw: GB/s.{_name_sources(answer)}"
    if len(answer.times) == 1 and (reason := answer.times[0].reason):
        yield f"Why {answer.times[0].algorithm} {answer.times[0].protocol}: {reason}."
    yield ""
    yield Text("It rests on", "title")
    yield from texts(answer.assumed, "item")
