"""LSTM language models."""

from __future__ import annotations

from pydantic import Field

from simulator.architectures.building import MOST, MOST_LAYERS, Architecture, Builder
from simulator.component import expected
from simulator.models.operators import OF_WEIGHT, product, streaming

_GATES = 4


class Lstm(Architecture, kind="lstm"):
    """A language model of LSTM layers between an embedding and a decoder (Zaremba et al. 2014, 1409.2329).

    The products with the inputs of all steps are one; those with the state are one a step, in their order, as cuDNN
    runs them (Appleyard et al. 2016, 1604.01946). Names are those of PyTorch's word_language_model.

    - `layers`: of LSTM.
    - `hidden`: units of a layer.
    - `embedding`: width of the embedding; none: `hidden`.
    - `vocabulary`: tokens of the embedding and of the decoder.
    - `sequence`: steps that are unrolled.
    - `tied`: whether the decoder uses the embedding's weight.
    - `dropout`: whether dropout runs between the layers.
    """

    layers: int = Field(default=2, ge=1, le=MOST_LAYERS)
    hidden: int = Field(ge=1, le=MOST // 10)
    embedding: int | None = Field(default=None, ge=1, le=MOST // 10)
    vocabulary: int = Field(ge=1, le=10 * MOST)
    sequence: int = Field(default=35, ge=1, le=MOST)
    tied: bool = False
    dropout: bool = True

    def refuse_unfit(self) -> None:
        if self.tied and self.embedding not in (None, self.hidden):
            raise expected(f"an embedding of {self.hidden} where it is tied", str(self.embedding))

    def build(self, builder: Builder) -> None:
        """Embedding, layers, decoder, loss."""
        tokens, width = builder.samples * self.sequence, self.embedding or self.hidden
        builder.embedding("encoder.weight", self.vocabulary, width, tokens, dense=self.tied)
        for layer in range(self.layers):
            if self.dropout:
                builder.dropout(tokens * width)
            self._layer(builder, layer, tokens, width)
            width = self.hidden
        if self.dropout:
            builder.dropout(tokens * width)
        if self.tied:
            builder.tied_linear(tokens, self.hidden, self.vocabulary)
            builder.tensor("decoder.bias", self.vocabulary)
        else:
            builder.linear("decoder", tokens, self.hidden, self.vocabulary)
        builder.loss(tokens, self.vocabulary)

    def _layer(self, builder: Builder, layer: int, tokens: int, inputs: int) -> None:
        gates, steps, samples = _GATES * self.hidden, self.sequence, builder.samples
        builder.tensor(f"rnn.weight_ih_l{layer}", gates, inputs)
        builder.multiply("of the input", tokens, inputs, gates)
        builder.keep(tokens * inputs)
        of_state = builder.tensor(f"rnn.weight_hh_l{layer}", gates, self.hidden)
        cells = tokens * (gates + 3 * self.hidden) * builder.width
        of_state.forward += [
            product("of the state", samples, gates, self.hidden, builder.width, calls=steps),
            streaming("gates", cells),
        ]
        of_state.backward[:0] = [
            streaming("gates", 2 * cells),
            product("of the state, of its input", samples, self.hidden, gates, builder.width, calls=steps),
            product(f"of the state, {OF_WEIGHT}", self.hidden, gates, tokens, builder.width),
        ]
        # The four gates, the cell's state and its tanh; the output is the input of the next layer.
        builder.keep(tokens * (gates + 2 * self.hidden))
        for name in ("ih", "hh"):
            made = builder.tensor(f"rnn.bias_{name}_l{layer}", gates)
            made.backward.append(streaming("bias", tokens * gates * builder.width))
