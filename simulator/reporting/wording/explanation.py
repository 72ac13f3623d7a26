"""The explanation of one iteration in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

from simulator.hardware.runtime import RUNTIME_COSTS
from simulator.records import replace
from simulator.reporting.answers.explained import (
    Counterfactual,
    ExchangeSum,
    ExplainedIteration,
    KernelCost,
    Numbers,
    TermBasis,
    TermShare,
)
from simulator.reporting.wording.blocks import Block, Facts, Text, texts
from simulator.reporting.wording.memory_tables import describe_memory, memory_blocks
from simulator.reporting.wording.sensitivity import sensitivity_blocks
from simulator.reporting.wording.tables import BarColumn, Column, Table, columns
from simulator.reporting.wording.uncertainty import doubt_lines, uncertainty_blocks
from simulator.reporting.wording.values import describe_interval, format_error
from simulator.units import count_of, show_bytes, show_time

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
    yield Facts(facts)
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
    yield _terms(terms, explanation.iteration_time)
    hidden = explanation.hidden_communication
    if _matters(hidden, explanation):
        spent = _exchange_costs(explanation.exchanges)
        yield Text(f"in addition, {show_time(hidden)} of hidden communication{spent}", "dim")
    yield Text(explanation.basis, "dim")


def _axes(explanation: ExplainedIteration) -> Iterator[Block]:
    """What the GPUs along each axis exchange, what of it holds compute, and what hides it."""
    if (axes := explanation.axes) is not None:
        rows = [(name, use.gpus, use.exposed, use.sent, use.sent_in_micro_batch) for name, use in axes.each()]
        yield Table("", _AXES, rows)
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
    return Table("", _OTHER_TIMES, list(map(_counterfactual, explanation.counterfactuals)))


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


def _terms(terms: Sequence[TermShare], time: float) -> Table:
    rows = [(row.label, row.seconds, f"{100 * row.share:.1f} %", row.share, _describe_content(row)) for row in terms]
    return Table("", _TERMS, [*rows, ("sum", time, "", None, "")], styles={len(rows): "bold"})


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


def _describe_latency(numbers: Numbers) -> str:
    far = numbers.get("latency_between_sites_s")
    return show_time(numbers["latency_s"]) + ("" if far is None else f", between sites {show_time(far)},")


def _describe_slowdown(numbers: Numbers) -> str:
    text = f"{100 * numbers['compute_slowdown']:.0f} % longer while an exchange runs"
    return text + _costs(numbers["slowed_s"], ": ")


_CONTENTS: dict[str, Callable[[Numbers], str]] = {
    "slowdown": _describe_slowdown,
    "queueing": _describe_queueing,
    "waiting_for_slowest": _describe_waiting,
    "transfer": lambda numbers: f"{_describe_calls(numbers)} and a payload of {show_bytes(numbers['payload_bytes'])}",
    "start_up": lambda numbers: f"{_describe_calls(numbers)}; latency {_describe_latency(numbers)} per message",
    "software": _describe_software,
}


def _costs(seconds: dict[str, float], before: str) -> str:
    parts = [f"{name.replace('_', '-')} {show_time(value)}" for name, value in seconds.items() if value]
    return before + ", ".join(parts) if parts else ""


def _exchange_costs(exchanges: ExchangeSum) -> str:
    """What all exchanges of the iteration take, exposed or hidden."""
    if not exchanges.spent:
        return ""
    return _costs(exchanges.spent, f"; all {count_of(exchanges.calls, 'call')} together take ")


def _evidence(items: Sequence[TermBasis]) -> str:
    parts = []
    for item in items[:_SHOWN]:
        error = item.held_out_mape
        parts.append(item.id + ("" if error is None else f" (held-out error {format_error(error)})"))
    return "; ".join(parts + _more(items))


def _counterfactual(row: Counterfactual) -> tuple[Any, ...]:
    name, share = _COUNTERFACTUALS.get(row.name, row.name), row.saving_share
    return name, row.iteration_time, row.saving, f"{100 * share:.1f} %", share
