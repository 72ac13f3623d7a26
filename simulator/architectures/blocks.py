"""Blocks of transformers: attention and a network of two layers, each with norm and residual."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from simulator.architectures.attention import Attention, Recompute
from simulator.architectures.building import Builder
from simulator.architectures.experts import Experts
from simulator.records import Record, replace


class BlockNames(Record):
    """Names of a block's layers, after its prefix; one name in `projections` is one product for all of them.

    An empty `norm1` or `norm2`: there is no norm at that place.
    """

    norm1: str
    projections: tuple[str, ...]
    output: str
    norm2: str
    up: tuple[str, ...]
    down: str


class TransformerBlock(Record):
    """A transformer block on (tokens, hidden).

    - `mlp`: hidden units of the network; where two layers go up, they are gate and up of a gated network.
    - `before`: norms stand before attention and network; otherwise after their residual.
    - `norm_bias`: layer norm, otherwise RMS norm.
    - `experts`: what takes the place of the network; none: the network.
    - `head_norm`: queries and keys have a norm over each head, or over all heads together (`whole`).
    - `branch_norms`: names of norms of what attention and network give, before it is added to the residual; none: both
      have none.
    """

    hidden: int
    mlp: int
    before: bool
    dropout: bool
    attention: Attention
    recompute: Recompute
    names: BlockNames
    norm_bias: bool = True
    projection_bias: bool = True
    bias: bool = True
    experts: Experts | None = None
    head_norm: bool | Literal["whole"] = False
    branch_norms: tuple[str, str] | None = None

    def add(self, builder: Builder, prefix: str, tokens: float) -> None:
        """Add the block's tensors and operators."""
        if self.recompute in ("full", "operators"):
            some, inputs = self.recompute == "operators", tokens * self.hidden / builder.apart
            _recomputed(builder, inputs, lambda: self._layers(builder, prefix, tokens), some)
        else:
            self._layers(builder, prefix, tokens)

    def _layers(self, builder: Builder, prefix: str, tokens: float) -> None:
        names, apart = self.names, tokens / builder.apart
        for place, (norm, layers) in enumerate(((names.norm1, self._attention), (names.norm2, self._network))):
            if self.before and norm:
                builder.norm(prefix + norm, apart, self.hidden, self.norm_bias)
            builder.enter(tokens * self.hidden)
            layers(builder, prefix, tokens)
            builder.leave(tokens * self.hidden)
            if self.branch_norms:
                builder.norm(prefix + self.branch_norms[place], apart, self.hidden, self.norm_bias)
            if self.dropout:
                builder.dropout(apart * self.hidden)
            builder.residual(apart * self.hidden)
            if not self.before:
                builder.norm(prefix + norm, apart, self.hidden, self.norm_bias)

    def _attention(self, builder: Builder, prefix: str, tokens: float) -> None:
        attention = replace(
            self.attention,
            heads=builder.part(self.attention.heads, "heads"),
            kv_heads=builder.part(max(self.attention.kv_heads, builder.split.tensor), "heads of keys and values"),
            context=builder.split.context,
        )
        heads, kv_heads, width = attention.heads, attention.kv_heads, attention.width
        parts = [heads * width, kv_heads * width, kv_heads * width]
        outputs = [sum(parts)] if len(self.names.projections) == 1 else parts
        for place, (name, columns) in enumerate(zip(self.names.projections, outputs, strict=True)):
            keep, bias = (place == 0) / builder.apart, self.projection_bias
            builder.linear(prefix + name, tokens, self.hidden, columns, bias=bias, keep=keep, in_block=True)
            if self.head_norm and place < 2:
                norm = prefix + name.replace("proj", "norm")
                over = columns if self.head_norm == "whole" else width
                builder.norm(norm, tokens * columns / over, over, self.norm_bias)
        attention.add(builder, self.recompute == "selective")
        builder.linear(prefix + self.names.output, tokens, heads * width, self.hidden, bias=self.bias, in_block=True)

    def _network(self, builder: Builder, prefix: str, tokens: float) -> None:
        if self.experts is not None:
            self.experts.add(builder, f"{prefix}mlp.", tokens, self.hidden)
            return
        mlp = builder.part(self.mlp, "hidden units of the network")
        for place, name in enumerate(self.names.up):
            keep = (place == 0) / builder.apart
            builder.linear(prefix + name, tokens, self.hidden, mlp, bias=self.bias, keep=keep, in_block=True)
        if len(self.names.up) == 2:
            builder.gated(tokens * mlp)
        else:
            builder.activation("gelu", tokens * mlp)
        builder.linear(prefix + self.names.down, tokens, mlp, self.hidden, bias=self.bias, in_block=True)


def _recomputed(builder: Builder, inputs: float, build: Callable[[], None], some: bool) -> None:
    """Build layers of which only the input is kept; their forward pass runs again before their backward pass.

    `some`: fused attention, all-to-alls and every other product, from the first one on, are kept and do not run again;
    products of experts and in fp8 all do (pytorch/torchtitan, torchtitan/parallelisms/parallelize_llama.py, 2024).
    """
    first = len(builder.tensors)
    build()
    made = builder.tensors[first:]
    forward = [operator for tensor in made for operator in tensor.forward]
    for tensor in made:
        tensor.kept = 0.0
    builder.keep(inputs)
    stays = (
        [item for item in forward if item.kind == "product" and item.batch == 1 and not item.fp8][::2] if some else []
    )
    stays += [item for item in forward if item.kind in ("attention", "all_to_all")] if some else []
    for item in stays:
        if item.kind == "all_to_all":
            builder.keep(item.nbytes, 1)
            continue
        builder.keep(item.m * item.n if item.kind == "product" else item.batch / 2 * item.m * item.k)
    builder.tensors[-1].backward[:0] = [item for item in forward if not any(item is each for each in stays)]
