"""Single collectives in blocks."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.prediction.collective import CollectiveTimes
from simulator.reporting.wording.blocks import Block, Table, Text, columns, texts
from simulator.units import count_of, show_memory, show_time

_COLUMNS = (
    *columns("unbroken", "payload"),
    *columns("time", "time"),
    *columns("unbroken", "90 % interval", "carried by"),
    *columns("giga", algorithm_bandwidth="algbw", bus_bandwidth="busbw"),
)


def collective_blocks(answer: CollectiveTimes) -> Iterator[Block]:
    """A table over payloads, why the algorithm of a single one was chosen, and what the times rest on."""
    nodes, gpus = count_of(answer.nodes, "node"), count_of(answer.gpus_per_node, "GPU")
    yield Text(f"{answer.kind} on {answer.network}, {nodes} of {gpus} ({answer.device})", "title")
    rows = []
    for item in answer.times:
        ends = " to ".join(map(show_time, item.interval))
        carrier = f"{item.algorithm} {item.protocol}".strip()
        known = ends, carrier, item.algorithm_bandwidth, item.bus_bandwidth
        rows.append((show_memory(item.payload), item.time, *known))
    yield Table("", _COLUMNS, rows)
    measured = sum(item.source == "measured" for item in answer.times)
    from_curve = (
        f" {count_of(measured, 'time')} from the measured curve, the others from the links." if measured else ""
    )
    yield f"algbw, busbw: GB/s.{from_curve}"
    if len(answer.times) == 1 and (reason := answer.times[0].reason):
        yield f"Why {answer.times[0].algorithm} {answer.times[0].protocol}: {reason}."
    yield ""
    yield Text("It rests on", "title")
    yield from texts(answer.assumed, "item")
