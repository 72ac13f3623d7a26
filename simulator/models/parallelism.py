"""How a model is divided over several GPUs, as a person writes it: by tensors, by tokens, by layers, by experts."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from simulator.component import Spec, expected
from simulator.models.operators import WHOLE, Split
from simulator.models.pipeline import Schedule


class PipelineStages(Spec):
    """Layers that are distributed over stages, through which micro-batches go one after the other.

    - `stages`: groups of GPUs with a part of the layers each.
    - `schedule`: in which order a stage works: `1f1b` (of Megatron and torchtitan, with several chunks interleaved),
      `gpipe`, `zb_h1`, which fills bubbles with the gradients of weights, or `zb_v`, which goes through the stages
      there and back and has hardly any bubbles.
    - `chunks`: parts of the model on each stage, which are not neighbours (virtual stages of an interleaved schedule);
      2 in `zb_v`.
    """

    stages: int = Field(default=1, ge=1, le=1024)
    schedule: Schedule = "1f1b"
    chunks: int = Field(default=1, ge=1, le=64)

    @model_validator(mode="after")
    def _interleaves_1f1b(self) -> Self:
        if self.schedule == "zb_v":
            if self.chunks != 2 or self.stages == 1:
                got = f"{self.chunks} on each of {self.stages}"
                raise expected("`chunks: 2` on each of several stages, for schedule zb_v", got)
        elif self.chunks > 1 and (self.schedule != "1f1b" or self.stages == 1):
            raise expected("one chunk a stage", str(self.chunks), "schedule 1f1b of several stages has more")
        return self


class Parallelism(Spec):
    """How many GPUs compute one copy of the model together, and how; the copies are the data-parallel workers.

    Inner axes sit closest: GPUs that follow each other share tensors, then tokens, then are copies of each other (or
    shards of a sharded schedule), then stages. `batch_size` of the workload is that of one copy.

    - `tensor`: GPUs that each have a part of every matrix and of the heads (tensor parallelism).
    - `sequence_parallel`: whether these divide norms, dropout and residuals by tokens, too.
    - `overlap`: whether gathers and reduce-scatters of the tensor axis run beside the products after or before them, in
      as many parts as there are GPUs (`--tp-comm-overlap` of Megatron-Core; PyTorch's asynchronous tensor parallelism).
    - `context`: GPUs that each have a part of the tokens of a sample (context parallelism).
    - `pipeline`: layers in stages.
    - `expert`: copies that each have a part of the experts and send tokens to each other (expert parallelism); all
      other parameters are whole in each copy. The axis is taken from that of the copies, of which it divides the
      number, as in Megatron-Core and torchtitan.
    - `imbalance`: how many times the mean the busiest of them has of tokens; all wait for it.
    """

    tensor: int = Field(default=1, ge=1, le=1024)
    sequence_parallel: bool = True
    overlap: bool = False
    context: int = Field(default=1, ge=1, le=1024)
    pipeline: PipelineStages = PipelineStages()
    expert: int = Field(default=1, ge=1, le=1024)
    imbalance: float = Field(default=1.0, ge=1, le=1024)

    @model_validator(mode="after")
    def _overlaps_parts_of_sequences(self) -> Self:
        if self.overlap and not self.sequence_parallel:
            raise expected("`sequence_parallel: true` with `overlap`", "false", "all-reduces are not cut into parts")
        return self

    @model_validator(mode="after")
    def _imbalance_is_of_experts(self) -> Self:
        if self.imbalance > self.expert:
            hint = "at most all tokens are sent to one of the GPUs"
            raise expected(f"an `imbalance` up to `expert`, which is {self.expert}", f"{self.imbalance:g}", hint)
        return self

    @property
    def split(self) -> Split:
        """How layers are divided."""
        made = Split(self.tensor, self.context, self.sequence_parallel, self.expert, self.imbalance)
        return made if made.tensor * made.context * made.expert > 1 else WHOLE

    @property
    def divides(self) -> bool:
        """Whether a GPU has a part of the model."""
        return self.copy_size * self.expert > 1

    @property
    def copy_size(self) -> int:
        """GPUs that compute one copy of the model."""
        return self.tensor * self.context * self.pipeline.stages
