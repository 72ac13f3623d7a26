"""What a sharded model needs beside the part that a GPU owns: gathered units, and gradients before a reduction."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.engine.plan.plan import Plan
from simulator.models.layers import Workload
from simulator.prediction.memory.parts import MemoryPart, exact
from simulator.schedulers.sharded import Sharded


def sharded_parts(workload: Workload, plan: Plan) -> Iterator[MemoryPart]:
    """Whole parameters that are there at a time, and whole gradients."""
    scheduler, precision = plan.setup.scheduler, workload.precision
    if not isinstance(scheduler, Sharded) or plan.setup.sharding is None or plan.setup.sharding.size == 1:
        return
    units = [sum(workload.layers[layer].numel for layer in bucket.layers) for bucket in plan.work.buckets]
    held = scheduler.gathered_at_once(units)
    how = f"{precision.gradient_bytes} B per parameter of what is gathered at a time"
    buffers = max(units) * precision.gradient_bytes if scheduler.copies.out else 0.0
    own = sum(units) / plan.setup.sharding.size if scheduler.in_place else 0.0
    kept = own if precision.sent_as == precision.gradients else 0.0
    nbytes = float(precision.gradient_bytes * (held - kept))
    yield MemoryPart("gathered", nbytes + buffers, nbytes, nbytes + 2 * buffers, f"{how}, and a buffer of the gather")
    whole = scheduler.reduced_at_once(units, workload.micro_batches)
    width = precision.gradient_bytes + (precision.value_bytes if scheduler.copies.into else 0)
    yield exact("reduced", float(width * whole), f"{width} B per parameter of the gradients before their reduction")
