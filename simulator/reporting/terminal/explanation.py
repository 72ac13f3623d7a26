"""The explanation of one iteration on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from simulator.hardware.runtime import RUNTIME_COSTS
from simulator.reporting.answers.explained import (
    Counterfactual,
    ExchangeSum,
    ExplainedIteration,
    KernelCost,
    Numbers,
    TermBasis,
    TermShare,
)
from simulator.reporting.terminal.memory import print_memory
from simulator.reporting.terminal.printing import (
    add_rows,
    bar,
    describe_interval,
    plain_table,
    print_lines,
    print_notes,
    print_plain,
    print_title,
    print_warnings,
)
from simulator.reporting.terminal.sensitivity import print_sensitivity
from simulator.reporting.terminal.uncertainty import print_uncertainty
from simulator.reporting.wording.values import format_error
from simulator.units import count_of, show_bytes, show_time

_BAR = 24
_SHOWN = 3
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


def print_explanation(explanation: ExplainedIteration, console: Console) -> None:
    """The terms with bars and what each consists of, formulas, counterfactuals, how sure it is, and sensitivities."""
    time, interval = explanation.iteration_time, explanation.interval
    print_title(explanation.scenario, console)
    workers = count_of(explanation.workers, "worker")
    print_plain(f"iteration time {show_time(time)} ({describe_interval(interval)}) on {workers}", console)
    print_plain(f"{explanation.summary}\n", console)
    terms = [row for row in explanation.terms if _matters(row.seconds, explanation)]
    print_lines(_terms(terms, time), console)
    hidden = explanation.hidden_communication
    if _matters(hidden, explanation):
        spent = _exchange_costs(explanation.exchanges)
        print_plain(f"in addition, {show_time(hidden)} of hidden communication{spent}", console, "dim")
    print_plain(f"{explanation.basis}\n", console, "dim")
    evidence = ((row.label, row.formula, _evidence(row.calibration)) for row in terms)
    print_lines(add_rows(plain_table(("term", "formula", "rests on")), evidence), console)
    console.print()
    print_lines(_counterfactuals(explanation.counterfactuals), console)
    console.print()
    if explanation.memory is not None:
        print_memory(explanation.memory, console)
        console.print()
    print_uncertainty(explanation.uncertainty, console)
    console.print()
    print_sensitivity(explanation.sensitivity, console, show_time)
    print_warnings(explanation.warnings, console)
    print_notes(explanation.notes, console)


def _matters(seconds: float, explanation: ExplainedIteration) -> bool:
    """Whether a time is more than a rounding error."""
    return seconds > _ROUNDING * explanation.iteration_time


def _terms(terms: Sequence[TermShare], time: float) -> Table:
    table = plain_table(("term",), ("time", "share"))
    table.columns[0].no_wrap = True
    table.add_column("")
    table.add_column("consists of", overflow="fold")
    for row in terms:
        share = f"{100 * row.share:.1f} %"
        content = escape(_describe_content(row))
        table.add_row(escape(row.label), show_time(row.seconds), share, bar(row.share, _BAR), content)
    table.add_row("sum", show_time(time), "", "", "", style="bold")
    return table


def _describe_content(row: TermShare) -> str:
    """A term's numbers in one line."""
    numbers, term = row.numbers, row.term
    if term in ("forward", "backward"):
        scaled, slowdown = numbers.get("compute_time_s"), numbers.get("compute_slowdown")
        parts = [
            f"{numbers['tensors']} tensors" + (f" in {passes} passes" if (passes := numbers["passes"]) > 1 else "")
        ]
        parts += [f"scaled to a compute time of {show_time(scaled)}"] if scaled else []
        parts += [f"{100 * slowdown:.0f} % longer while a collective runs"] if slowdown else []
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


_CONTENTS: dict[str, Callable[[Numbers], str]] = {
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


def _counterfactuals(rows: Sequence[Counterfactual]) -> Table:
    table = plain_table(("with",), ("iteration", "saving", ""))
    table.add_column("")
    for row in rows:
        share = row.saving_share
        cells = (show_time(row.iteration_time), show_time(row.saving), f"{100 * share:.1f} %")
        table.add_row(_COUNTERFACTUALS.get(row.name, row.name), *cells, bar(share, _BAR))
    return table
