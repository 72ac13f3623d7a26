"""GPT-2: learned positions, layer norms before its layers, one product for queries, keys and values, tied decoder."""

from __future__ import annotations

from pydantic import Field

from simulator.architectures.base import MOST
from simulator.architectures.blocks import BlockNames
from simulator.architectures.building import Builder
from simulator.architectures.transformer import PositionedTransformer

_NAMES = BlockNames("ln_1", ("attn.c_attn",), "attn.c_proj", "ln_2", ("mlp.c_fc",), "mlp.c_proj")


class Gpt2(PositionedTransformer, kind="gpt2"):
    """GPT-2 (Radford et al. 2019); names of tensors are those of Hugging Face's GPT2LMHeadModel.

    - `vocabulary`: tokens of the embedding, which is also the decoder.
    """

    vocabulary: int = Field(default=50257, ge=1, le=10 * MOST)
    positions: int = Field(default=1024, ge=1, le=10 * MOST)

    def build(self, builder: Builder) -> None:
        """Embeddings, blocks, last norm, decoder, loss."""
        sequence = self.sequence or self.positions
        tokens = builder.samples * sequence
        builder.embedding("transformer.wte.weight", self.vocabulary, self.hidden, tokens, dense=True)
        builder.embedding("transformer.wpe.weight", self.positions, self.hidden, sequence, dense=True)
        builder.residual(tokens * self.hidden)
        if self.dropout:
            builder.dropout(tokens * self.hidden)
        block = self.block(sequence, _NAMES)
        for layer in range(self.layers):
            block.add(builder, f"transformer.h.{layer}.", tokens)
        builder.norm("transformer.ln_f", tokens, self.hidden)
        builder.decoder(tokens, self.hidden, self.vocabulary, tied=True)
