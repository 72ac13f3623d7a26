"""Fits on the terminal and as figures: measured against fitted, and how far off."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from simulator.calibration.fits.accuracy import FittedLine
from simulator.units import show_bytes, show_time

_FIGURES = ("n", "MAPE", "median", "p95", "max", "bias")
_KEYS = ("mape", "median_ape", "p95_ape", "max_ape", "bias")


def fit_figure(lines: Sequence[FittedLine], path: Path, size_label: str) -> None:
    """Measured (dots) and fitted (lines) over the size, and the relative error beside it; format by the file's name.

    Raises InputError where the file can't be written.
    """
    from simulator.reporting.figures.style.picture import Picture
    from simulator.reporting.figures.style.style import GREY, axis_seconds, axis_share, looks, rules, save

    with rules():
        canvas = Picture(figsize=(10, 4.3), layout="constrained")
        left, right = canvas.subplots(1, 2)
        styles = looks([line.label for line in lines])
        for line in lines:
            look = styles[line.label]
            left.plot(line.sizes, line.measured, ".", color=look.colour, markersize=4)
            left.plot(line.sizes, line.fitted, "-", color=look.colour, linewidth=1, label=line.label)
            right.plot(line.sizes, line.fitted / line.measured - 1, ".", color=look.colour, markersize=4)
        left.set_yscale("log")
        axis_seconds(left, "time")
        left.set_title("dots: measured, lines: fitted")
        left.legend()
        right.axhline(0, color=GREY, linewidth=0.8)
        axis_share(right, "fitted / measured - 1")
        for axes in (left, right):
            axes.set_xscale("log", base=2)
            axes.set_xlabel(size_label)
    save(canvas, path)


def print_network_fit(document: dict[str, Any], console: Console) -> None:
    """Curves with their errors at sizes left out, then laws with their terms and errors."""
    table = _table("curve", "family", "range")
    for curve in document["curves"]:
        low, high = curve["range"]
        first = (escape(curve["id"]), curve["family"], f"{show_bytes(low)} to {show_bytes(high)}")
        table.add_row(*first, *_cells(curve["interpolation"]), _percent(curve["repeat_spread"]))
    table.add_row("all", "", "", *_cells(document["interpolation"]), "", style="bold")
    table.add_row("all from 1 MiB", "", "", *_cells(document["interpolation_from_1_mib"]), "")
    table.title = "sizes left out (every second one)"
    console.print(table, highlight=False)
    for law in document["laws"]:
        for name, words in (("links", "links alone"), ("beside", "and beside them")):
            if law[name] is None:
                continue
            chosen = ", chosen" if law["chosen"] == name else ""
            console.print(_law(law[name], f"law: {law['algorithm']}, {words}{chosen}"), highlight=False)
            console.print(f"  {_terms(law[name])}", highlight=False)
    _print_problems(document, console)


def print_kernel_fits(document: dict[str, Any], console: Console) -> None:
    """Every kernel with its curve and its errors."""
    table = _table("kernel", "family", "range")
    for kernel in document["kernels"]:
        low, high = kernel["range"]
        first = (escape(kernel["kernel"]), kernel["family"], f"{low:.6g} to {high:.6g}")
        table.add_row(*first, *_cells(kernel["interpolation"]), _percent(kernel["repeat_spread"]))
        for key, words in (
            ("interpolation_on_cut", "on the curve written"),
            ("interpolation_typical", "2^14 to 2^28 elements"),
            ("size_extrapolation", "larger than fitted"),
        ):
            if kernel[key] is not None and kernel[key] != kernel["interpolation"]:
                table.add_row("", words, "", *_cells(kernel[key]), "")
    table.title = "timings left out"
    console.print(table, highlight=False)
    _print_problems(document, console)


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, title_justify="left")
    for name in names:
        table.add_column(name, overflow="fold")
    for name in (*_FIGURES, "repeats spread"):
        table.add_column(name, justify="right")
    return table


def _law(fit: dict[str, Any], title: str) -> Table:
    table = Table(box=None, pad_edge=False, title_justify="left", title=title)
    for name in ("", *_FIGURES):
        table.add_column(name, justify="right" if name else "left")
    table.add_row("fitted", *_cells(fit["fitted"]))
    table.add_row("sizes beyond", *_cells(fit["size_extrapolation"]))
    for count, errors in fit["worker_extrapolation"].items():
        table.add_row(f"{count} workers left out", *_cells(errors))
    return table


def _terms(fit: dict[str, Any]) -> str:
    seen = {name: value for name, value in fit["terms"].items() if value is not None and name not in fit["unseen"]}
    shown = [f"{name} {_term(name, value)}" for name, value in seen.items()]
    return ", ".join(shown) + (f"; not seen in these data: {', '.join(fit['unseen'])}" if fit["unseen"] else "")


def _print_problems(document: dict[str, Any], console: Console) -> None:
    for note in document["notes"]:
        console.print(f"note: {escape(note)}", highlight=False)
    count = len(document["problems"])
    if count:
        console.print(f"{count} damaged lines were left out; they are named above", highlight=False)


def _cells(errors: dict[str, Any] | None) -> list[str]:
    if errors is None:
        return ["0", "-", "-", "-", "-", "-"]
    return [str(errors["n"]), *(_percent(errors[key], sign=key == "bias") for key in _KEYS)]


def _term(name: str, value: float) -> str:
    return f"{show_bytes(value)}/s" if name.endswith("bandwidth") else show_time(value)


def _percent(value: float | None, sign: bool = False) -> str:
    if value is None or not np.isfinite(value):
        return "-"
    return f"{100 * value:+.2f} %" if sign else f"{100 * value:.2f} %"
