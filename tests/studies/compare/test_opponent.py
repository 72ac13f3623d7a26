"""The opponent: the fastest dense run that the framework offers, and what the comparison with it says."""

import json

import pytest
from in_json import in_json
from long_examples import few_first
from validation_rows import row_of, write_row

from simulator.component import build
from simulator.errors import InputError
from simulator.hardware.runtime import FRAMEWORKS
from simulator.prediction.run import run
from simulator.reporting.wording.runs import run_blocks
from simulator.scenario.reading import load, load_versus
from simulator.schedulers.base import Scheduler
from simulator.sparsifiers.base import Sparsifier
from simulator.sparsifiers.dense import Dense
from simulator.studies.advice.advice import advise
from simulator.studies.advice.candidates import Candidate, Grid, candidates
from simulator.studies.compare.opponent import (
    add_comparison,
    best_dense,
    choose_opponent,
    compare_with_good,
    run_with_comparison,
)
from simulator.topologies.base import Topology
from simulator.units import show_time

ALEXNET = ("p102-1gbe-gtopk", "AlexNet, Top-k 0.1 %, 4 P102-100 on 1 GbE")
DDP = "cluster.runtime=runtimes/pytorch-ddp"
MPI = ("cluster.network=networks/10gbe-mpi-host", "cluster.gpus_per_node=1", "topology=ring")
GOOD = "sparsifier.implementation=good"
TRUTHS = (True, False)
SETS = [(), (DDP,), (DDP, "scheduler=bucketed"), ("scheduler=priority",), MPI, ("cluster.runtime=runtimes/ideal",)]


def unaware(*row):
    """A validation row that does not know what was measured of it."""
    return row_of(*row).model_copy(update={"measured": None})


def seconds(scenario):
    return run(scenario).document["iteration_time_s"]


def dense(scenario, scheduler=None, topology=None):
    """The scenario without compression, with other parts."""
    update = {"sparsifier": build(Sparsifier, "dense")}
    update |= {"scheduler": build(Scheduler, dict(scheduler))} if scheduler else {}
    update |= {"topology": build(Topology, topology)} if topology else {}
    return scenario.model_copy(update=update)


def compared(name, *overrides):
    prediction = run(load(name, overrides))
    add_comparison(prediction, name, overrides)
    return prediction.document


@pytest.mark.parametrize("overrides", SETS)
def test_no_schedule_that_the_framework_offers_is_faster_and_nor_is_the_scenario_s_own(overrides):
    scenario = load("quickstart", overrides)
    offered = [offer.scheduler for offer in FRAMEWORKS[scenario.cluster.runtime.framework].schedules]
    found = best_dense(scenario).scenario
    assert found.cluster == scenario.cluster and found.sparsifier.kind == "dense"
    assert seconds(found) <= min([seconds(dense(scenario, scheduler)) for scheduler in (None, *offered)])


def test_the_opponent_is_said_in_words():
    assert best_dense(load("quickstart")).words == (
        "dense as Horovod sends it (tensor fusion of 16 MiB, a cycle of 25 ms; nccl), "
        "the fastest of 7 combinations tried"
    )
    words = best_dense(load("quickstart", (DDP, "scheduler=bucketed"))).words
    assert words.startswith("dense as PyTorch DDP sends it (buckets of ")
    assert ", the fastest of 6 combinations" in words


def test_a_slow_ring_is_left_for_what_the_library_would_choose():
    assert best_dense(load("quickstart", (DDP, "topology=tree"))).scenario.topology.kind == "nccl"
    # What was measured over MPI says nothing about NCCL.
    assert best_dense(load("quickstart", (DDP, *MPI))).scenario.topology.kind == "ring"


def test_costs_that_hold_for_one_method_are_exchanged_for_those_of_dense():
    found = best_dense(unaware(*ALEXNET)).scenario
    measured = unaware(ALEXNET[0], "AlexNet, dense, 4 P102-100 on 1 GbE")
    assert found.cluster.runtime == measured.cluster.runtime and seconds(found) == seconds(measured)


def test_random_differences_are_in_the_comparison_and_not_in_the_search():
    found = best_dense(load("quickstart", ("cluster.stragglers.jitter=5 %",))).scenario
    assert found.cluster.stragglers.jitter == 0.05
    assert found.scheduler == best_dense(load("quickstart")).scenario.scheduler


def test_where_messages_share_links_two_schedules_are_tried():
    words = best_dense(load("quickstart", ("cluster.runtime=runtimes/byteps-0.2", "topology=parameter_server"))).words
    assert "the fastest of 2 combinations" in words
    assert "fastest" not in best_dense(load("ps_incast", ("scheduler.partition=4.096 MB",))).words


def test_what_versus_asks_for():
    quickstart = load("quickstart")
    expected = best_dense(quickstart)
    for versus in ("best_dense", None):
        found = choose_opponent(quickstart.model_copy(update={"versus": versus}))
        assert (found.words, found.scenario.digest) == (expected.words, expected.scenario.digest)
    assert choose_opponent(quickstart.model_copy(update={"versus": "none"})) is None
    assert choose_opponent(load("ring_check")) is None
    described = choose_opponent(load("straggler"), load_versus("straggler"))
    assert (described.words, described.scenario.cluster.stragglers.slow) == ("", ())


ORDER = "[{worker: 0, buckets: [0]}]"


def test_where_no_dense_run_can_be_made_only_an_explicit_wish_is_an_error(monkeypatch):
    for module in ("prediction.run", "studies.compare.opponent"):  # what was refused is not run once more
        monkeypatch.setattr(f"simulator.{module}.run", None)
    asked = load("quickstart", (*("scheduler=wfbp", f"collective_order={ORDER}"), "versus=best_dense"))
    with pytest.raises(InputError):
        choose_opponent(asked)
    assert choose_opponent(asked.model_copy(update={"versus": None})) is None


def test_the_newer_kernel_pays_against_tensors_sent_one_by_one_and_not_against_what_the_framework_does():
    """Where kernels are launched from C++, in 5 us."""
    newer = ("cluster.gpu=gpus/rtx2080ti-pytorch2", "cluster.runtime.kernel_launch=5 us")
    unfused = compared("quickstart", *newer, "versus={sparsifier: dense}")["comparison"]
    assert unfused["speed_up"] > 1 and unfused["verdict"] in ("yes", "undecided")
    comparison = compared("quickstart", *newer)["comparison"]
    assert comparison["verdict"] != "yes" and comparison["speed_up"] < 1
    assert comparison["answer"].endswith(f"The opponent is {comparison['opponent']}.")
    # Nor against Horovod as it comes.
    fused = {"kind": "bucketed", "rule": "horovod"}
    assert seconds(dense(load("quickstart", newer), fused)) < seconds(load("quickstart", newer))


def test_a_good_implementation_saves_what_a_run_with_it_takes_less():
    """Of one worker, of dense, and of the good implementation itself there is nothing to save."""
    prediction = run(load("quickstart"))
    saved = compare_with_good(prediction)
    good = seconds(load("quickstart", (GOOD,)))
    assert (saved.name, saved.good_iteration_time) == ("released", pytest.approx(good))
    assert saved.saving == pytest.approx(prediction.spread.time - good) and saved.saving > 0
    assert saved.saving_share == pytest.approx(1 - good / prediction.spread.time)
    for changes in (("cluster.nodes=1", "cluster.gpus_per_node=1"), ("sparsifier=dense",), (GOOD,)):
        assert compare_with_good(run(load("quickstart", changes))) is None


def test_the_question_follows_overrides():
    assert compared("quickstart")["question"] == load("quickstart").question
    document = compared("quickstart", "cluster.nodes=16", "sparsifier.density=0.01")
    assert document["question"] == "Does topk 0.01 pay for resnet50 on 64 GPUs over 9.394 Gbit/s?"
    slow = compared("straggler", "cluster.stragglers.slow=[{worker: 3, factor: 1.1}]")
    assert slow["question"] == (
        "How long does an iteration of resnet50 on 16 GPUs over 9.394 Gbit/s take with stragglers, "
        "compared with no stragglers?"
    )
    same = compared("straggler", "cluster.stragglers={}")
    assert same["question"] == "How long does an iteration of resnet50 on 16 GPUs over 9.394 Gbit/s take?"


@pytest.mark.parametrize(
    ("name", "overrides", "here", "there"),
    [
        ("oversubscription", (), "oversubscription 4", "oversubscription 1"),
        ("partitioned_topk", (), "the schedule wfbp 8 MB", "the schedule wfbp"),
        ("mixed_gpus", (), "2 nodes of Tesla V100", "GeForce RTX 2080 Ti on all nodes"),
        ("quickstart", ("versus={sparsifier.implementation: good}",), "implementation released", "implementation good"),
        ("quickstart", ("versus={cluster.network.bandwidth: 1 GB/s}",), "bandwidth 9.394 Gbit/s", "bandwidth 8 Gbit/s"),
        ("straggler", ("cluster.stragglers={}",), "this set-up", "the same"),
    ],
)
def test_what_is_not_about_methods_costs_or_saves(name, overrides, here, there):
    comparison = compared(name, *overrides)["comparison"]
    assert comparison["kind"] == "costs"
    start, _, end = comparison["answer"].partition(" An iteration takes ")
    assert start.startswith(("It costs ", "It saves ", "It makes no difference", "Not decided whether it costs time: "))
    assert f" with {here}" in end and f" with {there}" in end


def test_advice_knows_what_the_framework_offers():
    scenario = load("quickstart")
    schedulers = [build(Scheduler, dict(item)) for item in candidates(scenario, 0.001).schedulers if item]
    assert best_dense(scenario).scenario.scheduler in schedulers
    assert len({item.fingerprint for item in schedulers}) == len(schedulers)


@pytest.mark.parametrize("row", few_first([None, ALEXNET]), ids=["quickstart", "a measured row"])
def test_the_best_dense_run_of_advice_is_never_slower_than_the_opponent(tmp_path, row):
    name = write_row(tmp_path / "row.yaml", *row) if row else "quickstart"
    scenario = load(name)
    whole = candidates(scenario, 0.001)
    dense_only = next(item for item in whole.methods if (item.sparsifier or {}).get("kind") == "dense")
    row = in_json(advise)(scenario, grid=Grid((Candidate(), dense_only), whole.schedulers, (None,)))["dense"]
    assert row["iteration_time_s"] <= seconds(best_dense(scenario).scenario) * (1 + 1e-12)
    overrides = [f"{key}={json.dumps(value)}" for key, value in row["overrides"].items()]
    assert seconds(load(name, tuple(overrides))) == pytest.approx(row["iteration_time_s"], rel=1e-12)


def with_embedding(rows, *overrides):
    """Top-k on a table of 4,000,000 rows of 16 elements, of which a batch looks up some, over 8 GPUs at 10 Gbit/s."""
    layers = [
        {
            "name": "table",
            "numel": 64_000_000,
            "rows": {"count": rows, "width": 16},
            "forward": "1 ms",
            "backward": "2 ms",
        },
        {"name": "top", "numel": 1000, "forward": "1 ms", "backward": "2 ms"},
    ]
    workload = {"batch_size": 8, "layers": layers}
    changes = ("cluster.nodes=8", "cluster.gpus_per_node=1", f"workload={json.dumps(workload)}", *overrides)
    return load("quickstart", changes)


@pytest.mark.parametrize(("rows", "gathered"), [(1000, True), (3_000_000, False)])
def test_rows_of_embeddings_are_gathered_by_frameworks_that_do_where_that_is_less(rows, gathered):
    """A worker gathers 7 x 72 bytes for each row, and sums 2 x 7 / 8 x 256 MB."""
    scenario = with_embedding(rows)
    found = best_dense(scenario)
    assert found.scenario.sparsifier.indexed_slices is gathered and ("embeddings as rows" in found.words) is gathered
    ways = [
        seconds(dense(found.scenario).model_copy(update={"sparsifier": Dense(indexed_slices=each)})) for each in TRUTHS
    ]
    assert seconds(found.scenario) == min(ways) and (ways[0] < ways[1]) is gathered
    assert best_dense(with_embedding(rows, DDP)).scenario.sparsifier == Dense()


@pytest.mark.long
def test_advice_takes_the_dense_run_that_the_opponent_is():
    best = next(row for row in advise(with_embedding(1000), processes=1).ranking if row.method == "dense")
    assert best.overrides["sparsifier"] == {"kind": "dense", "indexed_slices": True}


FAILING = ("cluster.membership.mean_time_between_failures=10 min", "scheduler.inner_steps=1000")


def test_more_local_steps_that_lose_more_than_they_save_cost_time():
    made = run_with_comparison("elastic", (*FAILING, "versus={scheduler.inner_steps: 100}")).result
    found, other = made.comparison, run(load("elastic", FAILING[:1])).result
    assert made.iteration_time < found.opponent_time and found.word == "no"
    assert found.speed_up == pytest.approx(other.elastic.iteration_time / made.elastic.iteration_time)
    low, high = found.speed_up_interval
    assert low < found.speed_up < high < 1
    lost = (show_time(each.elastic.iteration_time) for each in (made, other))
    said = "With what is lost where machines come and go, an iteration takes {} with inner steps 1000 and {} with "
    assert found.short.startswith("It costs ") and found.short.endswith(f"{said.format(*lost)}inner steps 100.")


@pytest.mark.parametrize(
    ("name", "change", "word", "side"),
    [
        ("starved", "cluster.membership.heartbeat: null", "no", "heartbeat"),
        ("elastic", "cluster.membership.mean_time_between_failures: 1 s", "yes", "mean time between failures 1 s"),
    ],
)
def test_what_never_ends_is_said_before_all_else(name, change, word, side):
    made = run_with_comparison(name, (f"versus={{{change}}}",)).result
    assert (made.comparison.word, made.comparison.speed_up, made.comparison.probability) == (word, None, None)
    assert made.comparison.short.startswith(f"The training with {side} never ends: ")
    first = next(block for block in run_blocks(made) if isinstance(block, str))
    assert first == made.comparison.short


def test_where_neither_training_ends_there_is_no_verdict():
    found = run_with_comparison("starved", ("versus={scheduler.inner_steps: 50}",)).result.comparison
    assert found.word is None and found.short.count("never ends") == 2
