"""What is recommended: compress, stay dense or not decided, and what the first line must say."""

import math

import pytest
from in_json import in_json
from long_examples import few_first
from small_advice import CARD, DENSE, IDEAL, LAYERS, TOPK, scenario

from simulator.prediction.doubts.doubt import Doubt, Measurement
from simulator.prediction.doubts.spread import Response, Spread
from simulator.progress import Watch
from simulator.records import replace
from simulator.reporting.answers.advised import Availability, RankedRow
from simulator.scenario.changes import with_value
from simulator.scenario.reading import load
from simulator.studies.advice import ranking as of_ranking
from simulator.studies.advice.advice import advise
from simulator.studies.advice.candidates import Candidate, Grid, dense_candidate
from simulator.studies.advice.ranking import Ranking, find_unmeasured, ranking
from simulator.studies.advice.recommendation import recommend_at_hand, recommendation
from simulator.studies.advice.search import Combination, search
from simulator.studies.advice.summary import describe, describe_opponent, describe_unmeasured
from simulator.studies.compare.opponent import best_dense

advise = in_json(advise)

BOTH = Grid((Candidate(), DENSE), (None, {"kind": "bucketed"}), (None,))


def response(name, half, level="assumed", what="kernel topk, estimated"):
    measurement = Measurement(name, "sparsim record kernels --kernels", 1.0, name)
    item = Doubt(what, name, level, math.exp(abs(half)), more=abs(half), measurement=measurement)
    return Response(item.key, (item,), -half, half)


def ranked(method, time, *responses, status="offered", **fields):
    row = RankedRow(
        overrides={} if fields.pop("own", False) else {"sparsifier": method},
        method=method,
        sparsifier=method,
        density=None,
        schedule="wfbp",
        topology="ring",
        iteration_time=time,
        interval=(time, time),
        throughput=None,
        breakdown=fields.pop("terms", {}),
        sent_per_worker=0.0,
        iterations_to_target=None,
        iterations_to_target_interval=None,
        time_to_target=fields.pop("target", None),
        availability=Availability(status, "Here"),
    )
    return Combination(Candidate(), row, Spread(time, responses), None, 1.0, heavy=False, live=False)


def recommend(*items):
    """A recommendation among methods against dense, which takes 1 s; the rows say what they rest on."""
    dense = ranked("dense", 1.0)
    ordered = sorted((*items, dense), key=lambda item: item.row.iteration_time)
    for item in items:
        item.row = replace(item.row, rests_on=find_unmeasured(item.over(dense, "iteration_time")))
    ranks = Ranking(tuple(ordered), "iteration_time")
    return describe(ranks, recommendation(ranks))


def test_what_pays_in_19_of_20_cases_is_recommended():
    made = recommend(ranked("topk", 0.7, response("topk", 0.1, "measured")))
    assert made.answer == (
        "Compress with topk (wfbp, ring) (Here). It is 1.43 times faster (90 % interval 1.29 to 1.58) than dense "
        "(wfbp, ring) and pays with probability over 0.99: 700 ms per iteration instead of 1 s per iteration."
    )
    assert made.details == [
        "It pays as long as training needs fewer than 1.43 times the iterations.",
        "Expected times: 700 ms per iteration with topk (wfbp, ring), 1 s per iteration with dense (wfbp, ring).",
    ]
    assert made.recommended == {"sparsifier": "topk"} and made.verdict == "yes"


def test_what_never_pays_is_not():
    made = recommend(ranked("topk", 1.5, response("topk", 0.2)), ranked("qsgd", 2.0))
    assert made.answer == (
        "Stay dense, wfbp over ring (Here). The best method, topk, is 1.50 times slower (90 % interval 1.23 to 1.83) "
        "than dense (wfbp, ring); it pays with probability under 0.01."
    )
    assert made.details == [
        "Expected times: 1 s per iteration with dense (wfbp, ring), 1.5 s per iteration with topk (wfbp, ring)."
    ]
    assert made.recommended == {"sparsifier": "dense"} and made.verdict == "no"


def test_a_gain_of_less_than_two_per_cent_is_none():
    same = recommend(ranked("topk", 0.995, response("topk", 0.003)))
    assert same.verdict == "alike" and same.answer.startswith("Stay dense")
    assert "The best method, topk, is 1.01 times faster (90 % interval 1.00 to 1.01) than dense" in same.answer
    at_most = recommend(ranked("topk", 1.02, response("topk", 0.03)))
    assert 1 < math.exp(math.log(1 / 1.02) + 0.03) < 1.02
    assert at_most.verdict == "no"


@pytest.mark.parametrize(("time", "choice"), [(0.9, "topk"), (1.1, "dense")])
def test_what_is_not_decided_says_what_to_do_until_it_is_measured(time, choice):
    made = recommend(ranked("topk", time, response("topk", 0.4)))
    low, high = (math.exp(-math.log(time) + half) for half in (-0.4, 0.4))
    word = "compress with topk (wfbp, ring)" if choice == "topk" else "stay dense, wfbp over ring"
    assert made.answer.startswith(f"Not decided; for now {word} (Here).")
    subject = "It" if choice == "topk" else "The best method, topk,"
    assert f"{subject} is {low:.2f} to {high:.2f} times as fast as dense (wfbp, ring)" in made.answer
    assert f"pays with probability {made.probability:.2f}" in made.answer
    assert f"This rests on kernels that were not measured: topk (at the worst {low:.2f} times as fast" in made.answer
    assert made.recommended == {"sparsifier": choice}
    assert f"up to {1 / low:.2f} times as long as dense, and dense up to {high:.2f} times" in made.details[0]
    best = made.value_of_information[0]
    assert made.details[1] == (
        "Measure topk on your machines (`sparsim record kernels --kernels topk`, about 1 minute), and it is decided "
        f"with probability {best.decided:.2f}."
    )
    assert made.verdict == "undecided" and 0.05 < made.probability < 0.95


def test_what_is_expected_to_be_slower_is_not_used_though_it_may_lose_less():
    item = Doubt("link law", "rate", "assumed", 1.5, more=0.3)
    made = recommend(ranked("topk", 1.01, Response(item.key, (item,), -0.3, 0.02)))
    assert made.answer.startswith("Not decided; for now stay dense, wfbp over ring (Here).")
    assert made.details[0].startswith("Staying dense is expected to be faster: topk may take up to")


@pytest.mark.parametrize(("time", "choice"), [(0.995, "dense"), (0.985, "topk")])
def test_until_it_is_measured_a_hundredth_is_not_worth_compressing_for(time, choice):
    made = recommend(ranked("topk", time, response("topk", 0.1)))
    assert (made.verdict, made.recommended) == ("undecided", {"sparsifier": choice})
    says = (
        "Staying dense is expected to be slower by no more than 1 %" if choice == "dense" else "Compressing risks less"
    )
    assert made.details[0].startswith(f"{says}: topk may take up to")


def test_a_doubt_that_nothing_measures_is_said_to_be_one():
    item = Doubt("model", "communication of topk", "transferred", 1.5, more=0.4)
    made = recommend(ranked("topk", 0.9, Response(item.key, (item,), -0.4, 0.4)))
    assert made.details[1] == "No measurement that sparsim has a command for would decide it."
    assert "rests on" not in made.answer


def test_of_methods_that_cannot_be_told_apart_the_one_with_the_smaller_risk_is_taken():
    bold, safe = ranked("topk", 0.60, response("topk", 0.4)), ranked("qsgd", 0.62, response("qsgd", 0.05))
    made = recommend(bold, safe)
    assert made.recommended == {"sparsifier": "qsgd"}
    assert "qsgd cannot be told apart from topk; its risk is smaller." in made.details
    slow = ranked("qsgd", 0.95, response("qsgd", 0.01))
    assert recommend(bold, slow).recommended == {"sparsifier": "topk"}  # surely slower than topk


@pytest.mark.parametrize(("time", "kept"), [(0.603, True), (0.61, False)])
def test_a_method_in_use_is_kept_where_another_gains_less_than_a_hundredth(time, kept):
    mine, fast = ranked("qsgd", time, response("qsgd", 0.05), own=True), ranked("topk", 0.6, response("topk", 0.05))
    ranks = Ranking((fast, mine, ranked("dense", 1.0)), "iteration_time")
    made = describe(ranks, recommend_at_hand(ranks, recommendation(ranks)))
    said = "Keep yours, qsgd (wfbp, ring) (Here): nothing at hand is expected to be faster by more than 1 %."
    assert made.answer.startswith(said if kept else "Not decided whether yours is slower; for now compress with topk")
    assert made.recommended == ({} if kept else {"sparsifier": "topk"})
    assert ("qsgd cannot be told apart from topk; it is yours." in made.details) == kept


@pytest.mark.parametrize(("time", "exposed"), [(0.5, 1.0), (0.995, 1.0), (0.999, 0.001), (1.0, 1.0), (1.5, 1.0)])
def test_nothing_is_recommended_that_is_slower_than_the_scenario(time, exposed):
    """Its method is research code; what is offered is dense, and a topk that is slower. It is kept where it surely
    pays, where dense would be recommended, and where compute hides nearly all communication of dense."""
    mine, slow = ranked("mine", time, response("mine", 0.001), status="research", own=True), ranked("topk", 1.2)
    terms = {"communication_exposed": exposed}
    ordered = sorted((mine, ranked("dense", 1.0, terms=terms), slow), key=lambda item: item.time)
    ranks = Ranking(tuple(ordered), "iteration_time")
    made = recommend_at_hand(ranks, recommendation(ranks))
    kept = ("mine", "mine") if time < 1 else ("dense", "topk")
    assert (made.chosen.row.method, made.rival.ranked.row.method) == kept and made.compresses == (time < 1)
    assert (made.without is not None) == (0.5 < time < 1)


def test_times_to_a_target_that_are_not_known_are_no_reason_to_change():
    """Two of three methods have one; the scenario's own has none, and is no faster than anything for that."""
    dense, topk = ranked("dense", 1.0, target=100.0), ranked("topk", 0.5, target=200.0)
    ranks = Ranking((dense, topk, ranked("mine", 0.1, own=True)), "time_to_target")
    assert ranks.yours is None and [item.row.method for item in ranks.others] == ["topk"]
    made = recommend_at_hand(ranks, recommendation(ranks))
    assert made.chosen is dense and made.rival.ratio.value == pytest.approx(0.5)


def test_every_method_reads_all_gradients_of_its_share_at_least_once():
    """2,704,020 of them in 4 bytes or 2, of a model that four GPUs share a quarter, at 500 GB/s."""
    half, unknown = {"batch_size": 1, "layers": LAYERS, "precision": "bf16"}, {"name": "x", "kernels": CARD["kernels"]}
    parts = {}, {"workload": half}, {"scheduler": "fsdp"}, {"gpu": IDEAL}, {"gpu": unknown}
    found = [of_ranking._seconds_to_read(scenario(**each)) for each in parts]
    assert found == pytest.approx([2_704_020 * nbytes / 5e11 for nbytes in (4, 2, 1, 0, 0)])


def test_errors_that_methods_share_tell_them_apart():
    shared = response("rate", 0.3, what="link law")
    first, second = ranked("topk", 0.60, shared), ranked("qsgd", 0.66, shared)
    made = recommend(first, second)
    assert made.recommended == {"sparsifier": "topk"} and not any("told apart" in text for text in made.details)


def test_what_was_not_measured_is_listed_with_what_it_may_do():
    one = ranked("topk", 0.8, response("topk", 0.4), response("rate", 0.1, "transferred", "link law"))
    rows = find_unmeasured(one.over(ranked("dense", 1.0), "iteration_time"))
    assert [(row.input, row.turns) for row in rows] == [("topk", True), ("rate", False)]
    assert rows[0].speed_up_at_worst == pytest.approx(math.exp(-0.4) / 0.8)
    text = describe_unmeasured(rows)
    assert text == " This rests on kernels that were not measured: topk (at the worst 0.84 times as fast as dense)."
    measured = ranked("topk", 0.8, response("topk", 0.4, "measured"), response("small", 0.005))
    assert find_unmeasured(measured.over(ranked("dense", 1.0), "iteration_time")) == []
    assert describe_unmeasured([]) == ""
    both = [Doubt("link law", name, "assumed", width, more=0.2) for name, width in (("a", 1.5), ("b", 3.0))]
    two = ranked("topk", 0.8, Response(("link law", "a"), tuple(both), -0.2, 0.2))
    (row,) = find_unmeasured(two.over(ranked("dense", 1.0), "iteration_time"))
    assert (row.width, row.id, row.input) == (3.0, ["a", "b"], "link law of a and link law of b")


def test_dense_is_taken_at_its_best_even_where_its_first_schedule_is_slow():
    """The stages look at all its schedules, though many methods are faster on the scenario's own."""
    methods = tuple(Candidate({"kind": "randomk", "density": 0.01 + 0.001 * i}) for i in range(12))
    grid = Grid((*methods, DENSE), (None, {"kind": "sequential"}, {"kind": "bucketed"}), (None,))
    found = search(scenario(sparsifier="dense", latency=5e-3), Grid(grid.methods, grid.schedulers, (None,)), 0)
    assert len([item for item in found.outcomes if item.row.method == "dense"]) == 3


def test_dense_runs_under_the_runtime_that_is_named_for_it():
    spec = load("quickstart", ("cluster.runtime=runtimes/gtopksgd-mpi-topk",))
    dense = dense_candidate(spec)
    assert dense.overrides["cluster.runtime"] == "runtimes/gtopksgd-mpi-dense"
    assert dense.of(spec).cluster.runtime == best_dense(spec).scenario.cluster.runtime and dense != DENSE
    assert dense_candidate(scenario()) == DENSE


def without_kernels(name, *kernels):
    """The quickstart on a GPU some of whose kernels nobody timed; all of them if none is named."""
    made = load("quickstart", (f"cluster.gpu={name}",))
    left = {kernel: curve for kernel, curve in made.cluster.gpu.kernels.items() if kernels and kernel not in kernels}
    return with_value(made, "cluster.gpu.kernels", left)


@pytest.mark.parametrize("gigabits", few_first([2, 0.5, 4, 10]))
@pytest.mark.parametrize("gpu", few_first([("gpus/a100", "topk", "threshold_select"), ("gpus/v100",)]))
def test_on_a_gpu_without_a_curve_the_first_line_never_recommends_top_k_without_saying_so(gpu, gigabits):
    spec = with_value(without_kernels(*gpu), "cluster.network.bandwidth", gigabits * 1e9 / 8)
    document = advise(spec, grid=Grid((Candidate(), dense_candidate(spec)), (None, {"kind": "bucketed"}), (None,)))
    answer, summary = document["answer"], document["summary"]
    kept = document["recommended"] == {}  # Horovod has no Top-k: it is kept where it is faster than what Horovod has
    assert document["recommended"].get("sparsifier") == (None if kept else "dense")
    offered = [each["iteration_time_s"] for each in document["ranking"] if each["availability"]["status"] == "offered"]
    assert kept == (document["yours"]["iteration_time_s"] < min(offered)) == summary["do"].startswith("Keep yours, top")
    if kept:
        for text in (answer, summary["do"]):
            assert "topk" in text.partition(" that were not measured: ")[2].partition("(")[0]
    topk = next(row for row in document["ranking"] if row["method"] == "topk 0.001")
    assert all(each["level"] in ("transferred", "assumed") for each in topk["rests_on"])
    assert any("topk" in each["input"] for each in topk["rests_on"])
    if gigabits == 0.5:
        assert document["verdict"] == "yes"
    if document["verdict"] == "undecided":
        chances = [row["decided"] for row in document["value_of_information"]]
        assert chances[0] == max(chances) > 0
        asked = document["value_of_information"][0]["command"] in document["details"][1]
        assert asked == (chances[0] >= 0.2)
        assert asked or "try it" in document["details"][1]


def test_a_measured_kernel_is_nothing_to_mention():
    document = advise(scenario(bandwidth=1e6, gpu=IDEAL), grid=BOTH)
    assert document["verdict"] == "yes" and "rests on" not in document["answer"] + document["summary"]["gain"]
    assert document["ranking"][0]["rests_on"] == []


@pytest.mark.long
def test_the_opponent_is_at_least_as_fast_as_what_the_framework_offers():
    spec = load("quickstart", ("cluster.gpu=gpus/rtx2080ti-pytorch2",))
    found = search(spec, Grid((Candidate(), dense_candidate(spec)), (None, {"kind": "mg_wfbp"}), (None,)))
    text = describe_opponent(ranking(spec, found, None, Watch()), 2)
    assert text.startswith("The opponent is dense at its best, dense (mg_wfbp, nccl): the fastest of 2 dense")
    assert "With what Horovod offers, dense takes" in text
    document = advise(spec, grid=Grid((Candidate(), dense_candidate(spec)), (None, {"kind": "bucketed"}), (None,)))
    assert document["verdict"] != "yes"  # a yes against one all-reduce per tensor
    assert document["opponent"].startswith("The opponent is dense at its best, dense (bucketed, nccl)")
    alone = search(spec, Grid((Candidate(),), (None,), (None,)))
    assert describe_opponent(ranking(spec, alone, None, Watch()), 0) == ""


def test_rows_of_methods_whose_messages_meet_are_compared_to_first_order():
    spec = scenario(layers=LAYERS[:2], topology={"kind": "parameter_server", "servers": 0}, gpu=CARD)
    document = advise(spec, grid=Grid((Candidate(), DENSE, TOPK), (None,), (None,)))
    assert all(row["speed_up_over_dense_interval"] is not None for row in document["ranking"])
