"""The scheduler family: how tensors become buckets, and when each bucket may travel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from simulator.component import Component, expected
from simulator.models.curves import Floats
from simulator.models.exchange import Bucket, Rows, Shape
from simulator.models.graph import Period, Queue
from simulator.models.layers import Layer
from simulator.models.optimisers import Optimiser
from simulator.models.precision import FP32_BYTES
from simulator.records import Record, replace
from simulator.schedulers.step import Step


class Costs(Record):
    """Seconds that a bucket of a given number of elements takes in this scenario, alone on the network.

    `exchange`: its communication, software included, with the sparsifier `method` at its own `density` (None: it has
    none). `selection`: the kernels before the exchange, on the compute stream, of one tensor. `by_tensor`: whether the
    tensors of a merged bucket are selected from one by one. Arguments may be arrays.

    `value_bytes` of an element as it travels, and `gradient_bytes` of one as it was computed: limits in bytes are in
    one or the other. `copies`: GPUs whose gradients of the same weights are added up.
    """

    exchange: Callable[[Floats | float], Floats]
    selection: Callable[[Floats | float], Floats]
    density: float | None = None
    by_tensor: bool = False
    method: str = ""
    value_bytes: int = FP32_BYTES
    gradient_bytes: int = FP32_BYTES
    copies: int = 1

    @property
    def known(self) -> bool:
        """Whether the costs are those of a network; otherwise they are all 0."""
        return self.exchange is not np.zeros_like


Additions = Literal["whole", "part", "in_products"]
"""Gradients of later micro-batches are added to whole ones, to the part of them that a GPU of a sharded job owns, or to
whole ones by the products of matrices that make them, as far as there are such."""

MAX_SLICES = 100_000

FREE = Costs(np.zeros_like, np.zeros_like)
"""All costs are 0: for plans that are made without a network."""


class Scheduler(Component, family="scheduler"):
    """Base of all schedulers.

    `plan` cuts the gradients into buckets in the order in which they become ready (backward order), and `lay_out`
    writes one iteration down, as the framework's training loop runs it. Both are what the clock knows of a schedule.
    What `lay_out` does where a schedule has none of its own, and what others are told of it:

    - `overlap`: the exchange of a bucket may run during the backward pass; otherwise all exchanges wait for its end.
    - `gated`: the next forward pass of a layer waits for its own parameters only, so that exchanges overlap the forward
      pass, too; otherwise all parameters are updated before the next iteration starts.
    - `decoupled`: the all-reduce at the end of an exchange is split into a reduce-scatter during the backward pass and
      an all-gather during the next forward pass.
    - `reads_costs`: `plan` uses the costs of buckets on this network.

    The communication streams of a job, as users choose them:

    - `streams`: exchanges that may be under way at once, sharing links fairly; each stream has a communicator of its
      own, and exchanges are given to the streams in turn (as Horovod does with HOROVOD_NUM_NCCL_STREAMS). Parameter
      servers work on all exchanges at once anyway.
    """

    overlap: ClassVar[bool] = True
    gated: ClassVar[bool] = False
    decoupled: ClassVar[bool] = False
    reads_costs: ClassVar[bool] = False

    streams: int = Field(default=1, ge=1, le=64)

    @property
    def queue(self) -> Queue:
        """The rule by which exchanges get a communication stream: first in, first out."""
        return Queue(self.streams)

    @property
    def period(self) -> Period | None:
        """The local steps between exchanges; None: gradients are exchanged in every step."""
        return None

    @property
    def cycle(self) -> float:
        """Seconds between two moments at which exchanges of gradients that are ready may start; 0: at once."""
        return 0.0

    @property
    def additions(self) -> Additions:
        """What of the gradients of earlier micro-batches a GPU adds those of a later one to: all of them."""
        return "whole"

    @property
    def outer(self) -> Optimiser | None:
        """The optimiser that applies what all workers have found together after local steps; None: there is none."""
        return None

    def rounds(self, passes: int) -> int:
        """How often each bucket is exchanged in an iteration of so many passes."""
        return 1

    @property
    def reductions_in_turn(self) -> int:
        """How often in an iteration stages of a pipeline reduce their gradients one stage after the other."""
        return 0

    def in_stages(self, runs: int) -> Scheduler:
        """The schedule in stages of a pipeline, which run theirs so often in an iteration.

        Raises an expected-error where it cannot be in them.
        """
        if runs > 1:
            hint = "PyTorch's pipelines exchange each time, with FSDP 2; others add up gradients in one run"
            raise expected("`runs: 1` of a pipeline, but with `fsdp` without `flat`", str(runs), hint)
        return self

    def plan(self, layers: Sequence[Layer], costs: Costs = FREE) -> list[Bucket]:
        """The buckets of a model with tensors `layers` in forward order: one per tensor, in backward order."""
        return singles(layers)

    def lay_out(self, step: Step) -> None:
        """Write one iteration down: each bucket travels as soon as it is ready, and all are updated together.

        Of a schedule that is `gated`, an iteration is the backward pass, and then the next forward pass, layer by
        layer, while the rest travels. Where each of several passes exchanges its gradients (`rounds`), the next pass
        starts when all have arrived.
        """
        if self.rounds(step.shape.passes) > 1:
            step.load()
            for last in step.micro_batches():
                step.forward_alone()
                for bucket in step.backward(at_once=not self.overlap):
                    step.exchange(bucket)
                if not last:
                    step.combine()
            step.update()
            return
        if not self.gated:
            step.load()
            step.forward()
        for bucket in step.backward(at_once=not self.overlap):
            step.exchange(bucket)
        if self.decoupled:
            step.gather_all()
        if self.gated:
            step.load()
            step.forward_layer_by_layer()
        else:
            step.update()


def buckets_of(groups: Sequence[Sequence[int]], layers: Sequence[Layer]) -> list[Bucket]:
    """One bucket per group of tensor indices; groups and their members are in backward order."""
    return [
        Bucket(
            index=index,
            pieces=tuple(layers[layer].numel for layer in group),
            ready_layer=min(group),
            layers=tuple(group),
            rows=_rows_of([layers[layer] for layer in group]),
            shapes=_shapes_of([layers[layer] for layer in group]),
        )
        for index, group in enumerate(groups)
    ]


def _rows_of(layers: Sequence[Layer]) -> tuple[Rows | None, ...]:
    rows = tuple(layer.rows for layer in layers)
    return rows if any(rows) else ()


def _shapes_of(layers: Sequence[Layer]) -> tuple[Shape, ...]:
    shapes = tuple(layer.shape for layer in layers)
    return shapes if any(shapes) else ()


def singles(layers: Sequence[Layer]) -> list[Bucket]:
    """One bucket per tensor, in backward order."""
    return buckets_of([[layer] for layer in reversed(range(len(layers)))], layers)


def partition(
    layers: Sequence[Layer], limit: float, value_bytes: int = FP32_BYTES, *, merged: bool = False
) -> list[Bucket]:
    """Slices of at most `limit` bytes, `value_bytes` an element, of each tensor in backward order.

    `merged`: of all gradients in one buffer, so that tensors may span slices. An embedding that is cut travels as a
    dense tensor, and so does one in a buffer.
    """
    most, numels = max(1, int(limit // value_bytes)), [layer.numel for layer in layers]
    count = sum(-(-numel // most) for numel in ([sum(numels)] if merged else numels))
    if count > MAX_SLICES:
        raise expected(f"at most {MAX_SLICES:,} slices", f"{count:,} of {limit:g} bytes", "a larger `partition`")
    slices, pieces, members, offset, room = list[Bucket](), list[int](), list[int](), 0, most
    for layer in reversed(range(len(layers))):
        left = numels[layer]
        while left:
            taken = min(left, room)
            offset = numels[layer] - left if not pieces else offset
            pieces.append(taken)
            members.append(layer)
            left, room = left - taken, room - taken
            if not room or (not left and not (merged and layer)):
                whole = [layers[layer]] if taken == numels[layer] and not merged else []
                made = Bucket(len(slices), tuple(pieces), min(members), tuple(members), offset)
                slices.append(replace(made, rows=_rows_of(whole), shapes=_shapes_of(whole)))
                pieces, members, room = [], [], most
    return slices
