"""Explanations and advice on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from simulator.reporting.terminal.tables import interval_words
from simulator.units import count_of, show_bytes, show_time

_BAR = 24
_RANKED = 10
_ROWS = 8
_ROUNDING = 1e-12
"""Share of the iteration below which a term is what is left of a difference of equal times."""
_WORLDS = {
    "infinite_network": "an infinite network",
    "free_selection": "free selection",
    "no_software": "no software around exchanges",
    "no_stragglers": "no stragglers",
    "perfect_overlap": "perfect overlap (a bound)",
}


def print_explanation(document: dict[str, Any], console: Console) -> None:
    """Terms with bars, what each is made of, other worlds, and what moves the answer."""
    time, interval = document["iteration_time_s"], document["iteration_time_interval_s"]
    console.print(f"[bold]{escape(document['scenario'])}[/bold]", highlight=False)
    console.print(
        f"iteration time {show_time(time)} ({interval_words(interval)}) "
        f"on {count_of(document['workers'], 'worker')}\n{escape(document['summary'])}\n",
        highlight=False,
    )
    console.print(_terms(document), highlight=False)
    hidden = document["hidden_communication_s"]
    if _felt(hidden, document):
        console.print(
            f"[dim]and {show_time(hidden)} of communication hidden beside compute{_spent(document)}[/dim]",
            highlight=False,
        )
    console.print(Padding(f"[dim]{escape(document['basis'])}[/dim]", (0, 0, 1, 0)), highlight=False)
    console.print(_formulas(document), highlight=False)
    console.print()
    console.print(_worlds(document), highlight=False)
    console.print()
    _sensitivity(document["sensitivity"], console, seconds=True)
    _warn(document["warnings"], console)


def _terms(document: dict[str, Any]) -> Table:
    table = _table(
        ("term", "left"), ("time", "right"), ("share", "right"), ("", "left"), ("what it is made of", "left")
    )
    for row in document["terms"]:
        if not _felt(row["seconds"], document):
            continue
        bar = "█" * round(_BAR * row["share"])
        table.add_row(
            row["label"], show_time(row["seconds"]), f"{100 * row['share']:.1f} %", bar, escape(_made_of(row))
        )
    table.add_row("sum", show_time(document["iteration_time_s"]), "", "", "", style="bold")
    return table


def _felt(seconds: float, document: dict[str, Any]) -> bool:
    """Whether a term is more than what rounding leaves of one that is not there."""
    return seconds > _ROUNDING * float(document["iteration_time_s"])


def _made_of(row: dict[str, Any]) -> str:
    """A term's numbers in one line."""
    numbers, term = row["numbers"], row["term"]
    if term in ("forward", "backward"):
        scaled = numbers.get("compute_time_s")
        return f"{numbers['tensors']} tensors" + (f", scaled to a step of {show_time(scaled)}" if scaled else "")
    if "kernels" in numbers:
        return _kernels([*numbers["kernels"], *numbers.get("kernels_inside", [])])
    return _MADE_OF[term](numbers) if term in _MADE_OF else ""


def _kernels(kernels: Sequence[dict[str, Any]]) -> str:
    shown = [
        f"{item['kernel']} {item['runs']} x {show_time(item['per_call_s'])} = {show_time(item['seconds'])}"
        + (" (host)" if item["bound_by"] == "host" else "")
        for item in kernels[:3]
    ]
    return "; ".join(shown + [f"{len(kernels) - 3} more"] * (len(kernels) > 3))


def _queueing(numbers: dict[str, Any]) -> str:
    front = numbers["exchanges_in_front"]
    if not front:
        return "links shared with other exchanges"
    spent = [f"{name.replace('_', '-')} {show_time(value)}" for name, value in numbers["meanwhile_s"].items() if value]
    return f"behind {count_of(front, 'exchange')}" + (f": {', '.join(spent)}" if spent else "")


def _waiting(numbers: dict[str, Any]) -> str:
    spread = [f"{kernel} differs by {100 * value:.1f} %" for kernel, value in numbers["kernel_spread"].items()]
    return ", ".join(spread + [f"jitter {100 * numbers['jitter']:.1f} %"] * bool(numbers["jitter"]))


def _software(numbers: dict[str, Any]) -> str:
    costs = {"negotiation": "negotiation_s", "gather": "gather_overhead_s", "cycle": "cycle_time_s"}
    costs |= {"launch": "collective_launch_s", "message": "message_overhead_s"}
    parts = [f"{name} {show_time(numbers[key])}" for name, key in costs.items() if numbers[key]]
    return _calls(numbers) + (f": {', '.join(parts)} each" if parts else "")


_MADE_OF: dict[str, Callable[[dict[str, Any]], str]] = {
    "queueing": _queueing,
    "waiting_for_slowest": _waiting,
    "transfer": lambda numbers: f"{_calls(numbers)}, {show_bytes(numbers['payload_bytes'])} of payload",
    "start_up": lambda numbers: f"{_calls(numbers)}, latency {show_time(numbers['latency_s'])} per message",
    "software": _software,
}


def _calls(numbers: dict[str, Any]) -> str:
    count, calls = numbers["exchanges_waited_for"], numbers["calls"]
    return f"{count_of(count, 'exchange')} waited for, {count_of(calls, 'call')}"


def _spent(document: dict[str, Any]) -> str:
    spent = document["exchanges"]["spent_s"]
    if not spent:
        return ""
    parts = ", ".join(f"{name.replace('_', '-')} {show_time(value)}" for name, value in spent.items() if value)
    return f"; all {document['exchanges']['calls']} calls together: {parts}"


def _formulas(document: dict[str, Any]) -> Table:
    table = _table(("term", "left"), ("formula", "left"), ("rests on", "left"))
    for row in document["terms"]:
        if _felt(row["seconds"], document):
            table.add_row(row["label"], escape(row["formula"]), escape(_evidence(row["calibration"])))
    return table


def _evidence(items: Sequence[dict[str, Any]]) -> str:
    parts = []
    for item in items[:3]:
        error = "" if item["held_out_mape"] is None else f" (held-out error {100 * item['held_out_mape']:.1f} %)"
        parts.append(f"{item['id']}{error}")
    return "; ".join(parts) + (f"; {len(items) - 3} more" if len(items) > 3 else "")


def _worlds(document: dict[str, Any]) -> Table:
    table = _table(("if there were", "left"), ("iteration", "right"), ("saving", "right"), ("", "right"), ("", "left"))
    for row in document["counterfactuals"]:
        share = row["saving_share"]
        bar = "█" * round(_BAR * max(0.0, share))
        cells = (show_time(row["iteration_time_s"]), show_time(row["saving_s"]), f"{100 * share:.1f} %", bar)
        table.add_row(_WORLDS.get(row["name"], row["name"]), *cells)
    return table


def _sensitivity(study: dict[str, Any], console: Console, seconds: bool) -> None:
    """What moves the answer: the first inputs, their slopes, and what half and twice of them give."""

    def shown(value: float | None) -> str:
        if value is None:
            return "-"
        return show_time(value) if seconds else f"{value:.3g}"

    console.print(escape(study["answer"]), highlight=False)
    table = _table(
        ("input", "left"), ("% per %", "right"), ("at half", "right"), ("as it is", "right"), ("at twice", "right")
    )
    for row in study["inputs"][:_ROWS]:
        if row["input"] in study["without_effect"]:
            continue
        slope = "-" if row["elasticity"] is None else f"{row['elasticity']:+.2f}"
        table.add_row(row["input"], slope, shown(row["at_half"]), shown(row["base"]), shown(row["at_double"]))
    console.print(table, highlight=False)
    for note in study["notes"]:
        console.print(f"[dim]{escape(note)}[/dim]", highlight=False)


def print_advice(document: dict[str, Any], console: Console) -> None:
    """The answer, the ranking, break-evens, reasons, and what was left out."""
    console.print(f"[bold]{escape(document['scenario'])}[/bold]", highlight=False)
    console.print(f"\n[bold]{escape(document['answer'])}[/bold]", highlight=False)
    console.print(f"  {escape(document['command'])}", highlight=False)
    console.print()
    console.print(_ranking(document), highlight=False)
    _densities(document, console)
    if document["break_even"]:
        console.print()
        console.print(_break_even(document), highlight=False)
    console.print("\n[bold]Why[/bold]", highlight=False)
    for reason in document["reasons"]:
        console.print(Padding(f"- {escape(reason['text'])}", (0, 0, 0, 2)), highlight=False)
    study = document["sensitivity"]
    if study is not None:
        console.print(f"\n[bold]What moves {escape(study['of'])}[/bold]", highlight=False)
        _sensitivity(study, console, seconds=False)
        if study["turned_by"]:
            console.print(f"The answer turns with {escape(', '.join(study['turned_by']))}.", highlight=False)
    console.print("\n[bold]Read with it[/bold]", highlight=False)
    for line in [*document["notes"], _looked_at(document["looked_at"])]:
        console.print(Padding(f"- {escape(line)}", (0, 0, 0, 2)), highlight=False)


def _ranking(document: dict[str, Any]) -> Table:
    target = any(row["time_to_target_s"] is not None for row in document["ranking"])
    table = _table(("", "right"), ("best of each method", "left"), ("schedule", "left"), ("topology", "left"))
    table.add_column("to target" if target else "iteration", justify="right")
    table.add_column("per iteration" if target else "90 % interval", justify="right")
    table.add_column("against dense", justify="right")
    table.add_column("against yours", justify="right")
    best = [row for row in document["ranking"] if row["best_of_method"]]
    yours = document["yours"]
    shown = best[:_RANKED]
    shown += [row for row in best[_RANKED:] if row["method"] == "dense"]
    for place, row in enumerate(best):
        if row in shown:
            table.add_row(f"{place + 1}", *_ranked(row, target), style="bold" if row["method"] == "dense" else None)
    if yours is not None and yours not in shown:
        table.add_row("", *_ranked(yours, target), style="italic", end_section=True)
    return table


def _ranked(row: dict[str, Any], target: bool) -> list[str]:
    low, high = row["iteration_time_interval_s"]
    cells = [show_time(row["iteration_time_s"]), f"{show_time(low)} to {show_time(high)}"]
    if target:
        seconds = row["time_to_target_s"]
        cells = ["-" if seconds is None else show_time(seconds), cells[0]]
    ratios = (row["speed_up_over_dense"], row["speed_up_over_yours"])
    name = row["method"] + ("" if row["overrides"] else " (yours)")
    return [
        escape(name),
        row["schedule"],
        row["topology"],
        *cells,
        *("-" if r is None else f"{r:.2f} x" for r in ratios),
    ]


def _densities(document: dict[str, Any], console: Console) -> None:
    options = [
        f"{row['method']} ({row['schedule']}, {row['topology']}) {show_time(row['iteration_time_s'])}"
        for row in document["other_densities"]
    ]
    if options:
        console.print(
            f"[dim]fastest sparsifier at other densities: {escape('; '.join(options))}[/dim]", highlight=False
        )


def _break_even(document: dict[str, Any]) -> Table:
    """Where methods win: the scenario's own, and those of the ranking."""
    table = _table(("against dense", "left"), ("by bandwidth", "left"), ("by workers", "left"), ("compared on", "left"))
    best = [row["method"] for row in document["ranking"] if row["best_of_method"]][:_RANKED]
    yours = document["yours"] or {"method": ""}
    for row in document["break_even"]:
        if row["method"] in (*best, yours["method"]):
            where = f"{row['schedule']}, {row['topology']}"
            table.add_row(escape(row["method"]), row["bandwidth_words"], row["workers_words"], where)
    return table


def _looked_at(found: dict[str, Any]) -> str:
    parts = [f"{found['run']} of {found['combinations']} combinations were run"]
    if found["refused"]:
        most = next(iter(found["refusals"]))
        parts.append(f"{found['refused']} of them refuse to work together (most often: {most})")
    if found["not_run"]:
        parts.append(f"{found['not_run']} were not, since their method or schedule was behind already")
    text = "; ".join(parts) + "."
    return f"{text} Left out: {'; '.join(found['left_out'])}." if found["left_out"] else text


def _warn(warnings: Iterable[str], console: Console) -> None:
    for warning in warnings:
        console.print(f"[yellow]warning[/yellow] {escape(warning)}", highlight=False)


def _table(*columns: tuple[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name, justify in columns:
        table.add_column(name, justify=justify, overflow="fold")
    return table
