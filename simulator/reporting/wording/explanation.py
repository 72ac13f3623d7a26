"""The explanation of one iteration in blocks, with what it depends on and how sure it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

from simulator.hardware.runtime import RUNTIME_COSTS
from simulator.records import replace
from simulator.reporting.answers.explained import (
    Doubts,
    Effect,
    ExplainedIteration,
    KernelCost,
    Numbers,
    Sensitivity,
    TermBasis,
    TermShare,
)
from simulator.reporting.wording.blocks import BarColumn, Block, Column, Table, Text, columns, texts
from simulator.reporting.wording.comparison import shorten
from simulator.reporting.wording.runs import describe_memory, memory_blocks
from simulator.reporting.wording.values import describe_interval, format_difference, format_error
from simulator.units import count_of, show_bytes, show_time

_ROWS = 8


def sensitivity_blocks(study: Sensitivity, kind: str) -> Iterator[Block]:
    """The answer, then the first inputs: change in percent per percent, and the result at half and twice of each.

    `kind`: what quantity the result is (`values.KINDS`).
    """
    yield study.answer
    rows = [
        (
            row.input,
            None if row.elasticity is None else f"{row.elasticity:+.2f}",
            *(row.at_half, row.base, row.at_double),
        )
        for row in study.inputs[:_ROWS]
        if row.input not in study.without_effect
    ]
    heads = (
        *columns("words", "input"),
        *columns("figure", "% per %"),
        *columns(kind, "at half", "unchanged", "at double"),
    )
    yield Table("", heads, rows)
    yield from texts(study.notes, "dim")


_GROUPS = 8
_LARGEST_EFFECTS = 3
"""Effects that are told at a glance."""
_NAME_LENGTH = 42
"""Characters of a name."""
_NOTHING = 1e-4
"""Inputs that change the iteration by no more than this share are counted, and not listed."""


_INPUTS = (
    *columns("words", "input", "level"),
    *columns("factor", "within"),
    *columns("time_difference", "shorter", "longer"),
    *columns("whole_percent", "of the width"),
)


def doubt_lines(doubts: Doubts) -> Iterator[str]:
    """The largest effects, each in a line: its inputs, how well they are known, and what they change."""
    for effect in _counted(doubts)[:_LARGEST_EFFECTS]:
        first, *others = effect.inputs
        more = f" and {count_of(len(others), 'other')}" if others else ""
        ends = " to ".join(format_difference(end, "time") for end in (effect.low, effect.high))
        width = max(item.width for item in effect.inputs)
        yield f"{_input_name(first.what, first.id)}{more}: {ends} ({effect.level}, within x {width:.3g})"


def _counted(doubts: Doubts) -> list[Effect]:
    return [effect for effect in doubts.groups if effect.largest > _NOTHING * doubts.interval[0]]


def uncertainty_blocks(doubts: Doubts) -> Iterator[Block]:
    """Every uncertain input with its width, its effect, and where the width comes from; then what would settle it."""
    low, high = doubts.interval
    yield Text("How sure is this", "title")
    if low == high:
        yield "Nothing that the prediction rests on is uncertain."
        return
    yield (
        f"In nine of ten cases the iteration takes {show_time(low)} to {show_time(high)}. The effects of single inputs "
        "at the ends of their widths add in squares; inputs under one effect are wrong the same way, together."
    )
    shown = _counted(doubts)[:_GROUPS]
    rows = [row for group in shown for row in _effect_rows(group)]
    if any(doubts.single_iterations):
        rows.append(("single iterations, which differ at random", "", "", *doubts.single_iterations, ""))
    yield Table("", _INPUTS, rows)
    more = len(doubts.groups) - len(shown)
    if more:
        yield Text(f"{count_of(more, 'smaller effect')} not listed", "dim")
    yield ""
    yield Table("", columns("words", "the widths come from", "of"), _sources(shown))
    commands = {row.command: f"about {row.minutes:g} min" for row in shown if row.command}
    if commands:
        yield ""
        yield "to settle them, largest first:"
        yield from texts((f"{command}  # {minutes}" for command, minutes in commands.items()), "command")


def _effect_rows(group: Effect) -> Iterator[tuple[Any, ...]]:
    """The inputs of a group, the effect in the row of the first one."""
    effect = (group.low, group.high, group.share)
    for place, item in enumerate(group.inputs):
        name = ("  " if place else "") + _input_name(item.what, item.id)
        yield name, item.level, item.width, *(("", "", "") if place else effect)


def _sources(groups: list[Effect]) -> list[tuple[str, str]]:
    """Each source of widths, with the inputs whose widths come from it."""
    made: dict[str, list[str]] = {}
    for item in (item for group in groups for item in group.inputs):
        made.setdefault(item.source, []).append(_input_name(item.what, item.id))
    return [(source, ", ".join(names)) for source, names in made.items()]


def _input_name(what: str, identity: str) -> str:
    """An input as a person calls it, without the part of the scenario that it belongs to.

    >>> _input_name("kernel topk, transferred", "RTX 2080 Ti/topk"), _input_name("constant", "Horovod 0.19/negotiation")
    ('kernel topk', 'constant: negotiation')
    """
    kind, last = what.partition(",")[0], identity.rpartition("/")[2]
    return kind if last in kind.split() else shorten(f"{kind}: {last}", _NAME_LENGTH)


_SHOWN = 3
_WARNINGS = 3
"""Warnings that are printed at a glance, each in a line."""
_BESIDE_BARS = 52
"""Characters of terms, times, shares and gaps beside bars."""
_ROUNDING = 1e-12
"""Share of the iteration below which a term is the rounding error of a difference of equal times."""
_COUNTERFACTUALS = {
    "infinite_network": "an infinite network",
    "free_selection": "free selection",
    "good_implementation": "a good implementation",
    "no_software": "no software cost of exchanges",
    "no_stragglers": "no stragglers",
    "perfect_overlap": "perfect overlap (a bound)",
}


_TERMS = (
    *columns("unbroken", "term"),
    *columns("time", "time"),
    *columns("figure", "share"),
    BarColumn("bar", ""),
    *columns("words", "consists of"),
)
_SENT = columns("bytes", "sent in an iteration", "in a micro-batch")
_AXES = (*columns("words", "axis"), *columns("count", "GPUs"), *columns("time", "exposed"), *_SENT)
_WAITS = (*columns("words", "collective", "unit", "holds"), Column("seconds", "time", "time"))
_HIDDEN = (*columns("words", "axis", "beside"), Column("seconds", "time", "time"))
_OTHER_TIMES = (
    *columns("words", "with"),
    *columns("time", "iteration", "saving"),
    *columns("figure", ""),
    BarColumn("bar", ""),
)


def explanation_blocks(explanation: ExplainedIteration, asked: Sequence[str] = ()) -> Iterator[Block]:
    """The explanation at a glance: times of terms and without each cost, what it depends on, and how sure it is; or
    what is asked for, by names of `SECTIONS`, with all formulas, inputs and numbers."""
    time, interval = explanation.iteration_time, explanation.interval
    yield Text(explanation.scenario, "title")
    workers = count_of(explanation.workers, "worker")
    yield f"iteration time {show_time(time)} ({describe_interval(interval)}) on {workers}"
    for name in asked:
        blocks = list(SECTIONS[name](explanation))
        yield from blocks
        if blocks and name != asked[-1]:
            yield ""
    if not asked:
        yield from _overview(explanation)


def _overview(explanation: ExplainedIteration) -> Iterator[Block]:
    yield explanation.summary
    yield ""
    rows = [(row.label, row.seconds, f"{100 * row.share:.1f} %", row.share) for row in _terms_of(explanation)]
    if rows:
        yield Table("", (*_TERMS[:-2], replace(_TERMS[-2], beside=_BESIDE_BARS)), rows)
        yield ""
    yield _other_times(explanation)
    yield ""
    doubts = list(doubt_lines(explanation.uncertainty))
    facts = [] if explanation.measured is None else [("measured", explanation.measured)]
    facts += list(zip(["how sure", *[""] * len(doubts)], doubts, strict=False))
    if explanation.memory is not None:
        facts.append(("memory", describe_memory(explanation.memory)))
    facts.append(("depends on", explanation.sensitivity.answer))
    yield Table.facts(facts)
    yield from texts(explanation.warnings[:_WARNINGS], "first line")
    left = len(explanation.warnings) - _WARNINGS
    more = f"{count_of(left, 'more warning')}; " if left > 0 else ""
    exist = " ".join(f"--{name}" for name, section in SECTIONS.items() if any(section(explanation)))
    yield Text(f"{more}in full: {exist} --full", "dim")


def _terms_in_full(explanation: ExplainedIteration) -> Iterator[Block]:
    """The largest terms and savings, and of every term its time and what it consists of."""
    yield explanation.summary
    yield ""
    terms = _terms_of(explanation)
    rows = [(row.label, row.seconds, f"{100 * row.share:.1f} %", row.share, _describe_content(row)) for row in terms]
    sums = ("sum", explanation.iteration_time, "", None, "")
    yield Table("", _TERMS, [*rows, sums], styles={len(terms): "bold"})
    hidden = explanation.hidden_communication
    if _matters(hidden, explanation):
        calls = count_of(explanation.exchanges.calls, "call")
        spent = _costs(explanation.exchanges.spent or {}, f"; all {calls} together take ")
        yield Text(f"in addition, {show_time(hidden)} of hidden communication{spent}", "dim")
    yield Text(explanation.basis, "dim")


def _axes(explanation: ExplainedIteration) -> Iterator[Block]:
    """What the GPUs along each axis exchange, what of it holds compute, and what hides it."""
    if (axes := explanation.axes) is not None:
        rows = [(name, use.gpus, use.exposed, use.sent, use.sent_in_micro_batch) for name, use in axes.each()]
        yield Table("", _AXES, rows)
        if axes.stage is not None:
            yield Text(
                f"Bytes of layers are those of stage {axes.stage}, which sends most; the first one waits.", "dim"
            )
    if explanation.waits:
        yield ""
        yield Table.of("What holds compute", _WAITS, explanation.waits)
    if explanation.hidden:
        yield ""
        yield Table.of("What hides communication", _HIDDEN, explanation.hidden)


def _formulas(explanation: ExplainedIteration) -> Iterator[Block]:
    evidence = [(row.label, row.formula, _evidence(row.calibration)) for row in _terms_of(explanation)]
    yield Table("", columns("words", "term", "formula", "rests on"), evidence)


def _other_times(explanation: ExplainedIteration) -> Table:
    rows = []
    for row in explanation.counterfactuals:
        name, share = _COUNTERFACTUALS.get(row.name, row.name), row.saving_share
        rows.append((name, row.iteration_time, row.saving, f"{100 * share:.1f} %", share))
    return Table("", _OTHER_TIMES, rows)


SECTIONS: dict[str, Callable[[ExplainedIteration], Iterator[Block]]] = {
    "terms": _terms_in_full,
    "axes": _axes,
    "formulas": _formulas,
    "savings": lambda explanation: iter([_other_times(explanation)]),
    "memory": lambda explanation: memory_blocks(explanation.memory) if explanation.memory else iter(()),
    "inputs": lambda explanation: uncertainty_blocks(explanation.uncertainty),
    "sensitivity": lambda explanation: sensitivity_blocks(explanation.sensitivity, "time"),
    "warnings": lambda explanation: chain(texts(explanation.warnings, "warning"), texts(explanation.notes, "note")),
}
"""The parts of an explanation in full; the options of `sparsim explain` have their names."""


def _terms_of(explanation: ExplainedIteration) -> list[TermShare]:
    return [row for row in explanation.terms if _matters(row.seconds, explanation)]


def _matters(seconds: float, explanation: ExplainedIteration) -> bool:
    """Whether a time is more than a rounding error."""
    return seconds > _ROUNDING * explanation.iteration_time


def _describe_content(row: TermShare) -> str:
    """A term's numbers in one line."""
    numbers, term = row.numbers, row.term
    if term in ("forward", "backward"):
        scaled = numbers.get("compute_time_s")
        parts = [
            f"{numbers['tensors']} tensors" + (f" in {passes} passes" if (passes := numbers["passes"]) > 1 else "")
        ]
        parts += [f"scaled to a compute time of {show_time(scaled)}"] if scaled else []
        return "; ".join([", ".join(parts), *filter(None, [_describe_kernels(numbers.get("kernels", []))])])
    if "kernels" in numbers:
        return _describe_kernels([*numbers["kernels"], *numbers.get("kernels_inside", [])])
    return _CONTENTS[term](numbers) if term in _CONTENTS else ""


def _describe_kernels(kernels: Sequence[KernelCost]) -> str:
    parts = [
        f"{item.kernel} {item.runs} x {show_time(item.per_call)} = {show_time(item.seconds)}"
        + (" (host)" if item.bound_by == "host" else "")
        for item in kernels[:_SHOWN]
    ]
    return "; ".join(parts + _more(kernels))


def _more(items: Sequence[Any]) -> list[str]:
    return [f"{len(items) - _SHOWN} more"] if len(items) > _SHOWN else []


def _describe_queueing(numbers: Numbers) -> str:
    earlier = numbers["exchanges_in_front"]
    if not earlier:
        return "links shared with other exchanges"
    return f"waits for {count_of(earlier, 'earlier exchange')}" + _costs(numbers["meanwhile_s"], ": ")


def _describe_waiting(numbers: Numbers) -> str:
    spread = [f"{kernel} differs by {100 * value:.1f} %" for kernel, value in numbers["kernel_spread"].items()]
    return ", ".join(spread + [f"jitter {100 * numbers['jitter']:.1f} %"] * bool(numbers["jitter"]))


def _describe_software(numbers: Numbers) -> str:
    costs = {name: numbers[f"{name}_s"] for name, cost in RUNTIME_COSTS.items() if cost.per_call}
    hook = costs.pop("forward_hook")
    parts = [f"{RUNTIME_COSTS[name].label} {show_time(seconds)}" for name, seconds in costs.items() if seconds]
    calls = _describe_calls(numbers) + (f", each with {', '.join(parts)}" if parts else "")
    hooks = f"hooks of {show_time(hook)} before the forward pass of each module" if hook else ""
    return "; ".join(text for text in (calls if parts or not hook else "", hooks) if text)


def _describe_calls(numbers: Numbers) -> str:
    count, calls = numbers["exchanges_waited_for"], numbers["calls"]
    return f"{count_of(count, 'exchange')} that compute waits for, with {count_of(calls, 'call')}"


_CONTENTS: dict[str, Callable[[Numbers], str]] = {
    "slowdown": lambda numbers: (
        f"{100 * numbers['compute_slowdown']:.0f} % longer while an exchange runs{_costs(numbers['slowed_s'], ': ')}"
    ),
    "queueing": _describe_queueing,
    "waiting_for_slowest": _describe_waiting,
    "waiting_for_stages": lambda numbers: (
        f"micro-batches: {numbers['micro_batches']}, in {numbers['stages']} stages of "
        f"{count_of(numbers['chunks'], 'chunk')}, {numbers['schedule']}"
        + (f" {numbers['runs']} times" if numbers["runs"] > 1 else "")
    ),
    "transfer": lambda numbers: f"{_describe_calls(numbers)} and a payload of {show_bytes(numbers['payload_bytes'])}",
    "start_up": lambda numbers: (
        f"{_describe_calls(numbers)}; latency {show_time(numbers['latency_s'])}"
        + (f", between sites {show_time(far)}," if (far := numbers.get("latency_between_sites_s")) is not None else "")
        + " per message"
    ),
    "software": _describe_software,
}


def _costs(seconds: dict[str, float], before: str) -> str:
    parts = [f"{name.replace('_', '-')} {show_time(value)}" for name, value in seconds.items() if value]
    return before + ", ".join(parts) if parts else ""


def _evidence(items: Sequence[TermBasis]) -> str:
    parts = []
    for item in items[:_SHOWN]:
        error = item.held_out_mape
        parts.append(item.id + ("" if error is None else f" (held-out error {format_error(error)})"))
    return "; ".join(parts + _more(items))
