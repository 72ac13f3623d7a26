"""What every described model is built from: tensors in forward order, and the operators of the usual layers."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from simulator.architectures.adapters import Lora, trained_alone
from simulator.component import Component, expected
from simulator.models.exchange import Rows
from simulator.models.operators import (
    ARITHMETIC_BYTES,
    OF_WEIGHT,
    WHOLE,
    Arithmetic,
    Collective,
    DescribedTensor,
    Description,
    Operator,
    Split,
    product,
    row_wise,
    streaming,
)
from simulator.models.precision import NUMBER_BYTES, Precision
from simulator.records import Struct, field, replace

MOST = 10**6
"""Most of anything that is counted in a description, such as hidden units."""
MOST_LAYERS = 1000
"""Most blocks of a model: tensors stay below `simulator.models.limits.MAX_LAYERS`."""
FP32 = 4
FP8 = 1
INDEX = 8
"""Bytes of a token's number (int64)."""
Norm = Literal["rms", "layer", "layer_without_bias", "layer_without_parameters"]
_CAST, _CAST_BACK = "cast of weights", "cast of gradients"
MASK = 1
"""Bytes of an element of a dropout mask."""


class Builder(Struct):
    """Collects tensors, operators and kept activations of `samples` samples.

    An operator belongs to the last tensor that was added: it runs after that tensor's layer in the forward pass, and
    its backward counterpart before that tensor's gradient is ready.

    - `arithmetic`: format of the products; activations have its width.
    - `parameter_bytes`: bytes of a stored parameter and of an element of its gradient.
    - `split`: how layers are divided over GPUs; all is counted for one of them.
    - `lora`: adapters, beside which nothing else is trained.
    """

    samples: int
    arithmetic: Arithmetic
    parameter_bytes: int
    split: Split = WHOLE
    lora: Lora | None = None
    tensors: list[DescribedTensor] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)

    @property
    def width(self) -> int:
        """Bytes of an activation."""
        return ARITHMETIC_BYTES[self.arithmetic]

    def tensor(
        self, name: str, *shape: int, rows: Rows | None = None, active: int | None = None, adapter: bool = False
    ) -> DescribedTensor:
        """Add a parameter tensor. `active`: elements that a token uses, of a tensor of experts. With `lora`, weights
        are not trained unless they are of an `adapter`, and have the format of the arithmetic."""
        made, numel = DescribedTensor(name, shape, rows, active, adapter or self.lora is None), math.prod(shape)
        self.tensors.append(made)
        if made.trained and self.width < self.parameter_bytes:
            # Automatic mixed precision casts each weight once per pass (torch.autocast).
            made.forward.append(streaming(_CAST, numel * (self.parameter_bytes + self.width)))
            made.backward.append(streaming(_CAST_BACK, numel * (self.parameter_bytes + self.width)))
        return made

    def add(self, forward: list[Operator], backward: list[Operator]) -> None:
        """Add operators to the last tensor; those of the backward pass run before what is already there."""
        last = self.tensors[-1]
        last.forward += forward
        last.backward[:0] = backward

    def join(self, again: int) -> None:
        """Let the tensors from number `again` on be those before them once more: their operators go to the last one of
        these, behind its own forward pass and before its own backward pass. Weights are cast once a pass."""
        last = self.tensors[again - 1]
        for tensor in self.tensors[again:]:
            last.forward += [item for item in tensor.forward if item.name != _CAST]
            last.keep_for(tensor)
        back = [item for tensor in reversed(self.tensors[again:]) for item in tensor.backward]
        last.backward[:0] = [item for item in back if item.name != _CAST_BACK]
        del self.tensors[again:]

    def keep(self, elements: float, width: int | None = None) -> None:
        """Count activations that are kept for the backward pass."""
        self.tensors[-1].kept += elements * (self.width if width is None else width)

    def part(self, count: int, what: str) -> int:
        """A GPU's part of what is divided over those of the tensor axis. Raises an expected-error for uneven parts."""
        if count % self.split.tensor:
            raise expected(f"a `tensor` that divides {count:,} {what}", str(self.split.tensor))
        return count // self.split.tensor

    def tokens(self, length: int) -> float:
        """Tokens of all samples, of so many each, that a GPU has. Raises an expected-error where a `context` does not
        divide a sample."""
        if length % self.split.context:
            raise expected(f"a `context` that divides {length:,} tokens", str(self.split.context))
        return self.samples * length / self.split.context

    def part_of_table(self, entries: int) -> int:
        """Rows of a table of tokens that a GPU of the tensor axis has, the last of which may be padding."""
        return -(-entries // self.split.tensor)

    @property
    def apart(self) -> int:
        """GPUs over which the tokens between divided layers are distributed."""
        return self.split.tensor if self.split.sequence else 1

    def enter(self, elements: float, *, in_block: bool = False, attention: bool = False) -> None:
        """Divided layers begin, whose input is gathered, and again for the gradients of the weights, if they have any.

        `attention`: of attention, which has adapters wherever there are some. `in_block`: of a block, which gathers
        what its products multiply in fp8 after the cast (Transformer Engine; Float8ColwiseParallel of torchao).
        """
        if self.apart > 1:
            gather = self._gather(elements, in_block)
            self.add([gather], [self._joint("reduce_scatter", elements)])
            if self.lora is None or attention or (in_block and self.lora.targets == "linear"):
                self.add([], [gather])
        elif self.split.tensor > 1:
            self.add([], [self._joint("all_reduce", elements)])

    def leave(self, elements: float, *, in_block: bool = False) -> None:
        """Divided layers end: their outputs are added up, and the gradients of these are gathered."""
        if self.apart > 1:
            self.add([self._joint("reduce_scatter", elements)], [self._gather(elements, in_block)])
        elif self.split.tensor > 1:
            self.add([self._joint("all_reduce", elements)], [])

    def _gather(self, elements: float, in_block: bool) -> Operator:
        return Operator(
            "tensor", "all_gather", elements * (FP8 if in_block and self.arithmetic == "fp8" else self.width)
        )

    def _joint(self, kind: Collective, elements: float) -> Operator:
        return Operator("tensor", kind, elements * self.width)

    def embedding(self, name: str, entries: int, width: int, lookups: float, dense: bool = False) -> None:
        """A table of `entries` rows, of which `lookups` are read; its gradient is zeroed and added to row by row.

        `dense`: without `rows`, because another layer's gradient is added to the same tensor or every row is read.
        """
        rows = None if dense else Rows(count=lookups, width=width)
        made = self.tensor(name, entries, width, rows=rows)
        moved = lookups * width
        made.forward.append(streaming("embedding", moved * (self.parameter_bytes + self.width) + lookups * INDEX))
        if made.trained:
            zeroed = entries * width * self.parameter_bytes
            made.backward.append(streaming("embedding", zeroed + 3 * moved * self.parameter_bytes))

    def multiply(
        self, name: str, rows: float, inputs: int, outputs: int, *, first: bool = False, fp8: bool | None = None
    ) -> None:
        """Multiply x (rows, inputs) by the last tensor, with both gradients, or without that of x if it is `first`.

        With `fp8` input, weight and the gradient of the output are cast, each with one scale: read once, and written
        twice, as it is and transposed, since tensor cores take both operands of fp8 along k. The scale takes no further
        read: Transformer Engine takes that of earlier steps, and `torch.compile`, which torchao asks for, finds the
        largest value where the tensor is made (NVIDIA/TransformerEngine, delayed scaling; pytorch/ao, torchao/float8).
        False: a layer beside it casts the same x.
        """

        def multiplied(what: str, m: float, n: float, k: float) -> Operator:
            return replace(product(what, m, n, k, self.width if fp8 is None else FP8), fp8=fp8 is not None)

        forward = [multiplied(name, rows, outputs, inputs)]
        back = [] if first else [multiplied(f"{name}, of its input", rows, inputs, outputs)]
        if self.tensors[-1].trained:
            back.append(multiplied(f"{name}, {OF_WEIGHT}", inputs, outputs, rows))
        if fp8 is not None:
            each, elements = self.width + 2 * FP8, inputs * outputs + (rows * inputs if fp8 else 0)
            forward.insert(0, streaming("cast to fp8", each * elements))
            back.insert(0, streaming("cast to fp8", each * rows * outputs))
        self.add(forward, back)

    def linear(
        self,
        name: str,
        rows: float,
        inputs: int,
        outputs: int,
        *,
        bias: bool = True,
        keep: float = 1.0,
        first: bool = False,
        in_block: bool = False,
    ) -> None:
        """y = x W + b for x of (rows, inputs): one product forward, two backward, 2 and 4 x rows x inputs x outputs.

        `keep`: share of x that is kept for the gradient of W; 0 where a layer beside it keeps the same x. `first`: x
        needs no gradient. `in_block`: it is one of those that fp8 is for.
        """
        self.tensor(f"{name}.weight", outputs, inputs)
        fp8 = keep > 0 if in_block and self.arithmetic == "fp8" else None
        self.multiply("linear", rows, inputs, outputs, first=first, fp8=fp8)
        lora = self.lora if in_block and self.lora is not None and self.lora.adapts(name) else None
        if keep and (lora is not None or self.lora is None):
            self.keep(keep * rows * inputs)
        if bias:
            made = self.tensor(f"{name}.bias", outputs)  # added in the epilogue of the product
            if made.trained:
                made.backward.insert(0, row_wise("bias", rows * outputs * self.width))
        if lora is not None:
            self._adapter(name, rows, inputs, outputs, lora.rank)

    def _adapter(self, name: str, rows: float, inputs: int, outputs: int, rank: int) -> None:
        """(alpha / r) B A x beside a linear layer, which keeps A x: two products, a scale and a sum, and back."""
        self.tensor(f"{name}.lora_A.weight", rank, inputs, adapter=True)
        self.multiply("adapter", rows, inputs, rank)
        self.tensor(f"{name}.lora_B.weight", outputs, rank, adapter=True)
        self.multiply("adapter", rows, rank, outputs)
        self.keep(rows * rank)
        wide, moved = 3 * rows * inputs * self.width, rows * outputs * self.width
        scaled = streaming("scale of the adapter", 2 * moved, compiled=0.0)  # fused with the sum
        self.add([scaled, streaming("sum with the adapter", 3 * moved)], [scaled])
        # The gradient of x, of adapter and layer.
        self.tensors[-2].backward.append(streaming("sum with the adapter", wide))

    def tied_linear(self, rows: float, inputs: int, outputs: int) -> None:
        """A decoder whose weight is the embedding's: its operators run where the last tensor stands, which keeps its
        input."""
        self.multiply("decoder", rows, inputs, outputs)
        self.keep(rows / self.apart * inputs)

    def decoder(self, rows: float, inputs: int, outputs: int, *, tied: bool, bias: bool = False) -> None:
        """The decoder of tokens, with the embedding's weight where it is `tied`, and the loss."""
        if tied:
            self.tied_linear(rows, inputs, outputs)
        else:
            self.linear("lm_head", rows, inputs, outputs, bias=bias, keep=1 / self.apart)
        self.loss(rows, outputs)

    def norm(self, name: str, rows: float, width: int, kind: Norm = "layer") -> None:
        """A norm in one kernel; its backward pass has another one for parameters, if it has any.

        In eager mode PyTorch has one for layer norms, but makes RMS norms of others: a cast to fp32, square, mean,
        product and cast back, product with the weight, and derivatives (aten/src/ATen/native/layer_norm.cpp, 2.6).
        """
        elements = rows * width
        w = self.width
        eager = (4 * w + 7 * FP32, 2 * w + 19 * FP32, 6 * w) if kind == "rms" else (0, 0, 0)
        if kind != "layer_without_parameters":
            self.tensor(f"{name}.weight", width)
        self.add([row_wise("norm", 2 * elements * self.width, eager=elements * eager[0])], [])
        if kind == "layer":
            self.tensor(f"{name}.bias", width)
        back = [row_wise("norm", 3 * elements * self.width, eager=elements * eager[1])]
        if kind != "layer_without_parameters" and self.lora is None:
            back.append(row_wise("norm", 2 * elements * self.width, eager=elements * eager[2]))
        self.add([], back)
        self.keep(elements)

    def activation(self, name: str, elements: float, keep: bool = True) -> None:
        """An element-wise function: read and write forward; read input and gradient, and write, backward.

        `keep`: whether its input is kept; ReLU in place keeps its output, which the next layer keeps as its input.
        """
        self.add([streaming(name, 2 * elements * self.width)], [streaming(name, 3 * elements * self.width)])
        if keep:
            self.keep(elements)

    def gated(self, elements: float) -> None:
        """silu(gate) * up of a gated network (Shazeer 2020, 2002.05202): two kernels; gate, up and silu are kept.

        Fused, it is one that does not write silu, and makes it again.
        """
        moved = elements * self.width
        self.add(
            [
                streaming("silu", 2 * moved, compiled=moved),
                streaming("product of the gate", 3 * moved, compiled=2 * moved),
            ],
            [
                streaming("product of the gate", 5 * moved, compiled=3 * moved),
                streaming("silu", 3 * moved, compiled=2 * moved),
            ],
        )
        self.keep(3 * elements)

    def dropout(self, elements: float) -> None:
        """Dropout: keeps its mask."""
        masked = streaming("dropout", elements * (2 * self.width + MASK))
        self.add([masked], [masked])
        self.keep(elements, MASK)

    def residual(self, elements: float) -> None:
        """x + y forward; backward, the gradients of both branches are added."""
        moved = elements * self.width
        # Fused with the norm behind it, whose kernel has one operand in registers, or both on the way back.
        forward = streaming("residual add", 3 * moved, compiled=2 * moved)
        self.add([forward], [streaming("residual add", 3 * moved, compiled=moved)])

    def loss(self, rows: float, classes: int) -> None:
        """Cross-entropy in fp32: log-softmax, which keeps its output, and its backward pass.

        PyTorch makes the gradient of this output and that of the logits, both in fp32, beside it (nll_loss and
        log_softmax of aten: 12 B of each logit are there at once). Fused or in chunks it takes less.
        """
        elements = rows * classes
        cast = [] if self.width == FP32 else [streaming("cast of logits", elements * (self.width + FP32))]
        self.add(
            [*cast, row_wise("log-softmax", 2 * elements * FP32)],
            [row_wise("log-softmax", 2 * elements * FP32), *cast],
        )
        self.keep(elements, FP32)
        self.tensors[-1].loss = 2 * elements * FP32

    def describe(self) -> Description:
        """The description, with activations per sample."""
        tensors, ahead = trained_alone(self.tensors) if self.lora is not None else (self.tensors, 0)
        return Description(tensors, self.samples, self.arithmetic, tuple(self.assumptions), ahead)


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
        lora = getattr(self, "lora", None)
        builder = Builder(samples, arithmetic, NUMBER_BYTES[precision.gradients], split, lora)
        self.build(builder)
        made = builder.describe()
        if arithmetic == "fp8" and not any(item.fp8 for item in made.forward):
            raise expected("an arithmetic of this model, such as bf16", "fp8", "linear layers of transformers have it")
        return made

    def build(self, builder: Builder) -> None:
        """Add all tensors and operators."""
        raise NotImplementedError
