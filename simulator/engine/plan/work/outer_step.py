"""What local steps add to an exchange: pseudo-gradients, the outer step, and copies from and to the host."""

from __future__ import annotations

import numpy as np

from simulator.engine.plan.setup import Setup
from simulator.engine.plan.work.kernels import KernelPrices
from simulator.engine.plan.work.update import update_of
from simulator.models.curves import Floats
from simulator.models.exchange import Bucket, Compute
from simulator.models.optimisers import STATE_BYTES
from simulator.schedulers.local_steps import LocalSteps


def price_outer_step(setup: Setup, buckets: tuple[Bucket, ...], pricing: KernelPrices) -> tuple[Floats, Floats] | None:
    """The work of the outer step on each bucket; None for a scheduler without local steps.

    Before it is selected from, seconds (b,): the pseudo-gradient, outer less own parameters, is one element-wise kernel
    per tensor. After it has arrived, (b,): the outer optimiser's step, in proportion to the elements, and for
    differences one more kernel that moves the result to the worker's own parameters. With `host_bandwidth`, the outer
    parameters come from the host before, and the optimiser's state comes and goes, and the parameters go, after.
    """
    scheduler, workload = setup.scheduler, setup.workload
    if not isinstance(scheduler, LocalSteps):
        return None
    differences = scheduler.sends_differences or setup.sparsifier.kind != "dense"
    moved = np.array([pricing.cost(_element_wise(bucket)) if differences else 0.0 for bucket in buckets])
    numel = np.array([float(bucket.numel) for bucket in buckets])
    after = moved.copy()
    states = 0
    if scheduler.outer is not None:
        outer = workload.model_copy(update={"optimiser": scheduler.outer, "update_time": None})
        whole = update_of(outer, setup.gpu, setup.runtime, exchanged=True).optimiser_seconds
        after += (1 + getattr(scheduler, "eager", False)) * whole * numel / numel.sum()
        states = scheduler.outer.states
    before = moved
    if scheduler.host_bandwidth is not None and differences:
        copy = STATE_BYTES * numel / scheduler.host_bandwidth
        before, after = before + copy, after + (1 + 2 * states) * copy
    return before, after


def _element_wise(bucket: Bucket) -> Compute:
    """A kernel per tensor that reads two values and writes one."""
    return Compute("elementwise", bucket.sizes, len(bucket.pieces), "combine")
