"""What schedules have in common that shard parameters, gradients or states over GPUs (ZeRO, FSDP)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

from pydantic import Field

from simulator.models.exchange import Bucket
from simulator.models.fusing import fuse
from simulator.models.layers import Layer, block_of
from simulator.models.precision import NumberFormat, Precision
from simulator.models.sharding import Copies, Mesh, NamedWire, WireFormat
from simulator.schedulers.base import FREE, Additions, Costs, Scheduler, buckets_of
from simulator.schedulers.step import Step

Place = Mapping[str, Any]
"""A framework that has a schedule, and the lines that set it, as an entry of `configs/availability.yaml`."""


class Sharded(Scheduler):
    """A schedule whose workers own a part of every tensor each, as ZeRO (Rajbhandari et al. 2020, 1910.02054) does.

    Groups of `shard` GPUs that follow each other hold one copy of the model; the groups are replicas of each other, and
    each GPU exchanges its part of the gradients with its peers in the other groups, by the topology and the sparsifier
    of the scenario (HSDP). With one group nothing is exchanged but within it.

    `in_place`: the part that a GPU owns lies within the whole parameters and gradients, so that it takes no memory of
    its own. `sums_whole`: reductions are all-reduces, of which each GPU then keeps its part. `wires`: what frameworks
    or their users send rounded within groups, which `advise` tries.

    - `shard`: GPUs that hold one copy of the model together; none: all GPUs.
    - `reduce_in`: format in which gradients are reduced and exchanged between replicas (`reduce_dtype`); none: that in
      which gradients travel (`precision` of the workload).
    - `gather_wire`: format to which parameters are rounded for gathers; none: that in which they are computed with.
      qwZ of ZeRO++ (Wang et al. 2023, 2306.10209) is int8, float8 gathers of torchao are fp8.
    - `reduce_wire`: format in which gradients travel to be reduced within a group; none: `reduce_in`, by a
      reduce-scatter. By name: int4, int8, fp8, bf16 (one all-to-all), qgz, loco, sdp4bit (in nodes, then between).
    """

    in_place: ClassVar[bool] = False
    sums_whole: ClassVar[bool] = False
    wires: ClassVar[tuple[Mapping[str, str], ...]] = ()

    shard: int | None = Field(default=None, ge=1, le=2**20)
    reduce_in: NumberFormat | None = None
    gather_wire: WireFormat | None = None
    reduce_wire: NamedWire | None = None

    def with_reductions(self, precision: Precision) -> Precision:
        """A precision in which gradients travel in the format of the reductions.

        Raises an expected-error where the two are different 16-bit formats.
        """
        if self.reduce_in is None:
            return precision
        made = precision.model_copy(update={"travels": self.reduce_in})
        made.refuse_unfit()
        return made

    @property
    def name(self) -> str:
        """The schedule and what of it differs from the default, as texts have it."""
        groups = "" if self.shard is None else f" in groups of {self.shard}"
        reduced = "" if self.reduce_in is None else f", reduced in {self.reduce_in}"
        gathers = f", gathers in {self.gather_wire}" if self.gather_wire else ""
        sent = f", reductions sent as {self.sent_as}" if self.sent_as else ""
        return f"{self.kind}{groups}{self._details}{reduced}{gathers}{sent}"

    @property
    def _details(self) -> str:
        return ""

    @property
    def sent_as(self) -> str | None:
        """How gradients travel to be reduced, where they are rounded for that, in a few words."""
        return self.reduce_wire.described if self.reduce_wire else None

    @property
    def rounded(self) -> str:
        """What is rounded within groups, in a few words: `qgz, int8 gathers`; nothing where all is exact."""
        gathers = f"{self.gather_wire} gathers" if self.gather_wire else ""
        return ", ".join(filter(None, (self.reduce_wire.name if self.reduce_wire else "", gathers)))

    @property
    def exact(self) -> Self:
        """The schedule with nothing rounded for gathers and reductions."""
        return self.model_copy(update={"gather_wire": None, "reduce_wire": None})

    @property
    def additions(self) -> Additions:
        """To the GPU's part: every micro-batch is reduced."""
        return "part"

    @property
    def copies(self) -> Copies:
        """What the framework copies around its collectives."""
        return Copies()

    def plan(self, layers: Sequence[Layer], costs: Costs = FREE) -> list[Bucket]:
        """One bucket per unit, in backward order."""
        return buckets_of(units_of(layers), layers)

    def settings(self, mesh: Mesh) -> Iterator[Self]:
        """The schedule with what its frameworks let users choose on a mesh, rounding left out; by default as it is."""
        yield self

    def places(self, mesh: Mesh) -> Sequence[Place]:
        """Where the schedule exists on a mesh, and the lines to set there; the first place is preferred."""
        return ()

    def gathered_at_once(self, units: Sequence[float]) -> float:
        """The most parameters that are gathered at a time, of units with so many."""
        raise NotImplementedError

    def reduced_at_once(self, units: Sequence[float], passes: int) -> float:
        """The most gradients that wait for their reduction at a time, of units with so many parameters."""
        raise NotImplementedError

    def lay_out(self, step: Step) -> None:
        """Write one iteration down; every member has a loop of its own."""
        raise NotImplementedError


class InBuckets(Sharded):
    """A schedule with whole parameters on every GPU, whose gradients are reduced in buckets of fused tensors."""

    in_place: ClassVar[bool] = True

    def bucket_among(self, copies: int) -> float:
        """Elements with which a bucket is full, where so many GPUs have the same weights."""
        raise NotImplementedError

    def plan(self, layers: Sequence[Layer], costs: Costs = FREE) -> list[Bucket]:
        """Fused buckets in backward order."""
        return buckets_of(fuse(layers, [self.bucket_among(costs.copies)], 1), layers)

    def gathered_at_once(self, units: Sequence[float]) -> float:
        """All parameters, all the time."""
        return float(sum(units))


def zero_place(scheduler: Sharded, **settings: object) -> Place:
    """DeepSpeed with `settings` of its key `zero_optimization`, those without a value left out."""
    zero = {"zero_optimization": {name: value for name, value in settings.items() if value is not None}}
    reduced = {"communication_data_type": scheduler.reduce_in} if scheduler.reduce_in else {}
    line = json.dumps(zero | reduced)[1:-1].replace("{", "{{").replace("}", "}}")
    return {"in": "deepspeed", "lines": [line], "source": "DeepSpeed, docs/_pages/config-json.md, zero_optimization"}


def most_together(units: Sequence[float], count: int) -> float:
    """The most elements of so many units that follow each other.

    >>> most_together([5, 1, 4, 4], 2)
    8.0
    """
    return float(max(sum(units[first : first + count]) for first in range(len(units))))


def units_of(layers: Sequence[Layer]) -> list[list[int]]:
    """Groups of tensor indices that are gathered together, in backward order: the blocks of a model.

    A block is what shares a name up to its number (`model.layers.3.`, `h.7.`), as frameworks wrap one module for each;
    tensors before, between and after the blocks are units of their own. A model without numbered blocks is one unit.
    """
    groups: list[list[int]] = []
    block: str | None = ""
    for place in reversed(range(len(layers))):
        name = block_of(layers[place].name)
        if name != block or not groups:
            groups.append([])
            block = name
        groups[-1].append(place)
    return groups
