"""Recorded layers: sizes of the published networks, and a workload whose step is the one that was measured."""

import csv
import textwrap
from importlib.util import find_spec

import pytest
from command_line import printed, refused

from simulator.errors import InputError
from simulator.loading.documents import parse_document
from simulator.prediction.run import run
from simulator.scenario.reading import load

pytestmark = [pytest.mark.torch, pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")]

SCENARIO = """\
name: one worker
workload: {workload}
cluster:
  nodes: 1
  gpu: gpus/ideal
  network: {{kind: single_switch, bandwidth: 10 Gbit/s, latency: 50 us}}
topology: ring
sparsifier: dense
scheduler: wfbp
"""
OWN = """\
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(8, 8)
            self.outer = nn.Linear(8, 8, bias=False)
            self.outer.weight = self.inner.weight
            self.unused = nn.Linear(3, 3)
            self.scale = nn.Parameter(torch.ones(()))
            self.frozen = nn.Parameter(torch.ones(5), requires_grad=False)

        def forward(self, x):
            return self.outer(torch.tanh(self.inner(x))) * self.scale

    def make():
        return Net(), {"x": torch.randn(6, 8)}, lambda model, batch: model(batch["x"]).square().mean()

    def short():
        batch = {"x": torch.randn(6, 8).bfloat16()}
        return Net().bfloat16(), batch, lambda model, batch: model(batch["x"]).square().mean()

    def no_tuple():
        return Net()

    def no_module():
        return 1, 2, 3

    def no_loss():
        return Net(), torch.ones(2, 8), None

    def no_tensor():
        return Net(), [], lambda model, batch: model(torch.randn(2, 8)).sum()

    def no_gradient():
        return Net(), torch.ones(2, 8), lambda model, batch: torch.ones((), requires_grad=True)
"""
FAST = ("--device", "cpu", "--threads", "1")


@pytest.fixture(autouse=True)
def one_thread():
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_network.py").write_text(textwrap.dedent(OWN))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "own_network", raising=False)


def predicted(folder, workload):
    (folder / "scenario.yaml").write_text(SCENARIO.format(workload=workload))
    return run(load(folder / "scenario.yaml")).document


def test_networks_have_the_published_sizes():
    import torch

    from simulator.record.models import MODELS

    with torch.device("meta"):
        sizes = {name: sum(item.numel() for item in build().parameters()) for name, (build, *_) in MODELS.items()}
    assert sizes == {
        "mlp": 269_322,
        "cnn": 94_986,
        "resnet50": 25_557_032,
        "vgg16": 138_357_544,
        "bert-base": 109_482_240,
        "gpt2": 124_439_808,
    }


def test_the_recorded_step_is_the_predicted_one(tmp_path):
    """With the step that was measured, and by forward and backward alone."""
    assert str(tmp_path / "mine.yaml") in printed(
        "record", "layers", "cnn", "--out", tmp_path, "--name", "mine", "--repeats", 15, *FAST
    )
    document = parse_document((tmp_path / "mine.yaml").read_text()).data
    step = float(document["compute_time"].removesuffix(" s"))
    assert document["batch_size"] == 32
    assert predicted(tmp_path, "mine")["iteration_time_s"] == pytest.approx(step, rel=1e-6)
    parts = predicted(tmp_path, "{trace: mine}")
    print(f"step measured {step:.6g} s, forward and backward of the layers {parts['iteration_time_s']:.6g} s")
    assert parts["iteration_time_s"] == pytest.approx(step, rel=0.3)
    assert min(parts["breakdown_s"]["forward"], parts["breakdown_s"]["backward"]) > 0.1 * step


def test_layers_stand_in_forward_order_and_their_backward_times_sum_to_ready(tmp_path):
    printed("record", "layers", "mlp", "--out", tmp_path, "--repeats", 3, "--batch-size", 16, *FAST)
    with (tmp_path / "mlp.layers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["name", "numel", "forward_s", "backward_s", "ready_s", "shape"]
    assert [row["shape"] for row in rows] == ["256x784", "256", "256x256", "256", "10x256", "10"]
    assert [row["name"].partition(".")[0] for row in rows] == ["0", "0", "2", "2", "4", "4"]
    assert {row["name"]: int(row["numel"]) for row in rows} == {
        "0.weight": 200_704, "0.bias": 256, "2.weight": 65_536, "2.bias": 256, "4.weight": 2560, "4.bias": 10,
    }  # fmt: skip
    backward = [float(row["backward_s"]) for row in rows]
    for i, row in enumerate(rows):
        assert float(row["ready_s"]) == pytest.approx(sum(backward[i:]), rel=1e-3)
    assert all(float(row["forward_s"]) > 0 for row in rows)


def test_an_own_network_with_shared_unused_and_frozen_parameters(own, tmp_path):
    printed("record", "layers", "own_network:make", "--out", tmp_path, "--repeats", 3, *FAST)
    with (tmp_path / "make.layers.csv").open(newline="") as file:
        names = [row["name"] for row in csv.DictReader(file)]
    assert sorted(names) == ["inner.bias", "inner.weight", "scale"]
    document = parse_document((tmp_path / "make.yaml").read_text()).data
    assert document["batch_size"] == 6 and "No gradient reached unused.weight, unused.bias" in document["source"]
    assert "precision" not in document
    assert predicted(tmp_path, "make")["iteration_time_s"] > 0


def test_a_network_of_16_bits_is_recorded_with_its_precision(own, tmp_path):
    printed("record", "layers", "own_network:short", "--out", tmp_path, "--repeats", 3, *FAST)
    document = predicted(tmp_path, "short")
    assert document["precision"] == "bf16"
    assert not [text for text in document["warnings"] if "measured_precision" in text]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_network:mkae", r"expected a function of own_network, got 'mkae': did you mean 'make'\?"),
        ("own_networks:make", "expected a module that can be imported, got no module 'own_networks'"),
        ("mpl", r"expected a built-in model, FILE.py:FUNCTION, .*, got 'mpl': did you mean 'mlp'\?"),
        ("own_network:no_tuple", r"expected inputs for the model, got none: give the shape of one sample"),
        ("own_network:no_module", r"a torch.nn.Module first, got int"),
        ("own_network:no_loss", r"expected a function loss\(model, batch\) third, got NoneType"),
        ("own_network:no_tensor", "expected at least one tensor, samples first"),
        ("own_network:no_gradient", "expected a loss with gradients, got none reached a parameter"),
    ],
)
def test_what_is_not_a_network_is_an_input_error(own, tmp_path, name, message):
    from simulator.record.layers import profile
    from simulator.record.models import task_of

    with pytest.raises(InputError, match=message):
        profile(task_of(name, "cpu"), "cpu", 1, 0)
    refused("record", "layers", name, "--out", tmp_path / "out", *FAST)


def test_the_transformers_train_at_a_small_size():
    import torch

    from simulator.record.layers import profile
    from simulator.record.models import BertModule, Gpt, mean_square, next_token
    from simulator.record.own_model import OwnModel

    tokens = torch.randint(50, (2, 16))
    for model, loss in ((BertModule(50, 16, 128, 2), mean_square), (Gpt(50, 16, 128, 2), next_token)):
        made = profile(OwnModel("small", model, iter([tokens]), loss), "cpu", 2, 1)
        assert not made.idle and len(made.layers) == len(list(model.parameters()))
        assert sum(layer.backward for layer in made.layers) == pytest.approx(made.backward)
        assert sum(layer.forward for layer in made.layers) == pytest.approx(made.forward)
    # The decoder is the word embedding: its gradient is complete at the end, where the layers begin.
    assert "word.weight" in [layer.name for layer in made.layers[:2]]
