"""Trainings with the method in the loop, on this machine."""

from importlib.util import find_spec

import numpy as np
import pytest
from command_line import invoke, printed, refused

from simulator.errors import InputError
from simulator.trainings.options import read_options
from simulator.trainings.runs import read_run

pytestmark = [pytest.mark.torch, pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")]


def options(**keys):
    return read_options({"task": "mlp-digits", "workers": 4, "iterations": 30, **keys})


def train(folder, observe=None, **keys):
    from simulator.training.loop import train

    return train(options(**keys), folder, checkpoint_every=10, observe=observe)


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def stop_at(iteration):
    def observe(done):
        if done == iteration:
            raise KeyboardInterrupt

    return observe


@pytest.mark.parametrize(
    "keys",
    [
        {"method": "dense"},
        {"method": "dgc 0.01"},
        {"method": "exdyna 0.01"},
        {"method": "powersgd rank=2"},
        {"method": "topk 0.01", "local_steps": 2},
        {"method": "topk 0.01", "error_feedback": False, "precision": "bf16"},
    ],
    ids=str,
)
def test_an_interrupted_training_continues_to_the_same_bytes(tmp_path, keys):
    train(tmp_path / "whole", **keys)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "parts", stop_at(17), **keys)
    assert (tmp_path / "parts" / "checkpoint.npz").is_file()
    seen = []
    train(tmp_path / "parts", seen.append, **keys)
    assert seen[:2] == [10, 11]
    assert files(tmp_path / "parts") == files(tmp_path / "whole")


def test_the_same_seed_gives_the_same_bytes_and_another_one_other_bytes(tmp_path):
    runs = [train(tmp_path / str(place), method="topk 0.01", seed=seed) for place, seed in enumerate((0, 0, 1))]
    assert runs[0].spec.weights == runs[1].spec.weights != runs[2].spec.weights
    assert files(tmp_path / "0") == files(tmp_path / "1")


def test_a_finished_training_is_not_repeated(tmp_path):
    train(tmp_path)
    seen = []
    train(tmp_path, seen.append)
    assert seen == []


def test_a_folder_of_another_training_is_refused(tmp_path):
    train(tmp_path, iterations=2)
    with pytest.raises(InputError, match=r"training\.yaml: iterations: expected 3, got 2: use another folder"):
        train(tmp_path, iterations=3)


def test_the_command_trains_and_says_where(tmp_path):
    arguments = ["record", "training", "mlp-digits", "--method", "topk 0.01", "--workers", "2", "--iterations", "5"]
    text = printed(*arguments, "--out", tmp_path / "out")
    run = read_run(tmp_path / "out")
    assert [point.iteration for point in run.curve] == list(range(5))
    assert run.spec.method == {"kind": "topk", "density": 0.01} and f"{run.curve[-1].metric:.4g}" in text


def test_a_training_records_what_its_workers_computed_and_is_then_not_continued(tmp_path):
    from simulator.traces.format.trace import Trace

    keys = ("mlp-digits", "--workers", "2", "--batch-size", "4", "--iterations", "6", "--set", "parameters.width=24")
    command = ("record", "training", *keys, "--out", str(tmp_path / "run"), "--record", str(tmp_path / "trace"))
    made = invoke(*command, "--coordinates", "150", "--pieces", "64", "--pilot", "2")
    assert made.exit_code == 0, made.output
    trace = Trace.open(tmp_path / "trace")
    assert trace.spec.runs() == ((2, 5),) and trace.spec.workers == 2 and "mlp-digits, width 24" in trace.spec.model
    assert trace.shapes[0] == (24, 64) and set(trace.spec.loss) == {2, 3, 4, 5}
    first, second = (next(trace.blocks()).values[worker] for worker in (0, 1))
    assert np.abs(first - second).max() > 0
    assert "a recording starts with the training" in refused(*command)
