"""Files are written whole or not at all; what is no file is refused in words, and names may have any bytes."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from simulator.cli.root import main
from simulator.errors import InputError
from simulator.files import write_text
from simulator.loading.csv_tables import write_rows
from simulator.record.rows import RowFile
from simulator.reporting.figures.data.sources import open_source
from simulator.studies.compare.run_differences import open_outcome
from simulator.studies.storage.journal import Journal
from simulator.studies.storage.row_table import table_of, write_table
from simulator.traces.format.trace import Trace

TABLE = table_of({}, [{"digest": "a", "iteration_time_s": 1.0}, {"digest": "b", "iteration_time_s": 2.0}])
ANSWERS = (
    *("--model", "resnet50-v100", "--gpu", "v100", "--machines", "2", "--gpus-per-machine", "1"),
    *("--network", "10gbe-tcp", "--framework", "horovod-0.19", "--method", "topk 1 %", "--goal", "pays", "--force"),
)


def command(*words):
    """A command that says what is wrong in a line, and raises what its words say."""
    result = CliRunner().invoke(main, list(words))
    if result.exit_code:
        assert result.exit_code == 2, result.output
        raise InputError([]) from OSError(result.output)


WRITERS = {
    "text.txt": lambda path: write_text(path, "new"),
    "rows.csv": lambda path: write_rows(path, ("a",), [(1,), (2,)]),
    "table.csv": lambda path: write_table(path.with_suffix(""), TABLE),
    "table.parquet": lambda path: write_table(path.with_suffix(""), TABLE),
    "report.html": lambda path: command("report", "quickstart", "--out", str(path)),
    "figure.svg": lambda path: command(
        "report", str(path.parent / "run"), "--figure", "iteration_breakdown", "-o", str(path)
    ),
    "new.yaml": lambda path: command("new", str(path), *ANSWERS),
}


def fill_disk(monkeypatch):
    def no_space(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("simulator.files.os.fsync", no_space)


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_old_file_or_none(name, tmp_path, monkeypatch):
    if name == "figure.svg":
        command("run", "quickstart", "--out", str(tmp_path / "run"))
    path, before = tmp_path / name, set(tmp_path.iterdir())
    fill_disk(monkeypatch)
    if name == "table.csv":  # which is written after the other file of the table
        monkeypatch.setattr("simulator.studies.storage.row_table.replace_file", lambda *_: None)
    with pytest.raises(InputError):
        WRITERS[name](path)
    assert set(tmp_path.iterdir()) == before
    path.write_text("old")
    with pytest.raises(InputError):
        WRITERS[name](path)
    assert path.read_text() == "old"
    assert set(tmp_path.iterdir()) == {*before, path}
    monkeypatch.undo()
    WRITERS[name](path)
    assert path.read_bytes() != b"old"


ENDLESS = """
import sys, time
from pathlib import Path
from simulator.loading.csv_tables import write_rows

def rows():
    for number in range(10**6):
        yield (number, "x" * 1000)
        if number == 5000:
            time.sleep(60)

write_rows(Path(sys.argv[1]), ("number", "text"), rows())
"""


def test_a_kill_leaves_the_old_table(tmp_path):
    """In the middle of a table, whose first rows are on the disk already."""
    path = tmp_path / "results.csv"
    path.write_text("old")
    running = subprocess.Popen([sys.executable, "-c", ENDLESS, str(path)])
    try:
        end = time.monotonic() + 60
        while sum(item.stat().st_size for item in tmp_path.iterdir()) < 10**6 and time.monotonic() < end:
            time.sleep(0.05)
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    assert sum(item.stat().st_size for item in tmp_path.iterdir()) > 10**6
    assert path.read_text() == "old"


def pipe(path):
    os.mkfifo(path)


def bind(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))  # names of sockets are short


@pytest.mark.parametrize("place", [pipe, bind, Path.mkdir])
@pytest.mark.parametrize("name", ["points.jsonl", "sweep.lock", "points-1-of-2.jsonl"])
def test_what_is_no_file_in_the_place_of_a_journal_is_refused(name, place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place(tmp_path / name)
    with pytest.raises(InputError, match=f"{name}: expected a file, got a folder, a device or a pipe: remove it"):
        Journal(tmp_path)
    (tmp_path / name).rmdir() if place is Path.mkdir else (tmp_path / name).unlink()
    with Journal(tmp_path) as journal:
        assert not journal.records


@pytest.mark.parametrize("resume", [False, True])
def test_a_pipe_in_the_place_of_a_recording_is_refused(resume, tmp_path):
    os.mkfifo(tmp_path / "kernels.csv")
    with pytest.raises(InputError, match="expected a CSV file that can be written, got a folder, a device or a pipe"):
        RowFile(tmp_path / "kernels.csv", ("kernel",), resume)


@pytest.fixture
def latin(tmp_path):
    """A folder whose name is not UTF-8."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes names in UTF-8 only")
    return folder


def test_tables_in_folders_of_any_name_are_written_and_read(latin):
    write_table(latin / "results", TABLE)
    write_text(latin / "manifest.json", "{}")
    assert open_source(str(latin)).table["iteration_time_s"].tolist() == [1.0, 2.0]
    assert [row["digest"] for row in open_outcome(str(latin)).rows] == ["a", "b"]


def test_a_trace_in_a_folder_of_another_name_is_refused_in_words(latin):
    with pytest.raises(InputError, match="expected a name in UTF-8, got other bytes in it: rename the file or folder"):
        Trace.open(latin)
    result = CliRunner().invoke(main, ["trace", "info", str(latin)])
    assert result.exit_code == 2
    assert "Traceback" not in result.output
