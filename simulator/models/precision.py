"""The number formats of a training: what gradients are computed and sent in, and what is kept beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from simulator.component import Spec, expected

NumberFormat = Literal["fp32", "bf16", "fp16"]
NUMBER_BYTES: dict[NumberFormat, int] = {"fp32": 4, "bf16": 2, "fp16": 2}
"""Bytes of one number of each format."""
FP32_BYTES = NUMBER_BYTES["fp32"]
NUMBER_NAMES: dict[str, NumberFormat] = {
    **dict.fromkeys(("fp32", "float32", "float"), "fp32"),
    **dict.fromkeys(("bf16", "bfloat16", "bfp16"), "bf16"),
    **dict.fromkeys(("fp16", "float16", "half"), "fp16"),
}
"""Formats by the words of other programs."""
INDEX_BYTES = {"int32": 4, "int64": 8}
"""Bytes of one index of each format."""


def format_named(name: str) -> NumberFormat | None:
    """The format that other programs have a name for, in any case; None for any other type.

    >>> format_named("torch.bfloat16"), format_named("c10::Half"), format_named("int8")
    ('bf16', 'fp16', None)
    """
    return NUMBER_NAMES.get(name.lower().removeprefix("torch.").removeprefix("c10::"))


class Precision(Spec):
    """The number formats of gradients, of what travels, of residuals, of the optimiser's weights and of indices.

    Layer times are not changed by it: they are those that the workload states.

    Automatic mixed precision (torch.autocast, apex O1) computes layers in 16 bits but keeps weights and gradients in
    fp32: this is `gradients: fp32`, with `loss_scaling: true` for fp16. Models that are 16-bit themselves (apex O2,
    Megatron-LM, DeepSpeed) have `gradients: fp16` or `bf16`. Gradients in fp32 that are sent in 16 bits (Horovod's
    `Compression.fp16`; `fp16_compress_hook` and `bf16_compress_hook` of PyTorch DDP) have `travels`.

    - `gradients`: format in which the backward pass leaves them; DDP measures its buckets in it.
    - `travels`: format of values on the network; none: that of the gradients. Another one is a cast of the values
      before they are sent and of those that arrive.
    - `residuals`: format of error feedback, and of what a method with error feedback selects from.
    - `master_weights`: the optimiser keeps fp32 weights and state and copies the weights back (Micikevicius et al.,
      ICLR 2018); none: for gradients of 16 bits.
    - `loss_scaling`: after the exchange all gradients are checked for overflow and divided by the scale, and the host
      reads the flag (GradScaler of PyTorch AMP, the loss scaler of apex); none: for gradients in fp16.
    - `indices`: format of indices; `auto`: what the method's released code sends.
    """

    gradients: NumberFormat = "fp32"
    travels: NumberFormat | None = None
    residuals: NumberFormat = "fp32"
    master_weights: bool | None = None
    loss_scaling: bool | None = None
    indices: Literal["auto", "int32", "int64"] = "auto"

    def refuse_unfit(self) -> None:
        """Raise an expected-error where bf16 and fp16 meet."""
        if {"bf16", "fp16"} <= {self.gradients, self.travels, self.residuals}:
            got = f"gradients {self.gradients}, travels {self.sent_as}, residuals {self.residuals}"
            raise expected("one 16-bit format, bf16 or fp16", got, "no framework converts one into the other")

    @property
    def sent_as(self) -> NumberFormat:
        """Format of the values on the network."""
        return self.travels or self.gradients

    @property
    def gradient_bytes(self) -> int:
        """Bytes of an element of the gradient as it was computed."""
        return NUMBER_BYTES[self.gradients]

    @property
    def value_bytes(self) -> int:
        """Bytes of a value on the network."""
        return NUMBER_BYTES[self.sent_as]

    @property
    def has_master_weights(self) -> bool:
        """Whether the optimiser works on fp32 copies of 16-bit weights."""
        wanted = True if self.master_weights is None else self.master_weights
        return wanted and self.gradients != "fp32"

    @property
    def scales_loss(self) -> bool:
        """Whether gradients are checked and unscaled before the update."""
        return self.gradients == "fp16" if self.loss_scaling is None else self.loss_scaling

    def index_bytes(self, released: int) -> int:
        """Bytes of an index of a method whose released code sends indices of `released` bytes."""
        return INDEX_BYTES.get(self.indices, released)

    def described(self) -> str:
        """The formats in a few words.

        >>> Precision().described(), Precision(travels="bf16").described(), Precision(gradients="fp16").described()
        ('fp32', 'fp32 sent as bf16', 'fp16')
        """
        return self.gradients if self.sent_as == self.gradients else f"{self.gradients} sent as {self.sent_as}"


def _spelled_out(value: Any) -> Any:
    if value == "fp8":
        raise expected("a format of gradients: fp32, bf16 or fp16", value, "products in it are `arithmetic: fp8`")
    if isinstance(value, str):
        return {"gradients": value}
    if not isinstance(value, Mapping | Precision):
        raise expected("a format, such as bf16, or a mapping", value)
    return value


PrecisionField = Annotated[Precision, BeforeValidator(_spelled_out, json_schema_input_type=NumberFormat | Precision)]
"""A precision as a person writes it: the format of the gradients alone, or a mapping."""

FP32 = Precision()
