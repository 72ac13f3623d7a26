"""Sweeps: the grid, what is on disk after whatever happened, and that a point is what `run` predicts."""

import gc
import io
import itertools
import json
import math
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT
from small_inputs import BASE, VARY

from simulator.cli import main
from simulator.errors import InputError, SparsimError
from simulator.loading.documents import Document, parse_document, read_document
from simulator.prediction.run import run
from simulator.scenario.reading import load
from simulator.sparsifiers.topk import TopK
from simulator.studies.sweep.executors import BATCH_SECONDS, Here, Outcome, Processes, Queue
from simulator.studies.sweep.grid import read_grid
from simulator.studies.sweep.journal import Journal, line_of
from simulator.studies.sweep.points import Points
from simulator.studies.sweep.row_table import table as table_of
from simulator.studies.sweep.rows import row_of
from simulator.studies.sweep.sweep import Failed, run_sweep, sweep
from simulator.studies.sweep.sweep_plan import planned

POINTS, DISTINCT = 240, 180


def written(folder, text=BASE + VARY, name="sweep.yaml"):
    path = folder / name
    path.write_text(text)
    return path


def swept(path, out, workers=1, **options):
    return run_sweep(path, out, workers=workers, **options)


def results(out, part=""):
    return (out / f"results{part}.parquet").read_bytes(), (out / f"results{part}.csv").read_bytes()


def grid_of(**data):
    return read_grid(Document("sweep", {"base": "x", **data}, {}), Path())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The sweep that the others are held against, run in this process without interruption."""
    folder = tmp_path_factory.mktemp("whole")
    path = written(folder)
    return path, swept(path, folder / "out"), results(folder / "out")


# The grid

VALUES = st.lists(st.integers(-5, 5) | st.sampled_from(["a", "b", "1 ms"]), min_size=1, max_size=4)


@given(
    vary=st.dictionaries(st.sampled_from(["a.x", "a.y", "b", "c"]), VALUES, min_size=1),
    zipped=st.lists(st.tuples(*[st.integers(0, 9)] * 2), max_size=4),
    skipped=st.lists(st.tuples(st.sampled_from(["a.x", "b", "p", "q"]), st.integers(-5, 9)), max_size=3),
)
def test_a_grid_is_the_product_in_order_without_what_is_skipped(vary, zipped, skipped):
    groups = [{"p": [i for i, _ in zipped], "q": [j for _, j in zipped]}] if zipped else []
    known = {*vary, *(groups[0] if groups else ())}
    skip = [{key: value} for key, value in skipped if key in known]
    dimensions = [[{key: value} for value in values] for key, values in vary.items()]
    dimensions += [[{"p": i, "q": j} for i, j in zipped]] if zipped else []
    product = [{k: v for part in parts for k, v in part.items()} for parts in itertools.product(*dimensions)]
    expected = [point for point in product if not any(point[k] == v for item in skip for k, v in item.items())]
    if not expected:
        with pytest.raises(InputError, match="at least one point that is not skipped"):
            grid_of(vary=vary, zip=groups, skip=skip)
        return
    grid = grid_of(vary=vary, zip=groups, skip=skip)
    choices = [grid.choice(number) for number in grid.numbers()]
    made = [{axis.key: axis.values[place] for axis, place in zip(grid.axes, choice, strict=True)} for choice in choices]
    assert made == expected


@given(
    first=st.floats(1e-6, 1e6),
    last=st.floats(1e-6, 1e6),
    points=st.integers(2, 40),
    scale=st.sampled_from(["linear", "log"]),
)
def test_a_range_holds_its_ends_and_even_steps(first, last, points, scale):
    (axis,) = grid_of(vary={"x": {"from": first, "to": last, "scale": scale, "points": points}}).axes
    assert (axis.values[0], axis.values[-1], len(axis.values)) == (first, last, points)
    values = [math.log(value) for value in axis.values] if scale == "log" else list(axis.values)
    step = (values[-1] - values[0]) / (points - 1)
    size = max(abs(value) for value in values)
    assert all(b - a == pytest.approx(step, rel=1e-6, abs=1e-9 * size) for a, b in itertools.pairwise(values))


def test_ranges_take_units_and_whole_numbers():
    (axis,) = grid_of(vary={"x": {"from": "1 Gbit/s", "to": "100 Gbit/s", "scale": "log", "points": 3}}).axes
    assert axis.values == ("125000000.0 B/s", "1250000000.0 B/s", "12500000000.0 B/s")
    (axis,) = grid_of(vary={"x": {"from": 1, "to": 1024, "scale": "log", "points": 11}}).axes
    assert axis.values == tuple(2**i for i in range(11))
    assert all(isinstance(value, int) for value in axis.values)
    (axis,) = grid_of(vary={"x": {"from": "1 %", "to": 1, "points": 2}}).axes
    assert axis.values == (0.01, 1)


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ({"speed": "1 Gbit/s"}, ["100 Mbit/s", "1000 Mbit/s", "10 Gbit/s"]),
        ({"speed": {"above": "900 Mbit/s"}}, ["100 Mbit/s"]),
        ({"speed": {"at_least": "1 Gbit/s", "below": "10 Gbit/s"}}, ["100 Mbit/s", "10 Gbit/s"]),
        ({"speed": {"not": ["1 Gbit/s", "10 Gbit/s"]}}, ["1000 Mbit/s", "10 Gbit/s"]),
        ({"speed": ["10 Gbit/s", "100 Mbit/s"]}, ["1000 Mbit/s"]),
        ({"speed": {"at_most": "100 ms"}}, ["100 Mbit/s", "1000 Mbit/s", "10 Gbit/s"]),
    ],
)
def test_skipping_compares_quantities(condition, left):
    expected = [speed for speed in left if condition != {"speed": "1 Gbit/s"} or speed != "1000 Mbit/s"]
    grid = grid_of(vary={"speed": ["100 Mbit/s", "1000 Mbit/s", "10 Gbit/s"]}, skip=[condition])
    assert [grid.axes[0].values[number] for number in grid.numbers()] == expected


def test_skipping_knows_kinds_and_parts_of_values():
    methods = ["dense", {"kind": "topk", "density": 0.1}, {"kind": "dgc", "density": 0.2}]
    for condition in ({"method": ["topk", "dgc"]}, {"method.kind": {"not": "dense"}}, {"method.density": {"above": 0}}):
        grid = grid_of(vary={"method": methods, "seed": [1, 2]}, skip=[{**condition, "seed": 2}])
        assert grid.numbers() == [0, 1, 2, 4]


# What is wrong

ERRORS = {
    "bad values, each once and in the order of the file": (
        BASE + "vary:\n  sparsifier: [dense, topkk, {kind: topk, densty: 1}]\n  seed: [-1, 1, x]\n"
        "  cluster.network.bandwidth: [10, 1 Gbit/s]\n",
        """<tmp>:9:23: sparsifier: expected a kind of sparsifier, got topkk: did you mean 'topk'?
<tmp>:9:30: sparsifier.density: expected this key, got nothing
<tmp>:9:43: sparsifier.densty: expected a known key, got 'densty': did you mean 'density'?
<tmp>:10:10: seed: expected at least 0, got -1
<tmp>:10:17: seed: expected a whole number, got 'x'
<tmp>:11:31: cluster.network.bandwidth: expected a bandwidth with its unit, such as 10 Gbit/s, got 10""",
    ),
    "the base, too": (
        BASE.replace("topology: ring", "topology: rng") + "vary: {seed: [1, 2]}\n",
        "<tmp>:5:3: topology: expected a kind of topology, got rng: did you mean 'ring'?",
    ),
    "a key that no kind has": (
        BASE + "vary:\n  sparsifier: [{kind: topk, density: 0.1}]\n  sparsifier.densty: [0.1]\n",
        "<tmp>:10:3: sparsifier.densty: expected a known key, got 'densty': did you mean 'density'?",
    ),
    "a key that is not there": (
        BASE + "vary: {cluster.nods: [1]}\n",
        "<tmp>:8:23: cluster.nods: expected a known key, got 'nods': did you mean 'nodes'?",
    ),
    "an index": (
        BASE + "vary: {workload.layers.7.numel: [1]}\n",
        "<tmp>:8:34: workload.layers.7.numel: expected an index below 2, got 7",
    ),
    "the form": (
        "bse: x\nvary:\n  a: 4\n  b..c: [1]\n  d: []\n  e: {frm: 1, to: 2 s, scale: lg, points: 1}\n"
        "  f: {from: 1 s, to: 1 MB, points: 2}\n  g: {from: 0, to: 1, scale: log, points: 2}\n"
        "zip:\n  - {h: [1, 2], i: [1]}\n  - 3\n  - {a: [1]}\n",
        """<tmp>:1:1: bse: expected a known key, got 'bse': did you mean 'base'?
<tmp>:3:3: vary.a: expected a list of values, or {from, to, scale, points}, got 4
<tmp>:4:3: vary.b..c: expected a dotted key such as cluster.nodes, got 'b..c'
<tmp>:5:3: vary.d: expected a list of values, or {from, to, scale, points}, got []
<tmp>:6:7: vary.e.frm: expected a known key, got 'frm': did you mean 'from'?
<tmp>:6:3: vary.e.from: expected a number or a quantity with its unit, got nothing
<tmp>:6:24: vary.e.scale: expected linear or log, got 'lg'
<tmp>:6:35: vary.e.points: expected a whole number from 2 to 250,000, got 1
<tmp>:7:3: vary.f: expected both ends in units of one kind, got 1 s and 1 MB
<tmp>:8:3: vary.g: expected both ends above 0, for a log scale, got 0 and 1
<tmp>:10:5: zip.0: expected lists of one length, got h 2, i 1
<tmp>:11:5: zip.1: expected a mapping from dotted keys to values, got 3
<tmp>:12:6: zip.2.a: expected each key once, got 'a' again
<tmp>:1:1: base: expected a `base`: a scenario or its name, got nothing""",
    ),
    "skip": (
        BASE + "vary: {seed: [1]}\nskip:\n  - {sed: 1}\n  - {seed: {above: x, abov: 2}}\n  - 3\n",
        """<tmp>:10:6: skip.0.sed: expected a key that varies, or a part of it, got 'sed': did you mean 'seed'?
<tmp>:11:13: skip.1.seed.above: expected a number or a quantity with its unit, got 'x'
<tmp>:11:23: skip.1.seed.abov: expected a known comparison, got 'abov': did you mean 'above'?
<tmp>:12:5: skip.2: expected a mapping from dotted keys to values, got 3""",
    ),
    "ends too far apart to be told, and a zip and a skip that are no lists": (
        BASE + "vary:\n  seed: {from: 1e-31, to: 1, scale: log, points: 3}\n"
        "  iterations: {from: 1, to: 1e31, points: 3}\nzip: {warmup: [1]}\n",
        """<tmp>:9:3: vary.seed: expected ends from 1e-30 to 1e+30, got 1e-31 and 1
<tmp>:10:3: vary.iterations: expected ends from 1e-30 to 1e+30, got 1 and 1e+31
<tmp>:11:1: zip: expected a list of mappings whose lists go together, got {'warmup': [1]}""",
    ),
    "a skip that is no list": (
        BASE + "vary: {seed: [1]}\nskip: {seed: 1}\n",
        "<tmp>:9:1: skip: expected a list of mappings from dotted keys to values, got {'seed': 1}",
    ),
    "everything skipped": (
        BASE + "vary: {seed: [1, 2]}\nskip: [{seed: {at_most: 5}}]\n",
        "<tmp>:9:1: skip: expected at least one point that is not skipped, got none",
    ),
    "nothing to vary": (BASE, "<tmp>:1:1: vary: expected keys to `vary` or to `zip`, got none"),
    "no such base": (
        "base: quickstrt\nvary: {seed: [1]}\n",
        "<tmp>:1:1: base: expected a file beside this one, in ./configs or in the package, got 'quickstrt': "
        "did you mean 'quickstart'?",
    ),
    "a base that is no name": (
        "base: 3\nvary: {seed: [1]}\n", "<tmp>:1:1: base: expected a scenario or its name, got 3",
    ),
    "too many": (
        BASE + "vary:\n  seed: {from: 1, to: 1000, points: 1000}\n  iterations: {from: 1, to: 1000, points: 1000}\n",
        "<tmp>:8:1: vary: expected at most 250,000 points, got 1,000,000: sweep one part after the other",
    ),
    "a list": ("[]\n", "<tmp>:1:1: expected a sweep: a mapping, got []"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_read_as_agreed(tmp_path, name):
    text, expected = ERRORS[name]
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        swept(path, tmp_path / "out")
    assert str(caught.value).replace(str(path), "<tmp>") == expected
    assert not (tmp_path / "out").exists()


def test_a_base_that_is_no_mapping_is_refused_with_its_file(tmp_path):
    (tmp_path / "list.yaml").write_text("[1]\n")
    with pytest.raises(InputError) as caught:
        swept(written(tmp_path, "base: list.yaml\nvary: {seed: [1]}\n"), tmp_path / "out")
    assert str(caught.value) == f"{tmp_path}/list.yaml:1:1: expected a scenario: a mapping, got [1]"


def test_fewer_than_one_process_is_an_input_error():
    with pytest.raises(InputError, match=r"^workers: expected at least 1, got 0$"):
        sweep({"base": "ring_check", "vary": {"seed": [1]}}, workers=0)


def test_a_bad_sweep_is_exit_code_2_and_leaves_nothing(tmp_path):
    path = written(tmp_path, BASE + "vary: {seed: [x]}\n")
    result = CliRunner().invoke(main, ["sweep", str(path), "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == f"{path}:8:15: seed: expected a whole number, got 'x'\n"
    for arguments in (["--shard", "3/2"], ["--shard", "x"], ["--workers", "0"], ["--workers", "1", "--cluster", "x:1"]):
        result = CliRunner().invoke(main, ["sweep", str(path), "--out", str(tmp_path / "out"), *arguments])
        assert result.exit_code == 2
    assert not (tmp_path / "out").exists()


# What comes out


def test_a_point_is_what_run_predicts(whole):
    path, made, _ = whole
    assert len(made.table) == POINTS
    assert made.manifest["distinct"] == DISTINCT
    base = path.parent / "base.yaml"
    base.write_text("\n".join(line[2:] for line in BASE.splitlines()[1:]) + "\n")
    for row in made.table.sample(12, random_state=0).to_dict("records"):
        density = [] if row["sparsifier"] == "dense" else [f"sparsifier.density={row['sparsifier.density']!r}"]
        scenario = load(
            base,
            (
                f"sparsifier={row['sparsifier']}",
                *density,
                f"cluster.nodes={row['cluster.nodes']}",
                f"cluster.network.bandwidth={row['cluster.network.bandwidth_bytes_per_s']!r} B/s",
            ),
        )
        for key, value in row_of(run(scenario).document).items():
            got = row[key]
            assert (value is None and math.isnan(got)) or got == value, key


def test_columns_are_the_varied_keys_then_the_documents_then_the_error(whole):
    table = whole[1].table
    names = list(table.columns)
    assert names[:4] == [
        "sparsifier", "sparsifier.density", "cluster.nodes", "cluster.network.bandwidth_bytes_per_s",
    ]  # fmt: skip
    assert names[4:7] == ["digest", "versions.sparsim", "versions.python"]
    assert names[-1] == "error"
    assert {"seed", "workers", "iteration_time_s", "iteration_time_interval_s.p5", "iteration_time_interval_s.p95",
            "breakdown_s.forward", "traffic.total_bytes", "density.build_up", "warnings"} <= set(names)  # fmt: skip
    assert table["sparsifier"].unique().tolist() == ["dense", "topk", '{"kind": "randomk"}']
    assert table["error"].isna().all()
    stored = pd.read_parquet(whole[0].parent / "out" / "results.parquet")
    pd.testing.assert_frame_equal(stored, table)
    again = pd.read_csv(whole[0].parent / "out" / "results.csv")
    assert again["iteration_time_s"].tolist() == table["iteration_time_s"].tolist()


def test_rows_stand_in_the_order_of_the_file(whole):
    table = whole[1].table
    keys = ["sparsifier", "sparsifier.density", "cluster.nodes", "cluster.network.bandwidth_bytes_per_s"]
    expected = itertools.product(*(table[key].unique() for key in keys))
    assert list(table[keys].itertuples(index=False, name=None)) == list(expected)


def test_a_key_that_a_kind_does_not_have_is_left_out_and_the_point_computed_once(whole):
    dense = whole[1].table.query("sparsifier == 'dense'")
    assert len(dense) == 4 * 4 * 5
    assert dense["digest"].nunique() == 4 * 5
    assert (dense["density.target"] == 1).all()


@pytest.mark.long
def test_every_kind_of_value_may_vary(tmp_path):
    text = (
        BASE
        + """vary:
  cluster.network: [{kind: single_switch, bandwidth: 1 Gbit/s, latency: 5 us}, networks/10gbe-tcp]
  cluster.network.latency: [5 us, 50 us]
  overlap_concentration: [null, 10]
  workload.layers.1.numel: [10, 20]
  scheduler: [sequential, {kind: bucketed, bucket_size: 4 MB}]
zip:
  - {cluster.nodes: [1, 2], cluster.gpus_per_node: [4, 2]}
  - cluster.runtime: [runtimes/ideal, {name: own, negotiation: 1 ms}]
    topology: [ring, tree]
skip:
  - {scheduler: sequential, workload.layers.1.numel: 20}
"""
    )
    table = swept(written(tmp_path, text), tmp_path / "out").table
    assert len(table) == 2 * 2 * 2 * 2 * 2 * 2 * 2 * 3 // 4
    assert table["error"].isna().all()
    assert table["cluster.network.latency_s"].unique() == pytest.approx([5e-6, 5e-5])
    assert table["overlap_concentration"].isna().sum() == len(table) // 2
    assert set(table["cluster.nodes"] * table["cluster.gpus_per_node"]) == set(table["workers"]) == {4}
    assert table.groupby(["topology", "cluster.runtime"]).ngroups == 2


def test_a_mapping_is_a_sweep_and_a_float_is_si():
    data = {
        "base": "ring_check",
        "vary": {"cluster.network.bandwidth": [1e8, 1e9], "sparsifier": ["dense", {"kind": "topk", "density": 0.1}]},
    }
    table = sweep(data, workers=1)
    assert table["cluster.network.bandwidth_bytes_per_s"].tolist() == [1e8, 1e8, 1e9, 1e9]
    scenario = load("ring_check", ("cluster.network.bandwidth=0.8 Gbit/s",))
    assert table["digest"][0] == scenario.digest
    again = sweep({**data, "base": load("ring_check")}, workers=1)
    assert again["digest"].tolist() == table["digest"].tolist()


def test_components_and_whole_clusters_may_vary(tmp_path):
    cluster = load("ring_check").resolved()["cluster"]
    vary = {
        "sparsifier": [TopK(density=0.01), "dense"],
        "cluster": [{**cluster, "nodes": nodes} for nodes in (2, 4)],
        "seed": [1, 2],
    }
    table = sweep({"base": "ring_check", "vary": vary}, out=tmp_path, workers=1)
    assert [json.loads(cell)["kind"] for cell in table["sparsifier"][:4]] == ["topk"] * 4
    assert table["sparsifier"][4:].tolist() == ["dense"] * 4
    assert table["workers"].tolist() == [2, 2, 4, 4] * 2
    assert list(table.columns).count("seed") == 1  # varied, and a key of the document
    assert table["seed"].tolist() == [1, 2] * 4
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "results.parquet"), table)
    expected = load("ring_check", ("sparsifier={kind: topk, density: 0.01}", "cluster.nodes=4", "seed=2"))
    assert table["digest"][3] == expected.digest


def test_true_and_false_are_a_column_of_their_own_kind():
    vary = {"topology": [{"kind": "parameter_server", "servers": 2}], "topology.colocated": [True, False]}
    table = sweep({"base": "ring_check", "vary": vary}, workers=1)
    assert table["topology.colocated"].dtype == bool
    assert table["topology.colocated"].tolist() == [True, False]
    (made,) = [table_of({}, [{"a": True}, {"b": 1}])["a"]]
    assert (str(made.dtype), made.tolist()) == ("boolean", [True, pd.NA])


def test_another_scenario_may_stand_in_the_place_of_the_base(tmp_path):
    path = written(tmp_path, BASE + "vary: {cluster.nodes: [2, 4]}\n")
    result = CliRunner().invoke(
        main, ["sweep", str(path), "--base", "ring_check", "--out", f"{tmp_path}/a", "--workers", "1"]
    )
    assert result.exit_code == 0, result.output
    made = pd.read_parquet(tmp_path / "a" / "results.parquet")
    assert made["digest"].tolist() == [load("ring_check", (f"cluster.nodes={nodes}",)).digest for nodes in (2, 4)]
    result = CliRunner().invoke(main, ["sweep", str(path), "--base", "ring_chek", "--out", f"{tmp_path}/b"])
    assert result.exit_code == 2
    assert result.stderr.startswith("--base: expected a file beside this one, ")
    assert result.stderr.endswith("got 'ring_chek': did you mean 'ring_check'?\n")


@pytest.mark.long
def test_what_is_forgotten_on_the_way_changes_nothing(whole, tmp_path, monkeypatch):
    monkeypatch.setattr("simulator.studies.sweep.points._HELD", 1)
    swept(whole[0], tmp_path)
    assert results(tmp_path) == whole[2]


def test_a_point_that_breaks_does_not_take_the_others_with_it(tmp_path, monkeypatch):
    def broken(scenario):
        return 1 / 0 if scenario.cluster.nodes == 4 else run(scenario)

    monkeypatch.setattr("simulator.studies.sweep.points.run", broken)
    made = swept(written(tmp_path, BASE + "vary: {cluster.nodes: [2, 4, 8]}\n"), tmp_path / "out")
    assert made.table["error"].fillna("").tolist() == ["", "ZeroDivisionError: division by zero", ""]


def test_a_point_that_could_not_be_evaluated_is_an_outcome_with_its_digest(whole):
    points = Points(read_document(whole[0]), Path(), strict=True)
    outcome = points.failure(3, "nobody there")
    assert (outcome.number, outcome.digest, outcome.error) == (3, points.scenario(3).digest, "nobody there")
    assert json.loads(outcome.body) == {"digest": outcome.digest, "error": "nobody there"}


def test_points_of_another_version_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Points, "evaluate", lambda _, number: Outcome(number, "other", b"{}", None))
    with pytest.raises(SparsimError, match=r"^point 0 was evaluated by another version of sparsim$"):
        swept(written(tmp_path, BASE + "vary: {seed: [1]}\n"), tmp_path / "out")
    assert (tmp_path / "out" / "points.jsonl").read_bytes() == b""


def test_many_messages_are_cut_short(tmp_path):
    odd = [number for number in range(3, 64) if number & (number - 1)][:25]
    path = written(tmp_path, BASE + f"vary: {{sparsifier: [{{kind: gtopk, density: 0.1}}], cluster.nodes: {odd}}}\n")
    result = CliRunner().invoke(main, ["sweep", str(path), "--out", str(tmp_path / "out"), "--workers", "1"])
    lines = [line for line in result.stderr.splitlines() if "failed:" in line]
    assert len(lines) == 20
    assert result.stderr.endswith("and 5 other messages; see the column `error`\n")
    assert result.exit_code == 1


def test_points_that_fail_are_rows_with_their_error(tmp_path):
    text = BASE + "vary:\n  sparsifier: [{kind: gtopk, density: 0.1}, dense]\n  cluster.nodes: [2, 3, 5]\n"
    text = text.replace("  scheduler:", "  other_jobs: []\n  scheduler:")
    path = written(tmp_path, text)
    result = CliRunner().invoke(main, ["sweep", str(path), "--out", str(tmp_path / "out"), "--workers", "1"])
    assert result.exit_code == 1
    assert "6 points, 6 of them distinct: 6 evaluated, 0 reused, 2 failed" in result.stdout
    assert "1 failed: scenario 'small': expected a number of workers that is a power of two, got 3" in result.stderr
    table = pd.read_parquet(tmp_path / "out" / "results.parquet")
    assert table["error"].notna().tolist() == [False, True, True, False, False, False]
    assert table["iteration_time_s"].isna().tolist() == table["error"].notna().tolist()
    assert table["digest"].notna().all()
    again = CliRunner().invoke(main, ["sweep", str(path), "--out", str(tmp_path / "out"), "--workers", "1"])
    assert again.exit_code == 1
    assert "2 evaluated, 4 reused, 2 failed" in again.stdout  # what failed is tried again


def test_points_that_cannot_be_built_fail_alone(tmp_path):
    text = BASE + "vary:\n  cluster.nodes: [2, 4]\n  cluster.stragglers.slow: [[], [{worker: 3, factor: 2}]]\n"
    made = swept(written(tmp_path, text), tmp_path / "out")
    with pytest.raises(Failed, match=r"expected slow workers below 2, got \[3\]"):
        swept(tmp_path / "sweep.yaml", tmp_path / "fast", fail_fast=True)
    assert made.failed == 1
    assert made.table["digest"].isna().tolist() == [False, True, False, False]
    assert "expected slow workers below 2, got [3]" in made.table["error"][1]


def test_fail_fast_stops_and_keeps_what_is_finished(tmp_path):
    text = BASE + "vary:\n  seed: [1, 2]\n  sparsifier: [dense, {kind: gtopk, density: 0.1}]\n  cluster.nodes: [3]\n"
    path = written(tmp_path, text)
    with pytest.raises(Failed, match="power of two"):
        swept(path, tmp_path / "out", fail_fast=True)
    assert not (tmp_path / "out" / "results.parquet").exists()
    with Journal(tmp_path / "out") as journal:
        assert journal.records
    arguments = ["sweep", str(path), "--out", str(tmp_path / "out"), "--workers", "1", "--fail-fast"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert "stopped at the first point that failed: scenario 'small': expected a number of workers" in result.stderr


@pytest.mark.parametrize(
    ("name", "points"),
    [
        pytest.param("big", 5720, marks=pytest.mark.long),
        ("density_sweep", 78),
        ("worker_sweep", 27),
        ("break_even_map", 364),
    ],
)
def test_shipped_sweeps_can_be_built(name, points):
    path = ROOT / "scenarios" / "sweeps" / f"{name}.yaml"
    plan = planned(Points(read_document(path), path.parent, strict=True), None)
    assert len(plan.rows) == points
    assert not plan.broken


# What is on disk


def test_the_manifest_says_what_was_done(whole):
    manifest = json.loads((whole[0].parent / "out" / "manifest.json").read_text())
    assert manifest["points"] == POINTS
    assert manifest["distinct"] == manifest["evaluated"] == DISTINCT
    assert manifest["reused"] == manifest["skipped"] == manifest["failed"] == 0
    assert manifest["started"] <= manifest["finished"]
    assert set(manifest["versions"]) >= {"sparsim", "numpy", "python"}


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
    made = swept(path, tmp_path)
    assert share * DISTINCT <= made.manifest["reused"] < DISTINCT
    assert results(tmp_path) == expected


def begun(path, out, *options):
    command = [sys.executable, "-m", "simulator", "sweep", str(path), "--out", str(out), *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def finished_points(out):
    path = out / "points.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.long
@pytest.mark.parametrize("when", ["half", pytest.param("random", marks=pytest.mark.long)])
def test_a_killed_sweep_goes_on_to_the_same_bytes(whole, tmp_path, when):
    path, _, expected = whole
    process = begun(path, tmp_path, "--workers", "2")
    wait, since = random.Random().uniform(0.1, 3.0), time.monotonic()
    while process.poll() is None:
        enough = finished_points(tmp_path) >= DISTINCT / 2 if when == "half" else time.monotonic() - since > wait
        if enough:
            process.kill()
            break
        time.sleep(0.001)
    process.wait()
    process.stderr.close()
    made = swept(path, tmp_path)  # at once: the lock ended with the process
    assert made.manifest["reused"] >= (DISTINCT / 2 if when == "half" else 0)
    assert results(tmp_path) == expected


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
        assert text.splitlines()[-1] == (
            f"interrupted; what is finished is in {tmp_path}, and the same command goes on from there"
        )
    assert swept(path, tmp_path).manifest["reused"]
    assert results(tmp_path) == expected


def test_an_interrupt_says_where_the_rest_is(whole, tmp_path, monkeypatch):
    calls = []

    def interrupted(scenario):
        calls.append(scenario)
        if len(calls) == 100:
            raise KeyboardInterrupt
        return run(scenario)

    monkeypatch.setattr("simulator.studies.sweep.executors.BATCH_SECONDS", 0.0)
    monkeypatch.setattr("simulator.studies.sweep.points.run", interrupted)
    result = CliRunner().invoke(main, ["sweep", str(whole[0]), "--out", str(tmp_path), "--workers", "1"])
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == (
        f"interrupted; what is finished is in {tmp_path}, and the same command goes on from there"
    )
    assert swept(whole[0], tmp_path).manifest["reused"] == 99
    assert results(tmp_path) == whole[2]


def test_a_torn_or_damaged_line_is_computed_again(whole, tmp_path):
    path, _, expected = whole
    lines = (path.parent / "out" / "points.jsonl").read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b"0", b"1", 1) if b"0" in lines[3][9:] else b"x" + lines[3]
    lines[5] = b"\x00" * 40 + b"\n"
    (tmp_path / "points.jsonl").write_bytes(b"".join(lines[:100]) + lines[100][:57])
    made = swept(path, tmp_path)
    assert made.manifest["reused"] == 98
    assert results(tmp_path) == expected
    with Journal(tmp_path) as journal:
        assert journal.damaged == 2
        assert len(journal.records) == DISTINCT


@given(cut=st.integers(0, 400))
def test_whatever_is_torn_off_the_rest_is_read(tmp_path_factory, cut):
    folder = tmp_path_factory.mktemp("torn")
    bodies = [json.dumps({"digest": f"d{i}", "row": {"x": i}}).encode() for i in range(8)]
    data = b"".join(map(line_of, bodies))
    (folder / "points.jsonl").write_bytes(data[:cut])
    with Journal(folder) as journal:
        whole_lines = data[:cut].count(b"\n")
        assert list(journal.records) == [f"d{i}" for i in range(whole_lines)]
        journal.add([("d9", b'{"digest": "d9", "row": {"x": 9}}')])
    with Journal(folder) as journal:
        assert len(journal.records) == whole_lines + 1
        assert journal.row("d9") == {"x": 9}
        assert journal.damaged == 0


ODD_RECORDS = [
    b'["a", "list"]',
    b'{"row": {"x": 1}}',
    b'{"digest": 5, "row": {"x": 1}}',
    b'{"digest": "d"}',
    b'{"digest": "d", "row": {"x": 1}, "more": 1}',
    b'{"digest": "d", "row": [1]}',
    b'{"digest": "d", "row":{"x": 1}}',
    b'{"digest": "d", "row": {"x": NaN}}',
    b'{"digest": "d", "row": {"x": {"y": 1}}}',
    b'{"digest": "d", "error": 5}',
]


@pytest.mark.parametrize("body", ODD_RECORDS)
def test_records_of_another_form_are_left_aside(tmp_path, body):
    good = line_of(b'{"digest": "e", "row": {"x": 2}}')
    (tmp_path / "points.jsonl").write_bytes(line_of(body) + b"\n" + good)
    with Journal(tmp_path) as journal:
        assert (journal.damaged, list(journal.records)) == (1, ["e"])
        assert journal.row("e") == {"x": 2}
        assert (journal.row("d"), journal.error("d")) == (None, None)


def test_lines_too_long_for_a_record_are_passed_over_whole(tmp_path):
    from simulator.studies.sweep.journal import MAX_RECORD

    good = line_of(b'{"digest": "e", "row": {"x": 2}}')
    (tmp_path / "points.jsonl").write_bytes(b"x" * (2 * MAX_RECORD + 5) + b"\n" + good)
    with Journal(tmp_path) as journal:
        assert list(journal.records) == ["e"]
        assert journal.damaged == 3  # as many pieces as it takes to read it
    assert (tmp_path / "points.jsonl").stat().st_size == 2 * MAX_RECORD + 6 + len(good)


def test_a_point_that_came_out_is_not_undone_by_an_error_beside_it(tmp_path):
    row, error = (line_of(b'{"digest": "d", ' + rest) for rest in (b'"row": {"x": 1}}', b'"error": "lost"}'))
    (tmp_path / "points.jsonl").write_bytes(error + row + error)
    with Journal(tmp_path) as journal:
        assert journal.finished("d")
        assert journal.row("d") == {"x": 1}


def test_a_journal_that_is_changed_under_a_sweep_is_noticed(tmp_path):
    body = b'{"digest": "d", "row": {"x": 1}}'
    (tmp_path / "points.jsonl").write_bytes(line_of(body))
    with Journal(tmp_path) as journal:
        (tmp_path / "points.jsonl").write_bytes(line_of(body).replace(b'"x": 1', b'"x": 2'))
        with pytest.raises(InputError) as caught:
            journal.row("d")
    assert str(caught.value) == (
        f"{tmp_path}: expected the records that were there when the sweep began, got others: was the file changed "
        "meanwhile? the same command computes again what is missing"
    )


def test_a_table_that_cannot_be_put_in_place_leaves_nothing_half_made(whole, tmp_path):
    (tmp_path / "results.csv").mkdir()
    with pytest.raises(InputError, match=r"results\.csv: expected a place that can be written, got Is a directory"):
        swept(whole[0], tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    (tmp_path / "results.csv").rmdir()
    assert swept(whole[0], tmp_path).manifest["reused"] == DISTINCT
    assert results(tmp_path) == whole[2]


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


def test_a_killed_process_frees_its_folder(tmp_path):
    code = f"import time; from pathlib import Path; from simulator.studies.sweep.journal import Journal\n\
j = Journal(Path({str(tmp_path)!r})); print('held', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=f"process {process.pid} "):
            Journal(tmp_path)
        process.kill()
    with Journal(tmp_path) as journal:
        assert journal.records == {}


@pytest.mark.long
def test_a_changed_sweep_reuses_the_points_it_shares(whole, tmp_path):
    text = BASE + VARY.replace("[1, 2, 4, 8]", "[2, 4, 16]").replace("topk, {kind: randomk}", "topk")
    path = written(tmp_path, text)
    swept(whole[0], tmp_path / "out")
    made = swept(path, tmp_path / "out")
    assert made.manifest["distinct"] == 3 * 5 + 4 * 3 * 5
    assert made.manifest["reused"] == 2 * 5 + 4 * 2 * 5
    alone = swept(path, tmp_path / "alone")
    assert alone.manifest["reused"] == 0
    assert results(tmp_path / "out") == results(tmp_path / "alone")


@pytest.mark.long
@pytest.mark.parametrize("together", [True, pytest.param(False, marks=pytest.mark.long)])
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
    assert joined["digest"].nunique() == DISTINCT
    assert sorted(joined["digest"]) == sorted(made.table["digest"])
    one = tmp_path / "one"
    one.mkdir(exist_ok=True)
    if not together:
        for part in (1, 2, 3):
            (tmp_path / str(part) / f"points-{part}of3.jsonl").rename(one / f"points-{part}of3.jsonl")
    assert swept(path, one).manifest["reused"] == DISTINCT
    assert results(one) == expected


def test_a_folder_that_cannot_be_written_is_said_so(whole, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="expected a folder that can be written"):
        swept(whole[0], tmp_path / "file" / "inside")


# Who evaluates


class Plain:
    """Evaluates nothing; at some numbers ends the process, at others says what no process says, at others is slow."""

    def __init__(self, deadly=(), babbled=(), slow=()):
        self.deadly, self.babbled, self.slow = deadly, babbled, slow

    def evaluate(self, number):
        if number in self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        if number in self.babbled:
            next(item for item in gc.get_objects() if isinstance(item, Connection)).send_bytes(b"no pickle")
            time.sleep(60)
        if number in self.slow:
            time.sleep(2 * BATCH_SECONDS)
        return Outcome(number, str(number), b"", None)

    def failure(self, number, message):
        return Outcome(number, str(number), b"", message)


@given(sizes=st.lists(st.integers(1, 200), max_size=12), hands=st.integers(1, 8))
def test_a_queue_hands_out_every_point_once(sizes, hands):
    bounds = [0, *itertools.accumulate(sizes)]
    queue, given_out = Queue([range(a, b) for a, b in itertools.pairwise(bounds)]), []
    while queue:
        chunk = queue.take(hands)
        assert chunk
        given_out += chunk
    assert sorted(given_out) == list(range(sum(sizes)))


@pytest.mark.parametrize("executor", [Here(), pytest.param(Processes(2), marks=pytest.mark.long)])
def test_executors_give_every_point_back_and_what_is_finished_does_not_wait_for_slow_ones(executor):
    groups = [range(0, 7), range(7, 8), range(8, 300)]
    batches = [[outcome.number for outcome in batch] for batch in executor.run(Plain(slow=(2,)), groups)]
    assert sorted(number for batch in batches for number in batch) == list(range(300))
    assert [0, 1, 2] in batches
    assert list(executor.run(Plain(), [])) == []
    assert not multiprocessing.active_children()


@pytest.mark.long
def test_points_that_kill_their_process_fail_and_the_others_come_out():
    plain = Plain(deadly=(3,), babbled=(79,))
    outcomes = {o.number: o for batch in Processes(2).run(plain, [range(40), range(40, 80)]) for o in batch}
    assert sorted(outcomes) == list(range(80))
    assert {number for number, outcome in outcomes.items() if outcome.error} == {3, 79}
    assert outcomes[3].error == "the process that evaluated it died, twice (signal SIGKILL)"
    assert outcomes[79].error == "the process that evaluated it died, twice (signal SIGTERM)"
    assert not multiprocessing.active_children()


@pytest.mark.long
def test_a_killed_process_is_replaced_and_nothing_is_missing(whole, tmp_path):
    killed = []

    def kill_one(progress):
        if not killed and progress.evaluated:
            child = multiprocessing.active_children()[-1]
            os.kill(child.pid, signal.SIGKILL)
            killed.append(child.pid)

    path, _, expected = whole
    made = swept(path, tmp_path, workers=2, observe=kill_one)
    assert killed
    assert made.failed == 0
    assert results(tmp_path) == expected


class Stillborn:
    """What a new process cannot even read."""

    def __reduce__(self):
        return os._exit, (3,)

    def failure(self, number, message):
        raise AssertionError


def test_processes_that_never_begin_are_an_error():
    with pytest.raises(SparsimError, match=r"processes end before they begin \(exit code 3\): a script that sweeps"):
        list(Processes(2).run(Stillborn(), [range(10)]))
    assert not multiprocessing.active_children()


def test_points_are_evaluated_next_to_those_they_share_work_with(whole):
    plan = planned(Points(read_document(whole[0]), Path(), strict=True), None)
    assert {len(group) for group in plan.groups} == {5}
    assert len(plan.groups) == DISTINCT // 5


def test_without_a_terminal_progress_is_lines(monkeypatch, capsys):
    from simulator.reporting.terminal import progress as shown
    from simulator.studies.sweep.sweep import Progress

    monkeypatch.setattr(shown, "LINE_SECONDS", 0.0)
    with shown.shown_progress() as observe:
        observe(Progress(total=40, reused=10, evaluated=10, failed=1, seconds=0.5))
    assert capsys.readouterr().err == "20 of 40 points, 20 per second, 0:01 left, 1 failed\n"


class Terminal(io.StringIO):
    """What a person looks at."""

    def isatty(self):
        return True


def test_on_a_terminal_progress_is_a_bar(monkeypatch):
    from simulator.reporting.terminal import progress as shown
    from simulator.studies.sweep.sweep import Progress

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with shown.shown_progress() as observe:
        observe(Progress(total=40, reused=10))
        observe(Progress(total=40, reused=10, evaluated=10, failed=1, seconds=0.5))
    last = screen.getvalue().rpartition("\n")[0].splitlines()[-1]
    assert "20/40" in last
    assert "20 per second, 0:01 left, 1 failed" in last
    assert "━" in last


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        ({"total": 40, "reused": 10}, "0.0 per second"),  # before the first point nothing is known of the rest
        ({"total": 4, "evaluated": 4, "seconds": 2.0}, "2.0 per second, 0:00 left"),
        ({"total": 40_000, "evaluated": 400, "seconds": 100.0}, "4.0 per second, 2:45:00 left"),
    ],
)
def test_the_pace_in_words(progress, words):
    from simulator.reporting.terminal.progress import pace
    from simulator.studies.sweep.sweep import Progress

    assert pace(Progress(**progress)) == words


def test_a_sweep_file_is_found_by_name_and_documented():
    assert parse_document((ROOT / "scenarios" / "sweeps" / "big.yaml").read_text()).data["name"]
    with pytest.raises(InputError, match="did you mean 'density_sweep'"):
        sweep("density_swep")
