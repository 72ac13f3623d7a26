"""Encoders whose tokens a decoder attends to: T5, BART, Whisper and others."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from simulator.architectures.blocks import Attending, Attention, BlockNames, TransformerBlock
from simulator.architectures.building import MOST, MOST_LAYERS, Builder, Norm
from simulator.architectures.transformer import AnyTransformer
from simulator.component import expected
from simulator.records import replace

_SELF = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
_CROSS = ("encoder_attn.q_proj", "encoder_attn.k_proj", "encoder_attn.v_proj")
_TAPS = 3
"""Width of Whisper's convolutions."""


class EncoderDecoder(AnyTransformer, kind="encoder_decoder"):
    """An encoder, and a decoder with attention to its tokens (Vaswani et al. 2017, 1706.03762): T5, BART, mBART,
    Pegasus, Marian and Whisper. Names of tensors are those of Hugging Face's BartForConditionalGeneration.

    - `layers`, `decoder_layers`: blocks of encoder and decoder; none: as many as the encoder has.
    - `mlp`, `decoder_mlp`: hidden units of their networks; none: those of the encoder.
    - `head_width`: columns of a head; none: hidden / heads.
    - `gated`: gated networks with three matrices (T5 1.1).
    - `vocabulary`: tokens of the embedding, which both have, and of the decoder's output.
    - `source_sequence`, `sequence`: tokens of a sample in encoder and decoder; none: as many as in the decoder.
    - `tied`: whether the output has the weight of the embedding.
    - `norm`: kind of all norms. `norms`: `before` attention and network, or `after` their residual (BART).
    - `end_norms`: whether encoder and decoder end with a norm. `embedding_norms`: whether they begin with one.
    - `biases`: of linear layers: `none` or `all`. `key_bias`: whether those of keys have one (Whisper: not).
    - `positions`: learned positions of each; 0: sines, or `distances`.
    - `distances`: classes of distances, each with a number a head in the scores (T5); both have a table.
    - `frames`: bands of a spectrogram, of which two convolutions make the tokens of the encoder (Whisper), two frames a
      token, with sines as its positions; 0: it has tokens of the vocabulary.
    """

    decoder_layers: int | None = Field(default=None, ge=1, le=MOST_LAYERS)
    decoder_mlp: int | None = Field(default=None, ge=1, le=MOST)
    head_width: int | None = Field(default=None, ge=1, le=MOST // 10)
    gated: bool = False
    vocabulary: int = Field(ge=1, le=10 * MOST)
    sequence: int = Field(ge=1, le=10 * MOST)
    source_sequence: int | None = Field(default=None, ge=1, le=10 * MOST)
    tied: bool = True
    norm: Norm = "layer"
    norms: Literal["before", "after"] = "before"
    end_norms: bool = False
    embedding_norms: bool = False
    biases: Literal["none", "all"] = "all"
    key_bias: bool = True
    positions: int = Field(default=0, ge=0, le=10 * MOST)
    distances: int = Field(default=0, ge=0, le=MOST)
    frames: int = Field(default=0, ge=0, le=MOST // 10)
    dropout: bool = True

    def refuse_unfit(self) -> None:
        super().refuse_unfit()
        most = max(self.sequence, 0 if self.frames else self._source)
        if self.positions and most > self.positions:
            raise expected(f"sequences of at most {self.positions} positions", str(most))

    @property
    def _source(self) -> int:
        return self.source_sequence or self.sequence

    def build(self, builder: Builder) -> None:
        """Embedding, encoder, decoder, output, loss."""
        source, tokens = builder.samples * self._source, builder.samples * self.sequence
        made = self._blocks()
        if self.frames:
            self._convolutions(builder, source)
        else:
            self._embedding(builder, source)
        self._stack(builder, "model.encoder.", made[0], self.layers, source)
        if self.frames:
            self._embedding(builder, tokens)
        else:
            # The same table once more: its gradient is complete when the encoder's is.
            own = len(builder.tensors)
            self._embedding(builder, tokens)
            builder.join(own)
        self._stack(builder, "model.decoder.", made[1], self.decoder_layers or self.layers, tokens)
        builder.decoder(tokens, self.hidden, self.vocabulary, tied=self.tied)

    def _blocks(self) -> tuple[TransformerBlock, TransformerBlock]:
        """A block of the encoder and one of the decoder."""
        up = ("gate", "fc1") if self.gated else ("fc1",)
        names = BlockNames("self_attn_layer_norm", _SELF, "self_attn.out_proj", "final_layer_norm", up, "fc2")
        biases = "" if self.biases == "none" else "qkon" if self.key_bias else "qon"
        each = replace(
            self.block(self._source, names, causal=False, before=self.norms == "before"),
            norm=self.norm,
            biases=biases,
        )
        width = self.head_width or each.attention.width
        own = replace(each.attention, width=width, values=width)
        met = replace(own, sequence=self.sequence, memory=self._source)
        cross = Attending(met, "encoder_attn_layer_norm", _CROSS, "encoder_attn.out_proj")
        of_decoder: Attention = replace(own, sequence=self.sequence, causal=True)
        decoder = replace(each, attention=of_decoder, cross=cross, mlp=self.decoder_mlp or each.mlp)
        return replace(each, attention=own), decoder

    def _embedding(self, builder: Builder, tokens: float) -> None:
        builder.embedding("model.shared.weight", self.vocabulary, self.hidden, tokens, dense=True)

    def _stack(self, builder: Builder, prefix: str, block: TransformerBlock, layers: int, tokens: float) -> None:
        """Positions, blocks, and the norms at both ends."""
        sequence = block.attention.sequence
        if self.positions and not (self.frames and block.cross is None):
            builder.embedding(f"{prefix}embed_positions.weight", self.positions, self.hidden, sequence, dense=True)
        if not self.distances:
            builder.residual(tokens * self.hidden)
        if self.embedding_norms:
            builder.norm(f"{prefix}layernorm_embedding", tokens, self.hidden, self.norm)
        if self.dropout:
            builder.dropout(tokens * self.hidden)
        if self.distances:
            # Looked up for each pair of tokens, and added to the scores of all blocks.
            builder.embedding(f"{prefix}distances.weight", self.distances, self.heads, sequence**2, dense=True)
        for layer in range(layers):
            block.add(builder, f"{prefix}layers.{layer}.", tokens)
        if self.end_norms:
            builder.norm(f"{prefix}layer_norm", tokens, self.hidden, self.norm)

    def _convolutions(self, builder: Builder, tokens: float) -> None:
        """Two convolutions, as products with a row for each place; the second makes one place of two."""
        for name, places, channels, first in (
            ("conv1", 2 * tokens, self.frames, True),
            ("conv2", tokens, self.hidden, False),
        ):
            inputs = channels * _TAPS
            builder.linear(f"model.encoder.{name}", places, inputs, self.hidden, first=first, keep=1 / _TAPS)
            builder.activation("gelu", places * self.hidden)
