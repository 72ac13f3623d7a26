"""Sweeps: what is on disk after interruptions, kills and in shards."""

import json
import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest
from command_line import invoke, refused
from places import ROOT
from small_inputs import BASE, VARY
from small_sweeps import DISTINCT, POINTS, results, swept, written

from simulator.errors import InputError, SparsimError
from simulator.loading.documents import parse_document
from simulator.scenario.reading import load
from simulator.studies.storage.journal import Journal, PointOutcome
from simulator.studies.sweep.points import GridPoints
from simulator.studies.sweep.sweep import PointFailed, _with_base, sweep
from simulator.studies.variants.crossing import evaluate

SAID = "interrupted; finished points are in {}, and the same command continues from there"


def test_fewer_than_one_process_is_an_input_error():
    with pytest.raises(InputError, match=r"^workers: expected at least 1, got 0$"):
        sweep({"base": "ring_check", "vary": {"seed": [1]}}, workers=0)


def test_a_bad_sweep_is_exit_code_2_and_leaves_nothing(tmp_path):
    path = written(tmp_path, BASE + "vary: {seed: [x]}\n")
    result = invoke("sweep", path, "--out", tmp_path / "out")
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr == f"{path}:8:15: seed: expected a whole number, got 'x'\n"
    for arguments in (["--shard", "3/2"], ["--shard", "x"], ["--workers", "0"], ["--workers", "1", "--cluster", "x:1"]):
        result = invoke("sweep", path, "--out", tmp_path / "out", *arguments)
        assert result.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_another_scenario_may_stand_in_the_place_of_the_base(tmp_path):
    path = written(tmp_path, BASE + "vary: {cluster.nodes: [2, 4]}\n")
    result = invoke("sweep", path, "--base", "ring_check", "--out", f"{tmp_path}/a", "--workers", "1")
    assert result.exit_code == 0, result.output
    made = pd.read_parquet(tmp_path / "a" / "results.parquet")
    assert made["digest"].tolist() == [load("ring_check", (f"cluster.nodes={nodes}",)).digest for nodes in (2, 4)]
    said = refused("sweep", path, "--base", "ring_chek", "--out", f"{tmp_path}/b")
    assert said.startswith("--base: no scenario named 'ring_chek' in the current folder, ")
    assert said.endswith("in the package: did you mean 'ring_check'?\n")


@pytest.mark.parametrize(
    ("method", "density", "joined"),
    [
        ("{kind: topk, density: 0.01}", "", []),
        ("powersgd", "", [{"kind": "powersgd"}]),
        ("{kind: dgc, density: 0.01}", ", sparsifier.density: [0.1]", [{"kind": "dgc"}]),
    ],
)
def test_the_method_of_another_base_joins_those_that_vary(tmp_path, method, density, joined):
    base = tmp_path / "base.yaml"
    base.write_text(f"sparsifier: {method}\n")
    document = parse_document(f"vary: {{sparsifier: [dense, {{kind: topk, density: 1 %}}]{density}}}", "s.yaml")
    assert _with_base(document, base).data["vary"]["sparsifier"] == [*document.data["vary"]["sparsifier"], *joined]


def test_points_of_another_version_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(GridPoints, "evaluate", lambda _, numbers: [PointOutcome("other", b"{}", None)])
    with pytest.raises(SparsimError, match=r"^point 0 was evaluated by another version of sparsim$"):
        swept(written(tmp_path, BASE + "vary: {seed: [1]}\n"), tmp_path / "out")
    assert (tmp_path / "out" / "points.jsonl").read_bytes() == b""


def test_many_messages_are_cut_short(tmp_path):
    odd = [number for number in range(3, 64) if number & (number - 1)][:25]
    path = written(tmp_path, BASE + f"vary: {{sparsifier: [{{kind: gtopk, density: 0.1}}], cluster.nodes: {odd}}}\n")
    result = invoke("sweep", path, "--out", tmp_path / "out", "--workers", "1")
    assert len([line for line in result.stderr.splitlines() if "failed:" in line]) == 20
    assert result.stderr.endswith("and 5 other messages; see the column `error`\n") and result.exit_code == 1


def test_fail_fast_stops_and_keeps_what_is_finished(tmp_path):
    text = BASE + "vary:\n  seed: [1, 2]\n  sparsifier: [dense, {kind: gtopk, density: 0.1}]\n  cluster.nodes: [3]\n"
    path = written(tmp_path, text)
    with pytest.raises(PointFailed, match="power of two"):
        swept(path, tmp_path / "out", fail_fast=True)
    assert not (tmp_path / "out" / "results.parquet").exists()
    with Journal(tmp_path / "out") as journal:
        assert journal.records
    result = invoke(*["sweep", str(path), "--out", str(tmp_path / "out"), "--workers", "1", "--fail-fast"])
    assert result.exit_code == 1
    assert "stopped at the first point that failed: scenario 'small': expected a number of workers" in result.stderr


def test_the_manifest_says_what_was_done(whole):
    manifest = json.loads((whole[0].parent / "out" / "manifest.json").read_text())
    assert manifest["points"] == POINTS and manifest["distinct"] == manifest["evaluated"] == DISTINCT
    assert manifest["reused"] == manifest["skipped"] == manifest["failed"] == 0
    assert manifest["started"] <= manifest["finished"]
    assert set(manifest["versions"]) >= {"sparsim", "numpy", "python"}


def begun(path, out, *options):
    command = [sys.executable, "-m", "simulator", "sweep", str(path), "--out", str(out), *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def finished_points(out):
    path = out / "points.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.long
def test_ctrl_c_leaves_what_is_finished(whole, tmp_path):
    path, _, expected = whole
    process = begun(path, tmp_path, "--workers", "2")
    while process.poll() is None and not finished_points(tmp_path):
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, text = process.communicate(timeout=30)
    if process.returncode:  # it may just have finished
        assert process.returncode == 130
        assert " ".join(text.split()).endswith(SAID.format(tmp_path))
    assert swept(path, tmp_path).manifest["reused"] and results(tmp_path) == expected


def test_an_interrupt_says_where_the_rest_is(whole, tmp_path, monkeypatch):
    calls = []

    def interrupted(scenarios, *more):
        calls.append(len(scenarios))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return evaluate(scenarios, *more)

    monkeypatch.setattr("simulator.studies.processes.executors.BATCH_SECONDS", 0.0)
    monkeypatch.setattr("simulator.studies.sweep.points.evaluate", interrupted)
    result = invoke("sweep", whole[0], "--out", tmp_path, "--workers", "1")
    assert result.exit_code == 130 and " ".join(result.stderr.split()) == SAID.format(tmp_path)
    assert swept(whole[0], tmp_path).manifest["reused"] == sum(calls[:3]) > 0 and results(tmp_path) == whole[2]


def test_a_torn_or_damaged_line_is_computed_again(whole, tmp_path):
    path, _, expected = whole
    lines = (path.parent / "out" / "points.jsonl").read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b"0", b"1", 1) if b"0" in lines[3][9:] else b"x" + lines[3]
    lines[5] = b"\x00" * 40 + b"\n"
    (tmp_path / "points.jsonl").write_bytes(b"".join(lines[:100]) + lines[100][:57])
    assert swept(path, tmp_path).manifest["reused"] == 98 and results(tmp_path) == expected
    with Journal(tmp_path) as journal:
        assert journal.damaged == 2 and len(journal.records) == DISTINCT


def test_a_table_that_cannot_be_put_in_place_leaves_nothing_half_made(whole, tmp_path):
    (tmp_path / "results.csv").mkdir()
    with pytest.raises(InputError, match=r"results\.csv: expected a place that can be written, got Is a directory"):
        swept(whole[0], tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    (tmp_path / "results.csv").rmdir()
    assert swept(whole[0], tmp_path).manifest["reused"] == DISTINCT and results(tmp_path) == whole[2]


def test_two_sweeps_do_not_write_to_one_folder(whole, tmp_path):
    with Journal(tmp_path), pytest.raises(InputError) as caught:
        swept(whole[0], tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: expected a folder that no other sweep is writing to, got one that process {os.getpid()} is "
        "writing to: wait for it, or choose another folder"
    )
    with Journal(tmp_path, "-1of2"), Journal(tmp_path, "-2of2"):
        for part in ("", "-1of2"):
            with pytest.raises(InputError, match="no other sweep"):
                Journal(tmp_path, part)


@pytest.mark.long
def test_a_changed_sweep_reuses_the_points_it_shares(whole, tmp_path):
    path = written(tmp_path, BASE + VARY.replace("[1, 2, 4, 8]", "[2, 4, 16]").replace("topk, {kind: randomk}", "topk"))
    swept(whole[0], tmp_path / "out")
    made = swept(path, tmp_path / "out")
    assert made.manifest["distinct"] == 3 * 5 + 4 * 3 * 5 and made.manifest["reused"] == 2 * 5 + 4 * 2 * 5
    assert swept(path, tmp_path / "alone").manifest["reused"] == 0
    assert results(tmp_path / "out") == results(tmp_path / "alone")


@pytest.mark.long
@pytest.mark.parametrize("together", [True, False])
def test_shards_together_are_the_whole(whole, tmp_path, together):
    path, made, expected = whole
    tables = []
    for part in (1, 2, 3):
        out = tmp_path / ("one" if together else str(part))
        shard = swept(path, out, shard=(part, 3))
        assert shard.manifest["shard"] == f"{part}/3"
        assert 0 < shard.manifest["evaluated"] == shard.manifest["distinct"] < DISTINCT
        tables.append(pd.read_parquet(out / f"results-{part}of3.parquet"))
    assert sum(map(len, tables)) == POINTS
    joined = pd.concat(tables)
    assert joined["digest"].nunique() == DISTINCT and sorted(joined["digest"]) == sorted(made.table["digest"])
    one = tmp_path / "one"
    one.mkdir(exist_ok=True)
    if not together:
        for part in (1, 2, 3):
            (tmp_path / str(part) / f"points-{part}of3.jsonl").rename(one / f"points-{part}of3.jsonl")
    assert swept(path, one).manifest["reused"] == DISTINCT and results(one) == expected


def test_a_folder_that_cannot_be_written_is_said_so(whole, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="expected a folder that can be written"):
        swept(whole[0], tmp_path / "file" / "inside")


def test_a_sweep_file_is_found_by_name_and_documented():
    assert parse_document((ROOT / "scenarios" / "sweeps" / "big.yaml").read_text()).data["name"]
    with pytest.raises(InputError, match="did you mean 'density_sweep'"):
        sweep("density_swep")


@pytest.mark.long
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_an_interrupted_sweep_goes_on_to_the_same_bytes(whole, tmp_path, share):
    def stop(progress):
        if progress.evaluated >= share * DISTINCT:
            raise KeyboardInterrupt

    path, _, expected = whole
    with pytest.raises(KeyboardInterrupt):
        swept(path, tmp_path, workers=2, observe=stop)
    assert not (tmp_path / "results.parquet").exists()
    assert share * DISTINCT <= swept(path, tmp_path).manifest["reused"] < DISTINCT and results(tmp_path) == expected
