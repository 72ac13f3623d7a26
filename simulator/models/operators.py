"""Operators of a model: the kernels of forward and backward passes with their shapes, arithmetic and bytes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, get_args

from simulator.models.exchange import Rows
from simulator.records import Record, Struct, field

Arithmetic = Literal["fp32", "tf32", "fp16", "bf16", "mixed", "fp8"]
"""Format in which matrix products multiply; sums are in fp32. `mixed`: bf16 where the GPU has it, else fp16. `fp8`:
those of linear layers within blocks, all others in bf16."""
ARITHMETIC_BYTES: dict[Arithmetic, int] = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "mixed": 2, "fp8": 2}
"""Bytes of an activation in memory."""

FusedAttention = Literal["flash1", "fused", "flash3"]
"""Generations of fused attention kernels."""
ElementWise = Literal["eager", "one_kernel", "compiled"]
"""How element-wise work runs: norms, rotary positions and gates as a framework's eager functions write them, in several
kernels and in fp32 between them; each norm, function and sum in one kernel; or fused by a compiler, or by hand."""

Collective = Literal["all_gather", "reduce_scatter", "all_reduce", "all_to_all"]
_OnGpu = Literal["product", "grouped", "attention", "convolution", "winograd", "streaming", "rows", "scan"]
OperatorKind = _OnGpu | Collective
"""What limits an operator: matrix products, fused attention and convolutions (`winograd`: 3x3 with stride 1) arithmetic
or memory (`grouped`: `batch` products of experts, in one kernel); `streaming` (element by element), `rows` (softmax,
norms: reductions over rows) and `scan` (of a state space) memory alone; collectives among the GPUs that divide a layer,
whose name is the axis, the network."""
COLLECTIVES: tuple[Collective, ...] = get_args(Collective)

OF_WEIGHT = "of its weight"
"""What the products that make the gradients of weights are called."""


class Split(Record):
    """How the layers of a model are divided over GPUs.

    - `tensor`: GPUs that each have a part of every matrix and of the heads (Shoeybi et al. 2019, 1909.08053).
    - `context`: GPUs that each have a part of the tokens of every sample.
    - `sequence`: norms, dropout and residuals are divided by tokens over the `tensor` GPUs as well (Korthikanti et al.
      2022, 2205.05198): gathers and reduce-scatters take the place of all-reduces.
    - `expert`: GPUs that each have a part of the experts and other samples (Lepikhin et al. 2020, 2006.16668).
    - `imbalance`: tokens that are sent to the busiest of them over the mean.
    """

    tensor: int = 1
    context: int = 1
    sequence: bool = True
    expert: int = 1
    imbalance: float = 1.0


WHOLE = Split()
"""No layer is divided."""


class Operator(Record):
    """`calls` kernels in a row, each with `batch` products of (m, k) and (k, n), and `nbytes` to and from memory.

    FLOPs count a multiplication and an addition as two; those of element-wise work are left out, as is usual.

    - `attention`: the generation of a kernel of fused attention.
    - `fp8`: a product in fp8, whatever the format of the others.
    - `eager`, `compiled`: bytes to and from memory where element-wise work runs so; 0 and None: `nbytes`.
    """

    name: str
    kind: OperatorKind
    nbytes: float
    batch: float = 0.0
    m: float = 0.0
    n: float = 0.0
    k: float = 0.0
    calls: int = 1
    attention: FusedAttention = "fused"
    fp8: bool = False
    eager: float = 0.0
    compiled: float | None = None

    def multiplies_in(self, arithmetic: Arithmetic) -> Arithmetic:
        """Format of its products in a model with such an arithmetic."""
        return "fp8" if self.fp8 else "bf16" if arithmetic == "fp8" else arithmetic

    @property
    def flops(self) -> float:
        """Arithmetic of all calls, 2 c b m n k.

        >>> Operator("a", "product", 0, batch=1, m=2, n=3, k=4).flops
        48.0
        """
        return 2.0 * self.calls * self.batch * self.m * self.n * self.k


def product(name: str, m: float, n: float, k: float, width: int, *, batch: float = 1, calls: int = 1) -> Operator:
    """Products of (m, k) and (k, n) matrices whose operands have `width` bytes; each operand is moved once."""
    nbytes = width * batch * (m * k + k * n + m * n)
    return Operator(name, "product", nbytes, batch, m, n, k, calls)


def streaming(name: str, nbytes: float, *, eager: float = 0.0, compiled: float | None = None) -> Operator:
    """One kernel that goes through memory element by element."""
    return Operator(name, "streaming", nbytes, eager=eager, compiled=compiled)


def row_wise(name: str, nbytes: float, *, eager: float = 0.0) -> Operator:
    """One kernel that also reduces rows: a softmax or a norm."""
    return Operator(name, "rows", nbytes, eager=eager)


class DescribedTensor(Struct):
    """A parameter tensor, and the operators up to the next one in the forward pass, and before its gradient is ready.

    - `shape`: its dimensions; `numel`: elements.
    - `kept`: bytes of activations that its operators keep for the backward pass, of all samples.
    - `again`: bytes that are made again before its backward pass, and so are there while this runs.
    - `loss`: bytes of the gradients with which the backward pass begins, where they are made one after the other.
    - `rows`: of an embedding, what its gradient consists of.
    - `active`: of a tensor of experts, elements that a token uses; None: of any other, where it uses all.
    - `trained`: whether it has a gradient.
    - `frozen`: elements of tensors without one whose operators are this one's.
    - `forward`, `backward`: operators in their order.
    """

    name: str
    shape: tuple[int, ...]
    rows: Rows | None = None
    active: int | None = None
    trained: bool = True
    frozen: int = 0
    forward: list[Operator] = field(default_factory=list)
    backward: list[Operator] = field(default_factory=list)
    kept: float = 0.0
    again: float = 0.0
    loss: float = 0.0

    def keep_for(self, other: DescribedTensor) -> None:
        """Keep what the operators of another tensor need, which run with this one's."""
        self.kept += other.kept
        self.again, self.loss = max(self.again, other.again), max(self.loss, other.loss)

    @property
    def numel(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def by_product(self) -> bool:
        """Whether a product of matrices makes its gradient."""
        return any(operator.name.endswith(OF_WEIGHT) for operator in self.backward)


class Description(Struct):
    """A model at a batch size as tensors in forward order, each with its operators.

    - `samples`: of the batch.
    - `arithmetic`: the format of its products.
    - `assumptions`: what was assumed, in sentences.
    - `ahead`: frozen elements that stand before the first tensor, and are counted to the last one.
    """

    tensors: list[DescribedTensor]
    samples: int
    arithmetic: Arithmetic
    assumptions: tuple[str, ...] = ()
    ahead: int = 0

    @property
    def numel(self) -> int:
        """Parameters that are trained."""
        return sum(tensor.numel for tensor in self.tensors)

    @property
    def frozen(self) -> int:
        """Parameters that are not trained, in the format of the arithmetic."""
        return sum(tensor.frozen for tensor in self.tensors)

    @property
    def active(self) -> int:
        """Parameters that a token uses: all but those of experts that it is not sent to."""
        return sum(tensor.numel if tensor.active is None else tensor.active for tensor in self.tensors)

    @property
    def kept_bytes(self) -> float:
        """Bytes of activations that one sample keeps from the forward to the backward pass."""
        return sum(tensor.kept for tensor in self.tensors) / self.samples

    @property
    def forward(self) -> list[Operator]:
        """Operators of the forward pass."""
        return [operator for tensor in self.tensors for operator in tensor.forward]

    @property
    def backward(self) -> list[Operator]:
        """Operators of the backward pass, in the order of the tensors in the forward pass."""
        return [operator for tensor in self.tensors for operator in tensor.backward]


def flops_of(operators: Iterable[Operator]) -> float:
    """Arithmetic of some operators."""
    return math.fsum(operator.flops for operator in operators)
