"""`sparsim list workload` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from simulator.cli import main


def run(*words: str) -> tuple[int, str]:
    """Exit code and all output of a command."""
    result = CliRunner(env={"COLUMNS": "100"}).invoke(main, ["list", "workload", *words])
    return result.exit_code, result.output


def test_a_model_is_shown_with_its_times_and_their_reason() -> None:
    code, text = run("workloads/llama3-8b", "--gpu", "gpus/h100", "--batch", "2")
    assert code == 0
    assert "8,030,261,248 in 291 tensors" in text and "2 samples" in text
    assert "right within a factor of" in text and "Dao 2023" in text and "model.layers.0 to 31 (32 alike)" in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_document_is_that_of_the_keys() -> None:
    code, text = run("gpt2", "--gpu", "a100", "--set", "layers=6", "--set", "sequence=256", "--json")
    document = json.loads(text)
    assert code == 0 and document["batch_size"] == 8 and document["flops"]["arithmetic"] == "mixed"
    assert document["parameters"] == 124_439_808 - 6 * 7_087_872


def test_what_is_written_is_the_same_workload(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    assert run("gpt2", "--set", "layers=3", "--batch", "2", "--out", str(path))[0] == 0
    code, text = run(str(path), "--json")
    assert code == 0 and json.loads(text) == json.loads(run("gpt2", "--set", "layers=3", "--batch", "2", "--json")[1])
    measured = tmp_path / "measured.yaml"
    assert run("workloads/resnet18-v100", "--out", str(measured))[0] == 0
    assert json.loads(run(str(measured), "--json")[1]) == json.loads(run("workloads/resnet18-v100", "--json")[1])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gtp2"], "no workload named 'workloads/gtp2'"),
        (["gpt2", "--set", "layerz=3"], "expected a known key, got 'layerz': did you mean 'layers'?"),
        (["gpt2", "--set", "layers"], "expected key=value"),
        (["gpt2", "--gpu", "h1000"], "did you mean 'gpus/h100'?"),
        (["gpt2", "--input", "3x3"], "--input: expected your own model"),
        (["workloads/llama3-8b", "--gpu", "v100"], "expected an arithmetic of Tesla V100"),
        (["gpt2", "--batch", "7", "--set", "micro_batches=2"], "a number of micro-batches that divides"),
    ],
)
def test_mistakes_are_named(words: list[str], message: str) -> None:
    code, text = run(*words)
    assert code == 2 and message in text and "Traceback" not in text
