"""Fully sharded data parallelism as PyTorch runs it (FSDP2): a unit's parameters are gathered when they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal, Self

from pydantic import Field

from simulator.component import expected
from simulator.models.layers import MAX_MICRO_BATCHES
from simulator.models.sharding import Copies, Mesh
from simulator.schedulers.base import Additions, Scheduler
from simulator.schedulers.sharded import Place, Sharded, most_together, zero_place
from simulator.schedulers.step import Step

Keep = Literal["none", "node", "forward"]
Accumulate = Literal["all", "reduce_scatter", "none"]
_TORCH = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""Formats as PyTorch calls them."""


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
      (`set_requires_all_reduce(False)`), or `none` (`set_requires_gradient_sync(False)`), which keeps whole gradients
      and is the default, and the only one without `flat`, in stages of a pipeline.
    - `reduces_first`: whether a stage of a pipeline sends its last gradient on only when its own reductions have ended,
      so that those of all stages follow each other (PyTorch at the end of 2024: `run_post_backward` is a part of
      `backward_maybe_with_nosync`).
    """

    wires: ClassVar = tuple(
        {name: wire for name, wire in (("reduce_wire", reduced), ("gather_wire", gathered)) if wire}
        for reduced, gathered in (
            *(("", "int8"), ("", "fp8"), ("int8", ""), ("int8", "int8")),
            *(("qgz", ""), ("qgz", "int8"), ("loco", "int8")),
        )
    )

    keep: Keep = "none"
    prefetch: int = Field(default=1, ge=1, le=64)
    flat: bool = False
    accumulate: Accumulate | None = None
    reduces_first: bool = False

    @property
    def additions(self) -> Additions:
        """To the GPU's part, or to whole gradients where micro-batches before the last one reduce nothing."""
        return "whole" if self.accumulate == "none" else "part"

    @property
    def copies(self) -> Copies:
        """Parameters are copied from the buffer of a gather, and gradients to that of a reduction.

        Where parameters are views of one flat tensor, autograd joins their gradients to its gradient.
        """
        return Copies(out=not self.flat, into=True, joined=self.flat, in_nodes=self.keep == "node")

    @property
    def _details(self) -> str:
        return {"none": "", "node": ", gathered again in nodes", "forward": ", gathered once"}[self.keep]

    def settings(self, mesh: Mesh) -> Iterator[Self]:
        """What stays gathered, and what micro-batches before the last one exchange."""
        kept = ("none", "forward", "node") if mesh.size > mesh.each and not self.flat else ("none", "forward")
        waits: Sequence[Accumulate] = ("reduce_scatter", "none") if mesh.replicas > 1 else ("none",)
        if mesh.passes == 1 or (mesh.staged and not self.flat):
            waits = ()
        for keep in kept:
            for accumulate in (None, *waits):
                yield self.model_copy(update={"keep": keep, "accumulate": accumulate})

    def places(self, mesh: Mesh) -> Sequence[Place]:
        """PyTorch FSDP, where reductions may be code of its user, and stage 3 of DeepSpeed with ZeRO++."""
        made = [self._in_pytorch(mesh)]
        wire = self.reduce_wire.name if self.reduce_wire else None
        of_deepspeed = self.gather_wire in (None, "int8") and wire in (None, "qgz", "loco")
        of_deepspeed &= self.keep != "forward" and self._exchanges_each_pass and not (self.flat or mesh.staged)
        if of_deepspeed and not mesh.compressed:
            settings: dict[str, object] = {
                "stage": 3,
                "mics_shard_size": mesh.size if mesh.replicas > 1 else None,
                "zero_hpz_partition_size": mesh.each if self.keep == "node" else None,
                "zero_quantized_weights": self.gather_wire == "int8" or None,
                "zero_quantized_gradients": wire is not None or None,
                "zeropp_loco_param": {"err_beta": 0.8, "reset_T": 1024} if wire == "loco" else None,
            }
            if mesh.replicas == 1 or not self.rounded:  # MiCS has no ZeRO++
                made.append(zero_place(self, **settings))
        return made

    def _in_pytorch(self, mesh: Mesh) -> Place:
        """PyTorch; a hook of its user compresses between groups, which FSDP 2 has for groups of one dimension only."""
        grouped = mesh.replicas > 1
        reduced = f"reduce_dtype=torch.{_TORCH[self.reduce_in]}" if self.reduce_in else ""
        if self.flat:
            words = {"forward": ("SHARD_GRAD_OP", "_HYBRID_SHARD_ZERO2")}.get(self.keep, ("FULL_SHARD", "HYBRID_SHARD"))
            policy = f", mixed_precision=MixedPrecision({reduced})" if reduced else ""
            lines = [f"FullyShardedDataParallel(model, sharding_strategy=ShardingStrategy.{words[grouped]}{policy})"]
        else:
            sizes = f"({mesh.replicas}, {mesh.size})"
            lines = [f'mesh = init_device_mesh("cuda", {sizes}, mesh_dim_names=("replicate", "shard"))'] * grouped
            over = (', mesh=mesh["shard"]' if mesh.compressed else ", mesh=mesh") * grouped
            again = {"none": "True", "forward": "False", "node": f"{mesh.each}"}[self.keep]
            policy = f", mp_policy=MixedPrecisionPolicy({reduced})" if reduced else ""
            call = f"fully_shard(module{over}, reshard_after_forward={again}{policy})"
            lines.append(f"{call}  # of each block, then of the model")
        calls = {"reduce_scatter": "set_requires_all_reduce", "none": "set_requires_gradient_sync"}
        if self.accumulate in calls and (self.flat or not mesh.staged):  # stages call it themselves
            lines.append(f"model.{calls[self.accumulate]}(is_last_micro_batch)")
        lines += ["module.set_all_reduce_hook(compressed)  # of each block, then of the model"] * mesh.compressed
        if self.gather_wire == "fp8":
            config = "Float8LinearConfig(enable_fsdp_float8_all_gather=True)"
            lines.append(f"convert_to_float8_training(model, config={config})  # torchao: linear layers compute in fp8")
        if self.reduce_wire is not None or self.gather_wire not in (None, "fp8"):
            lines += ["module.set_custom_reduce_scatter(rounded)"] * (self.reduce_wire is not None)
            lines += ["module.set_custom_all_gather(rounded)"] * (self.gather_wire not in (None, "fp8"))
            return {"in": "code", "where": "code of your own for PyTorch FSDP", "lines": lines}
        return {"in": "pytorch-fsdp", "lines": lines, "source": "torch.distributed.fsdp.fully_shard"}

    def rounds(self, passes: int) -> int:
        """How often each unit is exchanged between replicas."""
        return passes if self._exchanges_each_pass else 1

    @property
    def _exchanges_each_pass(self) -> bool:
        return self.accumulate in (None, "all")

    def gathered_at_once(self, units: Sequence[float]) -> float:
        """All units where they stay gathered, else `prefetch` + 1 that follow each other."""
        return most_together(units, len(units) if self.keep == "forward" else self.prefetch + 1)

    def reduced_at_once(self, units: Sequence[float], passes: int) -> float:
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
                    step.reduce(unit, exchanged=last or self._exchanges_each_pass)
            step.end_reductions()
            if not last and self._exchanges_each_pass:
                step.combine()
        step.update()

    def in_stages(self, runs: int) -> Scheduler:
        """FSDP 2 in PyTorch's stages, which know nothing of FSDP 1.

        Raises an expected-error where it is stated otherwise what micro-batches exchange.
        """
        if self.flat:
            return super().in_stages(runs)
        if self.accumulate not in (None, "none"):
            hint = "PyTorch's stages reduce once each time their schedule runs (`backward_maybe_with_nosync`)"
            raise expected("no `accumulate`, in stages of a pipeline", self.accumulate or "", hint)
        return FsdpInStages.model_construct(**dict(self), runs=runs)


class FsdpInStages(Fsdp):
    """FSDP 2 in stages of a pipeline (`backward_maybe_with_nosync` of torch/distributed/pipelining).

    No backward pass of a run of the schedule reduces or frees anything. After the last one of a stage, its units are
    reduced one after the other, beside nothing, and freed. So a pass gathers only what a forward pass has freed: with
    `keep: forward` each unit once in a run, otherwise once for the first forward pass, and once in each micro-batch,
    as often as in the order of any schedule, where a forward pass after a backward pass, and a backward pass after a
    backward pass, find all parameters there.

    - `runs`: how often the schedule of the pipeline runs in an iteration.
    """

    runs: int = Field(default=1, ge=1, le=MAX_MICRO_BATCHES)

    @property
    def additions(self) -> Additions:
        """To whole gradients."""
        return "whole"

    def rounds(self, passes: int) -> int:
        """Once in each run of the schedule."""
        return self.runs

    @property
    def reductions_in_turn(self) -> int:
        """Once in each run, where the last gradient is sent on after them."""
        return self.runs if self.reduces_first else 0

    def gathered_at_once(self, units: Sequence[float]) -> float:
        """All, from the first backward pass on."""
        return float(sum(units))

    def reduced_at_once(self, units: Sequence[float], passes: int) -> float:
        """All, after the last backward pass."""
        return float(sum(units))

    def lay_out(self, step: Step) -> None:
        """All runs of the pipeline's schedule, and the update."""
        step.load()
        units = step.units
        kept = units if self.keep == "forward" else units[-1:]
        for last in step.micro_batches():
            for ahead, unit in with_ahead(units, self.prefetch):
                step.gather(ahead if step.first_pass else ())
                step.forward_unit(unit)
            for ahead, unit in with_ahead(units[::-1], self.prefetch):
                step.gather([each for each in ahead if each not in kept], in_nodes=self.keep == "node")
                step.backward_unit(unit)
            for unit in units[::-1] if last else ():
                step.reduce(unit, exchanged=True)
            step.end_reductions()
            if last and not step.last_run:
                step.combine()
        step.update()


def with_ahead(units: Sequence[int], ahead: int) -> Iterator[tuple[Sequence[int], int]]:
    """Units in their order, each with those whose gathers are started before it is computed.

    >>> list(with_ahead([7, 8, 9], 1))
    [([7, 8], 7), ([9], 8), ([], 9)]
    """
    for place, unit in enumerate(units):
        yield units[place + ahead if place else 0 : place + ahead + 1], unit
