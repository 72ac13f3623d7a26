"""Mixtures of experts: networks in a block of which a router chooses some for each token."""

from __future__ import annotations

from simulator.architectures.building import Builder
from simulator.component import expected
from simulator.models.operators import OF_WEIGHT, Operator, product, row_wise, streaming
from simulator.records import Record, replace

EVEN = "experts: a router sends each the same number of tokens, and a product of all experts is one kernel (grouped)"


class Experts(Record):
    """The experts of a block (Shazeer et al. 2017, 1701.06538), as torchtitan and transformers 5 run them.

    A router scores `count` networks for each token, which `per_token` of them work on; their outputs are weighted and
    added. The weights of all experts are one tensor, and each product is one kernel for all of them: `count` products
    of tokens x per_token / count rows. Tokens are copied into the order of their experts, and back.

    - `mlp`: hidden units of an expert.
    - `shared_mlp`: hidden units of the network that all tokens go through besides (Dai et al. 2024, 2401.06066).
    - `shared_gate`: its output has a weight of its own for each token (Qwen2).
    - `gated`: all are gated networks, with three matrices.
    """

    count: int
    per_token: int
    mlp: int
    shared_mlp: int
    shared_gate: bool
    gated: bool
    bias: bool

    def add(self, builder: Builder, prefix: str, tokens: float, hidden: int) -> None:
        """Add tensors and operators. GPUs of a tensor axis all route all tokens, and have a part of each expert; those
        of an expert axis have some of the experts, to which tokens are sent, and their outputs back (TensorParallel,
        ExpertParallel and ExpertTensorParallel of torchtitan/distributed/expert_parallel.py)."""
        if EVEN not in builder.assumptions:
            builder.assumptions.append(EVEN)
        apart, scores, w = builder.split.expert, tokens * self.count, builder.width
        if self.count % apart:
            raise expected(f"an `expert` that divides {self.count} experts", str(apart))
        rows = tokens * self.per_token * builder.split.imbalance
        builder.linear(f"{prefix}gate", tokens, hidden, self.count, bias=self.bias, keep=1 / builder.apart)
        softmax, back = row_wise("softmax", 2 * scores * w), row_wise("softmax", 3 * scores * w)
        builder.add([softmax, row_wise("choice of experts", scores * w)], [back])
        builder.keep(scores)
        gathered = streaming("order by experts", 2 * rows * hidden * w)
        added = streaming("sum over experts", (rows + tokens) * hidden * w)
        # What arrives from other GPUs is in the order of these, and is put in that of the experts once more.
        sent = [Operator("expert", "all_to_all", rows * hidden * w), gathered] if apart > 1 else []
        builder.add([gathered, *sent], [*sent[::-1], added])
        self._network(builder, f"{prefix}experts.", rows, hidden, builder.part(self.mlp, "hidden units of an expert"))
        builder.add([*sent[::-1], added], [gathered, *sent])
        builder.keep(rows * hidden)
        if self.shared_mlp:
            shared = f"{prefix}shared_expert."
            self._network(builder, shared, tokens, hidden, builder.part(self.shared_mlp, "hidden units"), shared=True)
            if self.shared_gate:
                builder.linear(f"{prefix}shared_expert_gate", tokens, hidden, 1, bias=False, keep=0)
                builder.activation("product of the gate", tokens * hidden)
            builder.residual(tokens * hidden)

    def _network(
        self, builder: Builder, prefix: str, rows: float, hidden: int, mlp: int, *, shared: bool = False
    ) -> None:
        def layer(name: str, inputs: int, outputs: int, *, keep: bool) -> None:
            if shared:
                builder.linear(prefix + name, rows, inputs, outputs, bias=self.bias, keep=keep, in_block=True)
            else:
                self._multiply(builder, prefix + name, rows, inputs, outputs)
                builder.keep(keep * rows * inputs * (builder.lora is None))

        for place, name in enumerate(("gate_proj", "up_proj") if self.gated else ("up_proj",)):
            layer(name, hidden, mlp, keep=not place and not shared)
        if self.gated:
            builder.gated(rows * mlp)
        else:
            builder.activation("gelu", rows * mlp)
        layer("down_proj", mlp, hidden, keep=True)

    def _multiply(self, builder: Builder, name: str, rows: float, inputs: int, outputs: int) -> None:
        """y = x W + b with a W and b for each expert; in 16 bits beside layers in fp8, as torchao has it by default."""
        here = self.count // builder.split.expert
        used = min(float(here), rows)
        each = rows / used

        def grouped(what: str, m: float, n: float, k: float) -> Operator:
            return replace(product(what, m, n, k, builder.width, batch=used), kind="grouped")

        builder.tensor(f"{name}.weight", here, inputs, outputs, active=self.per_token * inputs * outputs)
        back = [grouped("experts, of its input", each, inputs, outputs)]
        if builder.tensors[-1].trained:
            back.append(grouped(f"experts, {OF_WEIGHT}", inputs, outputs, each))
        builder.add([grouped("experts", each, outputs, inputs)], back)
        if self.bias:
            made = builder.tensor(f"{name}.bias", here, outputs, active=self.per_token * outputs)
            if made.trained:
                made.backward.insert(0, row_wise("bias", rows * outputs * builder.width))
