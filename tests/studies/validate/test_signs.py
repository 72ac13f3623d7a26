"""Signs: which rows are pairs, what is measured and predicted of them, and what counts."""

import pytest
from command_line import answered, printed

from simulator.files import as_yaml
from simulator.prediction.doubts.doubt import Doubt
from simulator.prediction.doubts.spread import Response, Spread
from simulator.records import replace
from simulator.scenario.reading import load
from simulator.studies.validate.scoreboard import Whole, signs, sum_up_signs

TOPK = "sparsifier={kind: topk, density: 0.01}"


def pair(name, measured, predicted, *keys, **more):
    """A row with its scenario and an exact prediction."""
    row = {"group": "a", "scenario": name, "quantity": "iteration_time", "used_in_fit": False}
    row |= {"measured": measured, "predicted": predicted} | more
    return Whole(row, load("ring_check", keys), Spread(predicted, ()))


def test_a_compressed_row_is_compared_with_the_dense_row_that_was_measured_to_be_fastest():
    slow, fast = pair("slow", 4.0, 1.0), pair("fast", 3.0, 2.0, "topology=tree", "scheduler=wfbp")
    (made,) = signs([slow, pair("top-k", 1.5, 4.0, TOPK), fast])
    assert (made.scenario, made.against) == ("top-k", "fast")
    assert (made.measured_speed_up, made.predicted_speed_up) == (2.0, 0.5)
    assert (made.measured_pays, made.predicted_pays) == (True, False)


@pytest.mark.parametrize(
    "key",
    [
        "cluster.nodes=4",
        "cluster.gpus_per_node=2",
        "workload.batch_size=2",
        "workload.name=other",
        "cluster.gpu.name=other",
        "cluster.network.bandwidth=1 Gbit/s",
    ],
)
def test_rows_of_other_set_ups_are_no_opponents(key):
    assert not signs([pair("dense", 1.0, 1.0, key), pair("top-k", 1.0, 1.0, TOPK)])


@pytest.mark.parametrize(
    "key",
    ["cluster.runtime=runtimes/horovod-0.19", "cluster.network.latency=1 ms", "workload.layers.0.forward=1 s",
     "topology=tree"],
)  # fmt: skip
def test_what_belongs_to_the_method_may_differ(key):
    assert len(signs([pair("dense", 1.0, 1.0), pair("top-k", 1.0, 1.0, TOPK, key)])) == 1


def test_other_folders_and_phases_are_no_pairs():
    assert not signs([pair("dense", 1.0, 1.0, group="b"), pair("top-k", 1.0, 1.0, TOPK)])
    assert not signs([pair("dense", 1.0, 1.0), pair("top-k", 1.0, 1.0, TOPK, quantity="forward")])
    assert len(signs([pair("dense", 1.0, 1.0), pair("top-k", 1.0, 1.0, TOPK, quantity="throughput")])) == 1


def test_only_unseen_pairs_that_differ_by_more_than_one_percent_count():
    dense = pair("dense", 1.0, 1.0)
    made = signs(
        [
            dense,
            pair("right", 0.5, 0.8, TOPK),
            pair("wrong", 2.0, 0.8, TOPK),
            pair("close", 1 / 1.009, 0.8, TOPK),
            pair("just not close", 1 / 1.011, 0.8, TOPK),
            pair("fitted", 0.5, 0.8, TOPK, used_in_fit=True),
        ]
    )
    assert {item.scenario: item.measured_pays for item in made} == {
        "right": True, "wrong": False, "close": None, "just not close": True, "fitted": True,
    }  # fmt: skip
    summary = {"pairs": 5, "used_in_fit": 1, "neither": 1, "n": 3, "right": 2, "share": 2 / 3}
    # Exact predictions are always decided, rightly or not.
    summary |= {"decided": 3, "decided_share": 1.0, "decided_right": 2, "decided_right_share": 2 / 3}
    summary |= {"coverage_90": 0.0}  # no measured speed-up is exactly 1.25
    sure = {"low": 0.95, "high": 1.01, "n": 3, "stated": 1.0, "observed": pytest.approx(2 / 3)}
    assert sum_up_signs(made).to_dict() == {"groups": {"a": summary}, "overall": summary, "probabilities": [sure]}


def test_a_pair_that_is_too_close_to_call_has_no_verdict():
    def uncertain(item, half):
        width = Doubt("compute time", item.row["scenario"], "measured", 1.2)
        return item._replace(spread=Spread(item.row["predicted"], (Response(width.key, (width,), -half, half),)))

    dense, compressed = pair("dense", 1.0, 1.0), pair("top-k", 0.8, 0.8, TOPK)
    sure, open_ = (signs([dense, uncertain(compressed, half)])[0] for half in (0.1, 1.0))
    assert (sure.verdict, open_.verdict) == ("yes", "undecided")
    assert 0.5 < open_.probability < 0.95 < sure.probability
    counted = sum_up_signs([sure, open_]).overall
    assert (counted.n, counted.decided, counted.decided_right) == (2, 1, 1) and counted.coverage_90 == 1.0
    below, above = sum_up_signs([sure, open_]).probabilities
    assert (below.n, below.stated, below.observed) == (1, open_.probability, 1.0)
    assert (above.n, above.stated, above.observed) == (1, sure.probability, 1.0)


def test_a_probability_that_is_a_bound_is_in_the_bin_above_it():
    (one,) = signs([pair("dense", 1.0, 1.0), pair("top-k", 0.5, 0.5, TOPK)])
    made = [replace(one, probability=each) for each in (0.0, 0.05, 0.5, 0.95, 1.0)]
    found = [(each.low, each.high, each.n) for each in sum_up_signs(made).probabilities]
    assert found == [(0.0, 0.05, 1), (0.05, 0.275, 1), (0.5, 0.725, 1), (0.95, 1.01, 2)]


def test_a_fitted_opponent_makes_a_fitted_pair():
    (made,) = signs([pair("dense", 1.0, 1.0, used_in_fit=True), pair("top-k", 0.5, 0.5, TOPK)])
    assert made.used_in_fit and sum_up_signs([made]).overall.share is None


def test_the_command_has_a_row_for_each_pair_and_sums(tmp_path):
    for name, seconds, keys in (("dense", 1.0, ()), ("top-k", 0.5, (TOPK,))):
        measured = {"iteration_time": f"{seconds} s", "source": "made here"}
        row = load("ring_check", keys).resolved() | {"name": name, "measured": measured}
        (tmp_path / f"{name}.yaml").write_text(as_yaml(row))
    document = answered("validate", tmp_path)
    (made,) = document["signs"]
    assert (made["against"], made["measured_speed_up"]) == ("dense", 2.0)
    assert document["signs_summary"]["overall"]["n"] == 1
    assert "Whether compression pays, by set-up" in printed("validate", tmp_path)
