"""Tasks: the built-in ones learn, and a file of one's own is as good."""

import re
import shlex
from importlib.util import find_spec

import numpy as np
import pytest
from command_line import invoke, refused
from places import ROOT

from simulator.errors import InputError
from simulator.trainings.options import read_options
from simulator.trainings.runs import read_run

pytestmark = [pytest.mark.torch, pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")]
PAGE = (ROOT / "docs" / "how-to" / "train.md").read_text(encoding="utf-8")
TASK = """\
import torch
batch_size = 4
def model(width=3):
    return torch.nn.Linear(2, width)
def batches(worker, workers, batch_size, seed):
    while True:
        yield torch.full((batch_size, 2), float(worker + 1))
def loss(model, batch):
    return model(batch).square().mean()
"""


@pytest.fixture
def example(tmp_path):
    """The task of the documentation, as a file."""
    path = tmp_path / "product.py"
    path.write_text(re.search(r":caption: product\.py\n\n(.*?)```", PAGE, re.S)[1])
    return path


def test_the_task_of_the_documentation_learns(example, tmp_path):
    _, _, _, _, *arguments, _ = shlex.split(re.search(r"sparsim record training product\.py .* --out \S+", PAGE)[0])
    done = invoke("record", "training", example, *arguments, tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    run = read_run(tmp_path / "out")
    measured = [point.metric for point in run.curve if np.isfinite(point.metric)]
    assert (run.spec.elements, run.spec.metric) == (2 * 64 + 64 + 64 + 1, "squared_error")
    assert measured[-1] < min(0.02, 0.5 * measured[0])


def test_a_vectorised_task_is_the_same_as_one_in_turn(example, tmp_path):
    from simulator.training.loop import train

    other = tmp_path / "in_turn.py"
    other.write_text(example.read_text().replace("vectorised = True", ""))
    runs = [
        train(read_options({"task": str(path), "method": "topk 0.1", "iterations": 20, "local_steps": steps}), folder)
        for steps in (1, 3)
        for path, folder in ((example, tmp_path / f"one{steps}"), (other, tmp_path / f"two{steps}"))
    ]
    for one, two in (runs[:2], runs[2:]):
        np.testing.assert_allclose([p.loss for p in one.curve], [p.loss for p in two.curve], rtol=1e-4)


@pytest.mark.parametrize(
    ("task", "momentum", "best"),
    [("mlp-digits", 0.9, 0.3), ("resnet14-digits", 0.0, 0.3), ("lstm-text", 0.9, 2.6), ("transformer-text", 0.9, 2.8)],
)
def test_built_in_tasks_learn(task, momentum, best, tmp_path):
    """Better than guessing: one of ten digits, or ln 64 = 4.2 nats."""
    from simulator.training.loop import train

    keys = {"task": task, "workers": 2, "iterations": 80, "evaluate_every": 80, "momentum": momentum}
    run = train(read_options(keys), tmp_path)
    metric = run.curve[-1].metric
    assert metric >= best if run.spec.better == "higher" else metric <= best


def test_any_text_can_be_learned(tmp_path):
    from simulator.training.loop import train

    (tmp_path / "text.txt").write_text("the same words again and again, " * 100)
    keys = {"task": "lstm-text", "workers": 1, "iterations": 30, "parameters": {"text": str(tmp_path / "text.txt")}}
    run = train(read_options(keys), tmp_path / "out")
    assert run.curve[-1].metric < 1.5
    assert run.curve[0].loss == pytest.approx(np.log(15), rel=0.1)  # of so many letters, all as likely
    (tmp_path / "short.txt").write_text("short")
    keys["parameters"] = {"text": str(tmp_path / "short.txt")}
    with pytest.raises(InputError, match="expected at least 331 characters, got 5"):
        train(read_options(keys), tmp_path / "other")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("def loss(", "def lost(", "a function `loss`, got none"),
        ("return torch.nn.Linear", "return 3 or torch.nn.Linear", "model(): expected a torch.nn.Module, got int"),
        ("Linear(2, width)", "Linear(2, width).half()", "expected parameters of torch.float32, got torch.float16"),
        ("while True", "if True", "batches: expected an iterator that does not end, got its end"),
        ("batch_size = 4", "", "parameters.depth: expected a parameter of the task's functions, got 'depth'"),
    ],
)
def test_mistakes_of_a_task_are_named(tmp_path, old, new, message):
    path = tmp_path / "mine.py"
    path.write_text(TASK.replace(old, new))
    parameters = ["--set", "parameters.depth=3"] if "depth" in message else []
    assert message in refused("record", "training", path, *parameters, "--iterations", "2", "--out", tmp_path / "out")


def test_an_unknown_task_is_named(tmp_path):
    assert "task: expected a built-in task or a Python file, got 'mlp-digit': did you mean 'mlp-digits'?" in refused(
        "record", "training", "mlp-digit", "--out", tmp_path / "out"
    )


def test_a_training_that_diverges_keeps_what_was_done(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(TASK)
    done = invoke("record", "training", path, "--set", "learning_rate=1e6", "--out", tmp_path / "out")
    assert done.exit_code == 0
    run = read_run(tmp_path / "out")
    assert 1 < len(run.curve) < 400
    assert run.spec.stopped == f"iteration {len(run.curve)}: the loss is not finite, or a gradient is beyond 1e+12"
    assert run.spec.stopped in done.stderr
    assert "inf" not in (tmp_path / "out" / "curve.csv").read_text()
    assert all(np.isfinite(point.loss) for point in run.curve)
