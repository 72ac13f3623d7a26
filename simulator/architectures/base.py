"""What every described model has: its kind, the format of its arithmetic, and how it becomes tensors and operators."""

from __future__ import annotations

from typing import ClassVar

from simulator.architectures.building import Builder
from simulator.component import Component, expected
from simulator.models.operators import WHOLE, Arithmetic, Description, Split
from simulator.models.precision import NUMBER_BYTES, Precision

MOST = 10**6
"""Most of anything that is counted in a description, such as hidden units."""
MOST_LAYERS = 1000
"""Most blocks of a model: tensors stay below `simulator.models.limits.MAX_LAYERS`."""


class Architecture(Component, family="model"):
    """A model described by its sizes. Tensors, arithmetic, bytes and activations follow from them.

    `divides`: its layers can be divided over GPUs (tensor and context parallelism).

    - `arithmetic`: format in which its matrix products multiply: `fp32`, `tf32`, `fp16`, `bf16`, or `mixed` (bf16
      where the GPU has it, else fp16), or `fp8` in the linear layers of a transformer's blocks and bf16 elsewhere, as
      torchao and Transformer Engine have it; none: that of the gradients. 16 bits with gradients in fp32 are automatic
      mixed precision (torch.autocast).
    """

    arithmetic: Arithmetic | None = None

    divides: ClassVar[bool] = False

    def describe(self, samples: int, precision: Precision, split: Split = WHOLE) -> Description:
        """The tensors in forward order and the operators of `samples` samples, of one of the GPUs that divide layers.

        Raises an expected-error where sizes cannot be divided so.
        """
        arithmetic: Arithmetic = self.arithmetic or precision.gradients
        builder = Builder(samples, arithmetic, NUMBER_BYTES[precision.gradients], split)
        self.build(builder)
        made = builder.describe()
        if arithmetic == "fp8" and not any(item.fp8 for item in made.forward):
            raise expected("an arithmetic of this model, such as bf16", "fp8", "linear layers of transformers have it")
        return made

    def build(self, builder: Builder) -> None:
        """Add all tensors and operators."""
        raise NotImplementedError
