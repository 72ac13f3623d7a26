"""Mamba and Mamba 2: state spaces in the place of attention."""

from __future__ import annotations

from pydantic import Field

from simulator.architectures.building import FP32, MOST, MOST_LAYERS, Architecture, Builder
from simulator.component import expected
from simulator.models.operators import Operator, product, streaming


class StateSpace(Architecture, kind="state_space"):
    """Blocks of a selective state space: Mamba (Gu and Dao 2023, 2312.00752), or Mamba 2 (Dao and Gu 2024, 2405.21060).

    Names of tensors are those of Hugging Face's MambaForCausalLM and Mamba2ForCausalLM. The scan of Mamba is one kernel
    that reads and writes each of its operands once, in fast memory alone otherwise (section 3.3.2 there); that of Mamba
    2 consists of products over chunks of tokens (section 6). Neither was timed: the width of a model's times says so.

    - `layers`: number of blocks.
    - `hidden`: width of a token between the blocks.
    - `inner_width`: channels of the state space; none: twice `hidden`.
    - `state`: numbers of the state of a channel.
    - `kernel`: tokens that the convolution before it sees.
    - `rank`: columns of which the steps of time are made; none: hidden / 16, rounded up. Mamba alone.
    - `heads`: of Mamba 2, between which channels are divided; 0: it is Mamba.
    - `groups`: of heads that share inputs and outputs of their states. `chunk`: tokens of a chunk. Both of Mamba 2.
    - `vocabulary`: tokens of the embedding and of the decoder.
    - `sequence`: tokens of a sample.
    - `tied`: whether the decoder uses the embedding's weight.
    - `biases`: whether linear layers have one; `convolution_bias`: whether the convolution has.
    """

    layers: int = Field(ge=1, le=MOST_LAYERS)
    hidden: int = Field(ge=1, le=MOST // 10)
    inner_width: int | None = Field(default=None, ge=1, le=MOST)
    state: int = Field(default=16, ge=1, le=MOST)
    kernel: int = Field(default=4, ge=1, le=MOST)
    rank: int | None = Field(default=None, ge=1, le=MOST)
    heads: int = Field(default=0, ge=0, le=MOST // 10)
    groups: int = Field(default=1, ge=1, le=MOST // 10)
    chunk: int = Field(default=256, ge=1, le=MOST)
    vocabulary: int = Field(ge=1, le=10 * MOST)
    sequence: int = Field(ge=1, le=10 * MOST)
    tied: bool = True
    biases: bool = False
    convolution_bias: bool = True

    def refuse_unfit(self) -> None:
        if self.heads and self._inner % self.heads:
            raise expected(f"a number of heads that divides {self._inner} channels", str(self.heads))
        if self.heads and self.heads % self.groups:
            raise expected(f"a number of groups that divides {self.heads} heads", str(self.groups))
        if self.heads and self.rank is not None:
            raise expected("no `rank` with `heads`, which Mamba 2 has in its place", str(self.rank))

    @property
    def _inner(self) -> int:
        return self.inner_width or 2 * self.hidden

    def build(self, builder: Builder) -> None:
        """Embedding, blocks, last norm, decoder, loss."""
        tokens = float(builder.samples * self.sequence)
        builder.embedding("backbone.embeddings.weight", self.vocabulary, self.hidden, tokens, dense=self.tied)
        for layer in range(self.layers):
            prefix = f"backbone.layers.{layer}."
            builder.norm(f"{prefix}norm", tokens, self.hidden, "rms")
            if self.heads:
                self._second(builder, f"{prefix}mixer.", tokens)
            else:
                self._first(builder, f"{prefix}mixer.", tokens)
            builder.residual(tokens * self.hidden)
        builder.norm("backbone.norm_f", tokens, self.hidden, "rms")
        builder.decoder(tokens, self.hidden, self.vocabulary, tied=self.tied)

    def _first(self, builder: Builder, prefix: str, tokens: float) -> None:
        """A block of Mamba."""
        inner, rank = self._inner, self.rank or -(-self.hidden // 16)
        builder.linear(f"{prefix}in_proj", tokens, self.hidden, 2 * inner, bias=self.biases)
        self._convolution(builder, prefix, tokens, inner)
        builder.linear(f"{prefix}x_proj", tokens, inner, rank + 2 * self.state, bias=False, keep=0)
        builder.linear(f"{prefix}dt_proj", tokens, rank, inner)
        builder.tensor(f"{prefix}A_log", inner, self.state)
        builder.tensor(f"{prefix}D", inner)
        # Read: input, step, gate, B and C; written: the output. The backward pass reads these and the output's
        # gradient, makes states again, and writes the gradients of all that was read.
        read, written = tokens * (3 * inner + 2 * self.state), tokens * inner
        self._scan(builder, read + written, 2 * read + written)
        builder.keep(read)
        builder.linear(f"{prefix}out_proj", tokens, inner, self.hidden, bias=self.biases)

    def _second(self, builder: Builder, prefix: str, tokens: float) -> None:
        """A block of Mamba 2."""
        inner, of_groups = self._inner, 2 * self.groups * self.state
        columns = 2 * inner + of_groups + self.heads
        builder.linear(f"{prefix}in_proj", tokens, self.hidden, columns, bias=self.biases)
        self._convolution(builder, prefix, tokens, inner + of_groups)
        for name in ("dt_bias", "A_log", "D"):
            builder.tensor(f"{prefix}{name}", self.heads)
        read = tokens * (inner + of_groups + self.heads)
        self._scan(builder, read + tokens * inner, 2 * (read + tokens * inner))
        forward, backward = self._chunks(builder, tokens)
        builder.add(forward, backward)
        builder.keep(read)
        builder.gated(tokens * inner)
        builder.norm(f"{prefix}norm", tokens, inner, "rms")
        builder.linear(f"{prefix}out_proj", tokens, inner, self.hidden, bias=self.biases)

    def _scan(self, builder: Builder, forward: float, backward: float) -> None:
        scans = [Operator("scan", "scan", elements * builder.width) for elements in (forward, backward)]
        builder.add(scans[:1], scans[1:])

    def _chunks(self, builder: Builder, tokens: float) -> tuple[list[Operator], list[Operator]]:
        """The products of a chunk: scores of its tokens, a group each; scores with inputs, states from inputs, and
        outputs from states, a head each. Each has two backward."""
        chunk = min(self.chunk, self.sequence)
        number, wide = tokens / chunk, self._inner // self.heads
        shapes = [
            ("scores of a chunk", number * self.groups, chunk, chunk, self.state),
            ("inputs of a chunk", number * self.heads, chunk, wide, chunk),
            ("states", number * self.heads, wide, self.state, chunk),
            ("outputs of states", number * self.heads, chunk, wide, self.state),
        ]
        forward, backward = [], []
        for name, batch, m, n, k in shapes:
            forward.append(product(name, m, n, k, builder.width, batch=batch))
            backward.append(product(f"{name}, backward", m, k, n, builder.width, batch=batch))
            backward.append(product(f"{name}, backward", k, n, m, builder.width, batch=batch))
        # States at the ends of chunks are passed on, in fp32.
        states = 2 * number * self.heads * wide * self.state * FP32
        passed = streaming("pass of states", states)
        return [*forward, passed], [streaming("pass of states", 2 * states), *backward[::-1]]

    def _convolution(self, builder: Builder, prefix: str, tokens: float, channels: int) -> None:
        """A convolution of each channel by itself, with its activation function: memory limits it."""
        builder.tensor(f"{prefix}conv1d.weight", channels, 1, self.kernel)
        if self.convolution_bias:
            builder.tensor(f"{prefix}conv1d.bias", channels)
        builder.activation("convolution of channels", tokens * channels)
        builder.activation("silu", tokens * channels)
