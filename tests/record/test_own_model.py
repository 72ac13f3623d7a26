"""Models that a person names: files, modules and libraries, and what goes wrong in them."""

import sys
import textwrap
import types
from importlib.util import find_spec

import pytest
from click.testing import CliRunner

from simulator.cli import main
from simulator.errors import InputError

pytestmark = [pytest.mark.torch, pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")]

MINE = """\
    from torch import nn
    import neighbour

    def build():
        return nn.Sequential(nn.Conv2d(3, neighbour.WIDTH, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def pair():
        import torch
        return nn.Linear(4, 2), torch.ones(6, 4)

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.word, self.out = nn.Embedding(50, 8), nn.Linear(8, 3)

        def forward(self, x):
            return {"logits": self.out(self.word(x)), "count": 3}

    ready = nn.Linear(4, 2)
    number = 3

    def fails():
        return nn.Linear(3, "x")

    def absent():
        import no_such_library

    def four():
        return 1, 2, 3, 4
"""
FAST = ("--device", "cpu", "--threads", "1", "--repeats", "1", "--warmup", "0")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(textwrap.dedent(MINE))
    (tmp_path / "neighbour.py").write_text("WIDTH = 5\n")
    (tmp_path / "broken.py").write_text("x = 1\ndef f(:\n")
    (tmp_path / "needy.py").write_text("import no_such_library\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("neighbour", None)


def invoke(*arguments):
    return CliRunner().invoke(main, ["record", "layers", *arguments, "--out", "made", *FAST], catch_exceptions=False)


def test_a_bare_module_of_a_file_is_loaded_with_its_neighbours():
    from simulator.record.own_model import load_model

    made = load_model("mine.py:build")
    assert [tuple(item.shape) for item in made.model.parameters()] == [(5, 3, 3, 3), (5,)]
    assert (made.inputs, made.loss, made.input) == (None, None, "")
    assert load_model("mine.py:ready").model.in_features == 4 and load_model("mine.py:pair").inputs.shape == (6, 4)


def test_on_the_meta_device_a_model_takes_no_memory():
    import torch

    from simulator.record.own_model import load_model

    with torch.device("meta"):
        assert all(item.is_meta for item in load_model("mine.py:build").model.parameters())


@pytest.mark.parametrize(
    ("arguments", "name", "batch"),
    [
        (("mine.py:build", "--input", "3x8x8", "--batch-size", "2"), "build", 2),
        (("mine.py:Tagger", "--input", "tokens:6"), "Tagger", 8),
        (("mine.py:ready", "--input", "4"), "ready", 8),
        (("mine.py:pair",), "pair", 6),
    ],
)
def test_a_model_without_a_loss_is_timed(folder, arguments, name, batch):
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    assert f"batch_size: {batch}\n" in (folder / "made" / f"{name}.yaml").read_text()
    assert (folder / "made" / f"{name}.layers.csv").read_text().count("\n") > 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("no.py:f", "no.py: expected a Python file, got no such file"),
        ("mine.py:biuld", "expected a function of mine.py, got 'biuld': did you mean 'build'?"),
        ("mine.py:number", "expected a function, a class or a torch.nn.Module, got int"),
        ("mine.py:four", "mine.py:four(): expected a torch.nn.Module, (model, inputs) or (model, inputs, loss"),
        ("mine.py:fails", "mine.py:23: expected code that runs, got TypeError: empty()"),
        ("mine.py:absent", "mine.py:absent(): expected modules that can be imported, got No module named"),
        ("broken.py:f", "broken.py:2: expected code that runs, got SyntaxError"),
        ("needy.py:f", "needy.py: expected modules that can be imported, got No module named 'no_such_library'"),
        ("no_module:f", "as a file: no_module.py:function"),
        ("mine.py:", "MODEL: expected FILE.py:FUNCTION"),
        ("mine.py:build", "mine.py:build: expected inputs for the model, got none: give the shape of one sample"),
        ("mine.py:build --input 1x8x8", "the model: expected to accept a batch of 8x1x8x8, got RuntimeError"),
        ("mine.py:build --input 3by8", "--input: expected the shape of one sample, such as 3x224x224"),
        ("mine.py:build --input 9999999x9999999", "--input: expected the shape of one sample"),
        ("mine.py:build --input 0x3", "--input: expected the shape of one sample"),
        ("mine.py:build --input tokens:4", "--input: expected a model with an embedding, for tokens, got none"),
        ("mine.py:pair --input 4", "--input: expected a model without inputs of its own, got mine.py:pair"),
        ("mine.py:pair --batch-size 4", "--batch-size: expected a model without inputs of its own"),
        ("mlp --input 4", "--input: expected a model without inputs of its own, got mlp"),
    ],
)
def test_what_goes_wrong_is_one_line(arguments, message):
    result = invoke(*arguments.split())
    assert result.exit_code == 2 and message in result.stderr and result.stderr.count("\n") == 1


def test_a_library_that_is_not_installed_is_named(monkeypatch):
    from simulator.record import own_model

    find = own_model.importlib.util.find_spec
    hidden = ("torchvision", "transformers")
    monkeypatch.setattr(
        own_model.importlib.util, "find_spec", lambda name, *rest: None if name in hidden else find(name, *rest)
    )
    for library in hidden:
        with pytest.raises(InputError, match=f"expected {library}, got not installed: pip install {library}"):
            own_model.load_model(f"{library}:some")


def test_a_model_of_torchvision_has_random_weights_and_the_size_of_its_pictures(monkeypatch):
    import torch

    from simulator.record import own_model

    asked = []

    def get_model(name, weights):
        asked.append((name, weights))
        return torch.nn.Conv2d(3, 2, 3)

    fake = types.SimpleNamespace(list_models=lambda: ["inception_v3", "resnet18"], get_model=get_model)
    monkeypatch.setattr(own_model, "_import_library", lambda *_: fake)
    assert own_model.load_model("torchvision:resnet18").input == "3x224x224"
    assert own_model.load_model("torchvision:inception_v3").input == "3x299x299"
    assert asked == [("resnet18", None), ("inception_v3", None)]
    with pytest.raises(InputError, match=r"got 'resnet81': did you mean 'resnet18'\?"):
        own_model.load_model("torchvision:resnet81")


def test_a_model_of_transformers_is_made_from_its_configuration_alone(monkeypatch, folder):
    import torch

    from simulator.record import own_model

    def fail(*_, **__):
        raise OSError("not a configuration")

    config = types.SimpleNamespace(vocab_size=50, n_positions=64)
    fake = types.SimpleNamespace(
        CONFIG_MAPPING={"gpt2": None, "bert": None},
        AutoConfig=types.SimpleNamespace(for_model=lambda name: config, from_pretrained=fail),
        AutoModel=types.SimpleNamespace(from_config=lambda config: torch.nn.Embedding(config.vocab_size, 4)),
    )
    monkeypatch.setattr(own_model, "_import_library", lambda *_: fake)
    made = own_model.load_model("transformers:gpt2")
    assert (made.input, made.model.num_embeddings) == ("tokens:64", 50)
    with pytest.raises(InputError, match=r"a kind of model of transformers, got 'gpt3': did you mean 'gpt2'\?"):
        own_model.load_model("transformers:gpt3")
    with pytest.raises(InputError, match=r"expected a file config\.json, got no such file"):
        own_model.load_model("transformers:absent.json")
    (folder / "config.json").write_text("{}")
    with pytest.raises(InputError, match="not a configuration"):
        own_model.load_model("transformers:config.json")


@pytest.mark.parametrize("name", ["torchvision:resnet18", "transformers:vit"])
def test_the_libraries_themselves_where_they_are_installed(name):
    pytest.importorskip(name.partition(":")[0])
    import torch

    from simulator.record.own_model import load_model

    with torch.device("meta"):
        made = load_model(name)
    assert made.input == "3x224x224" and sum(item.numel() for item in made.model.parameters()) > 1e7
