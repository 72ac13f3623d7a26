"""Bytes that operators move and activations that are kept, of small models of unlike sizes, by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from simulator.architectures.building import Architecture
from simulator.component import discover
from simulator.models.operators import WHOLE, Description, Operator, Split
from simulator.models.precision import Precision


def describe(kind: str, samples: int, precision: str = "bf16", split: Split = WHOLE, **sizes: Any) -> Description:
    """One GPU's part of a model."""
    return discover(Architecture)[kind].model_validate(sizes).describe(samples, Precision(gradients=precision), split)


def moved(operators: Iterable[Operator]) -> dict[str, float]:
    """Bytes by the first word of an operator's name."""
    total: Counter[str] = Counter()
    for item in operators:
        total[item.name.split(",")[0]] += item.calls * item.nbytes
    return dict(total)


def products(*shapes: tuple[int, int, int]) -> int:
    """Elements of both operands and the result of products (m, k, n)."""
    return sum(m * k + k * n + m * n for m, k, n in shapes)


def test_a_convolutional_network() -> None:
    """In fp32: 2 x 216 elements, 4 x 5 x 4 = 80 a sample, 6 x 4 x 3 = 72, pooled to 36, averaged to 24, and 5."""
    steps = [
        {"convolution": 4, "kernel": 3, "stride": 2, "padding": 1, "norm": True, "dropout": True},
        {"convolution": 6, "kernel": 2, "groups": 2, "bias": False},
        *({"pool": 2, "stride": 1}, {"average": 2}, {"linear": 5}),
    ]
    made = describe("convolutional", 2, "fp32", image="3x9x8", steps=steps)
    first, second, linear = 4 * (2 * 216 + 2 * 80 + 4 * 27), 4 * (2 * 80 + 2 * 72 + 6 * 8), 4 * products((2, 24, 5))
    pooling, relu = 4 * 2 * (72 + 36) + 8 * 2 * 36 + 4 * 2 * (36 + 24), 4 * 2 * (80 + 72 + 5)
    assert moved(made.forward) == {
        "convolution": first + second, "bias": 2 * 4 * 160, "batch norm": 3 * 4 * 160, "relu": 2 * relu,
        "dropout": 160 * 9, "pooling": pooling, "linear": linear, "log-softmax": 2 * 4 * 10,
    }  # fmt: skip
    assert moved(made.backward) == {
        "convolution": first + 2 * second, "bias": 4 * 160 + 4 * 10, "batch norm": 5 * 4 * 160, "relu": 3 * relu,
        "dropout": 160 * 9, "pooling": pooling, "linear": 2 * linear, "log-softmax": 2 * 4 * 10,
    }  # fmt: skip
    # Inputs of layers, of the batch norm and the pooling; a mask of a byte, and the places of the maxima.
    assert 2 * made.kept_bytes == 4 * (432 + 160 + 160 + 144 + 48 + 10) + 160 + 8 * 72


def test_a_state_space_model() -> None:
    """20 tokens in bf16, 32 wide, 64 channels with a state of 8 and a step from 32/16 columns."""
    sizes = {"layers": 1, "hidden": 32, "state": 8, "kernel": 3, "sequence": 10, "vocabulary": 50, "biases": True}
    made = describe("state_space", 2, **sizes, tied=False)
    linear = 2 * products((20, 32, 128), (20, 64, 18), (20, 2, 64), (20, 64, 32), (20, 32, 50))
    read = 20 * (3 * 64 + 2 * 8)
    both = {"cast of logits": 6 * 20 * 50, "log-softmax": 2 * 4 * 20 * 50, "residual add": 3 * 2 * 20 * 32}
    assert moved(made.forward) == both | {
        "embedding": 4 * 20 * 32 + 8 * 20, "norm": 2 * 2 * 2 * 20 * 32, "linear": linear,
        "convolution of channels": 2 * 2 * 20 * 64, "silu": 2 * 2 * 20 * 64, "scan": 2 * (read + 20 * 64),
    }  # fmt: skip
    assert moved(made.backward) == both | {
        "embedding": 2 * 50 * 32 + 3 * 2 * 20 * 32, "norm": 2 * 5 * 2 * 20 * 32, "linear": 2 * linear,
        "bias": 2 * 20 * (128 + 64 + 32), "convolution of channels": 3 * 2 * 20 * 64, "silu": 3 * 2 * 20 * 64,
        "scan": 2 * (2 * read + 20 * 64),
    }  # fmt: skip
    assert 2 * made.kept_bytes == 2 * (20 * (2 * 32 + 32 + 2 * 64 + 2 + 64 + 32) + read) + 4 * 20 * 50
    block = 32 + 32 * 128 + 128 + 64 * 3 + 64 + 64 * 18 + 2 * 64 + 64 + 64 * 8 + 64 + 64 * 32 + 32
    assert made.numel == 2 * 50 * 32 + 32 + block


def test_a_state_space_model_with_heads() -> None:
    """24 tokens in six chunks of four; four heads of 16 columns, of which two share 2 x 8 inputs and outputs."""
    sizes = {"layers": 1, "hidden": 32, "state": 8, "kernel": 3, "sequence": 12, "vocabulary": 50}
    made = describe("state_space", 2, **sizes, heads=4, groups=2, chunk=4)
    read, scores, outputs = 24 * (64 + 32 + 4), 6 * 2 * products((4, 8, 4)), 6 * 4 * products((4, 8, 16))
    inputs, states, gate, channels = 6 * 4 * products((4, 4, 16)), 6 * 4 * products((16, 4, 8)), 24 * 64, 24 * 96
    elements = {
        "scan": read + gate, "scores of a chunk": scores, "inputs of a chunk": inputs, "states": states,
        "outputs of states": outputs, "pass of states": 2 * 2 * 6 * 4 * 16 * 8, "product of the gate": 3 * gate,
        "silu": 2 * gate + 2 * channels, "norm": 2 * (2 * 24 * 32 + gate),
    }  # fmt: skip
    forward, backward = moved(made.forward), moved(made.backward)
    assert {name: forward[name] for name in elements} == {name: 2 * count for name, count in elements.items()}
    elements |= {"product of the gate": 5 * gate, "silu": 3 * (gate + channels), "norm": 5 * (2 * 24 * 32 + gate)}
    assert {name: backward[name] for name in elements} == {
        name: 2 * count * (1 if name in ("product of the gate", "silu", "norm") else 2)
        for name, count in elements.items()
    }
    kept = 24 * (2 * 32 + 64 + 32 + 2 * 96 + 3 * 64 + 64 + 32) + read
    assert 2 * made.kept_bytes == 2 * kept + 4 * 24 * 50


def test_an_lstm() -> None:
    """Two layers of six units on 2 x 7 tokens of five columns: the state is multiplied at each step by itself."""
    made = describe("lstm", 2, layers=2, hidden=6, embedding=5, vocabulary=50, sequence=7)
    inputs, state, decoder = products((14, 5, 24), (14, 6, 24)), 2 * 7 * products((2, 6, 24)), products((14, 6, 50))
    both = {"cast of logits": 6 * 14 * 50, "log-softmax": 2 * 4 * 14 * 50, "dropout": 14 * (5 + 6 + 6) * 5}
    assert moved(made.forward) == both | {
        "embedding": 4 * 14 * 5 + 8 * 14, "of the input": 2 * inputs, "of the state": 2 * state,
        "gates": 2 * 2 * 14 * (24 + 18), "linear": 2 * decoder,
    }  # fmt: skip
    assert moved(made.backward) == both | {
        "embedding": 2 * 50 * 5 + 3 * 2 * 14 * 5, "of the input": 2 * 2 * inputs, "linear": 2 * 2 * decoder,
        "of the state": 2 * state + 2 * 2 * products((6, 14, 24)), "gates": 2 * 2 * 2 * 14 * (24 + 18),
        "bias": 2 * 14 * (2 * 2 * 24 + 50),
    }  # fmt: skip
    # Inputs, four gates, state and its tanh of each layer, the decoder's input; masks; the logits' softmax.
    assert 2 * made.kept_bytes == 2 * 14 * (5 + 6 + 2 * 36 + 6) + 14 * 17 + 4 * 14 * 50


DLRM: dict[str, Any] = {"tables": [10, 20], "embedding": 4, "lookups": 2, "dense": 5, "bottom": [6], "top": [7]}
DLRM_MOVES = (
    {"embedding": 2 * (4 * 6 * 4 + 8 * 6), "pairs": 2 * 3 * products((3, 4, 3))},
    {"embedding": 2 * (10 + 20) * 4 + 3 * 2 * 2 * 6 * 4, "pairs": 2 * 3 * products((3, 3, 4))},
)
NCF: dict[str, Any] = {"users": 10, "items": 20, "factors": 5, "network": [8, 6, 2]}
NCF_MOVES = (
    {"embedding": 2 * (4 * 3 * (5 + 4) + 2 * 8 * 3), "product of factors": 2 * 2 * 3 * 5},
    {"embedding": 2 * 30 * (5 + 4) + 2 * 3 * 2 * 3 * (5 + 4), "product of factors": 3 * 2 * 3 * 5},
)


@pytest.mark.parametrize(
    ("kind", "sizes", "layers", "streams", "kept"),
    [
        ("dlrm", DLRM, [(5, 6), (6, 4), (4 + 3, 7), (7, 1)], DLRM_MOVES, 3 * 3 * 4),
        ("ncf", NCF, [(8, 6), (6, 2), (5 + 2, 1)], NCF_MOVES, 3 * 5),
    ],
)
def test_recommenders(kind: str, sizes: Any, layers: Any, streams: Any, kept: int) -> None:
    """Three samples in bf16; every layer but ncf's last has a ReLU, and what it keeps is its input."""
    made = describe(kind, 3, **sizes)
    linear, outputs = 2 * products(*[(3, inputs, columns) for inputs, columns in layers]), sum(n for _, n in layers)
    relu, both = 2 * 3 * (outputs - (kind == "ncf")), {"cast of logits": 6 * 3, "log-softmax": 2 * 4 * 3}
    assert moved(made.forward) == both | streams[0] | {"linear": linear, "relu": 2 * relu}
    assert moved(made.backward) == both | streams[1] | {"linear": 2 * linear, "relu": 3 * relu, "bias": 2 * 3 * outputs}
    assert 3 * made.kept_bytes == 2 * (3 * sum(inputs for inputs, _ in layers) + kept) + 4 * 3


def test_experts() -> None:
    """12 tokens, of which 2 x 12 x 1.5 rows go to the busier half of four experts, and back, on both passes."""
    sizes = {"layers": 1, "hidden": 16, "heads": 4, "kv_heads": 2, "vocabulary": 20, "sequence": 6, "gated": True}
    sizes |= {"experts": 4, "experts_per_token": 2, "expert_mlp": 10, "shared_mlp": 14, "shared_gate": True}
    made = describe("transformer", 2, split=Split(expert=2, imbalance=1.5), **sizes)
    rows, tokens, forward, backward = 36, 12, moved(made.forward), moved(made.backward)
    gate, weighed = rows * 10 + tokens * 14, tokens * 16
    elements = {
        "order by experts": 3 * 2 * rows * 16, "sum over experts": (rows + tokens) * 16, "expert": 2 * rows * 16,
        "experts": 2 * products((18, 16, 10), (18, 16, 10), (18, 10, 16)), "silu": 2 * gate, "softmax": 2 * tokens * 4,
        "product of the gate": 3 * gate + 2 * weighed, "choice of experts": tokens * 4,
    }  # fmt: skip
    assert {name: forward[name] for name in elements} == {name: 2 * count for name, count in elements.items()}
    elements |= {"experts": 2 * elements["experts"], "softmax": 3 * tokens * 4, "silu": 3 * gate}
    elements |= {"product of the gate": 5 * gate + 3 * weighed}
    del elements["choice of experts"]
    assert {name: backward[name] for name in elements} == {name: 2 * count for name, count in elements.items()}
    # Of 16 columns: two norms and the last one, inputs of projections, output, router and decoder, queries, keys and
    # values, and the weighed output. Rows are kept in their order and as experts give them; networks keep four widths.
    kept = tokens * (10 * 16 + 4) + rows * 2 * 16 + 4 * gate
    assert 2 * made.kept_bytes == 2 * kept + 4 * tokens * (4 + 20)


LATENT = {"kv_rank": 24, "rope_width": 6, "head_width": 20, "value_width": 16}


def test_dropouts_and_rotary_positions() -> None:
    """Dropout stands behind embeddings and every part of a block. A quarter of each head is turned, or 6 columns of
    queries and of the one head of keys."""
    sizes = {"layers": 3, "hidden": 64, "heads": 4, "sequence": 8, "vocabulary": 50}
    for kind, count in (("bert", 1 + 6), ("gpt2", 1 + 6), ("encoder_decoder", 2 + 6 + 9)):
        made = describe(kind, 2, **sizes)
        assert moved(made.forward)["dropout"] == moved(made.backward)["dropout"] == 5 * 16 * 64 * count
        assert "dropout" not in moved(describe(kind, 2, **sizes, dropout=False).forward)
    plain = describe("transformer", 2, **sizes, kv_heads=2, rotary=0.25)
    latent = describe("transformer", 2, **sizes, **LATENT)
    for part in (plain.forward, plain.backward):
        assert moved(part)["rotary"] == 3 * 2 * 2 * 16 * 4 * (4 + 2)
    assert moved(latent.forward)["rotary"] == pytest.approx(3 * 2 * 2 * 16 * 6 * (4 + 1))


def test_compiled_kernels_do_not_write_what_the_next_one_reads() -> None:
    """Silu stays in registers, and is made again on the way back; so is an operand of each residual."""
    sizes = {"layers": 1, "hidden": 16, "heads": 4, "mlp": 40, "gated": True, "vocabulary": 20, "sequence": 6}
    made = describe("transformer", 2, **sizes, attention="separate")
    gate, residual = 2 * 12 * 40, 2 * 12 * 16
    names = ("silu", "product of the gate", "residual add", "scale and mask")
    fused = [
        [sum(item.compiled or 0 for item in each if item.name == name) for name in names]
        for each in (made.forward, made.backward)
    ]
    assert fused == [[gate, 2 * gate, 2 * 2 * residual, 0], [2 * gate, 3 * gate, 2 * residual, 0]]


@pytest.mark.parametrize("sequence", [False, True])
def test_what_gpus_that_divide_layers_send(sequence: bool) -> None:
    """Two by two GPUs and 3 x 20 tokens of each: keys and values of one head of 12 columns, of all 3 x 40 tokens; the
    inputs and outputs of attention, network, and of embedding and decoder, on both passes."""
    sizes = {"layers": 1, "hidden": 48, "heads": 4, "kv_heads": 2, "vocabulary": 50, "sequence": 40}
    made = describe("transformer", 3, split=Split(tensor=2, context=2, sequence=sequence), **sizes)
    keys, whole = 2 * 3 * 40 * (12 + 12), 2 * 60 * 48

    def sent(operators: list[Operator]) -> dict[tuple[str, str], float]:
        total: Counter[tuple[str, str]] = Counter()
        for item in operators:
            if item.name in ("context", "tensor"):
                total[item.name, item.kind] += item.nbytes
        return dict(total)

    forward, backward = {("context", "all_gather"): keys}, {("context", "all_gather"): keys}
    backward |= {("context", "reduce_scatter"): keys}
    if sequence:
        forward |= {("tensor", "all_gather"): 3 * whole, ("tensor", "reduce_scatter"): 3 * whole}
        backward |= {("tensor", "all_gather"): (3 + 3) * whole, ("tensor", "reduce_scatter"): 3 * whole}
    else:
        forward |= {("tensor", "all_reduce"): 3 * whole}
        backward |= {("tensor", "all_reduce"): 3 * whole}
    assert (sent(made.forward), sent(made.backward)) == (forward, backward)
