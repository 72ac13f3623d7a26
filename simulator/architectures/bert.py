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
    - `token_types`: kinds of segments.
    - `head`: `pretraining` (masked words at every token, and next sentence), or `none` with the pooler alone.
    """

    vocabulary: int = Field(default=30522, ge=1, le=10 * MOST)
    token_types: int = Field(default=2, ge=1, le=MOST)
    head: Literal["pretraining", "none"] = "pretraining"

    def build(self, builder: Builder) -> None:
        """Embeddings, blocks, pooler, heads, loss."""
        sequence, head = self.sequence or self.positions, self.head == "pretraining"
        tokens = builder.samples * sequence
        embeddings = "bert.embeddings."
        builder.embedding(f"{embeddings}word_embeddings.weight", self.vocabulary, self.hidden, tokens, dense=head)
        builder.embedding(f"{embeddings}position_embeddings.weight", self.positions, self.hidden, sequence, dense=True)
        builder.residual(tokens * self.hidden)
        builder.embedding(
            f"{embeddings}token_type_embeddings.weight", self.token_types, self.hidden, tokens, dense=True
        )
        builder.residual(tokens * self.hidden)
        builder.norm(f"{embeddings}LayerNorm", tokens, self.hidden)
        if self.dropout:
            builder.dropout(tokens * self.hidden)
        block = self.block(sequence, _NAMES, causal=False, before=False)
        for layer in range(self.layers):
            block.add(builder, f"bert.encoder.layer.{layer}.", tokens)
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
            builder.linear("cls.seq_relationship", builder.samples, self.hidden, 2)
            builder.loss(builder.samples, 2)
