# ruff: noqa: E501
"""What commands hand on to functions that need PyTorch, a network or hours, and what they print of the outcome."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import ANY

import pytest
from command_line import invoke, printed, refused

from simulator.traces.sampling import Sampling

MADE = SimpleNamespace(forward=0.001, backward=0.002, step=0.004, layers=[1, 2, 3])
IMPORTED = SimpleNamespace(problems=["row 3"], notes=["a note"], unsized={"send": 2}, report={}, rows={"a.csv": 7})
ENDED = SimpleNamespace(
    curve=[SimpleNamespace(metric=0.75, loss=0.5)] * 9, spec=SimpleNamespace(metric="f1", stopped=4)
)
ANSWERS = {
    "merge": (4, 16), "device_of": "gpu0", "profile": MADE, "record_training": 12, "import_file": IMPORTED, "train": ENDED,
    "check_names": ("chosen",), "sizes_up_to": [8], "largest_elements": 64, "known_tasks": ["mlp-digits"], "grid": "points",
    "record_kernels": {"written": 5, "kept": 2, "skipped": 1, "wrong": 0}, "write_workload": Path("w/build.yaml"),
}  # fmt: skip
MODULES = (
    "record.merging", "record.environment", "record.layers", "record.models", "record.gradients", "record.sweep",
    "record.kernels", "record.collectives", "training.task", "training.loop", "traces.readers.imports", "serving.serve",
)  # fmt: skip


@pytest.fixture
def handed(monkeypatch):
    """The calls of the functions in these modules, by name: each returns its answer, or its own name."""
    calls = {}

    class Noting(ModuleType):
        DTYPES, KERNELS, COLLECTIVES, SIZES = ("fp32", "fp16"), ("topk",), ("all_reduce",), (1024,)

        def __getattr__(self, name):
            def noted(*arguments, **named):
                calls[name] = (arguments, named)
                return ANSWERS.get(name, name)

            if name.startswith("__"):
                raise AttributeError(name)
            return "quick" if name == "QUICK" else noted

    for name in MODULES:
        monkeypatch.setitem(sys.modules, f"simulator.{name}", Noting(name))
    return calls


TASK = ("mine.py:build", "gpu0", 8, 5, "3x4")
OWN = "mine.py:build --batch-size 8 --input 3x4 --seed 5 --device cuda --out w"
CASES = {
    "record merge a --out b": ({"merge": ((Path("a"), Path("b")), {})}, "b: 4 workers, 16 iterations"),
    "record merge a": ({"merge": ((Path("a"), None), {})}, "a: 4 workers, 16 iterations"),
    f"record layers {OWN} --repeats 7 --warmup 2": ({
        "need_torch": (("record layers",), {}), "device_of": (("cuda",), {}), "task_of": (TASK, {}),
        "profile": (("task_of", "gpu0", 7, 2), {}),
        "write_workload": ((Path("w"), "build", "mine.py:build", MADE, "gpu0"), {}),
    }, "w/build.yaml: 3 tensors, forward 1 ms, backward 2 ms, step 4 ms"),
    f"record gradients {OWN} --workers 3 --iterations 9 --every 4 --block 2 --sample 0.5 --learning-rate 0.1 --layers l": ({
        "task_of": (TASK, {}),
        "record_training": (("task_of", Path("w")), {
            "workers": 3, "iterations": 9, "every": 4, "block": 2, "sample": 0.5, "learning_rate": 0.1, "seed": 5,
            "layers": Path("l")}),
    }, "w: 3 workers, 12 iterations"),
    "record kernels --out k.csv --dtypes fp16,fp32 --kernels a,b --seed 3 --resume --rotate 2KiB --clock-policy fixed": ({
        "check_names": (("--dtypes", ["fp16", "fp32"], ("fp32", "fp16")), {}), "largest_elements": (("gpu0",), {}),
        "sizes_up_to": ((64, False), {}), "grid": (([8], ("chosen",), ["a", "b"], False), {}),
        "environment": (("gpu0", "fixed"), {}),
        "record_kernels": ((Path("k.csv"), "points", "gpu0", "environment"), {
            "effort": "Effort", "rotate": 2048, "seed": 3, "resume": True, "report": ANY}),
    }, "k.csv: 5 rows, 2 kept, 1 points skipped, 0 wrong"),
    "record kernels --out k.csv --quick --max-elements 2048": ({
        "check_names": (("--dtypes", ["fp32"], ("fp32", "fp16")), {}), "sizes_up_to": ((2048, True), {}),
        "grid": (([8], ("chosen",), ("topk",), True), {}),
        "record_kernels": ((Path("k.csv"), "points", "gpu0", "environment"), {
            "effort": "quick", "rotate": None, "seed": 0, "resume": False, "report": ANY}),
    }, "k.csv: 5 rows, 2 kept, 1 points skipped, 0 wrong"),
    "record collectives --out c.csv --processes 4 --sizes 1KiB,2KiB --collectives all_reduce --repeats 3 --backend gloo": ({
        "check_names": (("--collectives", ["all_reduce"], ("all_reduce",)), {}),
        "Settings": ((), {"out": Path("c.csv"), "sizes": (1024, 2048), "collectives": ("chosen",), "repeats": 3,
                          "backend": "gloo", "device": "auto", "resume": False}),
        "record_collectives": (("Settings", 4), {}),
    }, "c.csv: written"),
    "record training mlp-digits --out t --method dense --workers 3 --record r --coordinates 2150 --pilot 7 --threads 2": ({
        "train": ((ANY, Path("t")), {"observe": ANY, "device": "gpu0", "threads": 2, "checkpoint_every": 100,
                                     "record": Path("r"), "sampling": Sampling(2150, 1024, 7, 0)}),
    }, "t: 9 iterations, loss 0.5, f1 0.75\nstopped at 4"),
    "trace import osu f g --out o --batch-size 8 --workers 4 --steps 3-5": ({
        "import_file": (("osu", (Path("f"), Path("g")), Path("o"), 8, 4), {"steps": "3-5"}),
    }, "row 3\n1 damaged places were left out\na note\nf: 2 x send: the file does not state the size\n"
       "o: written, a.csv 7 rows"),
    "serve ring_check --port 9": ({"serve": (("ring_check", 9, ANY), {})}, "ended"),
}  # fmt: skip


@pytest.mark.parametrize("line", CASES)
def test_what_is_asked_for_arrives_and_what_came_out_is_printed(line, handed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("f", "g", "l"):
        (tmp_path / name).touch()
    expected, text = CASES[line]
    assert printed(*line.split()).strip().endswith(text)
    assert {name: handed[name] for name in expected} == expected


def test_a_wrong_kernel_is_exit_code_1(handed, tmp_path, monkeypatch):
    monkeypatch.setitem(ANSWERS, "record_kernels", {"written": 5, "kept": 0, "skipped": 0, "wrong": 2})
    result = invoke("record", "kernels", "--out", tmp_path / "k.csv")
    assert result.exit_code == 1 and result.output.endswith("k.csv: 5 rows, 0 points skipped, 2 wrong\n")


def test_one_training_alone_is_recorded(handed, tmp_path):
    said = refused("record", "training", "convergence", "--out", tmp_path / "t", "--record", tmp_path / "g")
    assert "--record: expected one training, got the study" in said


def test_the_page_is_opened_in_the_browser_where_that_is_asked_for(monkeypatch):
    seen = []
    monkeypatch.setattr("simulator.serving.serve.serve", lambda _, port, announce: announce(f"http://127.0.0.1:{port}"))
    monkeypatch.setattr("webbrowser.open", seen.append)
    assert (
        printed("serve", "--port", "7").splitlines() == ["http://127.0.0.1:7   (Ctrl-C ends it)", "ended"] and not seen
    )
    printed("serve", "--port", "7", "--open")
    assert seen == ["http://127.0.0.1:7"]
