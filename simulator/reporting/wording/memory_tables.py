"""The GPU memory of a worker: a line, and in blocks a table of its parts and whether it fits."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.prediction.memory.parts import PART_LABELS
from simulator.prediction.result_parts import MemoryUse
from simulator.records import replace
from simulator.reporting.wording.blocks import Block
from simulator.reporting.wording.tables import Table, columns
from simulator.units import show_memory

_LARGEST = 2
"""Parts that the line names."""
_COLUMNS = (
    *columns("text", part="memory of a worker"),
    *columns("figure", "size", "least", "most"),
    *columns("text", "how"),
)


def describe_memory(memory: MemoryUse) -> str:
    """The memory in a line: the sum and what there is; what is not known, or else the largest parts."""
    text = show_memory(memory.total)
    if memory.capacity is not None:
        text += f" of {show_memory(memory.capacity)}"
    if memory.not_known:
        return f"{text}, without {' and '.join(memory.not_known)}, which are not known"
    known = sorted(((nbytes, name) for name, nbytes in memory.parts.items() if nbytes), reverse=True)
    return f"{text}: {', '.join(f'{PART_LABELS[name]} {show_memory(nbytes)}' for nbytes, name in known[:_LARGEST])}"


def memory_table(memory: MemoryUse) -> Table:
    """Every part with its size, the range that it may be in, and how it is computed; then the sum."""
    rows = [
        (PART_LABELS[part.name], *_sizes(part.nbytes, part.least, part.most), part.how) for part in memory.details or ()
    ]
    total, capacity = memory.total, memory.capacity
    there = "how much the GPU has is not stated" if capacity is None else f"{memory.gpu} has {show_memory(capacity)}"
    sums = ("sum", *_sizes(total, memory.least, memory.most), there)
    return Table("Memory", _COLUMNS, [*rows, sums], note=_describe_fit(memory))


def memory_blocks(memory: MemoryUse) -> Iterator[Block]:
    """Every part with its size, range and how it is computed, and the sum; then whether it fits."""
    table = memory_table(memory)
    parts = replace(_COLUMNS[0], kind="unbroken")
    yield replace(table, title="", columns=(parts, *_COLUMNS[1:]))
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
