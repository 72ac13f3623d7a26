"""Single collectives in blocks."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.prediction.collective import CollectiveTimes
from simulator.reporting.wording.blocks import Block, Text, texts
from simulator.reporting.wording.tables import Table, columns
from simulator.units import count_of, show_memory, show_time

_COLUMNS = (
    *columns("unbroken", "payload"),
    *columns("time", "time"),
    *columns("unbroken", "90 % interval", "algorithm", "protocol"),
    *columns("giga", algorithm_bandwidth="algbw GB/s", bus_bandwidth="busbw GB/s"),
    *columns("words", source="known from"),
)


def collective_blocks(answer: CollectiveTimes) -> Iterator[Block]:
    """A table over payloads, why the algorithm of a single one was chosen, and what the times rest on."""
    nodes, gpus = count_of(answer.nodes, "node"), count_of(answer.gpus_per_node, "GPU")
    yield Text(f"{answer.kind} on {answer.network}, {nodes} of {gpus} ({answer.device})", "title")
    rows = []
    for item in answer.times:
        low, high = item.interval
        ends = f"{show_time(low)} to {show_time(high)}"
        known = item.algorithm, item.protocol or None, item.algorithm_bandwidth, item.bus_bandwidth, item.source
        rows.append((show_memory(item.payload), item.time, ends, *known))
    yield Table("", _COLUMNS, rows)
    if len(answer.times) == 1 and (reason := answer.times[0].reason):
        yield f"Why {answer.times[0].algorithm} {answer.times[0].protocol}: {reason}."
    yield ""
    yield Text("It rests on", "title")
    yield from texts(answer.assumed, "item")
