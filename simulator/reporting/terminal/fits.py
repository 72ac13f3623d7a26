"""Fits on the terminal: how far they are off from what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from simulator.reporting.terminal.printing import plain_table, print_lines, print_plain
from simulator.reporting.wording.values import format_error
from simulator.units import count_of, show_bytes, show_time

_FIGURES = ("n", "MAPE", "median", "p95", "max", "bias")
_KEYS = ("mape", "median_ape", "p95_ape", "max_ape", "bias")
_LAWS = (("links", "links only"), ("beside", "links and other costs"))


def print_network_fit(document: Mapping[str, Any], console: Console) -> None:
    """Curves with their errors at sizes left out, then laws with their terms and errors."""
    table = _curve_table("curve", "sizes left out (every second one)")
    for curve in document["curves"]:
        low, high = curve["range"]
        first = (escape(curve["id"]), curve["family"], f"{show_bytes(low)} to {show_bytes(high)}")
        table.add_row(*first, *_cells(curve["interpolation"]), _format(curve["repeat_spread"]))
    table.add_row("all", "", "", *_cells(document["interpolation"]), "", style="bold")
    table.add_row("all from 1 MiB", "", "", *_cells(document["interpolation_from_1_mib"]), "")
    print_lines(table, console)
    for law in document["laws"]:
        for name, words in _LAWS:
            if law[name] is not None:
                chosen = ", chosen" if law["chosen"] == name else ""
                print_lines(_law(law[name], f"law: {law['algorithm']}, {words}{chosen}"), console)
                print_plain(f"  {_terms(law[name])}", console)
    _print_problems(document, console)


def print_kernel_fits(document: Mapping[str, Any], console: Console) -> None:
    """Every kernel with its curve and its errors."""
    table = _curve_table("kernel", "timings left out")
    for kernel in document["kernels"]:
        low, high = kernel["range"]
        first = (escape(kernel["kernel"]), kernel["family"], f"{low:.6g} to {high:.6g}")
        table.add_row(*first, *_cells(kernel["interpolation"]), _format(kernel["repeat_spread"]))
        for key, words in (
            ("interpolation_on_cut", "on the curve that is written"),
            ("interpolation_typical", "2^14 to 2^28 elements"),
            ("size_extrapolation", "larger than fitted"),
        ):
            if kernel[key] is not None and kernel[key] != kernel["interpolation"]:
                table.add_row("", words, "", *_cells(kernel[key]), "")
    print_lines(table, console)
    _print_problems(document, console)


def print_iteration_fit(document: Mapping[str, Any], console: Console) -> None:
    """Constants fitted to iterations with their errors, the rows before and after, and what was refused."""
    columns = ("before", "fitted", "error", "by residuals", "by leaving out")
    table = plain_table(("constant",), columns, "fitted to whole iterations")
    for item in document["constants"]:
        values = (_format_constant(item["unit"], item[key]) for key in ("before", "value"))
        errors = (_format(item[key]) for key in ("error", "error_of_residuals", "error_of_set_ups"))
        table.add_row(escape(item["name"]), *values, *errors)
    print_lines(table, console)
    rows = plain_table(("row", "time", ""), ("measured", "before", "after", "left out"), "errors of the rows")
    for row in document["rows"]:
        first = (escape(row["scenario"]), row["quantity"].replace("_", " "), "fitted" if row["fitted"] else "")
        errors = (_format(row[key], sign=True) for key in ("before", "after", "left_out"))
        rows.add_row(*first, show_time(row["measured"]), *errors)
    print_lines(rows, console)
    for item in document["refused"]:
        measure = f": {item['measure']}" if item["measure"] else ""
        print_plain(f"not fitted: {item['name']}: {item['reason']}{measure}", console)
    _print_problems(document, console)


def _format_constant(unit: str, value: float) -> str:
    if unit == "B/s":
        return f"{show_bytes(value)}/s"
    return show_time(value) if unit == "s" else f"{value:.4g}"


def _curve_table(first: str, title: str) -> Table:
    return plain_table((first, "family", "range"), (*_FIGURES, "spread of repeats"), title)


def _law(fit: Mapping[str, Any], title: str) -> Table:
    table = plain_table(("",), _FIGURES, title)
    table.add_row("fitted", *_cells(fit["fitted"]))
    if fit["size_interpolation"] is not None:
        table.add_row("every second size", *_cells(fit["size_interpolation"]))
    table.add_row("larger sizes", *_cells(fit["size_extrapolation"]))
    for count, errors in fit["worker_extrapolation"].items():
        table.add_row(f"{count} workers left out", *_cells(errors))
    for count, errors in fit["node_extrapolation"].items():
        table.add_row(f"{count} nodes left out", *_cells(errors))
    return table


def _terms(fit: Mapping[str, Any]) -> str:
    terms = {name: value for name, value in fit["terms"].items() if value is not None and name not in fit["unseen"]}
    text = ", ".join(f"{name} {_format_term(name, value)}" for name, value in terms.items())
    hops = fit["nccl"].get("hop_latency", {})
    text += "".join(f", hop by {key} {show_time(value)}" for key, value in hops.items())
    steps = fit["nccl"].get("step_overhead", ())
    if steps:
        shown = [steps[0], steps[len(steps) // 2], steps[-1]]
        text += ", a step beyond its bytes " + ", ".join(f"{show_time(t)} at {show_bytes(s)}" for s, t in shown)
    return text + (f"; not visible in these data: {', '.join(fit['unseen'])}" if fit["unseen"] else "")


def _format_term(name: str, value: float) -> str:
    return f"{show_bytes(value)}/s" if name.endswith("bandwidth") else show_time(value)


def _print_problems(document: Mapping[str, Any], console: Console) -> None:
    for warning in document.get("warnings", ()):
        print_plain(f"warning: {warning}", console)
    for note in document["notes"]:
        print_plain(f"note: {note}", console)
    count = len(document.get("problems", ()))
    if count:
        verb = "was" if count == 1 else "were"
        print_plain(f"{count_of(count, 'damaged line')} {verb} left out; the messages above name them", console)


def _cells(errors: Mapping[str, Any] | None) -> list[str]:
    if errors is None:
        return ["0", *["-"] * len(_KEYS)]
    return [str(errors["n"]), *(_format(errors[key], sign=key == "bias") for key in _KEYS)]


def _format(value: float | None, sign: bool = False) -> str:
    return format_error(value, sign, digits=2)
