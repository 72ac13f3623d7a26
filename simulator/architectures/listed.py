"""A model as a list of its tensors and operators, such as `sparsim list workload` makes of a PyTorch module."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from simulator.architectures.building import FP32, Architecture, Builder
from simulator.bounds import Count
from simulator.component import Spec
from simulator.models.limits import MAX_LAYERS
from simulator.models.operators import DescribedTensor, Operator, OperatorKind

_Size = Annotated[float, Field(ge=0, le=1e15)]
ListedOperator = tuple[OperatorKind, _Size, _Size, _Size, _Size, _Size]
"""Kind, batch, m, n, k, bytes in memory: of all samples, with values of four bytes."""


class ListedTensor(Spec):
    """A parameter tensor with the operators up to the next one.

    - `name`: of the tensor.
    - `numel`: elements; `shape`: its dimensions, none: not known.
    - `forward`: operators of the forward pass, each as [kind, batch, m, n, k, bytes].
    - `backward`: operators of the backward pass before its gradient is ready.
    """

    name: str = Field(max_length=1000)
    numel: int = Field(ge=1, le=10**12)
    shape: tuple[Count, ...] = Field(default=(), max_length=64)
    forward: tuple[ListedOperator, ...] = ()
    backward: tuple[ListedOperator, ...] = ()


class Listed(Architecture, kind="listed"):
    """Tensors and operators in forward order, at a number of samples; at another number, all work is in proportion.

    - `samples`: to which the operators belong.
    - `kept`: bytes of activations that they keep until the backward pass, with values of four bytes.
    - `tensors`: in forward order.
    """

    samples: int = Field(ge=1, le=10**9)
    kept: float = Field(default=0.0, ge=0, le=1e18)
    tensors: tuple[ListedTensor, ...] = Field(min_length=1, max_length=MAX_LAYERS)

    def build(self, builder: Builder) -> None:
        """The list, with the width of the arithmetic and at the builder's samples."""
        more, narrower = builder.samples / self.samples, builder.width / FP32

        def made(row: ListedOperator) -> Operator:
            kind, batch, m, n, k, nbytes = row
            return Operator(kind, kind, nbytes * more * narrower, batch * more, m, n, k)

        for item in self.tensors:
            builder.tensors.append(
                DescribedTensor(
                    item.name,
                    item.shape or (item.numel,),
                    forward=[made(row) for row in item.forward],
                    backward=[made(row) for row in item.backward],
                )
            )
        builder.keep(self.kept * more * narrower, 1)
        builder.assumptions.append(f"operators of {self.samples} samples, in proportion at other numbers")
