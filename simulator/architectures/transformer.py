"""Transformers: decoders like Llama, Mistral and Qwen2, and what GPT-2, BERT and ViT share with them."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from simulator.architectures.attention import Attention, AttentionKernel, Recompute
from simulator.architectures.base import MOST, MOST_LAYERS, Architecture
from simulator.architectures.blocks import BlockNames, TransformerBlock
from simulator.architectures.building import Builder
from simulator.architectures.experts import Experts
from simulator.component import expected
from simulator.models.operators import WHOLE
from simulator.records import replace


class AnyTransformer(Architecture):
    """Blocks of attention and a network of two layers.

    - `layers`: number of blocks.
    - `hidden`: width of a token between the blocks.
    - `heads`: heads of attention.
    - `mlp`: hidden units of the network in a block; none: four times `hidden`.
    - `attention`: `fused`, one kernel that never writes the scores (FlashAttention, the memory-efficient kernel, as
      `scaled_dot_product_attention` of PyTorch 2 chooses them), `flash1`, the first generation of these (Dao et al.
      2022, 2205.14135, and its version in Triton), `flash3`, the third one and that of cuDNN, which Transformer Engine
      calls (Shah et al. 2024, 2407.08608), or `separate` kernels.
    - `dropout`: whether dropout runs, in the residual branches and, with separate kernels, on the scores.
    - `recompute`: what the backward pass makes again instead of keeping it: nothing, `selective` (inside of attention)
      or `full` (all but the input of a block), as Korthikanti et al. (2022, 2205.05198) name them, or `operators` (all
      but fused attention and every other product, the `selective` of torchtitan).
    """

    layers: int = Field(ge=1, le=MOST_LAYERS)
    hidden: int = Field(ge=1, le=MOST // 10)
    heads: int = Field(ge=1, le=MOST // 10)
    mlp: int | None = Field(default=None, ge=1, le=MOST)
    attention: AttentionKernel = "fused"
    dropout: bool = False
    recompute: Recompute = "none"

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if getattr(self, "head_width", None) is None and self.hidden % self.heads:
            hint = f"each head has hidden / heads of {self.hidden} columns"
            raise expected(f"a number of heads that divides {self.hidden}", str(self.heads), hint)
        return self

    def block(self, sequence: int, names: BlockNames, *, causal: bool = True, before: bool = True) -> TransformerBlock:
        """One of the blocks: as many heads of keys and values, no positions of its own, and biases everywhere."""
        each = self.hidden // self.heads
        attention = Attention(sequence, self.heads, self.heads, each, causal, self.attention, self.dropout)
        mlp = self.mlp or 4 * self.hidden
        return TransformerBlock(self.hidden, mlp, before, self.dropout, attention, self.recompute, names)


_OF_EXPERTS = ("experts_per_token", "expert_mlp", "shared_mlp", "shared_gate", "dense_layers")
_BRANCH_NORMS = "post_attention_layernorm", "post_feedforward_layernorm"
_NORMS = {
    "before": ("input_layernorm", "post_attention_layernorm"),
    "branch": ("", ""),
    "both": ("input_layernorm", "pre_feedforward_layernorm"),
}
_ATTENTION = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")


class PositionedTransformer(AnyTransformer):
    """A transformer with learned positions.

    - `positions`: learned positions.
    - `sequence`: tokens of a sample; none: all positions.
    """

    positions: int = Field(default=512, ge=1, le=10 * MOST)
    sequence: int | None = Field(default=None, ge=1, le=10 * MOST)
    dropout: bool = True

    @model_validator(mode="after")
    def _positions_suffice(self) -> Self:
        if self.sequence is not None and self.sequence > self.positions:
            raise expected(f"a sequence of at most {self.positions} positions", str(self.sequence))
        return self


class Transformer(AnyTransformer, kind="transformer"):
    """A decoder with norms before its layers and rotary or learned positions, as Llama, Mistral, Qwen and Mixtral have
    it, with or without experts.

    Names of tensors are those of Hugging Face's LlamaForCausalLM.

    - `kv_heads`: heads of keys and values (grouped-query attention); none: as many as `heads`.
    - `head_width`: columns of a head; none: hidden / heads.
    - `gated`: a gated network (SwiGLU) with three matrices instead of two.
    - `vocabulary`: tokens of the embedding and of the decoder.
    - `sequence`: tokens of a sample.
    - `tied`: whether the decoder uses the embedding's weight.
    - `norm`: `rms` without biases, or `layer`.
    - `biases`: of the linear layers: `none`, `qkv` (Qwen2) or `all`.
    - `positions`: learned positions; 0: rotary ones, which have no parameters.
    - `window`: most tokens that a token sees (sliding window); none: all before it.
    - `full_every`: one block of so many, the last, has no window (Gemma 2 and 3); 0: all blocks have it.
    - `causal`: whether a token sees only those before it.
    - `head_norm`: whether queries and keys have a norm over each head (Qwen3, Gemma 3), or `whole`: one over all heads
      (OLMo 2).
    - `norms`: `before` attention and network, on what these give to the residual (`branch`, OLMo 2), or `both`.
    - `experts`: networks in a block, of which a router chooses `experts_per_token` for each token (mixture of experts);
      0: one network for all tokens.
    - `expert_mlp`: hidden units of an expert; none: those of `mlp`.
    - `shared_mlp`: hidden units of the network that all tokens go through beside their experts; 0: there is none.
    - `shared_gate`: whether its output has a weight of its own for each token (Qwen2).
    - `dense_layers`: blocks at the beginning with a network of `mlp` units instead of experts.
    """

    divides: ClassVar[bool] = True

    kv_heads: int | None = Field(default=None, ge=1, le=MOST // 10)
    head_width: int | None = Field(default=None, ge=1, le=MOST // 10)
    gated: bool = False
    vocabulary: int = Field(ge=1, le=10 * MOST)
    sequence: int = Field(ge=1, le=10 * MOST)
    tied: bool = False
    norm: Literal["rms", "layer"] = "rms"
    biases: Literal["none", "qkv", "all"] = "none"
    positions: int = Field(default=0, ge=0, le=10 * MOST)
    window: int | None = Field(default=None, ge=1, le=10 * MOST)
    causal: bool = True
    full_every: int = Field(default=0, ge=0, le=MOST_LAYERS)
    head_norm: bool | Literal["whole"] = False
    norms: Literal["before", "branch", "both"] = "before"
    experts: int = Field(default=0, ge=0, le=10_000)
    experts_per_token: int = Field(default=2, ge=1, le=10_000)
    expert_mlp: int | None = Field(default=None, ge=1, le=MOST)
    shared_mlp: int = Field(default=0, ge=0, le=MOST)
    shared_gate: bool = False
    dense_layers: int = Field(default=0, ge=0, le=MOST_LAYERS)

    @model_validator(mode="after")
    def _experts_fit(self) -> Self:
        if self.experts and self.experts_per_token > self.experts:
            raise expected(f"at most {self.experts} `experts_per_token`", str(self.experts_per_token))
        fields = type(self).model_fields
        stated = [key for key in _OF_EXPERTS if getattr(self, key) != fields[key].default]
        if stated and not self.experts:
            raise expected(f"`experts`, where {stated[0]} is given", "none")
        if self.shared_gate and not self.shared_mlp:
            raise expected("a `shared_mlp`, where it has a gate", "none")
        return self

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise expected(f"kv_heads that divide {self.heads} heads", str(self.kv_heads), "heads share keys in groups")
        if self.positions and self.sequence > self.positions:
            raise expected(f"a sequence of at most {self.positions} positions", str(self.sequence))
        return self

    def build(self, builder: Builder) -> None:
        """Embedding, blocks, last norm, decoder, loss."""
        if self.sequence % builder.split.context:
            raise expected(f"a `context` that divides {self.sequence:,} tokens", str(builder.split.context))
        tokens = builder.samples * self.sequence / builder.split.context
        vocabulary, apart = -(-self.vocabulary // builder.split.tensor), tokens / builder.apart
        every_row = self.tied or builder.split != WHOLE
        builder.embedding("model.embed_tokens.weight", vocabulary, self.hidden, tokens, dense=every_row)
        builder.leave(tokens * self.hidden)
        if self.positions:
            builder.embedding("model.embed_positions.weight", self.positions, self.hidden, self.sequence, dense=True)
            builder.residual(apart * self.hidden)
        up = ("mlp.gate_proj", "mlp.up_proj") if self.gated else ("mlp.up_proj",)
        before = _NORMS[self.norms]
        names = BlockNames(before[0], _ATTENTION, "self_attn.o_proj", before[1], up, "mlp.down_proj")
        block = self.block(self.sequence, names, causal=self.causal)
        attention = replace(
            block.attention,
            kv_heads=self.kv_heads or self.heads,
            width=self.head_width or block.attention.width,
            rotary=not self.positions,
            window=self.window,
        )
        norm_bias, projection_bias, bias = self.norm == "layer", self.biases != "none", self.biases == "all"
        block = replace(block, attention=attention, norm_bias=norm_bias, projection_bias=projection_bias, bias=bias)
        after = _BRANCH_NORMS if self.norms != "before" else None
        dense = replace(block, head_norm=self.head_norm, branch_norms=after)
        sparse = replace(dense, experts=self._experts()) if self.experts else dense
        for layer in range(self.layers):
            block = dense if layer < self.dense_layers else sparse
            if self.full_every and (layer + 1) % self.full_every == 0:
                block = replace(block, attention=replace(attention, window=None))
            block.add(builder, f"model.layers.{layer}.", tokens)
        builder.norm("model.norm", apart, self.hidden, norm_bias)
        builder.enter(tokens * self.hidden)
        if self.tied:
            builder.tied_linear(tokens, self.hidden, vocabulary)
            builder.keep(apart * self.hidden)
        else:
            builder.linear("lm_head", tokens, self.hidden, vocabulary, bias=False, keep=1 / builder.apart)
        builder.loss(tokens, vocabulary)

    def _experts(self) -> Experts:
        sizes = self.experts, self.experts_per_token, self.expert_mlp or self.mlp or 4 * self.hidden, self.shared_mlp
        return Experts(*sizes, self.shared_gate, self.gated, self.biases == "all")
