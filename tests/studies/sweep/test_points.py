"""A point of a sweep is what `run` predicts; its row and its columns."""

import itertools
import json
from pathlib import Path

import pandas as pd
import pytest
from command_line import invoke
from places import ROOT
from small_inputs import BASE
from small_sweeps import DISTINCT, POINTS, results, swept, written

from simulator.loading.documents import read_document
from simulator.prediction.doubts.spread import compare_spreads
from simulator.prediction.run import run, with_responses
from simulator.scenario.reading import load
from simulator.sparsifiers.topk import TopK
from simulator.studies.processes.executors import Evaluation
from simulator.studies.storage.row_table import row_of, table_of
from simulator.studies.sweep.points import GridPoints, plan_sweep
from simulator.studies.sweep.sweep import PointFailed, run_sweep, sweep
from simulator.studies.variants.crossing import evaluate

LONG = pytest.mark.long
QUICKSTART = (ROOT / "scenarios" / "quickstart.yaml").read_text()
KEYS = ["sparsifier", "sparsifier.density", "cluster.nodes", "cluster.network.bandwidth_bytes_per_s"]


def test_a_point_is_what_run_predicts(whole):
    path, made, _ = whole
    assert len(made.table) == POINTS and made.manifest["distinct"] == DISTINCT
    base = path.parent / "base.yaml"
    base.write_text("\n".join(line[2:] for line in BASE.splitlines()[1:]) + "\n")
    for row in made.table.sample(12, random_state=0).to_dict("records"):
        keys = [f"sparsifier={row['sparsifier']}", f"cluster.nodes={row['cluster.nodes']}"]
        keys += [] if row["sparsifier"] == "dense" else [f"sparsifier.density={row['sparsifier.density']!r}"]
        keys += [f"cluster.network.bandwidth={row['cluster.network.bandwidth_bytes_per_s']!r} B/s"]
        for key, value in row_of(run(load(base, tuple(keys))).result).items():
            got = row[key]
            assert (value is None and pd.isna(got)) or got == value, key


def test_a_point_knows_what_was_measured_of_the_base_as_it_is_written(tmp_path):
    """Also where the base is a mapping or a scenario; a measurement that varies is that of the point."""
    (base := tmp_path / "base.yaml").write_text(QUICKSTART + "measured: {iteration_time: 560 ms, source: a timer}\n")
    in_place = load("quickstart").resolved() | {"measured": {"iteration_time": 0.56, "source": "a timer"}}
    vary = {"sparsifier": ["dense", "efsignsgd"], "cluster.nodes": [4, 8]}
    keys = [dict(zip(vary, values, strict=True)) for values in itertools.product(*vary.values())]
    for given in (str(base), in_place, load(base)):
        made = sweep({"base": given, "vary": vary}, workers=1)
        for row, each in zip(made.to_dict("records"), keys, strict=True):
            wanted = row_of(run(load(given, each)).result_without_lists)
            for key, value in wanted.items():
                assert row[key] == value or (value is None and pd.isna(row[key])), key
    path = written(tmp_path, f"base: {base}\nvary: {{measured.iteration_time: [550 ms, 560 ms]}}\nverdicts: true\n")
    table, wanted = swept(path, tmp_path / "out").table, with_responses(run(load(base)))
    assert table["iteration_time_s"][1] == wanted.spread.time
    dense = with_responses(run(load(base, ("sparsifier=dense",))))
    assert table["speed_up"][1] == compare_spreads(wanted.spread, dense.spread).value


def test_columns_are_the_varied_keys_then_the_documents_then_the_error(whole):
    table = whole[1].table
    names = list(table.columns)
    assert names[:4] == KEYS
    assert names[4:7] == ["digest", "versions.sparsim", "versions.python"] and names[-1] == "error"
    assert {"seed", "workers", "iteration_time_s", "iteration_time_interval_s.p5", "iteration_time_interval_s.p95",
            "breakdown_s.forward", "traffic.total_bytes", "density.build_up", "warnings"} <= set(names)  # fmt: skip
    assert table["sparsifier"].unique().tolist() == ["dense", "topk", '{"kind": "randomk"}']
    assert table["error"].isna().all()
    pd.testing.assert_frame_equal(pd.read_parquet(whole[0].parent / "out" / "results.parquet"), table)
    again = pd.read_csv(whole[0].parent / "out" / "results.csv")
    assert again["iteration_time_s"].tolist() == table["iteration_time_s"].tolist()


def test_rows_stand_in_the_order_of_the_file(whole):
    table = whole[1].table
    expected = itertools.product(*(table[key].unique() for key in KEYS))
    assert list(table[KEYS].itertuples(index=False, name=None)) == list(expected)


def test_a_key_that_a_kind_does_not_have_is_left_out_and_the_point_computed_once(whole):
    dense = whole[1].table.query("sparsifier == 'dense'")
    assert len(dense) == 4 * 4 * 5 and dense["digest"].nunique() == 4 * 5 and (dense["density.target"] == 1).all()


def test_a_mapping_is_a_sweep_and_a_float_is_si():
    data = {
        "base": "ring_check",
        "vary": {"cluster.network.bandwidth": [1e8, 1e9], "sparsifier": ["dense", {"kind": "topk", "density": 0.1}]},
    }
    table = sweep(data, workers=1)
    assert table["cluster.network.bandwidth_bytes_per_s"].tolist() == [1e8, 1e8, 1e9, 1e9]
    assert table["digest"][0] == load("ring_check", ("cluster.network.bandwidth=0.8 Gbit/s",)).digest
    assert sweep({**data, "base": load("ring_check")}, workers=1)["digest"].tolist() == table["digest"].tolist()


def test_components_and_whole_clusters_may_vary(tmp_path):
    cluster = load("ring_check").resolved()["cluster"]
    vary = {
        "sparsifier": [TopK(density=0.01), "dense"],
        "cluster": [{**cluster, "nodes": nodes} for nodes in (2, 4)],
        "seed": [1, 2],
    }
    table = sweep({"base": "ring_check", "vary": vary}, out=tmp_path, workers=1)
    assert [json.loads(cell)["kind"] for cell in table["sparsifier"][:4]] == ["topk"] * 4
    assert table["sparsifier"][4:].tolist() == ["dense"] * 4 and table["workers"].tolist() == [2, 2, 4, 4] * 2
    assert list(table.columns).count("seed") == 1  # varied, and a key of the document
    assert table["seed"].tolist() == [1, 2] * 4
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "results.parquet"), table)
    expected = load("ring_check", ("sparsifier={kind: topk, density: 0.01}", "cluster.nodes=4", "seed=2"))
    assert table["digest"][3] == expected.digest


def test_true_and_false_are_a_column_of_their_own_kind():
    vary = {"topology": [{"kind": "parameter_server", "servers": 2}], "topology.colocated": [True, False]}
    table = sweep({"base": "ring_check", "vary": vary}, workers=1)
    assert table["topology.colocated"].dtype == bool and table["topology.colocated"].tolist() == [True, False]
    made = table_of({}, [{"a": True}, {"b": 1}]).to_pandas()["a"]
    assert (str(made.dtype), made.tolist()) == ("boolean", [True, pd.NA])


@pytest.mark.long
def test_what_is_forgotten_on_the_way_changes_nothing(whole, tmp_path, monkeypatch):
    monkeypatch.setattr("simulator.studies.sweep.parts._REMEMBERED", 1)
    swept(whole[0], tmp_path)
    assert results(tmp_path) == whole[2]


def test_a_point_that_breaks_does_not_take_the_others_with_it(tmp_path, monkeypatch):
    def broken(scenarios, *more):
        return 1 / 0 if any(item.cluster.nodes == 4 for item in scenarios) else evaluate(scenarios, *more)

    monkeypatch.setattr("simulator.studies.sweep.points.evaluate", broken)
    made = swept(written(tmp_path, BASE + "vary: {cluster.nodes: [2, 4, 8]}\n"), tmp_path / "out")
    assert made.table["error"].fillna("").tolist() == ["", "ZeroDivisionError: division by zero", ""]


def test_a_point_that_could_not_be_evaluated_is_stored_with_its_digest(tmp_path, monkeypatch):
    path = written(tmp_path, BASE + "vary: {seed: [1]}\n")
    lost = [Evaluation(0, None, "nobody there")]
    monkeypatch.setattr("simulator.studies.sweep.sweep.run_locally", lambda *_, processes: (lost for _ in range(1)))
    assert swept(path, tmp_path / "out").errors == ["nobody there"]
    digest = GridPoints(read_document(path), Path(), strict=True).scenario(0).digest
    (line,) = (tmp_path / "out" / "points.jsonl").read_bytes().splitlines()
    assert json.loads(line[9:]) == {"digest": digest, "error": "nobody there"}


def test_points_that_fail_are_rows_with_their_error(tmp_path):
    text = BASE + "vary:\n  sparsifier: [{kind: gtopk, density: 0.1}, dense]\n  cluster.nodes: [2, 3, 5]\n"
    text = text.replace("  scheduler:", "  other_jobs: []\n  scheduler:")
    path = written(tmp_path, text)
    result = invoke("sweep", path, "--out", tmp_path / "out", "--workers", "1")
    assert result.exit_code == 1
    assert "6 points, 6 of them distinct: 6 evaluated, 0 reused, 2 failed" in result.stdout
    assert "1 failed: scenario 'small': expected a number of workers that is a power of two, got 3" in result.stderr
    table = pd.read_parquet(tmp_path / "out" / "results.parquet")
    assert table["error"].notna().tolist() == [False, True, True, False, False, False]
    assert table["iteration_time_s"].isna().tolist() == table["error"].notna().tolist()
    assert table["digest"].notna().all()
    before = results(tmp_path / "out")
    for options, said in (((), "0 evaluated, 6 reused, 2"), (("--retry-failed",), "2 evaluated, 4 reused, 2")):
        again = invoke("sweep", path, "--out", tmp_path / "out", "--workers", "1", *options)
        assert again.exit_code == 1 and f"{said} failed" in again.stdout
        assert "1 failed: scenario 'small': expected a number of workers that is a power of two, got 3" in again.stderr
        assert results(tmp_path / "out") == before
    with pytest.raises(PointFailed, match="a power of two, got 3"):
        swept(path, tmp_path / "out", fail_fast=True)


def test_points_that_cannot_be_built_fail_alone(tmp_path):
    text = BASE + "vary:\n  cluster.nodes: [2, 4]\n  cluster.stragglers.slow: [[], [{worker: 3, factor: 2}]]\n"
    made = swept(written(tmp_path, text), tmp_path / "out")
    with pytest.raises(PointFailed, match=r"expected slow workers below 2, got \[3\]"):
        swept(tmp_path / "sweep.yaml", tmp_path / "fast", fail_fast=True)
    assert len(made.errors) == 1 and made.table["digest"].isna().tolist() == [False, True, False, False]
    assert "expected slow workers below 2, got [3]" in made.table["error"][1]


def test_every_point_is_in_one_shard_with_those_that_it_shares_work_with(tmp_path):
    """Four of eight points cannot be built; of the others each pair differs in a seed."""
    slow = "cluster.stragglers.slow: [[], [{worker: 3, factor: 2}], [{worker: 2, factor: 2}]]"
    path = written(tmp_path, BASE + f"vary:\n  cluster.nodes: [2, 4]\n  {slow}\n  seed: [1, 2]\n")
    points = GridPoints(read_document(path), tmp_path, strict=True)
    whole = plan_sweep(points, None)
    shards = [plan_sweep(points, (part, 3)) for part in (1, 2, 3)]
    assert len(whole.broken) == 4 and sorted(n for plan in shards for n in plan.rows) == whole.rows == [*range(12)]
    for plan in shards:
        assert sorted(plan.rows) == sorted([*plan.broken, *(n for group in plan.groups for n in group)])
    assert [list(plan.broken.values()) for plan in shards] == [[*whole.broken.values()][part::3] for part in range(3)]


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
    plan = plan_sweep(GridPoints(read_document(path), path.parent, strict=True), None)
    assert len(plan.rows) == points and not plan.broken


def test_points_are_evaluated_next_to_those_they_share_work_with(whole):
    plan = plan_sweep(GridPoints(read_document(whole[0]), Path(), strict=True), None)
    assert {len(group) for group in plan.groups} == {5} and len(plan.groups) == DISTINCT // 5


def test_a_sweep_without_a_name_is_called_by_its_base_and_its_keys(tmp_path):
    vary = {"cluster.nodes": [2, 4], "cluster.network.latency": ["50 us"]}
    double = load("ring_check", ("cluster.gpus_per_node=2",))
    for name, base, expected in (
        ("mine", "ring_check", "mine"),
        ("", "ring_check", "ring check, by cluster.nodes, cluster.network.latency"),
        ("", double, "unnamed, dense, 16 GPUs over 10 Gbit/s (ring_check with "),
    ):
        made = run_sweep({"name": name, "base": base, "vary": vary}, tmp_path / name / str(len(expected)), workers=1)
        assert made.manifest["sweep"].startswith(expected)


@pytest.mark.long
def test_every_kind_of_value_may_vary(tmp_path):
    text = f"""{BASE}vary:
  cluster.network: [{{kind: single_switch, bandwidth: 1 Gbit/s, latency: 5 us}}, networks/10gbe-tcp]
  cluster.network.latency: [5 us, 50 us]
  overlap_concentration: [null, 10]
  workload.layers.1.numel: [10, 20]
  scheduler: [sequential, {{kind: bucketed, bucket_size: 4 MB}}]
zip:
  - {{cluster.nodes: [1, 2], cluster.gpus_per_node: [4, 2]}}
  - cluster.runtime: [runtimes/ideal, {{name: own, negotiation: 1 ms}}]
    topology: [ring, tree]
skip:
  - {{scheduler: sequential, workload.layers.1.numel: 20}}
"""
    table = swept(written(tmp_path, text), tmp_path / "out").table
    assert len(table) == 2 * 2 * 2 * 2 * 2 * 2 * 2 * 3 // 4 and table["error"].isna().all()
    assert table["cluster.network.latency_s"].unique() == pytest.approx([5e-6, 5e-5])
    assert table["overlap_concentration"].isna().sum() == len(table) // 2
    assert set(table["cluster.nodes"] * table["cluster.gpus_per_node"]) == set(table["workers"]) == {4}
    assert table.groupby(["topology", "cluster.runtime"]).ngroups == 2
