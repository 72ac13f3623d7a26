"""BERT: learned positions, layer norms after its layers, and the heads of pre-training."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from simulator.architectures.base import MOST
from simulator.architectures.blocks import BlockNames
from simulator.architectures.building import Builder
from simulator.architectures.transformer import PositionedTransformer

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
    """BERT (Devlin et al. 2019); names of tensors are those of Hugging Face's BertForPreTraining.

    - `vocabulary`: tokens of the embedding, which is also the decoder.
    - `token_types`: kinds of segments; 0: they have no embedding (DistilBERT).
    - `head`: `pretraining` (masked words at every token, and next sentence), `masked` (masked words alone, without the
      pooler, as RoBERTa and DistilBERT have it), or `none` with the pooler alone.
    """

    vocabulary: int = Field(default=30522, ge=1, le=10 * MOST)
    token_types: int = Field(default=2, ge=0, le=MOST)
    head: Literal["pretraining", "masked", "none"] = "pretraining"

    def build(self, builder: Builder) -> None:
        """Embeddings, blocks, pooler, heads, loss."""
        sequence, head = self.sequence or self.positions, self.head != "none"
        tokens = builder.samples * sequence
        embeddings = "bert.embeddings."
        builder.embedding(f"{embeddings}word_embeddings.weight", self.vocabulary, self.hidden, tokens, dense=head)
        builder.embedding(f"{embeddings}position_embeddings.weight", self.positions, self.hidden, sequence, dense=True)
        builder.residual(tokens * self.hidden)
        if self.token_types:
            types = f"{embeddings}token_type_embeddings.weight"
            builder.embedding(types, self.token_types, self.hidden, tokens, dense=True)
            builder.residual(tokens * self.hidden)
        builder.norm(f"{embeddings}LayerNorm", tokens, self.hidden)
        if self.dropout:
            builder.dropout(tokens * self.hidden)
        block = self.block(sequence, _NAMES, causal=False, before=False)
        for layer in range(self.layers):
            block.add(builder, f"bert.encoder.layer.{layer}.", tokens)
        if self.head != "masked":
            builder.linear("bert.pooler.dense", builder.samples, self.hidden, self.hidden)
            builder.activation("tanh", builder.samples * self.hidden)
        if head:
            transform = "cls.predictions.transform."
            builder.tensor("cls.predictions.bias", self.vocabulary)
            builder.linear(f"{transform}dense", tokens, self.hidden, self.hidden)
            builder.activation("gelu", tokens * self.hidden)
            builder.norm(f"{transform}LayerNorm", tokens, self.hidden)
            builder.tied_linear(tokens, self.hidden, self.vocabulary)
            builder.keep(tokens * self.hidden)
            builder.loss(tokens, self.vocabulary)
        if self.head == "pretraining":
            builder.linear("cls.seq_relationship", builder.samples, self.hidden, 2)
            builder.loss(builder.samples, 2)
