"""What is known of kernels on GPUs, in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simulator.reporting.wording.blocks import Block, Text
from simulator.reporting.wording.tables import Table, columns

_KERNELS = (
    *columns("words", "kernel", "class", "known from", "may be off by"),
    *columns("figure", "GPUs"),
    *columns("time", "1 M", "100 M elements"),
)
_ACCURACY = (
    *columns("words", name=""),
    *columns("figure", gpus="GPUs", kernels="kernels", values="values"),
    *columns("ratio", median_factor="median", worst_factor="worst"),
    *columns("whole_percent", close="within 1.5", within_width="within width"),
)
_LEFT_OUT = {
    "leave_one_gpu_out": "Estimates against GPUs that were left out, by kernel",
    "leave_one_kernel_out": "Estimates against kernels that were left out, by class",
}


def kernels_blocks(document: Mapping[str, Any]) -> Iterator[Block]:
    """A table for each GPU, then the errors of estimates where they were asked for."""
    for name in dict.fromkeys(row["gpu"] for row in document["kernels"]):
        rows = [_kernel(row) for row in document["kernels"] if row["gpu"] == name]
        yield Table(name, _KERNELS, rows)
        yield ""
    for key, title in _LEFT_OUT.items():
        if key in document:
            yield Text(title, "title")
            yield Table.of("", _ACCURACY, document[key])
            yield ""


def _kernel(row: Mapping[str, Any]) -> tuple[Any, ...]:
    made = row["implementation"]
    name = made if made.startswith(row["kernel"]) else row["kernel"]
    return name, row["class"], row["level"], _error(row), row["count"] or None, *row["seconds"]


def _error(row: Mapping[str, Any]) -> str:
    if row["width"] is not None:
        return f"factor {row['width']:.2g}"
    return "not stated" if row["held_out_mape"] is None else f"{100 * row['held_out_mape']:.1f} %"
