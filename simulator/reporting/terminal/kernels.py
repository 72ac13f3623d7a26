"""What is known of kernels on GPUs, on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from simulator.reporting.terminal.printing import plain_table, print_lines, print_title
from simulator.units import show_time


def print_kernels(document: Mapping[str, Any], console: Console) -> None:
    """A table for each GPU, then the errors of estimates where they were asked for."""
    for name in dict.fromkeys(row["gpu"] for row in document["kernels"]):
        table = plain_table(("kernel", "class", "known from", "may be off by"), ("GPUs", "1 M", "100 M elements"), name)
        for row in document["kernels"]:
            if row["gpu"] == name:
                few, many = (show_time(seconds) for seconds in row["seconds"])
                table.add_row(
                    escape(row["implementation"] if row["implementation"].startswith(row["kernel"]) else row["kernel"]),
                    row["class"], row["level"], _error(row), str(row["count"] or "-"), few, many,
                )  # fmt: skip
        print_lines(table, console)
        console.print()
    for key, title in (
        ("leave_one_gpu_out", "Estimates against GPUs that were left out, by kernel"),
        ("leave_one_kernel_out", "Estimates against kernels that were left out, by class"),
    ):
        if key in document:
            _print_accuracy(document[key], title, console)


def _error(row: Mapping[str, Any]) -> str:
    if row["width"] is not None:
        return f"factor {row['width']:.2g}"
    return "not stated" if row["held_out_mape"] is None else f"{100 * row['held_out_mape']:.1f} %"


def _print_accuracy(rows: Sequence[Mapping[str, Any]], title: str, console: Console) -> None:
    print_title(title, console)
    table = plain_table(("",), ("GPUs", "kernels", "values", "median", "worst", "within 1.5", "within width"))
    for row in rows:
        table.add_row(
            escape(row["name"]), str(row["gpus"]), str(row["kernels"]), str(row["values"]),
            f"{row['median_factor']:.2f}", f"{row['worst_factor']:.2f}",
            f"{100 * row['close']:.0f} %", f"{100 * row['within_width']:.0f} %",
        )  # fmt: skip
    print_lines(table, console)
    console.print()
