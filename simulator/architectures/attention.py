"""Self-attention between its projections: operators and kept activations, fused or as separate kernels."""

from __future__ import annotations

from typing import Literal

from simulator.architectures.building import FP32, Builder
from simulator.models.operators import FusedAttention, Operator, product, row_wise, streaming
from simulator.records import Record

AttentionKernel = FusedAttention | Literal["separate"]
Recompute = Literal["none", "selective", "operators", "full"]


class Attention(Record):
    """Attention of `sequence` tokens: `heads` of queries and `kv_heads` of keys and values, `width` wide.

    - `values`: columns of a head of values and of the output; none: `width`, as queries and keys have.
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
    causal: bool
    kernel: AttentionKernel
    dropout: bool
    rotary: float = 0.0
    window: int | None = None
    context: int = 1
    values: int | None = None
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
        wide = self.values or self.width
        met = builder.samples * self.memory if self.memory is not None else tokens
        if self.rotary:
            turned = tokens * self.width * (self.heads + self.kv_heads) * 2 * builder.width * self.rotary
            # PyTorch turns them as complex numbers in fp32, after a cast and before another one.
            rotary = streaming("rotary", turned, eager=turned * (1 + 2 * FP32 / builder.width))
            builder.add([rotary], [rotary])
        builder.keep(tokens * self.heads * self.width + met * self.kv_heads * (self.width + wide))
        forward, backward, inside = self._separate(builder) if self.kernel == "separate" else self._fused(builder)
        if recompute:
            backward = [*forward, *backward]
        else:
            builder.keep(inside, 1)
        if self.context > 1:
            passed = builder.samples * self.sequence * self.kv_heads * (self.width + wide) * builder.width
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
        wide = self.values or self.width
        met = builder.samples * self.memory if self.memory is not None else tokens
        operands = (tokens * self.heads + met * self.kv_heads) * (self.width + wide) * builder.width

        generation: FusedAttention = "fused" if self.kernel == "separate" else self.kernel

        def kernel(of_keys: int, of_values: int, nbytes: float) -> Operator:
            products = of_keys + of_values
            width = (of_keys * self.width + of_values * wide) / products
            sizes = products * pairs, self.queries, self.keys, width
            return Operator("attention", "attention", nbytes, *sizes, attention=generation)

        # The logarithms of the sums of each row are kept in fp32; the output is the input of the next layer.
        return [kernel(1, 1, operands)], [kernel(3, 2, 2 * operands)], tokens * self.heads * FP32

    def _separate(self, builder: Builder) -> tuple[list[Operator], list[Operator], float]:
        """Scores, scale and mask, softmax, dropout and the product with the values, over whole (s, s) matrices."""
        pairs, s, width = builder.samples * self.heads, self.memory or self.sequence, builder.width
        d, wide = self.width, self.values or self.width
        q = self.queries
        cells = pairs * q * s
        scores = product("scores", q, s, d, width, batch=pairs)
        values = product("values", q, wide, s, width, batch=pairs)
        masked = streaming("scale and mask", 2 * 2 * cells * width, compiled=0.0)  # fused with the softmax
        forward = [scores, masked, row_wise("softmax", 2 * cells * width)]
        backward = [row_wise("softmax", 3 * cells * width), masked]
        kept = cells * width
        if self.dropout:
            moved = streaming("dropout", cells * (2 * width + 1))
            forward, backward, kept = [*forward, moved], [moved, *backward], kept + cells * (width + 1)

        def back(name: str, m: float, n: float, k: float) -> Operator:
            return product(name, m, n, k, width, batch=pairs)

        of_values = [back("values, of cells", q, s, wide), back("values, of values", s, wide, q)]
        of_scores = [back("scores, of queries", q, d, s), back("scores, of keys", s, d, q)]
        return [*forward, values], [*of_values, *backward, *of_scores], kept
