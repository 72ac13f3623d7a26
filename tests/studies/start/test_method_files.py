"""`sparsim new method`: a package that works as it is written."""

import os
import sys
import tomllib

import pytest
from command_line import printed, refused, run_python
from places import ROOT


@pytest.mark.long
def test_the_files_are_found_by_their_entry_point_run_and_pass_their_own_test(tmp_path):
    folder = tmp_path / "mine"
    assert f"pip install -e {folder}" in printed("new", "method", "every_third", "--out", folder)
    (point,) = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["entry-points"][
        "simulator.plugins"
    ].items()
    assert point == ("every_third", "sparsim_every_third")
    # As an installer leaves it.
    metadata = folder / "sparsim_every_third-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: sparsim-every-third\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text(f"[simulator.plugins]\n{point[0]} = {point[1]}\n")
    path = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path, str(folder)])}

    def run(*command):
        return run_python("-m", *command, cwd=tmp_path, env=path, check=False)

    tested = run("pytest", "-q", "-p", "no:cacheprovider", str(folder))
    assert tested.returncode == 0, tested.stdout
    assert "2 passed" in tested.stdout
    ran = run("simulator", "run", "quickstart", "--set", "sparsifier={kind: every_third, density: 1 %}")
    assert (ran.returncode, "iteration time" in ran.stdout) == (0, True), ran.stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("topk", "a kind that is not known yet"),
        ("Mine", "begins with a letter"),
        ("2nd", "begins with a letter"),
        ("class", "begins with a letter"),
        ("a/../b", "begins with a letter"),
    ],
)
def test_names_that_cannot_be_are_refused(tmp_path, name, words):
    assert words in refused("new", "method", name, "--out", tmp_path / "mine") and not (tmp_path / "mine").exists()


def test_a_folder_that_exists_is_left_alone(tmp_path):
    assert "expected a new folder, got one that exists" in refused("new", "method", "mine", "--out", tmp_path)
    assert list(tmp_path.iterdir()) == []
