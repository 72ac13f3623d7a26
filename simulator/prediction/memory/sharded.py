"""What a sharded model needs beside the part that a GPU owns: gathered units, and gradients before a reduction."""

from __future__ import annotations

import math
from collections.abc import Iterator

from simulator.engine.plan.plan import Plan
from simulator.models.sharding import HALVES, wire_bytes
from simulator.prediction.memory.parts import MemoryPart
from simulator.schedulers.sharded import Sharded


def sharded_parts(plan: Plan) -> Iterator[MemoryPart]:
    """Whole parameters that are there at a time, and whole gradients."""
    scheduler, sharding = plan.setup.scheduler, plan.setup.sharding
    if not isinstance(scheduler, Sharded) or sharding is None or sharding.size == 1:
        return
    gathers, wire, layout = scheduler.gather_wire, scheduler.reduce_wire, sharding.network.wiring.layout
    units = [sum(sharding.numels[layer] for layer in bucket.layers) for bucket in plan.work.buckets]
    owned = math.fsum(numel / size for numel, size in zip(sharding.numels, sharding.sizes, strict=True))
    kept = 0.0
    if scheduler.in_place and sharding.computed == sharding.reduced:
        kept = owned
    copies, largest = scheduler.copies, max(units)
    held, waiting = scheduler.gathered_at_once(units), scheduler.reduced_at_once(units, plan.work.passes.count)
    width, sent = sharding.computed, sharding.reduced
    how = f"{width} B for each of {held:,.0f} parameters that are gathered at a time"
    buffer = width * copies.out if gathers is None else wire_bytes(gathers)
    second = sum(units) / layout.gpus_per_node if copies.in_nodes else 0.0
    how += f", and for each of {second:,.0f} of a second copy" if second else ""
    yield _with_buffer("gathered", width * (held - kept + second), buffer * largest, how)
    kept = kept if waiting == held else 0.0
    if not copies.into:  # they are made in the buffer of their reduction, which holds the GPU's part, too
        kept, width = owned, sent
    how = f"{width} B for each of {waiting:,.0f} gradients before they are reduced"
    buffer, errors = float(sent * copies.into), 0.0
    if wire is not None:  # what is sent and what arrives
        buffer = buffer * (wire.format not in HALVES) + 2 * wire_bytes(wire.format, wire.group)
        errors = wire.error_bytes(layout)
        how += f", {errors:g} B of errors for each parameter" if errors else ""
    yield _with_buffer("reduced", width * (waiting - kept) + errors * sum(units), buffer * largest, how)


def _with_buffer(name: str, nbytes: float, buffer: float, how: str) -> MemoryPart:
    """A part with the buffer of a collective, of which there may be none or two."""
    how += ", and a buffer of the collective" if buffer else ""
    return MemoryPart(name, nbytes + buffer, nbytes, nbytes + 2 * buffer, how)
