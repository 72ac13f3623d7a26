"""Faults of the machine: killed, full, read-only, shared. Nothing is lost, and the message says what to do."""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from command_line import invoke, printed, run_python
from small_inputs import BASE
from test_sweep import DISTINCT, begun, finished_points, results, swept, written

from simulator.errors import InputError
from simulator.record.rows import RowFile

SMALL = BASE + "vary:\n  cluster.nodes: [1, 4]\n  topology: [ring, tree]\n"


@contextmanager
def small_disk(folder, size):
    """A file system of its own; skips where this process may not make one."""
    folder.mkdir()
    mounted = sys.platform == "linux" and os.geteuid() == 0 and shutil.which("mount")
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    if not mounted or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def remount(folder, options):
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)


def command_line(*arguments):
    return run_python("-m", "simulator", *arguments, check=False)


@pytest.mark.long
def test_fifty_kills_lose_nothing_and_repeat_nothing(tmp_path):
    path = written(tmp_path)
    begun(path, tmp_path / "whole", "--workers", "2").communicate()
    moments, kills, finished, expected = random.Random(0), 0, 0, results(tmp_path / "whole")
    # Those that come too late leave a whole sweep.
    for _ in range(400):
        out = tmp_path / f"out{finished}"
        process, enough = begun(path, out, "--workers", "2"), moments.randrange(DISTINCT)
        with suppress(subprocess.TimeoutExpired):  # enough may have been finished before
            process.wait(moments.uniform(0, 1))
        while process.poll() is None and finished_points(out) < enough:
            time.sleep(0.001)
        process.kill()
        process.communicate()
        kills += process.returncode != 0
        if process.returncode == 0 or kills == 50:
            swept(path, out)
            assert results(out) == expected
            digests = [json.loads(line[9:])["digest"] for line in (out / "points.jsonl").read_bytes().splitlines()]
            assert len(digests) == len(set(digests)) == DISTINCT
            finished += 1
        if kills == 50:
            break
    assert kills == 50


@pytest.mark.long
def test_a_full_disk_keeps_what_is_finished(tmp_path):
    path = written(tmp_path)
    swept(path, tmp_path / "whole")
    with small_disk(tmp_path / "disk", "200k") as disk:
        done = command_line("sweep", path, "--out", disk / "out", "--workers", "1")
        assert (done.returncode, "Traceback" in done.stderr) == (2, False)
        assert "No space left on device" in done.stderr
        assert "free some space and run the same command again to continue" in done.stderr
        remount(disk, "size=16m")
        assert swept(path, disk / "out").manifest["reused"] > 0
        assert results(disk / "out") == results(tmp_path / "whole")


COMMANDS = {
    "run": ["run", "quickstart", "--out", "OUT"],
    "sweep": ["sweep", "SWEEP", "--out", "OUT", "--workers", "1"],
    "schema": ["list", "schemas", "--out", "OUT"],
    "import": ["trace", "import", "npz", "NPZ", "--out", "OUT"],
    "synthesize": ["trace", "synthesize", "SPEC", "--out", "OUT"],
    "build-up": ["trace", "build-up", "TRACE", "--out", "OUT"],
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """What the commands read."""
    folder = tmp_path_factory.mktemp("inputs")
    np.savez(folder / "a.npz", a=np.ones((1, 2, 3)))
    (folder / "spec.yaml").write_text("layers: [{numel: 100}]\nworkers: 2\niterations: 1\n")
    printed("trace", "import", "npz", f"{folder}/a.npz", "--out", f"{folder}/t")
    return {
        "SWEEP": str(written(folder, SMALL)),
        "NPZ": str(folder / "a.npz"),
        "SPEC": str(folder / "spec.yaml"),
        "TRACE": str(folder / "t"),
    }


def refused(command, inputs, out):
    """What a command says that must not end in a traceback."""
    done = invoke(*[{**inputs, "OUT": str(out)}.get(word, word) for word in COMMANDS[command]])
    assert done.exit_code == 2, done.output
    assert isinstance(done.exception, SystemExit) and ": expected a" in done.stderr
    return done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_place_below_a_file_is_said_so(command, inputs, tmp_path):
    (tmp_path / "file").write_text("mine")
    assert "Not a directory" in refused(command, inputs, tmp_path / "file" / "out")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_read_only_place_is_said_so(command, inputs, tmp_path):
    if os.geteuid():
        (tmp_path / "disk").mkdir(mode=0o500)
        assert "Permission denied" in refused(command, inputs, tmp_path / "disk" / "out")
        return
    with small_disk(tmp_path / "disk", "1m") as disk:
        remount(disk, "ro")
        assert "Read-only file system" in refused(command, inputs, disk / "out")


@pytest.mark.parametrize("command", ["import", "synthesize", "run"])
def test_a_disk_too_small_is_said_so(command, inputs, tmp_path):
    with small_disk(tmp_path / "disk", "4k") as disk:
        (disk / "full").write_bytes(bytes(4096))
        assert "No space left on device" in refused(command, inputs, disk / "out")


def test_recorded_rows_need_a_place_too(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="expected a CSV file that can be written"):
        RowFile(tmp_path / "file" / "rows.csv", ("a",))


@pytest.mark.parametrize("replacement", ["directory", "gone", "other"])
def test_a_file_replaced_between_two_runs_is_read_anew(tmp_path, replacement):
    path = written(tmp_path, SMALL)
    swept(path, tmp_path / "out")
    path.unlink()
    if replacement == "directory":
        path.mkdir()
    elif replacement == "other":
        written(tmp_path, SMALL.replace("[1, 4]", "[1, 4, 8]"))
        assert swept(path, tmp_path / "out").manifest["reused"] == 4
        return
    with pytest.raises(InputError):
        swept(path, tmp_path / "out")


@pytest.mark.long
def test_sweeps_that_start_together_in_one_folder_leave_one_result(tmp_path):
    path, out = written(tmp_path), tmp_path / "out"
    swept(path, tmp_path / "whole")
    processes = [begun(path, out, "--workers", "1") for _ in range(3)]
    said = [(process.communicate()[1], process.returncode) for process in processes]
    assert sorted({code for _, code in said})[0] == 0
    assert all(code == 0 or (code == 2 and "no other sweep is writing to" in text) for text, code in said)
    assert results(out) == results(tmp_path / "whole")
    assert (out / "points.jsonl").read_bytes().count(b"\n") == DISTINCT
