"""Recorded collectives: two processes on this machine, results checked, rows of the slowest rank."""

import csv
from importlib.util import find_spec

import pytest
from command_line import invoke, refused

pytestmark = [pytest.mark.torch, pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")]

COLUMNS = "backend,world_size,nodes,collective,nbytes,median_s,p5_s,p95_s,repeats,device,pytorch,date"


def test_two_processes(tmp_path):
    path = tmp_path / "collectives.csv"
    options = ("--out", path, "--processes", 2, "--repeats", 3, "--device", "cpu")
    result = invoke("record", "collectives", *options, "--sizes", "1KiB,100 kB")
    assert (result.exit_code, result.output) == (0, f"{path}: written\n")
    text = path.read_text()
    assert text.splitlines()[0] == COLUMNS
    rows = list(csv.DictReader(text.splitlines()))
    names = ["all_reduce", "all_gather", "reduce_scatter", "broadcast"]
    points = [(name, nbytes) for nbytes in ("1024", "100000") for name in names]
    assert [(row["collective"], row["nbytes"]) for row in rows] == points
    for row in rows:
        assert (row["backend"], row["world_size"], row["nodes"], row["repeats"]) == ("gloo", "2", "1", "3")
        assert 0 < float(row["p5_s"]) <= float(row["median_s"]) <= float(row["p95_s"])

    assert "continue it with --resume" in refused("record", "collectives", *options)
    assert path.read_text() == text
    result = invoke("record", "collectives", *options, "--sizes", "1KiB,4KiB", "--collectives", "broadcast", "--resume")
    assert result.exit_code == 0
    added = path.read_text().removeprefix(text).splitlines()
    assert [line.split(",")[3:5] for line in added] == [["broadcast", "4096"]]


def test_a_process_on_its_own_has_no_collectives(tmp_path, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    said = refused("record", "collectives", "--out", tmp_path / "c.csv")
    assert "run it under torchrun, or give --processes N" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--sizes", "12"), "--sizes: expected a size with its unit"),
        (("--collectives", "all_to_all"), "--collectives: expected some of all_reduce"),
    ],
)
def test_wrong_options_are_input_errors(tmp_path, arguments, message):
    assert message in refused("record", "collectives", "--out", tmp_path / "c.csv", "--processes", 2, *arguments)
