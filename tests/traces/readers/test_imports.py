"""`sparsim trace import`: files of other tools as tables that the rest reads."""

import csv
import io
import json
import re

import numpy as np
import pytest
from command_line import invoke
from synthetic_logs import kineto_trace, ring_log, write, write_json


def run(*arguments):
    return invoke("trace", "import", *arguments)


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_profiler_trace_becomes_a_workload_and_tables(tmp_path):
    file = write_json(tmp_path / "t.json", kineto_trace(steps=3, nccl=[(4096, 20.0)]))
    result = run("kineto", file, "--out", tmp_path / "out", "--batch-size", 32)
    assert result.exit_code == 0 and "gradient_ready.csv 15 rows, collectives.csv 3 rows" in result.stdout
    assert "batch_size: 32" in (tmp_path / "out" / "workload.yaml").read_text()


def test_damaged_places_are_named_and_counted(tmp_path):
    trace = kineto_trace(steps=3)
    trace["traceEvents"] += [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1.0}, 17]
    result = run("kineto", write_json(tmp_path / "t.json", trace), "--out", tmp_path / "out", "--batch-size", 32)
    assert result.exit_code == 0
    *named, count = result.stderr.splitlines()
    events = len(trace["traceEvents"])
    places = [f"{tmp_path}/t.json: event {number}" for number in (events - 1, events)]
    assert [line.split(": expected")[0] for line in named] == places
    assert count == "2 damaged places were left out"
    assert "workload.yaml" in result.stdout or (tmp_path / "out" / "workload.yaml").exists()


def test_collectives_without_a_size_are_counted_and_named(tmp_path):
    trace = kineto_trace(steps=3, nccl=[(4096, 20.0)])
    for event in trace["traceEvents"]:
        if event["name"] == "nccl:all_reduce":
            event["args"] = {}
    result = run("kineto", write_json(tmp_path / "t.json", trace), "--out", tmp_path / "out")
    assert "3 x all_reduce: the file does not state the size" in result.stderr


def test_a_log_becomes_a_table_that_calibration_reads(tmp_path):
    sizes = [2**i for i in range(12, 24)]
    log = write(tmp_path / "x.log", ring_log(4, 2e10, 5e-6, sizes))
    assert run("nccl-tests", log, "--out", tmp_path / "out").exit_code == 0
    assert [int(row["nbytes"]) for row in table(tmp_path / "out" / "collectives.csv")] == sizes
    calibrated = ["calibrate", "network", str(tmp_path / "out" / "collectives.csv"), "--out", str(tmp_path / "n.yaml")]
    result = invoke(*calibrated, "--no-figure", "--json")
    assert json.loads(result.stdout)["laws"][0]["links"]["terms"]["bandwidth"] == pytest.approx(2e10, rel=0.02)


def test_osu_tables_and_tuning_lines(tmp_path):
    osu = write(tmp_path / "o.txt", "# OSU MPI Allgather Latency Test v5.6\n# Size  Avg Latency(us)\n1024  12.5\n")
    assert (run("osu", osu, "--out", tmp_path / "o").exit_code, run("osu", osu, "--out", tmp_path / "o").stderr) == (
        2,
        "--workers: expected the number of ranks, got nothing: o.txt does not state it\n",
    )
    assert run("osu", osu, "--out", tmp_path / "o", "--workers", 4).exit_code == 0
    (row,) = table(tmp_path / "o" / "collectives.csv")
    assert (row["collective"], row["nbytes"], row["workers"], float(row["time_s"])) == (
        "all_gather",
        "4096",
        "4",
        pytest.approx(12.5e-6),
    )
    line = "n1:1:1 [0] NCCL INFO AllReduce: 1024 Bytes -> Algo 1 proto 2 time 12.5\n"
    assert run("nccl-tuning", write(tmp_path / "t.log", line), "--out", tmp_path / "t").exit_code == 0
    (row,) = table(tmp_path / "t" / "choices.csv")
    assert (row["algorithm"], row["protocol"], row["nbytes"]) == ("ring", "simple", "1024")


def test_a_chakra_trace_becomes_nodes_and_collectives(tmp_path):
    nodes = [
        {"id": 1, "name": "mm", "type": 4, "durationMicros": 20},
        {"id": 2, "name": "ar", "type": 7, "dataDeps": [1], "attr": [{"name": "comm_type", "int64Val": "0"}]},
    ]
    file = write(tmp_path / "c.json", "\n".join(json.dumps(node) for node in nodes))
    result = run("chakra", file, "--out", tmp_path / "out", "--workers", 8)
    assert result.exit_code == 0
    assert [row["kind"] for row in table(tmp_path / "out" / "nodes.csv")] == ["compute", "collective"]
    assert table(tmp_path / "out" / "collectives.csv")[0]["workers"] == "8"
    assert "1 x all_reduce: the file does not state the size" in result.stderr


@pytest.mark.parametrize("kind", ["kineto", "chakra", "nccl-tests", "osu", "nccl-tuning", "npz"])
def test_a_file_of_something_else_is_an_input_error(tmp_path, kind):
    result = run(kind, write(tmp_path / "x", "hello\n"), "--out", tmp_path / "out")
    assert result.exit_code == 2 and f"{tmp_path / 'x'}" in result.stderr
    assert run(kind, tmp_path / "absent", "--out", tmp_path / "out").exit_code == 2


@pytest.mark.parametrize("kind", ["nccl-tests", "kineto"])
def test_a_folder_that_cannot_be_written_is_an_input_error(tmp_path, kind):
    text = ring_log(2, 1e9, 1e-5, [1024, 4096]) if kind == "nccl-tests" else json.dumps(kineto_trace())
    taken = write(tmp_path / "taken", "a file, where the folder should be\n")
    result = run(kind, write(tmp_path / "x", text), "--out", taken / "out")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1) and f"{taken / 'out'}" in result.stderr
    assert re.search("expected a place that can be written, got Not a directory", result.stderr)


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"a": np.zeros((2, 3, 4)), "b": np.zeros((2, 3, 4), dtype=int)}, "b: expected floats of shape (iterations, "),
        (
            {"a": np.zeros((2, 3, 4)), "b": np.zeros((2, 2, 4))},
            "the first two as in the first array, got float64 (2, 2",
        ),
        ({"a": np.zeros((2, 3))}, "a: expected floats of shape (iterations, workers, ...)"),
        ({"a": np.zeros((2, 3, 0))}, "got float64 (2, 3, 0)"),
        ({"a": np.full((2, 3, 4), 1e300)}, "a: expected finite values up to 3.4e+38, got NaN, infinity or larger ones"),
        ({"a": np.zeros((1, 4097, 1), dtype=np.float32)}, "expected at most 4096 workers, got 4097"),
        ({}, "expected at least one array, got none"),
    ],
)
def test_archives_of_other_arrays_are_input_errors(tmp_path, arrays, expected):
    np.savez(tmp_path / "t.npz", **arrays)
    result = run("npz", tmp_path / "t.npz", "--out", tmp_path / "out")
    assert (result.exit_code, expected in result.stderr) == (2, True)
    assert result.stderr.startswith(f"{tmp_path / 't.npz'}: ")


class Failing(io.StringIO):
    """A file on a disk that gives up after the first line."""

    def readline(self, size=-1):
        return super().readline(size) if not self.tell() else self.read()

    def read(self, size=-1):
        raise OSError(5, "Input/output error")


@pytest.mark.parametrize("kind", ["nccl-tests", "kineto"])
def test_a_disk_that_fails_while_a_file_is_read_is_an_input_error(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("simulator.traces.readers.streams.open_text", lambda path: Failing("# first line\n# second\n"))
    result = run(kind, write(tmp_path / "x", ""), "--out", tmp_path / "out")
    said = f"{tmp_path / 'x'}: expected a readable file, got Input/output error\n"
    assert (result.exit_code, result.stderr) == (2, said)


def test_a_member_without_a_name_in_quotes_is_named_with_its_line(tmp_path):
    result = run("kineto", write(tmp_path / "x", '{"traceEvents": [],\n 5: 6}\n'), "--out", tmp_path / "out")
    assert (result.exit_code, result.stderr) == (2, f"{tmp_path / 'x'}:2: expected a name in quotes, got 5\n")
