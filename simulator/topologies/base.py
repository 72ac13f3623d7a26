"""The topology family: each primitive as rounds of messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.component import Component, expected
from simulator.hardware.machine import Machine
from simulator.models.curves import Floats
from simulator.models.exchange import (
    PRIMITIVE,
    PRIMITIVES,
    AllGather,
    Bucket,
    Communication,
    Ints,
    Layout,
    Messages,
    PushPull,
    Round,
    send,
)
from simulator.models.limits import refuse_blocks
from simulator.records import replace

Rounds = list[Round]


class Carrier:
    """What makes the rounds of a collective: a topology, or one algorithm of a library.

    A member has a function for each primitive, or `collective` for all that it has none for.
    """

    __slots__ = ()

    def collective(self, primitive: str, nbytes: Floats, layout: Layout) -> Rounds:
        """The rounds of a primitive without a function of its own."""
        raise NotImplementedError

    def all_reduce(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Sum payloads over all workers."""
        return self.collective("all_reduce", nbytes, layout)

    def all_gather(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Gather payloads `nbytes` (b, p), one per worker, at all workers."""
        return self.collective("all_gather", nbytes, layout)

    def reduce_scatter(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Sum payloads over all workers; each worker keeps one part."""
        return self.collective("reduce_scatter", nbytes, layout)

    def broadcast(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Send payloads from worker 0 to all."""
        return self.collective("broadcast", nbytes, layout)


class Subset(NamedTuple):
    """A subset of payloads, as a mask (b,), with the topology that carries it and its name in the result.

    `efficiency` (b,): share of the bandwidth that the chosen protocol leaves to each payload; None: as the fabric's own
    `protocols` say. `start_up` (b,): seconds of a collective that is pipelined, so that its chunks follow each other
    closely: its rounds are then one round with all bytes of every step, limited by the busiest link. None: rounds
    follow each other, each with the start-up of its messages. `reason`: why it was chosen. `beside` (b,): seconds of a
    collective that no link explains; None: nothing but what the fabric states.
    """

    topology: Carrier
    mask: npt.NDArray[np.bool_]
    label: str
    efficiency: Floats | None = None
    start_up: Floats | None = None
    reason: str = ""
    beside: Floats | None = None


class Topology(Component, Carrier, family="topology"):
    """Base of all topologies.

    A primitive takes b payloads at once, `nbytes` (b,), and returns rounds whose `nbytes` are (b, m). `style` tells a
    sparsifier which steps to use: sums and gathers among peers, or push and pull. If `concurrent` is true, several
    exchanges are under way at once and share the links; otherwise they follow each other. `by_machine`: its choices
    depend on what a library sees of the hardware. `sums_on_hosts`: servers sum what arrives on their CPUs.
    """

    style: ClassVar[Literal["collective", "push_pull"]] = "collective"
    concurrent: ClassVar[bool] = False
    by_machine: ClassVar[bool] = False
    sums_on_hosts: ClassVar[bool] = False

    def slots(self, buckets: Sequence[Bucket], names: Sequence[str]) -> list[int]:
        """The number of each bucket by which servers may be chosen; `names` are those of the tensors."""
        return [bucket.index for bucket in buckets]

    def has(self, name: str) -> bool:
        """Whether it has a parameter of this name, and it is on."""
        return bool(getattr(self, name, False))

    def layout(self, nodes: int, gpus_per_node: int) -> Layout:
        """The workers and servers that take part on a cluster."""
        return Layout(nodes, gpus_per_node)

    def choices(self, primitive: str, nbytes: Floats, layout: Layout, machine: Machine | None = None) -> list[Subset]:
        """Which topology carries which payloads: this one carries all, unless it combines others.

        `machine`: what a library sees of the hardware, for those that choose by it.
        """
        return [Subset(self, np.ones(len(nbytes), dtype=bool), self.kind)]

    def collective(self, primitive: str, nbytes: Floats, layout: Layout) -> Rounds:
        """Raise the expected-error for a primitive that the topology does not have."""
        raise self._cannot(primitive.replace("_", "-"))

    def push_pull(self, push: Floats, pull: Floats, layout: Layout, slot: int = 0) -> list[Rounds]:
        """Push payloads to the servers and pull the results: phases, each of which waits for the one before."""
        raise self._cannot("push and pull")

    def as_sent(self, rounds: Rounds) -> Rounds:
        """A method's own rounds of messages as the library of this topology sends them."""
        return rounds

    def rounds(self, step: Communication, layout: Layout, slot: int = 0) -> list[Rounds]:
        """The phases of one step; `slot` is the bucket's number among `slots`, by which servers may be chosen."""
        if isinstance(step, PushPull):
            return self.push_pull(np.array([step.push_nbytes]), np.array([step.pull_nbytes]), layout, slot)
        if isinstance(step, Messages):
            return [self.as_sent(step.rounds(layout))]
        payload = step.sizes(layout.workers)[None] if isinstance(step, AllGather) else np.array([step.nbytes])
        return [getattr(self, PRIMITIVE[type(step)])(payload, layout)]

    @classmethod
    def primitives(cls) -> list[str]:
        """The primitives that it has, by the names of their functions."""
        if cls.collective is not Topology.collective:
            return [*PRIMITIVES]
        return [name for name in (*PRIMITIVES, "push_pull") if getattr(cls, name) is not getattr(Topology, name)]

    def _cannot(self, primitive: str) -> Exception:
        able = ", ".join(self.primitives()) or "no primitive"
        return expected(f"a topology with {primitive}", self.kind, f"{self.kind} has {able}")


def shift(members: Ints) -> Ints:
    """The member that each member sends to on a ring."""
    return np.roll(members, -1)


def ring_pass(members: Ints, nbytes: Floats, repeat: int) -> Rounds:
    """Each member sends `nbytes` (b, 1) or (b, m) to the next one on a ring of `members`, `repeat` times."""
    if len(members) < 2 or repeat < 1:
        return []
    return [send(members, shift(members), nbytes, repeat)]


def ring_gather(members: Ints, sizes: Floats) -> Rounds:
    """Ring all-gather of blocks of `sizes` (b, m): in round t, member i sends the block of member i - t."""
    return pass_blocks(members, sizes, range(len(members) - 1))


def pass_blocks(members: Ints, sizes: Floats, turns: range) -> Rounds:
    """In each of these turns t member i of a ring sends the block of member i - t; raises an expected-error for blocks
    that would fill the memory."""
    if np.all(sizes == sizes[:, :1]):
        return ring_pass(members, sizes[:, :1], len(turns))
    refuse_blocks(sizes.size, len(turns))
    destination = shift(members)
    return [Round(members, destination, np.roll(sizes, t, axis=1)) for t in turns]


def next_in_node(layout: Layout) -> tuple[Ints, Ints]:
    """Every worker, and the next one on its node, in a circle."""
    workers, g = np.arange(layout.workers), layout.gpus_per_node
    return workers, workers - workers % g + (workers + 1) % g


def rings_in_nodes(nbytes: Floats, layout: Layout) -> Rounds:
    """A ring inside every node at once: the reduce-scatter, or the all-gather, of `nbytes` (b,) in each node."""
    g = layout.gpus_per_node
    return [send(*next_in_node(layout), nbytes[:, None] / g, g - 1)] if g > 1 else []


def binomial_levels(members: Ints) -> list[tuple[Ints, Ints]]:
    """Pairs (parents, children) of a binomial broadcast from the first member: ceil(log2 m) levels."""
    count, levels, have = len(members), [], 1
    while have < count:
        senders = np.arange(min(have, count - have))
        levels.append((members[senders], members[senders + have]))
        have *= 2
    return levels


def merge_rounds(groups: Sequence[Rounds]) -> Rounds:
    """The rounds of several groups that run at the same time; repeats are written out if the groups differ in them."""
    if len({tuple(item.repeat for item in rounds) for rounds in groups}) > 1:
        groups = [[replace(item, repeat=1) for item in rounds for _ in range(item.repeat)] for rounds in groups]
    return [
        Round(
            np.concatenate([item.src for item in items]),
            np.concatenate([item.dst for item in items]),
            np.concatenate([item.nbytes for item in items], axis=1),
            items[0].repeat,
        )
        for items in zip(*groups, strict=True)
    ]
