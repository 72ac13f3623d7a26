"""Fused attention on PyTorch's meta device, where `scaled_dot_product_attention` would fall into separate kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from simulator.architectures.listed import ListedOperator


class _Fused(torch.autograd.Function):
    """The shapes of attention, with one operator a pass: 2 products forward and 5 backward (Dao 2023, 2307.08691)."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Any:
        query, key, value, causal, note = given
        out = query.new_empty((*query.shape[:-1], value.shape[-1]))
        ctx.save_for_backward(query, key, value, out)
        ctx.causal, ctx.note = causal, note
        note(_operator(2, (query, key, value, out), causal))
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        query, key, value, out = ctx.saved_tensors
        ctx.note(_operator(5, (query, key, value, out, query, key, value, out), ctx.causal))
        return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape), None, None


def _operator(products: int, moved: tuple[Any, ...], causal: bool) -> ListedOperator:
    """Products of one pass; a causal query meets half of the keys, (s + 1) / 2 on average."""
    query, key = moved[:2]
    batch = query.numel() // (query.shape[-1] * query.shape[-2])
    keys = (key.shape[-2] + 1) / 2 if causal else key.shape[-2]
    nbytes = sum(item.numel() * item.element_size() for item in moved)
    sizes = (float(products * batch), float(query.shape[-2]), float(keys), float(query.shape[-1]))
    return ("attention", *sizes, float(nbytes))


class FusedAttention(TorchFunctionMode):
    """Runs `scaled_dot_product_attention` as one kernel a pass; `note` is told of each."""

    def __init__(self, note: Callable[[ListedOperator], None]) -> None:
        super().__init__()
        self.note = note

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is not F.scaled_dot_product_attention:
            return func(*args, **kwargs)
        named = dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args, strict=False)) | kwargs
        return _Fused.apply(named["query"], named["key"], named["value"], bool(named.get("is_causal")), self.note)
