"""Plug-ins that break: they are named, and commands that do not need them work."""

import json
import os
import subprocess
import sys

import pytest
from small_inputs import SCENARIO

GOOD = '''from simulator.sparsifiers.topk import TopK


class Good(TopK, kind="good"):
    """Top-k under another name."""
'''
MODULES = {
    "good": GOOD,
    "absent_import": "import a_package_that_nobody_has\n",
    "half": GOOD.replace("good", "half").replace("Good", "Half") + "\nraise RuntimeError('first line\\nsecond line')\n",
    "leaves": "raise SystemExit(3)\n",
    "no_member": "class Nothing:\n    pass\n",
    "same_as_ours": GOOD.replace('"good"', '"randomk"'),
    "same_as_another": GOOD,
    "wrong_syntax": "def broken(:\n",
}
PROGRAM = """
import json, sys
from click.testing import CliRunner
from simulator.__main__ import main

def call(*arguments):
    done = CliRunner().invoke(main, arguments)
    return [done.exit_code, done.stdout, done.stderr]

print(json.dumps([call(*arguments) for arguments in json.loads(sys.argv[1])]))
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with packages that offer these modules as plug-ins."""
    points = []
    for name, text in MODULES.items():
        (tmp_path / f"plugin_{name}.py").write_text(text)
        points.append(f"{name} = plugin_{name}")
    points.append("missing = plugin_that_is_missing")
    metadata = tmp_path / "broken-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[simulator.plugins]\n" + "\n".join(points) + "\n")
    (tmp_path / "small.yaml").write_text(SCENARIO)
    return tmp_path


@pytest.mark.long
def test_broken_plugins_are_named_and_break_only_what_needs_them(folder):
    asked = [
        ["run", "small.yaml", "--json"],
        ["list"],
        ["list", "--json"],
        ["run", "small.yaml", "--json", "--set", "sparsifier={kind: good, density: 0.01}"],
        ["run", "small.yaml", "--set", "sparsifier={kind: half, density: 0.01}"],
        ["run", "small.yaml", "--json", "--set", "sparsifier={kind: randomk, density: 0.01}"],
    ]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(asked)],
        cwd=folder, env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(folder)])},
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    plain, shown, listed, good, half, ours = json.loads(done.stdout)
    for code, _, errors in (plain, shown, listed, good, ours):
        assert (code, errors) == (0, "")
    broken = {item["name"]: item["reason"] for item in json.loads(listed[1])["broken_plugins"]}
    assert sorted(broken) == sorted(["missing", *MODULES.keys() - {"good"}])
    assert "a_package_that_nobody_has" in broken["absent_import"]
    assert broken["half"] == "RuntimeError: first line second line"
    assert broken["leaves"] == "SystemExit: 3"
    assert "no member of a family" in broken["no_member"]
    assert "simulator.sparsifiers.randomk" in broken["same_as_ours"]
    assert "'good' is defined in plugin_good" in broken["same_as_another"]
    for name in broken:
        assert f"  {name} (plugin_" in shown[1]
    kinds = [item["kind"] for item in json.loads(listed[1])["sparsifier"]]
    assert "good" in kinds
    assert "half" not in kinds
    assert half[0] == 2
    assert "the plug-in 'half' (plugin_half) could not be loaded: RuntimeError" in half[2]
    assert "Traceback" not in half[2]
    assert "half" not in plain[1]


METHOD = """import numpy as np
from simulator.models.exchange import AllGather, Selection
from simulator.models.gradients import Choice
from simulator.sparsifiers.base import Selective, per_call

class Mine(Selective, kind="NAME"):
    reads_samples = True

    def choose(self, u, block, state):
        k = max(1, round(self.density * u.shape[1]))
        return Choice([np.sort(np.argpartition(-np.abs(row), k)[:k]) for row in u])

    def expect(self, bucket, workers, concentration):
        k = self.density * bucket.numel
        return Selection(np.full(workers, k), min(bucket.numel, k * workers), k, k)

    def compute(self, selection, bucket, workers):
        return [per_call("topk", (float(bucket.numel),), 1)]

    def exchange(self, selection, bucket, workers, style):
        return [AllGather(8 * selection.largest)]
"""
FAULTS = {
    "whole": ("", "", ""),
    "kernel": ('"topk"', '"top_k"', "kernel 'top_k': did you mean 'topk'?"),
    "name": ("for row in u", "for row in v", "got NameError: name 'v' is not defined"),
    "none": ("return [AllGather(8 * selection.largest)]", "pass", "got TypeError: "),
    "type": ("return [per_call(", "return [1 / (workers - workers), per_call(", "got ZeroDivisionError: "),
    "word": ("AllGather(8 * selection.largest)", '"all_gather"', "expected results that can be used"),
}


def test_what_the_code_of_a_plugin_gets_wrong_is_said_with_its_file_and_line(tmp_path):
    texts = {name: METHOD.replace("NAME", name).replace(old, new) for name, (old, new, _) in FAULTS.items()}
    for name, text in texts.items():
        (tmp_path / f"fault_{name}.py").write_text(text)
    metadata = tmp_path / "faults-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: faults\nVersion: 1.0\n")
    points = "\n".join(f"{name} = fault_{name}" for name in FAULTS)
    (metadata / "entry_points.txt").write_text(f"[simulator.plugins]\n{points}\n")
    (tmp_path / "small.yaml").write_text(SCENARIO)
    asked = []
    for name in FAULTS:
        # Replays choose, and GPUs that are not ideal price kernels.
        base = {"name": "replay_topk", "kernel": "quickstart"}.get(name, "small.yaml")
        asked.append(["run", base, "--set", f"sparsifier={{kind: {name}, density: 0.01}}"])
    asked.append(["run", "small.yaml", "--set", "sparsifier={kind: kernel, density: 3}"])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(asked)],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(tmp_path)])},
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *results, input_error = json.loads(done.stdout)
    assert results[0][0] == 0, results[0][2]
    for (code, _, errors), name in zip(results[1:], list(FAULTS)[1:], strict=True):
        _, new, words = FAULTS[name]
        assert code == 2
        assert "Traceback" not in errors
        assert f"the plug-in '{name}' ({tmp_path / f'fault_{name}.py'}:" in errors
        assert words in errors
        if name not in ("none", "word"):
            line = next(i for i, text in enumerate(texts[name].splitlines(), 1) if new in text)
            assert f"fault_{name}.py:{line}," in errors, errors
    assert input_error[0] == 2
    assert "plug-in" not in input_error[2]


def test_without_broken_plugins_the_list_has_families_only():
    from simulator.component import broken_plugins
    from simulator.scenario.catalogue import FAMILIES, kinds

    if not broken_plugins():
        assert set(kinds()) == {base.family for base in FAMILIES}
