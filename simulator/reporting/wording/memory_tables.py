"""The GPU memory of a worker in words: a line, a sentence on whether it fits, and a table of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulator.prediction.memory.parts import PART_LABELS
from simulator.reporting.wording.tables import Column, Table
from simulator.units import show_memory

_LARGEST = 3
"""Parts that the line names."""
_COLUMNS = (
    Column("part", "memory of a worker"),
    Column("size", "size", "figure"),
    Column("least", "least", "figure"),
    Column("most", "most", "figure"),
    Column("how", "how"),
)


def describe_memory(memory: Mapping[str, Any]) -> str:
    """The memory in a line: the sum, what there is, what is not known, and the largest parts."""
    text = show_memory(memory["total_bytes"])
    if memory["capacity_bytes"] is not None:
        text += f" of {show_memory(memory['capacity_bytes'])}"
    if memory["not_known"]:
        text += f" without the {' and '.join(memory['not_known'])}, which are not known"
    known = sorted(((nbytes or 0.0, name) for name, nbytes in memory["parts_bytes"].items()), reverse=True)
    parts = [f"{PART_LABELS[name]} {show_memory(nbytes)}" for nbytes, name in known[:_LARGEST] if nbytes]
    return f"{text}: {', '.join(parts)}" + (", ..." if sum(nbytes > 0 for nbytes, _ in known) > _LARGEST else "")


def memory_table(memory: Mapping[str, Any]) -> Table:
    """Every part with its size, the range that it may be in, and how it is computed; then the sum."""
    rows = [
        (PART_LABELS[part["name"]], *_sizes(part["bytes"], part["least_bytes"], part["most_bytes"]), part["how"])
        for part in memory["parts"]
    ]
    total, capacity = memory["total_bytes"], memory["capacity_bytes"]
    there = "how much the GPU has is not stated" if capacity is None else f"{memory['gpu']} has {show_memory(capacity)}"
    sums = ("sum", *_sizes(total, memory["least_bytes"], memory["most_bytes"]), there)
    return Table("Memory", _COLUMNS, [*rows, sums], note=_describe_fit(memory))


def _sizes(nbytes: float | None, least: float, most: float) -> tuple[str, str, str]:
    """A size and its range; no range where it is exact."""
    if nbytes is None:
        return "not known", "", ""
    if least == most:
        return show_memory(nbytes), "", ""
    return show_memory(nbytes), show_memory(least), show_memory(most)


def _describe_fit(memory: Mapping[str, Any]) -> str:
    """Whether the sum fits, in a sentence."""
    if memory["fits"]:
        return "It fits."
    if memory["fits"] is False:
        return "It does not fit, even where every part is as small as it may be."
    if memory["capacity_bytes"] is None:
        return "Whether it fits is not known: give `memory_size` of the GPU."
    if memory["total_bytes"] <= memory["capacity_bytes"]:
        return f"What is known fits; the {' and '.join(memory['not_known'])} are not known."
    return "It may not fit: the sum is too large, and the least that is needed is not."
