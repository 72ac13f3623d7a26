"""Blocks of transformers: attention and a network of two layers, each with norm and residual."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Literal

from simulator.architectures.building import FP32, Builder, Norm
from simulator.architectures.experts import Experts
from simulator.models.operators import FusedAttention, Operator, product, row_wise, streaming
from simulator.records import Record, replace

AttentionKernel = FusedAttention | Literal["separate"]
Recompute = Literal["none", "selective", "operators", "full"]


class Attention(Record):
    """Attention of `sequence` tokens: `heads` of queries and `kv_heads` of keys and values, `width` wide.

    - `values`: columns of a head of values and of the output.
    - `rotary`: share of the columns of queries and keys that rotary positions turn; 0: there are none.
    - `memory`: tokens of another sequence whose keys and values are met (cross-attention); none: its own.

    A causal query meets half of the keys, (s + 1) / 2 on average, and at most `window` of them. A GPU has the queries
    of s / `context` tokens, which meet the keys of all: GPUs pass on keys and values in a ring (Liu et al. 2023,
    2310.01889), or gather them, and their gradients.
    """

    sequence: int
    heads: int
    kv_heads: int
    width: int
    values: int
    causal: bool
    kernel: AttentionKernel
    dropout: bool
    rotary: float = 0.0
    window: int | None = None
    context: int = 1
    memory: int | None = None

    @property
    def keys(self) -> float:
        """Keys that a query meets, on average over the sequence."""
        if self.memory is not None:
            return float(self.memory)
        s, reach = self.sequence, min(self.window or self.sequence, self.sequence)
        if not self.causal:
            return float(reach)
        return reach - reach * (reach - 1) / (2 * s)

    def add(self, builder: Builder, recompute: bool) -> None:
        """Add its operators behind the last tensor. `recompute`: what lies inside is made again, not kept."""
        tokens = builder.samples * self.queries
        met = builder.samples * self.memory if self.memory is not None else tokens
        if self.rotary:
            turned = tokens * self.width * (self.heads + self.kv_heads) * 2 * builder.width * self.rotary
            # PyTorch turns them as complex numbers in fp32, after a cast and before another one.
            rotary = streaming("rotary", turned, eager=turned * (1 + 2 * FP32 / builder.width))
            builder.add([rotary], [rotary])
        builder.keep(tokens * self.heads * self.width + met * self.kv_heads * (self.width + self.values))
        forward, backward, inside = self._separate(builder) if self.kernel == "separate" else self._fused(builder)
        if recompute:
            backward = [*forward, *backward]
            builder.tensors[-1].again = inside
        else:
            builder.keep(inside, 1)
        if self.context > 1:
            passed = builder.samples * self.sequence * self.kv_heads * (self.width + self.values) * builder.width
            forward = [Operator("context", "all_gather", passed), *forward]
            backward = [*forward[:1], *backward, Operator("context", "reduce_scatter", passed)]
        builder.add(forward, backward)

    @property
    def queries(self) -> float:
        """Tokens of a sample whose queries a GPU has."""
        return self.sequence / self.context

    def _fused(self, builder: Builder) -> tuple[list[Operator], list[Operator], float]:
        """One kernel a pass (Dao 2023, 2307.08691): 2 products forward, 5 backward, one of which makes scores again."""
        tokens = builder.samples * self.queries
        pairs = builder.samples * self.heads
        met = builder.samples * self.memory if self.memory is not None else tokens
        operands = (tokens * self.heads + met * self.kv_heads) * (self.width + self.values) * builder.width

        generation: FusedAttention = "fused" if self.kernel == "separate" else self.kernel

        def kernel(of_keys: int, of_values: int, nbytes: float) -> Operator:
            products = of_keys + of_values
            width = (of_keys * self.width + of_values * self.values) / products
            sizes = products * pairs, self.queries, self.keys, width
            return Operator("attention", "attention", nbytes, *sizes, attention=generation)

        # The logarithms of the sums of each row are kept in fp32; the output is the input of the next layer.
        return [kernel(1, 1, operands)], [kernel(3, 2, 2 * operands)], tokens * self.heads * FP32

    def _separate(self, builder: Builder) -> tuple[list[Operator], list[Operator], float]:
        """Scores, scale and mask, softmax, dropout and the product with the values, over whole (s, s) matrices."""
        pairs, s, width = builder.samples * self.heads, self.memory or self.sequence, builder.width
        d, wide, q = self.width, self.values, self.queries
        cells, matrices = pairs * q * s, partial(product, width=width, batch=pairs)
        scores, values = matrices("scores", q, s, d), matrices("values", q, wide, s)
        masked = streaming("scale and mask", 2 * 2 * cells * width, compiled=0.0)  # fused with the softmax
        forward = [scores, masked, row_wise("softmax", 2 * cells * width)]
        backward = [row_wise("softmax", 3 * cells * width), masked]
        kept = cells * width
        if self.dropout:
            moved = streaming("dropout", cells * (2 * width + 1))
            forward, backward, kept = [*forward, moved], [moved, *backward], kept + cells * (width + 1)

        of_values = [matrices("values, of cells", q, s, wide), matrices("values, of values", s, wide, q)]
        of_scores = [matrices("scores, of queries", q, d, s), matrices("scores, of keys", s, d, q)]
        return [*forward, values], [*of_values, *backward, *of_scores], kept


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


class Attending(Record):
    """Attention to the tokens of a block, or to those of an encoder; names as in `BlockNames`."""

    attention: Attention
    norm: str
    projections: tuple[str, ...]
    output: str


class Latent(Record):
    """Queries, keys and values that are projected by way of narrow ones (MLA; DeepSeek-AI 2024, 2405.04434).

    - `queries`: columns of the narrow queries; none: they are projected at once.
    - `keys`: columns of the narrow keys and values, which all heads share.
    - `turned`: columns of a head of queries, and of the one head of keys, that rotary positions turn.
    """

    queries: int | None
    keys: int
    turned: int


class TransformerBlock(Record):
    """A transformer block on (tokens, hidden).

    - `mlp`: hidden units of the network; where two layers go up, they are gate and up of a gated network.
    - `before`: norms stand before attention and network; otherwise after their residual.
    - `shared_norm`: attention and network have the same input and norm (Wang and Komatsuzaki 2021, GPT-J).
    - `norm`: kind of the norms, those of heads included.
    - `biases`: which linear layers have one: queries and values (q), keys (k), output (o), network (n).
    - `sinks`: a number for each head beside the scores (Xiao et al. 2023, 2309.17453), in the kernel of attention.
    - `cross`: attention to an encoder. `latent`: narrow queries, keys and values.
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
    norm: Norm = "layer"
    biases: str = "qkon"
    shared_norm: bool = False
    sinks: bool = False
    cross: Attending | None = None
    latent: Latent | None = None
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
        own = Attending(self.attention, names.norm1, names.projections, names.output)
        parts = [own, *([self.cross] if self.cross is not None else []), None]
        for place, part in enumerate(parts):
            norm = part.norm if part is not None else names.norm2
            if self.before and norm and not (place and self.shared_norm):
                builder.norm(prefix + norm, apart, self.hidden, self.norm)
            builder.enter(tokens * self.hidden, in_block=True, attention=part is not None)
            if part is not None:
                self._attention(builder, prefix, tokens, part)
            else:
                self._network(builder, prefix, tokens)
            builder.leave(tokens * self.hidden, in_block=True)
            if self.branch_norms:
                builder.norm(prefix + self.branch_norms[place], apart, self.hidden, self.norm)
            if self.dropout:
                builder.dropout(apart * self.hidden)
            builder.residual(apart * self.hidden)
            if not self.before:
                builder.norm(prefix + norm, apart, self.hidden, self.norm)

    def _attention(self, builder: Builder, prefix: str, tokens: float, part: Attending) -> None:
        asked, projections = part.attention, part.projections
        attention = replace(
            asked,
            heads=builder.part(asked.heads, "heads"),
            kv_heads=builder.part(max(asked.kv_heads, builder.split.tensor), "heads of keys and values"),
            context=builder.split.context,
        )
        heads, kv_heads, width, wide = attention.heads, attention.kv_heads, attention.width, attention.values
        if self.latent is not None:
            self._narrow(builder, prefix, tokens, attention, self.latent)
        else:
            parts = [heads * width, kv_heads * width, kv_heads * wide]
            outputs = [sum(parts)] if len(projections) == 1 else parts
            met = tokens if asked.memory is None else builder.samples * asked.memory
            for place, (name, columns) in enumerate(zip(projections, outputs, strict=True)):
                # Queries, keys and values of one sequence have the same input, which is kept once.
                keep = (place == (0 if asked.memory is None else place % 2)) / builder.apart
                bias, rows = "qkq"[place] in self.biases, met if place else tokens
                builder.linear(prefix + name, rows, self.hidden, columns, bias=bias, keep=keep, in_block=True)
                if self.head_norm and place < 2:
                    norm = prefix + name.replace("proj", "norm")
                    over = columns if self.head_norm == "whole" else width
                    builder.norm(norm, tokens * columns / over, over, self.norm)
        if self.sinks:
            builder.tensor(f"{prefix}self_attn.sinks", heads)
        attention.add(builder, self.recompute == "selective")
        builder.linear(prefix + part.output, tokens, heads * wide, self.hidden, bias="o" in self.biases, in_block=True)

    def _narrow(self, builder: Builder, prefix: str, tokens: float, attention: Attention, latent: Latent) -> None:
        """Projections of MLA, as DeepseekV3Attention of transformers has them; GPUs of a tensor axis all make the
        narrow ones of all tokens, and a part of the heads of the wide ones."""
        heads, width, wide = attention.heads, attention.width, attention.values
        prefix, once = f"{prefix}self_attn.", 1 / builder.apart

        def layer(name: str, inputs: int, outputs: int, *, bias: bool = False, keep: float = 1.0) -> None:
            builder.linear(prefix + name, tokens, inputs, outputs, bias=bias, keep=keep, in_block=True)

        if latent.queries is None:
            layer("q_proj", self.hidden, heads * width, keep=once)
        else:
            layer("q_a_proj", self.hidden, latent.queries, bias="q" in self.biases, keep=once)
            builder.norm(f"{prefix}q_a_layernorm", tokens, latent.queries, self.norm)
            layer("q_b_proj", latent.queries, heads * width)
        columns = latent.keys + latent.turned
        layer("kv_a_proj_with_mqa", self.hidden, columns, bias="q" in self.biases, keep=0)
        builder.norm(f"{prefix}kv_a_layernorm", tokens, latent.keys, self.norm)
        layer("kv_b_proj", latent.keys, heads * (width - latent.turned + wide))
        joined = streaming("join of keys", 2 * tokens * heads * width * builder.width)
        builder.add([joined], [joined])

    def _network(self, builder: Builder, prefix: str, tokens: float) -> None:
        if self.experts is not None:
            self.experts.add(builder, f"{prefix}mlp.", tokens, self.hidden)
            return
        mlp, bias = builder.part(self.mlp, "hidden units of the network"), "n" in self.biases
        for place, name in enumerate(self.names.up):
            keep = (place == 0 and not self.shared_norm) / builder.apart
            builder.linear(prefix + name, tokens, self.hidden, mlp, bias=bias, keep=keep, in_block=True)
        if len(self.names.up) == 2:
            builder.gated(tokens * mlp)
        else:
            builder.activation("gelu", tokens * mlp)
        builder.linear(prefix + self.names.down, tokens, mlp, self.hidden, bias=bias, in_block=True)


def _recomputed(builder: Builder, inputs: float, build: Callable[[], None], some: bool) -> None:
    """Build layers of which only the input is kept; their forward pass runs again before their backward pass.

    `some`: fused attention, all-to-alls and every other product, from the first one on, are kept and do not run again;
    products of experts and in fp8 all do, but for what comes last and the backward pass does not need, where PyTorch
    stops early (pytorch/torchtitan, torchtitan/parallelisms/parallelize_llama.py; torch.utils.checkpoint, 2024).
    """
    first = len(builder.tensors)
    build()
    made = builder.tensors[first:]
    forward = [operator for tensor in made for operator in tensor.forward]
    whole = math.fsum(tensor.kept for tensor in made)
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
    builder.tensors[-1].again = max(0.0, whole - builder.tensors[-1].kept)
    last = max(place for place, item in enumerate(forward) if item.kind in ("product", "grouped"))
    if some and forward[last].kind == "product":
        forward = forward[:last]
    builder.tensors[-1].backward[:0] = [item for item in forward if not any(item is each for each in stays)]
