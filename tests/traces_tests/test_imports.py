"""`sparsim trace import`: files of other tools as tables that the rest reads."""

import csv
import json

import pytest
from click.testing import CliRunner
from synthetic_logs import kineto_trace, ring_log, write, write_json

from simulator.cli import main


def run(*arguments):
    return CliRunner().invoke(main, ["trace", "import", *map(str, arguments)], catch_exceptions=False)


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_profiler_trace_becomes_a_workload_and_tables(tmp_path):
    file = write_json(tmp_path / "t.json", kineto_trace(steps=3, nccl=[(4096, 20.0)]))
    result = run("kineto", file, "--out", tmp_path / "out", "--batch-size", 32)
    assert result.exit_code == 0
    assert "gradient_ready.csv 15 rows, collectives.csv 3 rows" in result.stdout
    assert "batch_size: 32" in (tmp_path / "out" / "workload.yaml").read_text()


def test_damaged_places_are_named_and_counted(tmp_path):
    trace = kineto_trace(steps=3)
    trace["traceEvents"] += [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1.0}, 17]
    result = run("kineto", write_json(tmp_path / "t.json", trace), "--out", tmp_path / "out", "--batch-size", 32)
    assert result.exit_code == 0
    *named, count = result.stderr.splitlines()
    events = len(trace["traceEvents"])
    assert [line.split(": expected")[0] for line in named] == [
        f"{tmp_path}/t.json: event {number}" for number in (events - 1, events)
    ]
    assert count == "2 damaged places were left out"
    assert "workload.yaml" in result.stdout or (tmp_path / "out" / "workload.yaml").exists()


def test_collectives_without_a_size_are_counted_and_named(tmp_path):
    trace = kineto_trace(steps=3, nccl=[(4096, 20.0)])
    for event in trace["traceEvents"]:
        if event["name"] == "nccl:all_reduce":
            event["args"] = {}
    result = run("kineto", write_json(tmp_path / "t.json", trace), "--out", tmp_path / "out")
    assert "3 x all_reduce: no size is on record" in result.stderr


def test_a_log_becomes_a_table_that_calibration_reads(tmp_path):
    sizes = [2**i for i in range(12, 24)]
    log = write(tmp_path / "x.log", ring_log(4, 2e10, 5e-6, sizes))
    assert run("nccl-tests", log, "--out", tmp_path / "out").exit_code == 0
    rows = table(tmp_path / "out" / "collectives.csv")
    assert [int(row["nbytes"]) for row in rows] == sizes
    calibrated = ["calibrate", "network", str(tmp_path / "out" / "collectives.csv"), "--out", str(tmp_path / "n.yaml")]
    result = CliRunner().invoke(main, [*calibrated, "--no-figure", "--json"], catch_exceptions=False)
    terms = json.loads(result.stdout)["laws"][0]["links"]["terms"]
    assert terms["bandwidth"] == pytest.approx(2e10, rel=0.02)


def test_osu_tables_and_tuning_lines(tmp_path):
    osu = write(tmp_path / "o.txt", "# OSU MPI Allgather Latency Test v5.6\n# Size  Avg Latency(us)\n1024  12.5\n")
    assert (run("osu", osu, "--out", tmp_path / "o").exit_code, run("osu", osu, "--out", tmp_path / "o").stderr) == (
        2,
        "--workers: expected the number of ranks, got nothing: o.txt does not say it\n",
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
    assert "1 x all_reduce: no size is on record" in result.stderr


@pytest.mark.parametrize("kind", ["kineto", "chakra", "nccl-tests", "osu", "nccl-tuning", "npz"])
def test_a_file_of_something_else_is_an_input_error(tmp_path, kind):
    result = run(kind, write(tmp_path / "x", "hello\n"), "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert f"{tmp_path / 'x'}" in result.stderr
    assert run(kind, tmp_path / "absent", "--out", tmp_path / "out").exit_code == 2
