"""What the GPUs that share a sharded model do together: gathers, reductions and copies, and what these take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from simulator.engine.plan.network_setup import NetworkSetup
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
    sum_by_bucket,
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
    SHARD,
    SUM,
    ReduceWire,
    wire_bytes,
)
from simulator.records import Record

Moves = Callable[[Floats, float], Floats]
"""Seconds (b,) of kernels that move so many bytes for each of (b,) elements."""


class AxisPart(NamedTuple):
    """A part of a collective of each unit: the name of its cost in a graph, what people read of it, its steps (b,),
    none of a kernel, and its seconds (b,), which those of steps have once they are priced."""

    name: str
    label: str
    steps: tuple[Communication, ...] = ()
    seconds: Floats = np.zeros(0)


class SharedWork(Record):
    """The units (b,) of a sharded model: seconds of a forward pass, of the first backward pass, which has no gradients
    to add to, and of copies; and the parts of the collectives of each of `groups`: of all GPUs, and of those that have
    the same experts.
    """

    forward: Floats
    first_backward: Floats
    copy_out: Floats
    copy_into: Floats
    groups: tuple[tuple[AxisPart, ...], ...]


def shared_work(
    setup: Setup, buckets: Sequence[Bucket], layer_forward: Floats, first_backward: Floats, pricing: KernelPrices
) -> SharedWork | None:
    """What the GPUs that share a model do together; None for a job that is not sharded."""
    sharding = setup.sharding
    if sharding is None:
        return None
    of_experts, sizes = sharding.experts, np.array(sharding.numels, dtype=float)
    numels, dense = sum_by_bucket(sizes, buckets), sizes
    if of_experts is not None:
        dense = sizes.copy()
        dense[of_experts.tensors] = 0
    shared = sum_by_bucket(dense, buckets)
    frozen = sum_by_bucket(np.array(sharding.frozen), buckets)
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
        forward=sum_by_bucket(layer_forward, buckets),
        first_backward=first_backward,
        copy_out=move(numels + frozen, out),
        copy_into=move(numels, joined + computed + buffered if copies.into else 0),
        groups=(
            (
                *_gather(sharding, shared + frozen, move),
                *(_gather(sharding, shared + frozen, move, in_nodes=True) if copies.in_nodes else ()),
                *_reduce(sharding, shared, move),
            ),
            *([_share_experts(sharding, of_experts, numels - shared)] if of_experts is not None else []),
        ),
    )


def _share_experts(sharding: Sharding, experts: ExpertShards, numels: Floats) -> tuple[AxisPart, ...]:
    """Gathers and reductions of the experts of each unit, among the GPUs that have the same ones."""
    held = (-(-numels // experts.size)).tolist()
    gathers = tuple(AllGather(float(sharding.computed) * each) for each in held)
    label, kind = (REDUCE_WHOLE_EXPERTS, AllReduce) if sharding.sums_whole else (REDUCE_EXPERTS, ReduceScatter)
    reductions = tuple(kind(sharding.reduced * each) for each in numels.tolist())
    return AxisPart("gather", GATHER_EXPERTS, gathers), AxisPart("reduce", label, reductions)


def _gather(sharding: Sharding, numels: Floats, move: Moves, *, in_nodes: bool = False) -> Iterator[AxisPart]:
    """The parts of a gather: rounding of what a GPU has, and the collective, among the GPUs of each node alone or all.

    Rounded parameters are decoded as they are copied out.
    """
    wire, layout = sharding.gather_wire, sharding.network.wiring.layout
    name = "gather_in_nodes" if in_nodes else "gather"
    width = float(sharding.computed) if wire is None else wire_bytes(wire)
    held = -(-numels // (layout.gpus_per_node if in_nodes else sharding.size))
    if wire is not None:
        yield AxisPart(name, ENCODE, seconds=move(held, sharding.computed + width))
    if in_nodes:
        sent = (Messages(GATHER_IN_NODE, (width * each,), all_to_all_in_nodes) for each in held.tolist())
        yield AxisPart(name, GATHER_IN_NODE, tuple(sent))
    else:
        yield AxisPart(name, GATHER, tuple(AllGather(width * each) for each in held.tolist()))


def _reduce(sharding: Sharding, numels: Floats, move: Moves) -> Iterator[AxisPart]:
    """The parts of a reduction: one collective, or rounding, and all-to-alls with sums, which are rounded again."""
    wire, held = sharding.reduce_wire, numels
    if wire is None or sharding.size == 1:
        label, kind = (REDUCE_WHOLE, AllReduce) if sharding.sums_whole else (REDUCE, ReduceScatter)
        yield AxisPart("reduce", label, tuple(kind(sharding.reduced * numel) for numel in numels.tolist()))
        return
    levels, errors = wire.levels(sharding.network.wiring.layout), 2.0 * wire.error_feedback
    widths = [*(level.width for level in levels[1:]), float(sharding.reduced)]
    if wire.format not in HALVES:
        yield AxisPart("reduce", ENCODE, seconds=move(held, sharding.reduced + levels[0].width + errors))
    for level, following in zip(levels, widths, strict=True):
        parts = (held / level.peers).tolist()
        sent = tuple(Messages(level.label, (level.width * n,), level.pattern) for n in parts)
        yield AxisPart("reduce", level.label, sent)
        written = following + errors * (level is not levels[-1])
        yield AxisPart("reduce", SUM, seconds=move(held, level.width + written / level.peers))
        held = held / level.peers


class Calls(NamedTuple):
    """How often steps take place in a collective, by the name of its cost: entry i says that in that of unit `unit[i]`
    step `step[i]` does so `times[i]` times."""

    name: str
    unit: Ints
    step: Ints
    times: Floats


class AxisPrices(Record):
    """What collectives take among GPUs that are not the workers: those that share a model or its experts, or divide its
    layers. `calls`: of each of the `steps`, by what people read of the collective."""

    axis: str
    network: NetworkSetup
    steps: tuple[Communication, ...]
    prices: Prices
    calls: dict[str, Calls]

    def often(self, called: Mapping[str, Ints]) -> Ints:
        """How often each of the steps takes place, where the collectives of each unit are called so often (b,)."""
        made = np.zeros(len(self.steps))
        for name, unit, step, times in self.calls.values():
            if name in called:
                np.add.at(made, step, times * called[name][unit])
        return np.rint(made).astype(int)


def add_up(axes: Sequence[AxisPrices], values: Iterable[Floats]) -> dict[str, Floats]:
    """The sum of what belongs to the steps of each axis (s,), by what people read of the collective: of each unit."""
    made = dict[str, Floats]()
    for axis, each in zip(axes, values, strict=True):
        for label, (_, unit, step, times) in axis.calls.items():
            made[label] = np.bincount(unit, weights=times * each[step]) + made.get(label, np.zeros(1))
    return made


def _steps_of(parts: Sequence[AxisPart]) -> tuple[Communication, ...]:
    return tuple(step for part in parts for step in part.steps)


def _groups_of(setup: Setup, work: SharedWork | None) -> list[tuple[tuple[AxisPart, ...], Sharding | ExpertShards]]:
    """The groups of GPUs that share a model, with the parts of their collectives; none of a job that is not sharded."""
    sharding = setup.sharding
    groups = (sharding, sharding.experts) if sharding else ()
    return [(parts, group) for parts, group in zip(work.groups if work else (), groups, strict=False) if group]


def shared_lanes(setup: Setup, work: SharedWork | None) -> list[Lane]:
    """What `price_shared` needs the prices of: the collectives of a sharded model, and of experts that fewer share."""
    return [Lane(_steps_of(parts), (), group.network) for parts, group in _groups_of(setup, work)]


def price_shared(
    setup: Setup, work: SharedWork | None, priced: Iterator[Prices]
) -> tuple[list[AxisPrices], list[AxisPart]]:
    """The collectives of a sharded model with the next of the prices, and all of their parts."""
    axes, made = list[AxisPrices](), list[AxisPart]()
    for parts, group in _groups_of(setup, work):
        steps, prices, own, calls, first = _steps_of(parts), next(priced), list[AxisPart](), dict[str, Calls](), 0
        # Units need not have experts.
        carries = np.array([bytes_of_step(step, 1)[0] > 0 for step in steps])
        called = setup.runtime.negotiation if group.size > 1 else 0.0
        seconds = np.where(carries, prices.seconds + called, 0.0)
        for part in parts:
            if part.steps:
                here, first = np.arange(first, first + len(part.steps)), first + len(part.steps)
                calls[part.label] = Calls(part.name, here - here[0], here, carries[here].astype(float))
                own.append(part._replace(seconds=seconds[here]))
            else:
                own.append(part)
        axes.append(AxisPrices(SHARD, group.network, steps, prices, calls))
        made += _in_chunks(own, setup.sharding.reduce_wire if setup.sharding else None)
    return axes, made


def _in_chunks(parts: Sequence[AxisPart], wire: ReduceWire | None) -> list[AxisPart]:
    """The parts where reductions are sent in chunks: of all but the longest of theirs one chunk only is seen."""
    reduced, chunks = [part for part in parts if part.name == "reduce"], wire.chunks if wire else 1
    longest = np.argmax([part.seconds for part in reduced], axis=0)
    seen = (np.where(longest == number, part.seconds, part.seconds / chunks) for number, part in enumerate(reduced))
    return [part._replace(seconds=next(seen)) if part.name == "reduce" else part for part in parts]
