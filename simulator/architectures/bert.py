"""BERT: learned positions, layer norms after its layers, and the heads of pre-training."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from simulator.architectures.blocks import BlockNames
from simulator.architectures.building import MOST, Builder
from simulator.architectures.transformer import PositionedTransformer
from simulator.models.operators import WHOLE

_SELF = "attention.self."
_NAMES = BlockNames(
    "attention.output.LayerNorm",
    (f"{_SELF}query", f"{_SELF}key", f"{_SELF}value"),
    "attention.output.dense",
    "output.LayerNorm",
    ("intermediate.dense",),
    "output.dense",
)


class Bert(PositionedTransformer, kind="bert"):
    """BERT (Devlin et al. 2019), and encoders like it; names of tensors are those of Hugging Face's BertForPreTraining.

    - `vocabulary`: tokens of the embedding, which is also the decoder.
    - `token_types`: kinds of segments; 0: they have no embedding (DistilBERT).
    - `embedding_width`: columns of the embeddings, which a linear layer brings to `hidden` (ALBERT, ELECTRA); none:
      `hidden`.
    - `shared`: all blocks have the same weights (ALBERT; Lan et al. 2020, 1909.11942).
    - `head`: `pretraining` (masked words at every token, and next sentence), `masked` (masked words alone, without the
      pooler, as RoBERTa and DistilBERT have it), `replaced` (whether each token was replaced, without the pooler;
      ELECTRA, Clark et al. 2020, 2003.10555), or `none` with the pooler alone.
    """

    vocabulary: int = Field(default=30522, ge=1, le=10 * MOST)
    token_types: int = Field(default=2, ge=0, le=MOST)
    embedding_width: int | None = Field(default=None, ge=1, le=MOST // 10)
    shared: bool = False
    head: Literal["pretraining", "masked", "replaced", "none"] = "pretraining"

    def build(self, builder: Builder) -> None:
        """Embeddings, blocks, pooler, heads, loss."""
        head = self.head in ("pretraining", "masked")
        wide = self.embedding_width or self.hidden
        tokens, vocabulary = builder.tokens(self.length), builder.part_of_table(self.vocabulary)
        apart, every_row = tokens / builder.apart, head or builder.split != WHOLE
        embeddings = "bert.embeddings."
        builder.embedding(f"{embeddings}word_embeddings.weight", vocabulary, wide, tokens, dense=every_row)
        builder.leave(tokens * wide)
        builder.embedding(f"{embeddings}position_embeddings.weight", self.positions, wide, self.length, dense=True)
        builder.residual(apart * wide)
        if self.token_types:
            types = f"{embeddings}token_type_embeddings.weight"
            builder.embedding(types, self.token_types, wide, apart, dense=True)
            builder.residual(apart * wide)
        builder.norm(f"{embeddings}LayerNorm", apart, wide)
        if self.dropout:
            builder.dropout(apart * wide)
        if wide != self.hidden:
            builder.linear("bert.embeddings_project", apart, wide, self.hidden)
        block = self.block(self.length, _NAMES, causal=False, before=False)
        for layer in range(self.layers):
            own = len(builder.tensors)
            block.add(builder, f"bert.encoder.layer.{layer}.", tokens)
            if self.shared and layer:
                builder.join(own)
        if self.head in ("pretraining", "none"):
            builder.linear("bert.pooler.dense", builder.samples, self.hidden, self.hidden)
            builder.activation("tanh", builder.samples * self.hidden)
        if head:
            transform = "cls.predictions.transform."
            builder.tensor("cls.predictions.bias", vocabulary)
            builder.linear(f"{transform}dense", apart, self.hidden, wide)
            builder.activation("gelu", apart * wide)
            builder.norm(f"{transform}LayerNorm", apart, wide)
            builder.enter(tokens * wide)
            builder.tied_linear(tokens, wide, vocabulary)
            builder.loss(tokens, vocabulary)
        if self.head == "replaced":
            builder.linear("discriminator_predictions.dense", apart, self.hidden, self.hidden)
            builder.activation("gelu", apart * self.hidden)
            builder.linear("discriminator_predictions.dense_prediction", apart, self.hidden, 1)
            builder.loss(apart, 1)
        if self.head == "pretraining":
            builder.linear("cls.seq_relationship", builder.samples, self.hidden, 2)
            builder.loss(builder.samples, 2)
