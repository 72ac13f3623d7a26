"""Fully sharded data parallelism as PyTorch runs it (FSDP2): a unit's parameters are gathered when they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from simulator.models.sharding import Copies
from simulator.schedulers.sharded import Sharded, most_together
from simulator.schedulers.step import Step

Keep = Literal["none", "node", "forward"]
Accumulate = Literal["all", "reduce_scatter", "none"]


class Fsdp(Sharded, kind="fsdp"):
    """`fully_shard` of PyTorch (torch/distributed/fsdp, 2.6): gathers in forward and backward, reduce-scatter after it.

    A unit's compute waits for its all-gather. That of the unit `prefetch` later is started with it, so that at most
    `prefetch` + 1 gathered units are alive. After a unit's backward pass its gradients are copied to one buffer, for
    which compute waits until the reduce-scatter of the unit before has ended: one is under way. Gathers and
    reduce-scatters share a communicator, which runs them in the order in which they were started. The last unit of the
    forward pass stays gathered for the backward pass. The all-reduce between replicas has a communicator of its own.
    Compute waits at the end of each backward pass for all that is under way (`_root_post_backward_final_callback`).

    - `keep`: what stays gathered after the forward pass: `none` (ZeRO-3, `reshard_after_forward=True`); `node`, a
      second copy that the GPUs of each node share, from which they gather in the backward pass
      (`reshard_after_forward=8`, hpZ of ZeRO++, 2306.10209); or `forward`, all of it (`reshard_after_forward=False`,
      `SHARD_GRAD_OP`), which needs no gathers in the backward pass.
    - `prefetch`: units whose all-gathers are started ahead.
    - `flat`: whether the parameters of a unit lie in the buffer that is gathered (FSDP 1), so that nothing copies them.
    - `accumulate`: what micro-batches before the last one exchange: `all` (the default of PyTorch), `reduce_scatter`
      (`set_requires_all_reduce(False)`), or `none` (`set_requires_gradient_sync(False)`), which keeps whole gradients.
    """

    keep: Keep = "none"
    prefetch: int = Field(default=1, ge=1, le=64)
    flat: bool = False
    accumulate: Accumulate = "all"

    @property
    def copies(self) -> Copies:
        """Parameters are copied from the buffer of a gather, and gradients to that of a reduction.

        Where parameters are views of one flat tensor, autograd joins their gradients to its gradient.
        """
        return Copies(out=not self.flat, into=True, joined=self.flat, in_nodes=self.keep == "node")

    @property
    def _details(self) -> str:
        return {"none": "", "node": ", gathered again in nodes", "forward": ", gathered once"}[self.keep]

    def rounds(self, passes: int) -> int:
        """How often each unit is exchanged between replicas."""
        return passes if self.accumulate == "all" else 1

    def gathered_at_once(self, units: Sequence[int]) -> float:
        """All units where they stay gathered, else `prefetch` + 1 that follow each other."""
        return most_together(units, len(units) if self.keep == "forward" else self.prefetch + 1)

    def reduced_at_once(self, units: Sequence[int], passes: int) -> float:
        """One unit that is reduced and the next; all where passes keep whole gradients."""
        return most_together(units, len(units) if passes > 1 and self.accumulate == "none" else 2)

    def lay_out(self, step: Step) -> None:
        """The passes over all micro-batches, and the update."""
        step.load()
        units = step.units
        for last in step.micro_batches():
            for ahead, unit in with_ahead(units, self.prefetch):
                step.gather(ahead)
                step.forward_unit(unit)
            kept = units if self.keep == "forward" else units[-1:]
            for ahead, unit in with_ahead(units[::-1], self.prefetch):
                step.gather([each for each in ahead if each not in kept], in_nodes=self.keep == "node")
                step.backward_unit(unit)
                if last or self.accumulate != "none":
                    step.reduce(unit, exchanged=last or self.accumulate == "all")
            step.end_reductions()
            if not last and self.accumulate == "all":
                step.combine()
        step.update()


def with_ahead(units: Sequence[int], ahead: int) -> Iterator[tuple[Sequence[int], int]]:
    """Units in their order, each with those whose gathers are started before it is computed.

    >>> list(with_ahead([7, 8, 9], 1))
    [([7, 8], 7), ([9], 8), ([], 9)]
    """
    for place, unit in enumerate(units):
        yield units[place + ahead if place else 0 : place + ahead + 1], unit
