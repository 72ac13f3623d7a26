"""Low-rank adapters: which layers of a described model have them, and what is left to be trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from simulator.component import Spec, expected
from simulator.models.layers import block_of
from simulator.models.operators import DescribedTensor

_QUERY_VALUE = ("q_proj", "v_proj", "query", "value", "c_attn")
_ATTENTION = ("attn.", "ttention.")


class Lora(Spec):
    """Low-rank adapters of linear layers, whose weights are not trained: y = W x + (alpha / r) B A x (Hu et al. 2021,
    2106.09685), without dropout, in the format of the model.

    - `rank`: columns r between A and B.
    - `targets`: the linear layers of blocks that have one: `query_value` (the default of PEFT; of GPT-2 with the keys,
      which are in one layer with them), `attention` or `linear`, all of them.
    """

    rank: int = Field(default=8, ge=1, le=10_000)
    targets: Literal["query_value", "attention", "linear"] = "query_value"

    def adapts(self, name: str) -> bool:
        """Whether a linear layer of a block has an adapter."""
        if self.targets == "query_value":
            return name.endswith(_QUERY_VALUE)
        return self.targets == "linear" or any(part in name for part in _ATTENTION)


def trained_alone(tensors: Sequence[DescribedTensor]) -> tuple[list[DescribedTensor], int]:
    """The tensors that are trained, with the operators of all; and how many elements stand before their blocks.

    What a frozen one does runs behind what the trained one before it does, and on the way back before its gradient is
    ready; where its block has none before it, with the first one there. What stands before the first trained one needs
    no gradients. Outside of the blocks, these weights are so needed once: they count to the last tensor, as what is
    outside of the blocks does where a model is sharded (the root module of PyTorch's FSDP).

    Raises an expected-error where none is trained.
    """
    made, waiting, ahead = list[DescribedTensor](), list[DescribedTensor](), 0
    blocks = {block_of(tensor.name) for tensor in tensors if tensor.trained} - {None}
    begun = set[str | None]()
    for tensor in tensors:
        block = block_of(tensor.name)
        if tensor.trained:
            made.append(tensor)
            begun.add(block)
            for before in reversed(waiting):
                tensor.forward[:0] = before.forward
                tensor.backward += before.backward if len(made) > 1 else []
                tensor.keep_for(before)
                tensor.frozen += before.numel * (block_of(before.name) is not None)
            waiting.clear()
        elif not made or block in blocks - begun:
            waiting.append(tensor)
            ahead += tensor.numel * (block is None)
        else:
            made[-1].forward += tensor.forward
            made[-1].backward[:0] = tensor.backward
            made[-1].keep_for(tensor)
            made[-1].frozen += tensor.numel
    if not made:
        raise expected("a model with linear layers that have adapters", "none")
    made[-1].frozen += ahead
    return made, ahead
