"""`sparsim new`: questions on a terminal, options without one, and files that run."""

import re
import shlex
from importlib.util import find_spec

import pytest
from command_line import answered, invoke, printed, refused
from new_scenarios import ANSWERS, commands, options, write

import simulator.cli.new as command
from simulator.cli import main
from simulator.scenario.reading import load


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_command_that_is_named_can_be_typed(folder):
    for goal in ("pays", "method", "time", "workers", "bandwidth"):
        output = write("--force", goal=goal, method="dgc, powersgd 2 or dense")
        for line in commands(output):
            words = shlex.split(line)[1:]
            main.commands[words[0]].make_context("sparsim", words[1:])
        assert all(len(line) <= 100 for line in output.splitlines()) and len(commands(output)) >= 4


def test_without_a_terminal_every_missing_option_is_named(folder):
    said = refused("new", "mine.yaml", "--model", "resnet50-v100")
    named = re.findall(r"^(--[a-z-]+): expected this option", said, flags=re.M)
    assert named == [f"--{key}" for key in ANSWERS if key != "model"]


def test_nothing_is_overwritten_unless_it_is_asked_for(folder):
    (folder / "mine.yaml").write_text("precious")
    result = invoke("new", "mine.yaml", *options())
    assert (result.exit_code, (folder / "mine.yaml").read_text()) == (2, "precious")
    assert "one that exists: give another name, or --force" in result.output
    write("--force")
    (folder / "mine.yaml").unlink()
    (folder / "mine-workers.yaml").write_text("precious")
    result = invoke("new", "mine.yaml", *options(goal="workers"))
    assert (result.exit_code, (folder / "mine-workers.yaml").read_text()) == (2, "precious")
    assert not (folder / "mine.yaml").exists()


def test_the_name_of_the_file_ends_as_a_scenario_does(folder):
    assert "expected a name that ends with .yaml" in refused("new", "mine.txt", *options())


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(command, "_is_terminal", lambda: True)


def test_on_a_terminal_eight_questions_are_asked_and_defaults_run(folder, terminal):
    told = printed("new", input="\n" * 8)
    assert re.findall(r"^(\d) of 8  ", told, flags=re.M) == list("12345678")
    scenario = load("mine.yaml")
    assert scenario.workload.name == "resnet50-v100" and scenario.cluster.gpu.device.startswith("Tesla V100")
    assert all(len(line) <= 100 for line in told.splitlines())


def test_on_a_terminal_a_wrong_answer_is_asked_again_with_the_reason(folder, terminal):
    typed = "nothing like it|bert-base|no gpu|t4|0|2|1|1 Gbit|1 Gbit/s|1000|horovod-tensorflow1|dgc and powersgd|2|"
    told = printed("new", input=typed.replace("|", "\n"))
    for reason in (
        "--model: expected a name of the list, got 'nothing like it'",
        "--gpu: expected a name of the list, got 'no gpu'",
        "--machines: expected a whole number from 1 to 131072, got '0'",
        "--network: expected a bandwidth in one of",
        "--framework: expected a name of the list, got '1000'",
    ):
        assert told.count(reason) == 1
    scenario = load("mine.yaml")
    assert scenario.workload.name == "bert-base-v100"
    assert (scenario.cluster.nodes, scenario.sparsifier.kind) == (2, "dgc")
    assert commands(told)[0] == "sparsim advise mine.yaml"


def test_options_answer_questions_in_advance(folder, terminal):
    told = printed("new", *options(goal=None, machines=None), input="2\n1\n")
    assert re.findall(r"^(\d) of 8  ", told, flags=re.M) == ["3", "8"]
    assert load("mine.yaml").cluster.nodes == 2


@pytest.mark.torch
@pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")
def test_a_model_of_ones_own_is_described_where_there_is_no_gpu(folder):
    (folder / "net.py").write_text(
        "from torch import nn\n\ndef build():\n    return nn.Sequential(nn.Linear(64, 32), nn.Linear(32, 8))\n"
    )
    own = ("--model", "net.py:build", "--input", "64", "--batch", "16")
    result = invoke("new", "mine.yaml", *options(model=None), *own)
    assert result.exit_code == 0, result.output
    workload = load("mine.yaml").workload
    assert (workload.numel, workload.batch_size) == (64 * 32 + 32 + 32 * 8 + 8, 16)
    answer = answered("run", "mine.yaml")
    assert answer["breakdown_s"]["backward"] > 0 and answer["comparison"]["kind"] == "pays"
    again = invoke("new", "other.yaml", *options(model=None), *own)
    assert "build.yaml: expected a new file, got one that exists: --force" in again.output
    result = invoke("new", "mine.yaml", *options(model=None), *own, "--force", "--compute-time", "20 ms")
    assert load("mine.yaml").workload.compute_time == 0.02


def test_a_training_that_does_not_fit_says_so_and_what_would(folder):
    """Seven billion parameters in bf16 on 64 H100: the file is written, and its commands ignore the memory."""
    chosen = {"model": "llama2-7b", "gpu": "h100", "machines": "8", "gpus_per_machine": "8", "network": "a3mega-h100"}
    output = write("--batch", "1", "--precision", "bf16", method="dense", goal="time", **chosen)
    assert "This training does not fit into memory" in output and "what would help" in output
    assert commands(output)[0] == "sparsim run mine.yaml --ignore-memory"
    refused("run", "mine.yaml")
    answer = answered("run", "mine.yaml", "--ignore-memory")
    assert answer["workers"] == 64 and answer["precision"] == "bf16"
    # 6 FLOPs per parameter and token at the dense bf16 rate of the data sheet take no longer than this.
    assert answer["iteration_time_s"] > 6 * 6.74e9 * 4096 / 989.4e12
