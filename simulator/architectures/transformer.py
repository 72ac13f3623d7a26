"""Transformers: decoders like Llama, Mistral and Qwen2, GPT-2, and what BERT and ViT share with them."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from simulator.architectures.adapters import Lora
from simulator.architectures.blocks import Attention, AttentionKernel, BlockNames, Latent, Recompute, TransformerBlock
from simulator.architectures.building import MOST, MOST_LAYERS, Architecture, Builder, Norm
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
    - `lora`: adapters that are trained instead of the model, whose weights stay as they are (`frozen_bytes` of the
      workload); a rank and the layers that have one.
    """

    layers: int = Field(ge=1, le=MOST_LAYERS)
    hidden: int = Field(ge=1, le=MOST // 10)
    heads: int = Field(ge=1, le=MOST // 10)
    mlp: int | None = Field(default=None, ge=1, le=MOST)
    attention: AttentionKernel = "fused"
    dropout: bool = False
    recompute: Recompute = "none"
    lora: Lora | None = None

    def refuse_unfit(self) -> None:
        if getattr(self, "head_width", None) is None and self.hidden % self.heads:
            hint = f"each head has hidden / heads of {self.hidden} columns"
            raise expected(f"a number of heads that divides {self.hidden}", str(self.heads), hint)

    def block(self, sequence: int, names: BlockNames, *, causal: bool = True, before: bool = True) -> TransformerBlock:
        """One of the blocks: as many heads of keys and values, no positions of its own, and biases everywhere."""
        each = self.hidden // self.heads
        attention = Attention(sequence, self.heads, self.heads, each, each, causal, self.attention, self.dropout)
        mlp = self.mlp or 4 * self.hidden
        return TransformerBlock(self.hidden, mlp, before, self.dropout, attention, self.recompute, names)


_OF_EXPERTS = ("experts_per_token", "expert_mlp", "shared_mlp", "shared_gate", "dense_layers", "experts_every")
_BRANCH_NORMS = "post_attention_layernorm", "post_feedforward_layernorm"
_NORMS = {
    "before": ("input_layernorm", "post_attention_layernorm"),
    "branch": ("", ""),
    "both": ("input_layernorm", "pre_feedforward_layernorm"),
    "shared": ("input_layernorm", ""),
}
_BIASES = {"none": "", "qkv": "qk", "attention": "qko", "network": "n", "not_qkv": "on", "all": "qkon"}
_OF_LATENT = ("query_rank", "rope_width", "value_width")
_ATTENTION = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")


class PositionedTransformer(AnyTransformer):
    """A transformer with learned positions.

    - `positions`: learned positions.
    - `sequence`: tokens of a sample; none: all positions.
    """

    positions: int = Field(default=512, ge=1, le=10 * MOST)
    sequence: int | None = Field(default=None, ge=1, le=10 * MOST)
    dropout: bool = True

    divides: ClassVar[bool] = True

    @property
    def length(self) -> int:
        """Tokens of a sample."""
        return self.sequence or self.positions

    def refuse_unfit(self) -> None:
        super().refuse_unfit()
        if self.sequence is not None and self.sequence > self.positions:
            raise expected(f"a sequence of at most {self.positions} positions", str(self.sequence))


class Transformer(AnyTransformer, kind="transformer"):
    """A decoder of blocks, each of attention and a network or experts, as Llama, Mistral, Qwen, Mixtral, DeepSeek-V3,
    Falcon, GPT-J and most others have it; without `causal` an encoder such as ModernBERT.

    Names of tensors are those of Hugging Face's LlamaForCausalLM.

    - `kv_heads`: heads of keys and values (grouped-query attention); none: as many as `heads`.
    - `head_width`: columns of a head; none: hidden / heads.
    - `gated`: a gated network (SwiGLU) with three matrices instead of two.
    - `vocabulary`: tokens of the embedding and of the decoder.
    - `sequence`: tokens of a sample.
    - `tied`: whether the decoder uses the embedding's weight.
    - `norm`: `rms` without biases, `layer`, `layer_without_bias` (Cohere), or `layer_without_parameters` (OLMo 1).
    - `biases`: of the linear layers in blocks: `none`, `qkv` (Qwen2), `attention`, `network` (GPT-J), `not_qkv`
      (all others than these; GPT-Neo) or `all`.
    - `head_bias`: whether the decoder has one (Phi-2).
    - `head_layer`: a linear layer without bias, an activation function and a norm before the decoder (ModernBERT).
    - `embedding_norm`: whether the embedding has a norm behind it (BLOOM).
    - `first_norm`: whether the first block has a norm before attention; ModernBERT has that of the embedding alone.
    - `positions`: learned positions; 0: rotary ones, which have no parameters.
    - `rotary`: share of the columns of a head that these turn, on average over blocks; 0: none (ALiBi in BLOOM).
    - `window`: most tokens that a token sees (sliding window); none: all before it.
    - `full_every`: one block of so many, the last, has no window (Gemma 2 and 3); 0: all blocks have it.
    - `full_first`: it is the first of so many instead (ModernBERT).
    - `sinks`: a learned number for each head beside the scores (gpt-oss).
    - `kv_rank`: columns to which keys and values of all heads are narrowed (MLA of DeepSeek-V2 and V3); none: they are
      projected at once. `query_rank`: those of queries; `rope_width`: columns of a head with rotary positions, which
      are part of `head_width` and shared by the heads of keys; `value_width`: columns of a head of values.
    - `causal`: whether a token sees only those before it.
    - `head_norm`: whether queries and keys have a norm over each head (Qwen3, Gemma 3), or `whole`: one over all heads
      (OLMo 2).
    - `norms`: `before` attention and network, on what these give to the residual (`branch`, OLMo 2), `both`, or
      `shared`: one before attention and network, which run side by side (GPT-J).
    - `experts`: networks in a block, of which a router chooses `experts_per_token` for each token (mixture of experts);
      0: one network for all tokens.
    - `expert_mlp`: hidden units of an expert; none: those of `mlp`.
    - `shared_mlp`: hidden units of the network that all tokens go through beside their experts; 0: there is none.
    - `shared_gate`: whether its output has a weight of its own for each token (Qwen2).
    - `dense_layers`: blocks at the beginning with a network of `mlp` units instead of experts.
    - `experts_every`: one block of so many, the last, has experts (Llama 4), the others a network.
    """

    divides: ClassVar[bool] = True

    kv_heads: int | None = Field(default=None, ge=1, le=MOST // 10)
    head_width: int | None = Field(default=None, ge=1, le=MOST // 10)
    gated: bool = False
    vocabulary: int = Field(ge=1, le=10 * MOST)
    sequence: int = Field(ge=1, le=10 * MOST)
    tied: bool = False
    norm: Norm = "rms"
    biases: Literal["none", "qkv", "attention", "network", "not_qkv", "all"] = "none"
    head_bias: bool = False
    head_layer: bool = False
    embedding_norm: bool = False
    first_norm: bool = True
    positions: int = Field(default=0, ge=0, le=10 * MOST)
    rotary: float = Field(default=1.0, ge=0, le=1)
    window: int | None = Field(default=None, ge=1, le=10 * MOST)
    causal: bool = True
    full_every: int = Field(default=0, ge=0, le=MOST_LAYERS)
    full_first: bool = False
    sinks: bool = False
    kv_rank: int | None = Field(default=None, ge=1, le=MOST)
    query_rank: int | None = Field(default=None, ge=1, le=MOST)
    rope_width: int = Field(default=0, ge=0, le=MOST // 10)
    value_width: int | None = Field(default=None, ge=1, le=MOST // 10)
    head_norm: bool | Literal["whole"] = False
    norms: Literal["before", "branch", "both", "shared"] = "before"
    experts: int = Field(default=0, ge=0, le=10_000)
    experts_per_token: int = Field(default=2, ge=1, le=10_000)
    expert_mlp: int | None = Field(default=None, ge=1, le=MOST)
    shared_mlp: int = Field(default=0, ge=0, le=MOST)
    shared_gate: bool = False
    dense_layers: int = Field(default=0, ge=0, le=MOST_LAYERS)
    experts_every: int = Field(default=1, ge=1, le=MOST_LAYERS)

    def refuse_unfit(self) -> None:
        super().refuse_unfit()
        if self.experts and self.experts_per_token > self.experts:
            raise expected(f"at most {self.experts} `experts_per_token`", str(self.experts_per_token))
        fields = type(self).model_fields
        stated = [key for key in _OF_EXPERTS if getattr(self, key) != fields[key].default]
        if stated and not self.experts:
            raise expected(f"`experts`, where {stated[0]} is given", "none")
        if self.shared_gate and not self.shared_mlp:
            raise expected("a `shared_mlp`, where it has a gate", "none")
        if self.lora is not None and self.lora.targets == "linear" and self.experts:
            raise expected("`query_value` or `attention` as the targets of `lora`, where a model has experts", "linear")
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise expected(f"kv_heads that divide {self.heads} heads", str(self.kv_heads), "heads share keys in groups")
        if self.positions and self.sequence > self.positions:
            raise expected(f"a sequence of at most {self.positions} positions", str(self.sequence))
        latent = [key for key in _OF_LATENT if getattr(self, key)]
        if latent and self.kv_rank is None:
            raise expected(f"a `kv_rank`, where {latent[0]} is given", "none")
        if self.kv_rank is not None and not 0 < self.rope_width < self._width:
            raise expected(f"a rope_width below the {self._width} columns of a head", str(self.rope_width))
        if self.kv_rank is not None and (self.kv_heads or self.heads) != self.heads:
            raise expected(f"{self.heads} kv_heads, as heads of queries, with a kv_rank", str(self.kv_heads))

    @property
    def length(self) -> int:
        """Tokens of a sample."""
        return self.sequence

    @property
    def _width(self) -> int:
        return self.head_width or self.hidden // self.heads

    def build(self, builder: Builder) -> None:
        """Embedding, blocks, last norm, decoder, loss."""
        tokens, vocabulary = builder.tokens(self.length), builder.part_of_table(self.vocabulary)
        apart = tokens / builder.apart
        every_row = self.tied or builder.split != WHOLE
        builder.embedding("model.embed_tokens.weight", vocabulary, self.hidden, tokens, dense=every_row)
        builder.leave(tokens * self.hidden)
        if self.positions:
            builder.embedding("model.embed_positions.weight", self.positions, self.hidden, self.sequence, dense=True)
            builder.residual(apart * self.hidden)
        if self.embedding_norm:
            builder.norm("model.embed_norm", apart, self.hidden, self.norm)
        up = ("mlp.gate_proj", "mlp.up_proj") if self.gated else ("mlp.up_proj",)
        before = _NORMS[self.norms]
        names = BlockNames(before[0], _ATTENTION, "self_attn.o_proj", before[1], up, "mlp.down_proj")
        block = self.block(self.sequence, names, causal=self.causal)
        attention = replace(
            block.attention,
            kv_heads=self.kv_heads or self.heads,
            width=self._width,
            values=self.value_width or self._width,
            rotary=0.0 if self.positions else self._turned,
            window=self.window,
        )
        dense = replace(
            block,
            attention=attention,
            norm=self.norm,
            biases=_BIASES[self.biases],
            head_norm=self.head_norm,
            branch_norms=_BRANCH_NORMS if self.norms in ("branch", "both") else None,
            shared_norm=self.norms == "shared",
            sinks=self.sinks,
            latent=Latent(self.query_rank, self.kv_rank, self.rope_width) if self.kv_rank is not None else None,
        )
        sparse = replace(dense, experts=self._experts()) if self.experts else dense
        for layer in range(self.layers):
            block = dense if layer < self.dense_layers or (layer + 1) % self.experts_every else sparse
            if self.full_every and (layer + (not self.full_first)) % self.full_every == 0:
                block = replace(block, attention=replace(attention, window=None))
            if not layer and not self.first_norm:
                block = replace(block, names=replace(block.names, norm1=""))
            block.add(builder, f"model.layers.{layer}.", tokens)
        builder.norm("model.norm", apart, self.hidden, self.norm)
        if self.head_layer:
            builder.linear("head.dense", apart, self.hidden, self.hidden, bias=False)
            builder.activation("gelu", apart * self.hidden)
            builder.norm("head.norm", apart, self.hidden, self.norm)
        if self.head_bias and self.tied:
            builder.tensor("lm_head.bias", vocabulary)
        builder.enter(tokens * self.hidden)
        builder.decoder(tokens, self.hidden, vocabulary, tied=self.tied, bias=self.head_bias)

    @property
    def _turned(self) -> float:
        """Share of the columns of queries and keys that are turned; with `kv_rank`, of queries and one head of keys."""
        if self.kv_rank is None:
            return self.rotary
        return self.rotary * self.rope_width / self._width * (self.heads + 1) / (2 * self.heads)

    def _experts(self) -> Experts:
        sizes = self.experts, self.experts_per_token, self.expert_mlp or self.mlp or 4 * self.hidden, self.shared_mlp
        return Experts(*sizes, self.shared_gate, self.gated, "n" in _BIASES[self.biases])


_GPT2 = BlockNames("ln_1", ("attn.c_attn",), "attn.c_proj", "ln_2", ("mlp.c_fc",), "mlp.c_proj")


class Gpt2(PositionedTransformer, kind="gpt2"):
    """GPT-2 (Radford et al. 2019); names of tensors are those of Hugging Face's GPT2LMHeadModel.

    - `vocabulary`: tokens of the embedding, which is also the decoder.
    """

    vocabulary: int = Field(default=50257, ge=1, le=10 * MOST)
    positions: int = Field(default=1024, ge=1, le=10 * MOST)

    def build(self, builder: Builder) -> None:
        """Embeddings, blocks, last norm, decoder, loss."""
        tokens, vocabulary = builder.tokens(self.length), builder.part_of_table(self.vocabulary)
        apart = tokens / builder.apart
        builder.embedding("transformer.wte.weight", vocabulary, self.hidden, tokens, dense=True)
        builder.leave(tokens * self.hidden)
        builder.embedding("transformer.wpe.weight", self.positions, self.hidden, self.length, dense=True)
        builder.residual(apart * self.hidden)
        if self.dropout:
            builder.dropout(apart * self.hidden)
        block = self.block(self.length, _GPT2)
        for layer in range(self.layers):
            block.add(builder, f"transformer.h.{layer}.", tokens)
        builder.norm("transformer.ln_f", apart, self.hidden)
        builder.enter(tokens * self.hidden)
        builder.decoder(tokens, self.hidden, vocabulary, tied=True)
