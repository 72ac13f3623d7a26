"""What a sweep wants of each point: other intervals, and verdicts against dense."""

import math
from pathlib import Path

import pytest

from simulator.errors import InputError
from simulator.loading.documents import Document
from simulator.prediction.doubts.spread import compare_spreads
from simulator.prediction.run import run, with_responses
from simulator.scenario.reading import load
from simulator.studies.sweep import points as of_points
from simulator.studies.sweep.sweep import run_sweep, sweep
from simulator.studies.variants.crossing import evaluate

METHODS = ("dense", {"kind": "topk", "density": 0.001})


def source(**more):
    base = load("quickstart").resolved()
    return {"base": base, "vary": {"sparsifier": list(METHODS), "cluster.nodes": [4, 8]}} | more


def table(**more):
    return sweep(source(**more), workers=1)


def predicted(method, nodes):
    sets = ("sparsifier=dense" if method == "dense" else "sparsifier={kind: topk, density: 0.001}",)
    return with_responses(run(load("quickstart", (*sets, f"cluster.nodes={nodes}"))))


def test_a_verdict_is_that_of_the_point_against_dense_with_all_else_the_same():
    for row in table(verdicts=True).to_dict("records"):
        if row["sparsifier"] == "dense":
            assert math.isnan(row["speed_up"])
            continue
        nodes = row["cluster.nodes"]
        verdict = compare_spreads(predicted("topk", nodes).spread, predicted("dense", nodes).spread)
        assert row["speed_up"] == pytest.approx(verdict.value, rel=1e-12)
        assert row["probability"] == pytest.approx(verdict.probability(), rel=1e-9)
        assert row["verdict"] == verdict.word
        ends = (row["speed_up_interval.p5"], row["speed_up_interval.p95"])
        assert ends == pytest.approx(verdict.interval(), rel=1e-9)


def test_dense_is_predicted_once_for_all_methods_that_share_it_and_forgotten_where_it_would_be_too_much(monkeypatch):
    asked = []
    monkeypatch.setattr(of_points, "evaluate", lambda specs, kind: asked.append(len(specs)) or evaluate(specs, kind))
    methods = [{"kind": "topk", "density": density} for density in (0.1, 0.01, 0.001)]
    given = source(verdicts=True, vary={"cluster.nodes": [4, 8], "sparsifier": methods})
    for most, expected in ((4096, [1, 2, 0, 1, 1, 1, 0, 1]), (1, [1, 2, 0, 1, 1, 1, 1, 1])):
        asked.clear()
        monkeypatch.setattr(of_points, "_REMEMBERED", most)
        points = of_points.GridPoints(Document("sweep", given, {}), Path(), strict=False)
        for numbers in ([0, 1], [2], [3], [0]):  # those of 4 nodes, of 8, and of 4 again
            assert all(b'"verdict"' in outcome.body for outcome in points.evaluate(numbers))
        assert asked == expected


def test_full_intervals_are_those_of_run():
    (row,) = sweep(source(vary={"cluster.nodes": [8]}, intervals="full"), workers=1).to_dict("records")
    low, high = with_responses(run(load("quickstart"))).document["iteration_time_interval_s"]
    ends = (row["iteration_time_interval_s.p5"], row["iteration_time_interval_s.p95"])
    assert ends == pytest.approx((low, high), rel=1e-12)


def test_without_intervals_there_are_no_columns_of_them_and_the_same_times():
    plain, bare = table(), table(intervals="none")
    gone = {name for name in plain if name.startswith(("iteration_time_interval_s", "intervals_s", "calibration"))}
    assert gone and not gone & set(bare) and bare["iteration_time_s"].tolist() == plain["iteration_time_s"].tolist()
    assert bare["digest"].tolist() == plain["digest"].tolist()


def test_rows_of_different_wishes_share_a_folder(tmp_path):
    first = run_sweep(source(), tmp_path, workers=1)
    judged = run_sweep(source(verdicts=True), tmp_path, workers=1)
    assert (judged.manifest["reused"], judged.manifest["evaluated"]) == (0, 4)
    assert set(judged.table["verdict"].dropna()) <= {"yes", "no", "alike", "undecided"}
    assert judged.table["digest"].tolist() == first.table["digest"].tolist()
    for wish in ({}, {"verdicts": True}):
        assert run_sweep(source(**wish), tmp_path, workers=1).manifest["reused"] == 4
    assert "verdict" not in run_sweep(source(), tmp_path, workers=1).table


def test_where_dense_cannot_run_there_is_no_verdict_and_no_error():
    changed = source(verdicts=True, vary={"sparsifier": [METHODS[1]]})
    changed["base"]["scheduler"] = {"kind": "lags"}
    rows = sweep(changed, workers=1)
    with pytest.raises(InputError):
        run(load("quickstart", ("scheduler=lags", "sparsifier=dense")))
    assert rows["error"].isna().all() and "verdict" not in rows


@pytest.mark.parametrize(
    ("wish", "text"),
    [
        ({"intervals": "exact"}, "one of 'full', 'first_order' or 'none'"),
        ({"verdicts": "maybe"}, "true or false"),
        ({"intervals": "none", "verdicts": True}, "where there are verdicts"),
    ],
)
def test_a_wish_that_cannot_be_met_is_refused_by_name(wish, text):
    with pytest.raises(InputError, match=text) as caught:
        table(**wish)
    assert next(iter(wish)) in str(caught.value)


def test_verdicts_count_what_is_lost_where_machines_come_and_go():
    """A machine fails in 20 s or 1 s, and the time of a step that is lost with each failure grows with the method's."""
    vary = {"sparsifier": METHODS, "cluster.membership": [{"mean_time_between_failures": time} for time in (20, 1e-3)]}
    base = load("quickstart", {"ignore_memory": True}).resolved()
    rows = sweep({"base": base, "vary": vary, "verdicts": True}, workers=1).to_dict("records")
    dense, never, topk, lost = rows
    ratio = dense["elastic.iteration_time_s"] / topk["elastic.iteration_time_s"]
    assert topk["speed_up"] == pytest.approx(ratio) != dense["iteration_time_s"] / topk["iteration_time_s"]
    assert not never["elastic.finishes"] and not lost["elastic.finishes"] and lost["verdict"] is None
