"""The example package under examples/ adds its members from outside: found, run, priced as it says, contracts held."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest
from places import ROOT

EXAMPLE = ROOT / "examples" / "plugin_example"
WIRES = "{kind: direct_ring, bandwidth: 10 Gbit/s, latency: 1 us}"


def installed(folder):
    """The example as an installer leaves it: the package, and what names its entry points."""
    about = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    shutil.copytree(EXAMPLE / "sparsim_example", folder / "sparsim_example")
    metadata = folder / f"sparsim_example-{about['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n")
    points = "\n".join(f"{key} = {value}" for key, value in about["entry-points"]["simulator.plugins"].items())
    (metadata / "entry_points.txt").write_text(f"[simulator.plugins]\n{points}\n")
    return folder


def document(python, folder, *arguments, path=""):
    """What `sparsim ... --json` prints, in `folder`."""
    done = subprocess.run(
        [python, "-m", "simulator", *arguments, "--json"],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.long
def test_the_members_are_found_and_take_the_time_that_they_say(tmp_path):
    path = installed(tmp_path)
    program = f"""
import json
from simulator import load, run
from simulator.scenario.catalogue import kinds

def time(*overrides):
    return run(load("ring_check", overrides)).document

print(json.dumps({{
    "kinds": {{family: [item["kind"] for item in items] for family, items in kinds().items()}},
    "dense": time("topology=two_way_ring", "cluster.network={WIRES}"),
    "strided": time("sparsifier={{kind: strided, density: 1 %}}"),
    "replayed": run(load("replay_topk", ("sparsifier={{kind: strided, density: 4 %}}", "cluster.nodes=2"))).document,
}}))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert "strided" in made["kinds"]["sparsifier"]
    assert "two_way_ring" in made["kinds"]["topology"]
    p, size, bandwidth, latency = 8, 1e8, 1.25e9, 1e-6
    assert made["dense"]["iteration_time_s"] == pytest.approx(2 * (p - 1) * (latency + size / (2 * p * bandwidth)))
    density = made["strided"]["density"]
    assert density["selected"] == density["aggregated"] == pytest.approx(0.01)
    ring = 2 * (p - 1) * (50e-6 + 0.01 * size / (p * bandwidth))
    assert made["strided"]["iteration_time_s"] == pytest.approx(ring)
    assert made["replayed"]["density"]["selected"] == pytest.approx(0.04, rel=0.2)
    assert made["replayed"]["density"]["build_up"] == 1


@pytest.mark.long
def test_the_package_installs_and_its_members_hold_the_contracts(tmp_path):
    pytest.importorskip("hatchling")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    # What this environment has, sparsim included: the example alone is installed.
    places = [sysconfig.get_paths()["purelib"], str(ROOT)]
    where = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    (Path(where.stdout.strip()) / "beside.pth").write_text("\n".join(places))
    shutil.copytree(EXAMPLE, tmp_path / "source", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", tmp_path / "source"],
        check=True,
    )
    listed = document(python, tmp_path, "list")
    assert {"strided"} <= {item["kind"] for item in listed["sparsifier"]}
    result = document(python, tmp_path, "run", "quickstart", "--set", "sparsifier={kind: strided, density: 1 %}")
    assert result["density"]["build_up"] == 1
    contracts = [ROOT / "tests" / "contracts" / name for name in ("test_contracts.py", "test_sparsifier_contracts.py")]
    held = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "strided or two_way_ring", *contracts],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert held.returncode == 0, held.stdout
