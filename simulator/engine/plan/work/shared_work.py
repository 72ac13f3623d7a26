"""What the GPUs that share a sharded model do together: gathers, reductions and copies, and what these take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.phases import Uses
from simulator.engine.plan.prices import Lane, Prices
from simulator.engine.plan.setup import ExpertShards, Setup, Sharding
from simulator.engine.plan.work.kernels import KernelPrices
from simulator.hardware.kernels import KERNEL_TRAFFIC
from simulator.models.curves import Floats
from simulator.models.exchange import (
    AllGather,
    AllReduce,
    Bucket,
    Communication,
    Compute,
    Ints,
    Messages,
    ReduceScatter,
    all_to_all_in_nodes,
    bytes_of_step,
)
from simulator.models.precision import FP32_BYTES
from simulator.models.sharding import (
    ENCODE,
    GATHER,
    GATHER_EXPERTS,
    GATHER_IN_NODE,
    HALVES,
    REDUCE,
    REDUCE_EXPERTS,
    REDUCE_WHOLE,
    REDUCE_WHOLE_EXPERTS,
    SUM,
    wire_bytes,
)
from simulator.records import Record, replace

Moves = Callable[[Floats, float], Floats]
"""Seconds (b,) of kernels that move so many bytes for each of (b,) elements."""


class SharedPart(NamedTuple):
    """A part of a collective of each unit: what it is called, its steps (b,), none of a kernel, and its seconds (b,),
    which those of steps have once they are priced."""

    label: str
    steps: tuple[Communication, ...] = ()
    seconds: Floats = np.zeros(0)


Parts = dict[str, tuple[SharedPart, ...]]
"""The parts of each collective, by the name of its cost in a graph."""


class SharedWork(Record):
    """The units (b,) of a sharded model: seconds of a forward pass, of the first backward pass, which has no gradients
    to add to, and of copies; and the `parts` of each collective, `expert_parts` of what is done with experts apart.
    """

    forward: Floats
    first_backward: Floats
    copy_out: Floats
    copy_into: Floats
    parts: Parts
    expert_parts: Parts | None = None


def shared_work(
    setup: Setup, buckets: Sequence[Bucket], layer_forward: Floats, first_backward: Floats, pricing: KernelPrices
) -> SharedWork | None:
    """What the GPUs that share a model do together; None for a job that is not sharded."""
    sharding = setup.sharding
    if sharding is None:
        return None
    of_experts, sizes = sharding.experts, np.array(sharding.numels, dtype=float)
    numels, dense = _add_up(sizes, buckets), sizes
    if of_experts is not None:
        dense = sizes.copy()
        dense[of_experts.tensors] = 0
    shared = _add_up(dense, buckets)
    copies, computed, reduced = sharding.copies, sharding.computed, sharding.reduced
    moved = KERNEL_TRAFFIC["elementwise"] / FP32_BYTES * pricing.widths.accumulated

    def move(counts: Floats, nbytes: float) -> Floats:
        """Seconds (b,) of a kernel that moves so many bytes for each of so many elements; none on one GPU."""
        if sharding.size == 1 or not nbytes:
            return np.zeros(len(counts))
        sizes = (counts * nbytes / moved).tolist()
        return np.array([pricing.cost(Compute("elementwise", (size,), 1, "combine")) for size in sizes])

    gathers, wire, joined = sharding.gather_wire, sharding.reduce_wire, 2 * computed if copies.joined else 0
    out = wire_bytes(gathers) + computed if gathers else 2.0 * computed * copies.out
    buffered = wire_bytes(wire.format) if wire is not None and wire.format in HALVES else reduced
    return SharedWork(
        forward=np.array([float(layer_forward[list(bucket.layers)].sum()) for bucket in buckets]),
        first_backward=first_backward,
        copy_out=move(numels, out),
        copy_into=move(numels, joined + computed + buffered if copies.into else 0),
        parts={
            "gather": tuple(_gather(sharding, shared, move)),
            **({"gather_in_nodes": tuple(_gather(sharding, shared, move, in_nodes=True))} if copies.in_nodes else {}),
            "reduce": tuple(_reduce(sharding, shared, move)),
        },
        expert_parts=_share_experts(sharding, of_experts, numels - shared) if of_experts is not None else None,
    )


def _add_up(sizes: Floats, buckets: Sequence[Bucket]) -> Floats:
    return np.array([float(sizes[list(bucket.layers)].sum()) for bucket in buckets])


def _share_experts(sharding: Sharding, experts: ExpertShards, numels: Floats) -> Parts:
    """Gathers and reductions of the experts of each unit, among the GPUs that have the same ones."""
    held = (-(-numels // experts.size)).tolist()
    gathers = tuple(AllGather(float(sharding.computed) * each) for each in held)
    label, kind = (REDUCE_WHOLE_EXPERTS, AllReduce) if sharding.sums_whole else (REDUCE_EXPERTS, ReduceScatter)
    reductions = tuple(kind(sharding.reduced * each) for each in numels.tolist())
    return {
        "gather": (SharedPart(GATHER_EXPERTS, gathers),),
        "reduce": (SharedPart(label, reductions),),
    }


def _gather(sharding: Sharding, numels: Floats, move: Moves, *, in_nodes: bool = False) -> Iterator[SharedPart]:
    """The parts of a gather: rounding of what a GPU has, and the collective, among the GPUs of each node alone or all.

    Rounded parameters are decoded as they are copied out.
    """
    wire, layout = sharding.gather_wire, sharding.network.wiring.layout
    width = float(sharding.computed) if wire is None else wire_bytes(wire)
    held = -(-numels // (layout.gpus_per_node if in_nodes else sharding.size))
    if wire is not None:
        yield SharedPart(ENCODE, seconds=move(held, sharding.computed + width))
    if in_nodes:
        sent = (Messages(GATHER_IN_NODE, (width * each,), all_to_all_in_nodes) for each in held.tolist())
        yield SharedPart(GATHER_IN_NODE, tuple(sent))
    else:
        yield SharedPart(GATHER, tuple(AllGather(width * each) for each in held.tolist()))


def _reduce(sharding: Sharding, numels: Floats, move: Moves) -> Iterator[SharedPart]:
    """The parts of a reduction: one collective, or rounding, and all-to-alls with sums, which are rounded again."""
    wire, held = sharding.reduce_wire, numels
    if wire is None or sharding.size == 1:
        label, kind = (REDUCE_WHOLE, AllReduce) if sharding.sums_whole else (REDUCE, ReduceScatter)
        yield SharedPart(label, tuple(kind(sharding.reduced * numel) for numel in numels.tolist()))
        return
    levels, errors = wire.levels(sharding.network.wiring.layout), 2.0 * wire.error_feedback
    widths = [*(level.width for level in levels[1:]), float(sharding.reduced)]
    if wire.format not in HALVES:
        yield SharedPart(ENCODE, seconds=move(held, sharding.reduced + levels[0].width + errors))
    for level, following in zip(levels, widths, strict=True):
        parts = (held / level.peers).tolist()
        yield SharedPart(level.label, tuple(Messages(level.label, (level.width * n,), level.pattern) for n in parts))
        written = following + errors * (level is not levels[-1])
        yield SharedPart(SUM, seconds=move(held, level.width + written / level.peers))
        held = held / level.peers


class SharedPrices(Record):
    """What the collectives among the GPUs that share a model take: the parts of each by the name of its cost.
    `experts`: of those that have the same experts, where fewer GPUs share these."""

    parts: Parts
    prices: Prices
    network: NetworkSetup
    experts: SharedPrices | None = None

    @property
    def steps(self) -> tuple[Communication, ...]:
        """The communication steps of all parts, one for each unit."""
        return _steps_of(self.parts)

    def by_label(self, values: Floats) -> dict[str, Floats]:
        """What belongs to the steps as (b,) of each part that communicates."""
        labels = [part.label for parts in self.parts.values() for part in parts if part.steps]
        return dict(zip(labels, np.split(values, len(labels)), strict=True))

    def uses(self, calls: Mapping[str, Ints]) -> Uses:
        """Which of the steps take place, where each collective is called so often (b,)."""
        sent = [(name, len(part.steps)) for name, parts in self.parts.items() for part in parts if part.steps]
        often = np.concatenate([calls.get(name, np.zeros(units, int)) for name, units in sent])
        often *= _carries(self.steps)
        return [(0, place) for place, times in enumerate(often.tolist()) for _ in range(times)]


def _steps_of(parts: Parts) -> tuple[Communication, ...]:
    return tuple(step for each in parts.values() for part in each for step in part.steps)


def _carries(steps: Sequence[Communication]) -> npt.NDArray[np.bool_]:
    """Whether each of the steps has anything to send: units need not have experts."""
    return np.array([bytes_of_step(step, 1)[0] > 0 for step in steps])


def shared_lanes(setup: Setup, work: SharedWork | None) -> list[Lane]:
    """What `price_shared` needs the prices of: the collectives of a sharded model, and of experts that fewer share."""
    if work is None or setup.sharding is None:
        return []
    groups = [(work.parts, setup.sharding), (work.expert_parts, setup.sharding.experts)]
    return [Lane(_steps_of(parts), (), group.network) for parts, group in groups if parts is not None and group]


def price_shared(setup: Setup, work: SharedWork | None, priced: Iterator[Prices]) -> SharedPrices | None:
    """The collectives of a sharded model with the next of the prices; None for a job that is not sharded."""
    if work is None or setup.sharding is None:
        return None
    made, experts = _priced(setup, work.parts, setup.sharding, next(priced)), setup.sharding.experts
    if experts is None or work.expert_parts is None:
        return made
    return replace(made, experts=_priced(setup, work.expert_parts, experts, next(priced)))


def _priced(setup: Setup, parts: Parts, group: Sharding | ExpertShards, prices: Prices) -> SharedPrices:
    steps, size, network = _steps_of(parts), group.size, group.network
    called = setup.runtime.negotiation if size > 1 else 0.0
    seconds = np.where(_carries(steps), prices.seconds + called, 0.0)
    priced = iter(np.split(seconds, sum(len(part.steps) > 0 for each in parts.values() for part in each)))
    parts = {
        name: tuple(part._replace(seconds=next(priced)) if part.steps else part for part in each)
        for name, each in parts.items()
    }
    if setup.sharding is not None and (wire := setup.sharding.reduce_wire) is not None and wire.chunks > 1:
        longest = np.argmax([part.seconds for part in parts["reduce"]], axis=0)
        parts["reduce"] = tuple(
            part._replace(seconds=np.where(longest == number, part.seconds, part.seconds / wire.chunks))
            for number, part in enumerate(parts["reduce"])
        )
    return SharedPrices(parts, prices, network)


def sum_parts(parts: Sequence[SharedPart]) -> Floats:
    """Seconds (b,) of a collective with all of its parts."""
    return np.asarray(np.sum([part.seconds for part in parts], axis=0))
