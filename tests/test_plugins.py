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


def test_without_broken_plugins_the_list_has_families_only():
    from simulator.component import broken_plugins
    from simulator.scenario.catalogue import FAMILIES, kinds

    if not broken_plugins():
        assert set(kinds()) == {base.family for base in FAMILIES}
