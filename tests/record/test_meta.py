"""PyTorch models on the meta device against descriptions of the same models."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from simulator.errors import InputError
from simulator.models.operators import flops_of
from simulator.models.precision import Precision

pytestmark = [pytest.mark.torch, pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")]

CODE = """
import torch
from torch import nn
from simulator.record.models import Gpt, resnet50, vgg16

def small_gpt(): return Gpt(vocabulary=100, length=32, width=128, depth=2)

def tuple_of(): return nn.Linear(4, 3), torch.ones(5, 4), lambda model, batch: model(batch).sum()

class Reads(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
    def forward(self, x):
        y = self.layer(x)
        return y if y.sum().item() > 0 else -y
"""


def trace(folder: Path, name: str, shape: str | None = None, batch: int | None = None) -> Any:
    """The workload of a model in a file."""
    from simulator.record.meta import describe_model

    (folder / "own.py").write_text(CODE, encoding="utf-8")
    return describe_model(f"{folder / 'own.py'}:{name}", shape, batch)


@pytest.mark.parametrize(
    ("name", "kind", "sizes", "shape"),
    [
        ("resnet50", "resnet", {}, "3x224x224"),
        ("vgg16", "vgg", {}, "3x224x224"),
        ("small_gpt", "gpt2",
         {"layers": 2, "hidden": 128, "heads": 2, "vocabulary": 100, "positions": 32}, "tokens:32"),
    ],
)  # fmt: skip
def test_a_traced_model_does_the_arithmetic_that_is_described(
    tmp_path: Path, name: str, kind: str, sizes: dict[str, Any], shape: str
) -> None:
    from simulator.architectures.building import Architecture
    from simulator.architectures.describing import price
    from simulator.component import discover
    from simulator.hardware.operator_times import OperatorClock
    from simulator.scenario.named_parts import read_gpu

    workload = trace(tmp_path, name, shape, 4)
    made = workload.origin.architecture.describe(4, Precision())
    described = discover(Architecture)[kind].model_validate(sizes).describe(4, Precision())
    assert [tensor.numel for tensor in made.tensors] == [tensor.numel for tensor in described.tensors]
    assert flops_of(made.forward) == pytest.approx(flops_of(described.forward), rel=1e-9)
    assert flops_of(made.backward) == pytest.approx(flops_of(described.backward), rel=1e-9)
    assert workload.activation_bytes == pytest.approx(described.kept_bytes, rel=0.25)
    gpu = read_gpu("v100")
    clock = OperatorClock(gpu, "fp32")
    assert price(workload, gpu).backward_time == pytest.approx(clock.time(described.backward), rel=0.25)


def test_a_traced_model_can_be_written_and_read(tmp_path: Path) -> None:
    from simulator.architectures.describing import write_workload
    from simulator.scenario.named_parts import read_workload

    workload = trace(tmp_path, "small_gpt", "tokens:32", 2)
    path = tmp_path / "mine.yaml"
    write_workload(path, workload)
    assert read_workload(str(path)) == workload
    twice = read_workload(str(path), batch_size=4)
    assert twice.batch_size == 4 and twice.activation_bytes == workload.activation_bytes


def test_inputs_and_loss_of_the_function_are_used(tmp_path: Path) -> None:
    workload = trace(tmp_path, "tuple_of")
    assert workload.batch_size == 5 and workload.numel == 15
    with pytest.raises(InputError, match="the function makes the batches"):
        trace(tmp_path, "tuple_of", None, 3)


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("Reads", "4", "a model that runs on PyTorch's meta device"),
        ("Reads", None, "expected the shape of one sample, got nothing"),
        ("Reads", "5", "to accept a batch of 8x5"),
        ("Reads", "4y", "the shape of one sample, such as"),
        ("Reds", "4", "did you mean 'Reads'?"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, name: str, shape: str | None, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        trace(tmp_path, name, shape)
