"""What the GPUs that share a sharded model do together: gathers, reductions and copies, and what these take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.prices import Prices, price_steps
from simulator.engine.plan.setup import Setup
from simulator.engine.plan.traffic import Uses
from simulator.engine.plan.work.kernels import KernelPrices
from simulator.hardware.kernels import KERNEL_TRAFFIC
from simulator.models.curves import Floats
from simulator.models.exchange import AllGather, Bucket, Communication, Compute, Ints, ReduceScatter
from simulator.models.precision import FP32_BYTES
from simulator.models.sharding import SHARED_LABELS
from simulator.records import Record


class SharedWork(Record):
    """The units (b,) of a sharded model: seconds of a forward pass, of the first backward pass, which has no gradients
    to add to, and of copies; and the collectives of each.

    `steps`: gathers, then reductions, one of each for every unit.
    """

    forward: Floats
    first_backward: Floats
    copy_out: Floats
    copy_into: Floats
    steps: tuple[Communication, ...]


def shared_work(
    setup: Setup, buckets: Sequence[Bucket], layer_forward: Floats, first_backward: Floats, pricing: KernelPrices
) -> SharedWork | None:
    """What the GPUs that share a model do together; None for a job that is not sharded."""
    sharding = setup.sharding
    if sharding is None:
        return None
    numels = [float(sum(sharding.numels[layer] for layer in bucket.layers)) for bucket in buckets]
    copies, computed, reduced = sharding.copies, sharding.computed, sharding.reduced
    moved = KERNEL_TRAFFIC["elementwise"] / FP32_BYTES * pricing.widths.accumulated

    def copy(nbytes: int) -> Floats:
        """Seconds (b,) of copies that move so many bytes for each element; a GPU by itself copies nothing."""
        sizes = [numel * nbytes / moved for numel in numels] if sharding.size > 1 and nbytes else []
        each = [pricing.cost(Compute("elementwise", (size,), 1, "combine")) for size in sizes]
        return np.array(each or [0.0] * len(numels))

    joined = 2 * computed if copies.joined else 0
    return SharedWork(
        forward=np.array([float(layer_forward[list(bucket.layers)].sum()) for bucket in buckets]),
        first_backward=first_backward,
        copy_out=copy(2 * computed if copies.out else 0),
        copy_into=copy(joined + computed + reduced if copies.into else 0),
        steps=(
            *(AllGather(computed * -(-numel // sharding.size)) for numel in numels),
            *(ReduceScatter(reduced * numel) for numel in numels),
        ),
    )


class SharedPrices(Record):
    """What the collectives among the GPUs that share a model take: seconds (b,) by the name of their cost."""

    seconds: dict[str, Floats]
    work: SharedWork
    prices: Prices
    network: NetworkSetup

    def uses(self, calls: Mapping[str, Ints]) -> Uses:
        """Which of the steps take place, where each collective is called so often (b,)."""
        often = np.concatenate([calls.get(name, np.zeros(len(each), int)) for name, each in self.seconds.items()])
        return [(0, place) for place, times in enumerate(often.tolist()) for _ in range(times)]


def price_shared(setup: Setup, work: SharedWork | None) -> SharedPrices | None:
    """Price the collectives of a sharded model; None for a job that is not sharded."""
    if work is None or setup.sharding is None:
        return None
    network = setup.sharding.network
    prices = price_steps(work.steps, (), network)
    called = setup.runtime.negotiation if setup.sharding.size > 1 else 0.0
    return SharedPrices(split_by_name(prices.seconds + called), work, prices, network)


def split_by_name(values: Floats) -> dict[str, Floats]:
    """What belongs to the steps of `SharedWork` as (b,) of each collective, by the name of its cost."""
    return dict(zip(SHARED_LABELS, np.split(values, len(SHARED_LABELS)), strict=True))
