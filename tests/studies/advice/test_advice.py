"""Advice: the winner of the search, break-evens in closed form, published signs, and what the command prints."""

import io
import json
import math
import shlex
import time
from dataclasses import replace

import pytest
from click.testing import CliRunner
from places import ROOT
from rich.console import Console
from scipy.optimize import brentq

from simulator.cli import main
from simulator.component import discover
from simulator.errors import InputError
from simulator.models.curves import Affine
from simulator.prediction.run import run
from simulator.reporting.terminal.answers import print_advice
from simulator.scenario.reading import load
from simulator.scenario.scenario import Scenario
from simulator.schedulers.base import Scheduler
from simulator.sparsifiers.base import Sparsifier
from simulator.studies.advice.advice import advise, read_iterations
from simulator.studies.advice.break_even import Race, bandwidth_axis, nodes_axis
from simulator.studies.advice.candidates import Candidate, Grid, candidates
from simulator.studies.advice.crossings import crossings
from simulator.studies.advice.search import search
from simulator.studies.explain.variation import put
from simulator.studies.validate.runtime_fit import fit_runtime
from simulator.studies.validate.validation import validate
from simulator.topologies.base import Topology

GRACE = ROOT / "scenarios" / "validation" / "8xv100-grace"
CARD = {
    "name": "card",
    "memory_bandwidth": 5e11,
    "kernels": {
        "elementwise": {"curve": "affine", "intercept": 1e-5, "slope": 2e-11},
        "topk": {"curve": "affine", "intercept": 2e-5, "slope": 1e-9, "spread": 0.05},
    },
}
IDEAL = {"name": "ideal", "ideal": True}
LAYERS = [
    {"name": f"tensor {i}", "numel": numel, "forward": 1e-3, "backward": 2e-3}
    for i, numel in enumerate((1000, 400_000, 20, 1_500_000, 3000, 800_000))
]


def scenario(bandwidth=1.25e8, latency=5e-5, gpu=CARD, layers=LAYERS, cluster=None, **parts):
    """A small cluster whose network can be felt."""
    switch = {"kind": "single_switch", "bandwidth": bandwidth, "latency": latency}
    made = {
        "workload": {"batch_size": 1, "layers": layers},
        "cluster": {"nodes": 4, "gpu": gpu, "network": switch, **(cluster or {})},
        "topology": "ring",
        "sparsifier": {"kind": "topk", "density": 0.01},
        "scheduler": "wfbp",
        "iterations": 4,
        **parts,
    }
    return Scenario.model_validate(made)


SMALL = Grid(
    methods=tuple(
        Candidate(method)
        for method in (
            None,
            {"kind": "dense"},
            {"kind": "randomk", "density": 0.01},
            {"kind": "threshold", "density": 0.01},
            {"kind": "gtopk", "density": 0.01},
            {"kind": "powersgd"},
            {"kind": "qsgd"},
        )
    ),
    schedulers=(None, {"kind": "sequential"}, {"kind": "bucketed", "bucket_size": "1 MiB"}),
    topologies=(None, {"kind": "tree"}, {"kind": "double_binary_tree"}),
)
WORLDS = {
    "slow wires": {"bandwidth": 1e7},
    "as it is": {},
    "fast wires": {"bandwidth": 1.25e10, "latency": 1e-6},
    "long start-up": {"latency": 5e-3},
    "free kernels": {"gpu": IDEAL},
    "start-up alone": {"gpu": IDEAL, "latency": 2e-3, "bandwidth": 1e12},
    "eight nodes of two": {"cluster": {"nodes": 8, "gpus_per_node": 2}},
    "software": {"cluster": {"runtime": {"negotiation": 2e-3, "kernel_launch": 1e-5}}},
    "dense to start with": {"sparsifier": "dense", "scheduler": "sequential", "bandwidth": 3e7},
    "slow worker": {"cluster": {"stragglers": {"slow": [{"worker": 1, "factor": 1.4}], "jitter": 0.1}}},
}
FEW = ("as it is", "long start-up")


@pytest.mark.parametrize("world", [pytest.param(w, marks=() if w in FEW else pytest.mark.long) for w in WORLDS])
def test_the_staged_winner_is_that_of_all_combinations(world):
    spec = scenario(**WORLDS[world])
    every = search(spec, SMALL, exhaustive=SMALL.points)
    staged = search(spec, SMALL, exhaustive=0)
    assert every.unseen == 0
    assert len(every.outcomes) + sum(every.refused.values()) == SMALL.points
    assert staged.best.time == pytest.approx(every.best.time, rel=1e-9)
    assert staged.unseen > 0


def test_what_refuses_to_work_together_is_counted_with_its_reason():
    found = search(scenario(), replace(SMALL, schedulers=(None,)), exhaustive=SMALL.points)
    assert found.refused
    assert any("double_binary_tree" in reason and "all-gather" in reason for reason in found.refused)


def test_candidates_keep_to_the_software_that_is_there():
    spec = scenario()
    grid = candidates(spec, 0.01)
    assert all(item is None or item["kind"] != "parameter_server" for item in grid.topologies)
    assert any("parameter_server" in line for line in grid.left_out)
    servers = candidates(scenario(topology={"kind": "parameter_server", "servers": 0}), 0.01)
    assert {item["kind"] for item in servers.topologies if item} == {"parameter_server"}
    kinds = {item.sparsifier["kind"] for item in grid.methods if item.sparsifier}
    assert {"dense", "randomk", "qsgd", "powersgd", "oktopk"} <= kinds
    assert "topk" not in kinds  # the scenario's own, as it stands
    assert grid.methods[0] == Candidate()


def test_overrides_make_the_candidate_again():
    spec = scenario()
    for candidate in (
        Candidate(),
        Candidate(density=0.1, topology={"kind": "tree"}),
        Candidate({"kind": "dgc", "density": 0.05}, {"kind": "bucketed", "bucket_size": "4 MiB"}),
    ):
        data = spec.resolved()
        for key, value in candidate.overrides.items():
            place = data
            for part in key.split(".")[:-1]:
                place = place[part]
            place[key.split(".")[-1]] = value
        again = Scenario.model_validate(data, context={"units_required": True})
        assert again.digest == candidate.of(spec).digest


def lone(numel=10_000_000, cost=0.0, **cluster):
    """One tensor on an ideal ring, Top-k 1 %; `cost` seconds of selection."""
    gpu = {"name": "g", "kernels": {"topk": {"curve": "affine", "intercept": cost}}} if cost else IDEAL
    only = [{"name": "only", "numel": numel, "backward": 0.01}]
    return scenario(latency=0.0, gpu=gpu, layers=only, cluster=cluster)


def test_workers_at_which_gathering_loses_are_those_whose_bytes_are_equal():
    """(p - 1) 8 k < 2 (p - 1) / p 4 d, so that p < d / k = 100."""
    spec = lone()
    dense = Candidate({"kind": "dense"}).of(spec)
    (win,) = Race(nodes_axis(spec), dense).wins(spec).wins
    assert win.start is None
    assert win.stop == 99
    low, high = win.stop_interval
    assert 90 <= low <= 99 <= high <= 110


def test_bandwidth_at_which_selection_eats_what_it_saves():
    """cost + (p - 1) 8 k / B = 2 (p - 1) / p 4 d / B."""
    numel, cost, p = 10_000_000, 0.02, 4
    spec = lone(numel, cost)
    dense = Candidate({"kind": "dense"}).of(spec)
    (win,) = Race(bandwidth_axis(spec), dense).wins(spec).wins
    saved = 2 * (p - 1) / p * 4 * numel - (p - 1) * 8 * 0.01 * numel
    assert win.start is None
    assert win.stop == pytest.approx(saved / cost, rel=1e-3)


def test_a_wider_interval_of_the_prediction_widens_the_break_even():
    spec = lone(cost=0.02)
    kernels = {"topk": Affine(intercept=0.02, held_out_mape=0.1)}
    unsure = put(spec, "cluster.gpu.kernels", kernels)
    dense = Candidate({"kind": "dense"}).of(spec)
    (win,) = Race(bandwidth_axis(unsure), dense).wins(unsure).wins
    low, high = win.stop_interval
    assert low < win.stop * 0.9
    assert high > win.stop * 1.1


def test_winning_everywhere_or_nowhere_has_no_border():
    spec = lone()
    dense = Candidate({"kind": "dense"}).of(spec)
    assert Race(bandwidth_axis(spec), dense).wins(spec).everywhere
    slow = lone(cost=100.0)
    assert Race(bandwidth_axis(slow), Candidate({"kind": "dense"}).of(slow)).wins(slow).wins == ()
    rows = advise(slow, grid=replace(SMALL, methods=SMALL.methods[:2], topologies=(None,)))["break_even"]
    topk = next(row for row in rows if row["method"] == "topk 0.01")
    assert topk["bandwidth_below_which_it_wins"] is None
    assert topk["bandwidth_words"].startswith("never wins")


@pytest.fixture(scope="module")
def small():
    return advise(scenario(bandwidth=1e7), grid=SMALL)


def test_the_ranking_is_sorted_and_as_predicted(small):
    times = [row["iteration_time_s"] for row in small["ranking"]]
    assert times == sorted(times)
    assert [row["rank"] for row in small["ranking"]] == list(range(1, len(times) + 1))
    spec = scenario(bandwidth=1e7)
    yours = next(row for row in small["ranking"] if not row["overrides"])
    assert yours["iteration_time_s"] == run(spec).document["iteration_time_s"]
    assert small["yours"] == yours
    assert {row["method"] for row in small["ranking"] if row["best_of_method"]} == {
        "topk 0.01", "dense", "randomk 0.01", "threshold 0.01", "gtopk 0.01", "powersgd", "qsgd",
    }  # fmt: skip
    for row in small["ranking"]:
        ratio = small["dense"]["iteration_time_s"] / row["iteration_time_s"]
        assert row["speed_up_over_dense"] == pytest.approx(ratio)


def test_slow_wires_ask_for_compression_and_fast_ones_do_not(small):
    assert small["answer"].startswith("Compress, with")
    assert "fewer than" in small["answer"]
    fast = advise(scenario(bandwidth=1.25e11, latency=1e-7), grid=replace(SMALL, topologies=(None,)))
    assert fast["answer"].startswith("Stay dense, with dense")
    assert fast["recommended"].get("sparsifier") == "dense"
    kinds = {reason["kind"] for reason in fast["reasons"]}
    assert "room" in kinds
    assert "selection" in kinds
    assert all(any(character.isdigit() for character in reason["text"]) for reason in fast["reasons"])


def test_other_densities_are_options_beside_the_ranking(small):
    assert {row["density"] for row in small["ranking"] if row["density"] is not None} == {0.01}
    assert {row["density"] for row in small["other_densities"]} == {0.1, 0.001}
    assert "not modelled" in small["notes"][0]
    assert "the scenario's own" in small["notes"][0]


@pytest.mark.long
def test_a_scenario_without_a_density_says_which_was_taken():
    document = advise(scenario(sparsifier="dense"), grid=replace(SMALL, topologies=(None,), schedulers=(None,)))
    assert document["density"] == 0.01
    assert "taken since the scenario has none" in document["notes"][0]
    assert document["yours"]["method"] == "dense"


def test_gathering_that_loses_is_told_why():
    spec = scenario(bandwidth=1e7, sparsifier="dense", gpu=IDEAL, cluster={"nodes": 16})
    methods = (Candidate(), Candidate({"kind": "qsgd"}), Candidate({"kind": "topk", "density": 0.2}))
    document = advise(spec, grid=Grid(methods, (None,), (None,)))
    reasons = {reason["kind"]: reason for reason in document["reasons"]}
    assert reasons["bytes"]["methods"] == ["qsgd"]
    assert reasons["build-up"]["methods"] == ["topk 0.2"]


@pytest.mark.long
def test_iterations_to_target_turn_time_into_time_to_target(small, tmp_path):
    kind = small["ranking"][0]["sparsifier"]
    many = advise(scenario(bandwidth=1e7), {kind: 1e6, "dense": 1000}, grid=replace(SMALL, topologies=(None,)))
    assert many["ranking"][0]["method"] == "dense"
    assert many["answer"].startswith("Stay dense")
    dense = many["ranking"][0]
    assert dense["time_to_target_s"] == pytest.approx(1000 * dense["iteration_time_s"])
    without = [row for row in many["ranking"] if row["time_to_target_s"] is None]
    assert without
    assert many["ranking"][-len(without) :] == without
    file = tmp_path / "mine.yaml"
    file.write_text("topk 0.01: 2000\ndense: 1500\n")
    assert read_iterations(str(file)) == {"topk 0.01": 2000.0, "dense": 1500.0}


def test_wrong_iterations_are_said_so(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("topk: many\n")
    with pytest.raises(
        InputError, match=r"mine\.yaml:1:1: topk: expected iterations above 0, at most 1e15, got 'many'"
    ):
        read_iterations(str(file))
    file.write_text("topkk: 5\n")
    with pytest.raises(InputError, match="did you mean 'topk'"):
        read_iterations(str(file))
    with pytest.raises(InputError, match="nothing there"):
        read_iterations(str(tmp_path / "none.yaml"))


def test_one_worker_has_nothing_to_compress():
    document = advise(scenario(cluster={"nodes": 1}))
    assert "One worker" in document["answer"]
    assert document["break_even"] == []
    assert document["ranking"][0]["rank"] == 1


def test_parameter_servers_are_advised_on_among_themselves():
    spec = scenario(topology={"kind": "parameter_server", "servers": 0}, layers=LAYERS[:2])
    grid = Grid(SMALL.methods[:3], (None, {"kind": "priority", "partition": "1 MB"}), (None,))
    document = advise(spec, grid=grid)
    assert {row["topology"] for row in document["ranking"]} == {"parameter_server sharded"}
    assert document["sensitivity"] is None
    lines = told(document)
    assert not [line for line in lines if line.startswith("What moves")]
    assert "Read with it" in lines


DENSE, TOPK = Candidate({"kind": "dense"}), Candidate({"kind": "topk", "density": 0.01})


def test_dense_alone_is_used_as_it_is_and_nothing_is_compared():
    document = advise(scenario(sparsifier="dense"), grid=Grid((Candidate(),), (None,), (None,)))
    assert document["answer"].startswith("Use dense (wfbp, ring): an iteration takes ")
    assert document["break_even"] == document["other_densities"] == []
    assert document["sensitivity"] is None
    assert document["dense"] == document["yours"]


def test_without_dense_the_fastest_is_used_and_nothing_is_compared():
    document = advise(scenario(), grid=Grid((Candidate(), Candidate({"kind": "qsgd"})), (None,), (None,)))
    assert document["answer"].startswith("Use topk 0.01 (wfbp, ring): ")
    assert document["dense"] is None
    assert document["break_even"] == document["reasons"] == []
    assert [row["speed_up_over_dense"] for row in document["ranking"]] == [None, None]


def test_iterations_of_methods_that_were_not_looked_at_leave_the_time_of_an_iteration():
    grid = Grid((Candidate(), DENSE), (None,), (None,))
    document = advise(scenario(bandwidth=1e7), {"terngrad": 5}, grid=grid)
    assert document["answer"].startswith("Use topk 0.01 (wfbp, ring): an iteration takes ")
    assert [row["time_to_target_s"] for row in document["ranking"]] == [None, None]


@pytest.mark.parametrize("exhaustive", [300, 0])
def test_a_method_that_refuses_everywhere_is_counted_and_left_out(exhaustive):
    gtopk = Candidate({"kind": "gtopk", "density": 0.01})
    grid = Grid((Candidate(), DENSE, gtopk), (None, {"kind": "sequential"}), (None, {"kind": "tree"}))
    found = search(scenario(cluster={"nodes": 3}), grid, exhaustive)
    assert dict(found.refused) == {"3, where a number of workers that is a power of two is needed": 4}
    assert found.unseen + len(found.outcomes) == 8
    assert {item.candidate.sparsifier["kind"] for item in found.outcomes if item.candidate.sparsifier} == {"dense"}


@pytest.mark.long
@pytest.mark.parametrize(
    "beside", [{"cluster": {"background": [{"source": 0, "destination": 1, "bandwidth": 1e7}]}}, {"fidelity": "flows"}]
)
def test_where_the_bound_without_meeting_is_none_combinations_are_run_themselves(beside):
    spec = scenario(**beside)
    grid = Grid((Candidate(), DENSE), (None, {"kind": "sequential"}), (None, {"kind": "tree"}))
    staged, whole = (search(spec, grid, exhaustive) for exhaustive in (0, 300))
    assert staged.best.time == pytest.approx(whole.best.time)
    assert staged.best.candidate == whole.best.candidate


def test_a_schedule_alone_that_helps_dense_is_told():
    spec = scenario(sparsifier="dense", latency=5e-3)
    document = advise(spec, grid=Grid((Candidate(), TOPK), (None, {"kind": "sequential"}), (None,)))
    (reason,) = [reason for reason in document["reasons"] if reason["kind"] == "schedule"]
    assert reason["methods"] == ["dense"]
    assert reason["text"].startswith("Another schedule or topology alone, dense (sequential, ring), takes ")
    assert reason["text"].endswith(": 1 call instead of 6.")


@pytest.mark.long
def test_waiting_for_a_gpu_that_selects_slowly_is_told():
    slow = {**CARD, "kernels": {**CARD["kernels"], "topk": {"curve": "affine", "intercept": 2e-5, "slope": 1e-7}}}
    spec = scenario(
        sparsifier="dense", bandwidth=1.25e9, cluster={"other_gpus": [{"nodes": [1], "gpu": slow, "factor": 1}]}
    )
    document = advise(spec, grid=Grid((Candidate(), TOPK), (None,), (None,)))
    (reason,) = [reason for reason in document["reasons"] if reason["kind"] == "waiting"]
    assert reason["methods"] == ["topk 0.01"]
    assert reason["text"].startswith("All wait for the slowest worker's work: topk 0.01 2")


def test_nodes_that_must_be_there_leave_no_other_worker_count_to_try(monkeypatch):
    monkeypatch.setattr("simulator.studies.advice.break_even.MOST_WORKERS", 8)
    spec = scenario(cluster={"nodes": 9, "links": [{"link": "node 8 NIC", "factor": 0.5}]})
    (row,) = advise(spec, grid=Grid((Candidate(), DENSE), (None,), (None,)))["break_even"]
    assert row["workers_words"] == "could not be run at another worker count"
    assert row["workers_above_which_it_wins"] is row["workers_up_to_which_it_wins"] is None


@pytest.mark.long
def test_methods_whose_messages_meet_are_compared_over_bandwidths_alone():
    layers = [{"name": "a", "numel": 3000, "backward": 1e-3}]
    methods = tuple(Candidate({"kind": kind, "density": 0.01}) for kind in ("topk", "oktopk"))
    spec = scenario(layers=layers, topology="tree", cluster={"nodes": 8}, fidelity="flows", sparsifier="dense")
    rows = advise(spec, grid=Grid((DENSE, *methods), (None,), (None,)))["break_even"]
    assert {row["method"] for row in rows} == {"topk 0.01", "oktopk 0.01"}
    assert {row["workers_words"] for row in rows} == {"not looked at over worker counts: takes long to simulate"}
    assert {row["schedule"] for row in rows} == {"bucketed 25 MiB"}


def test_a_method_that_refuses_the_scenario_s_schedule_is_compared_on_its_own():
    model = Candidate({"kind": "topk", "density": 0.01, "granularity": "model"}, {"kind": "sequential"})
    spec = scenario(bandwidth=1e7, sparsifier="dense", layers=[*LAYERS, {"name": "large", "numel": 10_000_000}])
    grid = Grid((replace(model, scheduler=None),), (None, model.scheduler), (None,))
    staged, whole = (search(spec, grid, exhaustive) for exhaustive in (0, 300))
    assert [item.candidate for item in staged.outcomes] == [item.candidate for item in whole.outcomes] == [model]
    assert staged.refused == whole.refused
    assert staged.refused.total() == 1
    (row,) = crossings(spec, whole.outcomes)
    assert row["schedule"] == "sequential"
    assert row["bandwidth_words"].startswith("wins below")


def test_candidates_at_another_density_are_the_scenario_s_own_method_there():
    first, *others = candidates(scenario(), 0.1).methods
    assert first.overrides == {"sparsifier.density": 0.1}
    assert first.of(scenario()).sparsifier == scenario(sparsifier={"kind": "topk", "density": 0.1}).sparsifier
    assert {item.sparsifier.get("density") for item in others} == {0.1, None}


def test_plug_ins_with_parameters_of_their_own_are_left_out_and_said_so(monkeypatch):
    known = {base: discover(base) for base in (Sparsifier, Scheduler, Topology)}
    needy = {  # without a kind, so that they are registered nowhere
        base: type("Needy", (known[base][kind],), {"__annotations__": {"rank": int}, "__module__": __name__})
        for base, kind in ((Sparsifier, "topk"), (Scheduler, "wfbp"), (Topology, "tree"))
    }
    plain = candidates(scenario(), 0.01)
    monkeypatch.setattr(
        "simulator.studies.advice.candidates.discover", lambda base: {**known[base], "needy": needy[base]}
    )
    made = candidates(scenario(), 0.01)
    assert made.left_out[0] == "needy: parameters of their own would have to be given"
    assert (made.methods, made.schedulers, made.topologies) == (plain.methods, plain.schedulers, plain.topologies)
    assert made.left_out[1:] == plain.left_out


# Published signs.


def time_of(name, *overrides):
    return run(load(name, overrides)).document["iteration_time_s"]


@pytest.mark.long
def test_sparsification_is_slower_on_four_v100_with_infiniband():
    """kljp/sage: dense 126.1 ms, hard threshold 149.2 ms, Top-k 236.9 ms."""
    dense, threshold, topk = (time_of(f"validation/resnet18-4xv100-ib/{m}") for m in ("dense", "threshold", "topk"))
    assert dense < threshold < topk
    document = advise(
        load("validation/resnet18-4xv100-ib/topk", ("iterations=20",)),
        grid=Grid((Candidate(), Candidate({"kind": "dense"})), (None,), (None,)),
    )
    assert document["answer"].startswith("Stay dense")
    assert any(reason["kind"] == "selection" and "topk 0.001" in reason["methods"] for reason in document["reasons"])


@pytest.mark.parametrize("bandwidth", [1, 10, 25])
def test_top_k_pays_at_1_gbit_only_on_eight_v100_with_horovod_over_mpi(bandwidth):
    """sands-lab/grace-data: images/s dense 595 / 2201 / 2351, Top-k 1 % 1285 / 1492 / 1484, 50 % 136 / 585 / 615."""
    folder = "validation/8xv100-grace"
    dense, few, half = (time_of(f"{folder}/{m}-8-{bandwidth}gbe") for m in ("dense", "topk1", "topk50"))
    assert (few < dense) == (bandwidth == 1)
    assert half > dense


def test_resnet50_needs_no_compression_at_100_gbit_and_two_to_five_times_at_10():
    """Zhang et al. 2020, 2006.10103: 8 nodes of 8 V100; to compress r times at no cost is a wire r times faster."""
    inside = {"bandwidth": "130 GB/s", "latency": "3 us"}  # NVLink: more than any NIC here

    def efficiency(gbit):
        network = {"kind": "single_switch", "bandwidth": f"{gbit} Gbit/s", "latency": "10 us", "intra_node": inside}
        spec = {
            "name": "64 V100",
            "workload": "workloads/resnet50-v100",
            "cluster": {
                "nodes": 8,
                "gpus_per_node": 8,
                "gpu": "gpus/v100-pytorch2",
                "network": network,
                "runtime": "runtimes/pytorch-ddp",
            },
            "topology": "nccl",
            "scheduler": "bucketed",
            "sparsifier": "dense",
        }
        return run(Scenario.model_validate(spec)).document["scaling_efficiency"]

    assert efficiency(100) > 0.97
    assert efficiency(10) < 0.6
    assert efficiency(2 * 10) > 0.8
    assert efficiency(5 * 10) > 0.95
    assert efficiency(100) - efficiency(5 * 10) < 0.02


@pytest.mark.long
def test_break_even_of_top_k_on_eight_v100_lies_between_1_and_10_gbit():
    spec = load(GRACE / "topk1-8-10gbe.yaml")
    dense = Candidate({"kind": "dense"}).of(spec)
    (win,) = Race(bandwidth_axis(spec), dense).wins(spec).wins
    slow, fast = (load(GRACE / f"dense-8-{n}gbe.yaml").cluster.network.bandwidth for n in (1, 10))
    assert slow < win.stop < fast


@pytest.mark.long
def test_rows_of_eight_workers_are_no_part_of_any_fit():
    rows = validate([GRACE])["rows"]
    assert {row["scenario"] for row in rows if " 8 V100 " in row["scenario"] and row["used_in_fit"]} == set()
    eight = [row for row in rows if " 8 V100 " in row["scenario"]]
    assert len(eight) == 9
    assert sorted(abs(row["signed_error"]) for row in eight)[4] < 0.08
    assert max(abs(row["signed_error"]) for row in eight if "50 %" not in row["scenario"]) < 0.15


@pytest.mark.long
def test_constants_of_that_set_up_are_what_two_workers_give():
    nccl, mpi, topk = (load(GRACE / f"{name}.yaml") for name in ("dense-2-nccl", "dense-2", "topk-2"))
    alone = load(GRACE / "dense-1.yaml")
    assert alone.workload.compute_time == pytest.approx(alone.measured.iteration_time)
    fitted = fit_runtime([nccl], ["compute_slowdown"]).terms["compute_slowdown"]
    assert nccl.cluster.runtime.compute_slowdown == pytest.approx(fitted, rel=0.02)

    wire = load("quickstart").cluster.network.bandwidth

    def left(spec, key, value):
        return run(put(spec, key, value)).document["iteration_time_s"] - spec.measured.iteration_time

    host = brentq(lambda x: left(mpi, "cluster.network.bandwidth", 1 / (1 / wire + x)), 1e-11, 1e-8)
    assert host == pytest.approx(0.747e-9, rel=0.02)
    for gigabit in (1, 10, 25):
        rate = load(GRACE / f"dense-8-{gigabit}gbe.yaml").cluster.network.bandwidth
        assert rate == pytest.approx(1 / (10 / (gigabit * wire) + 0.747e-9), rel=1e-3)

    kernels = topk.cluster.gpu.kernels

    def with_slope(slope):
        return {**kernels, "topk": kernels["topk"].model_copy(update={"slope": slope})}

    slope = brentq(lambda x: left(topk, "cluster.gpu.kernels", with_slope(x)), 1e-10, 1e-7)
    assert kernels["topk"].slope == pytest.approx(slope, rel=0.02)


def efficiency(gigabits, ratio=1.0):
    """Scaling efficiency of ResNet-50, batch 32, on 8 nodes of 8 V100 where software and kernels cost nothing.

    A compressor of this ratio that costs nothing itself is a network that is so much faster.
    """
    network = {
        "kind": "single_switch",
        "bandwidth": ratio * gigabits * 1e9 / 8,
        "intra_node": {"bandwidth": 1.2e11, "latency": 0},
    }
    base = load("quickstart", ("sparsifier=dense", "cluster.gpus_per_node=8", "workload.batch_size=32"))
    cluster = base.cluster.model_copy(update={"gpu": base.cluster.gpu.model_copy(update={"ideal": True})})
    data = base.model_copy(update={"cluster": cluster}).resolved() | {"topology": "ring"}
    data["workload"] |= {"compute_time": "95 ms"}  # about 340 images/s
    data["cluster"] |= {"network": {**network, "bandwidth": f"{network['bandwidth']} B/s"}, "runtime": {}}
    data["cluster"]["network"]["intra_node"]["bandwidth"] = "120 GB/s"
    data["scheduler"] = {"kind": "bucketed", "bucket_size": "4 MiB"}
    made = Scenario.model_validate(data, context={"units_required": True})
    return run(made).document["scaling_efficiency"]


def test_100_gbit_needs_no_compression_and_10_gbit_two_to_five_times():
    """Zhang et al. (2006.10103): at full use of the network; "almost linear" is taken as an efficiency of 0.95."""
    assert efficiency(100) > 0.95
    assert efficiency(10) < 0.7
    needed = next(ratio for ratio in (1, 1.5, 2, 3, 4, 5, 10) if efficiency(10, ratio) > 0.95)
    assert 2 <= needed <= 5


# The command.


def invoke(*arguments):
    return CliRunner().invoke(main, list(arguments), catch_exceptions=False)


FEW_CANDIDATES = replace(SMALL, methods=SMALL.methods[:3], left_out=("needy: parameters of their own",))


@pytest.fixture(scope="module")
def small_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("small") / "small.yaml"
    path.write_text(json.dumps(scenario(layers=LAYERS[:2], cluster={"nodes": 2}, iterations=2).resolved()))
    return str(path)


@pytest.fixture(scope="module")
def advice(small_file):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("simulator.studies.advice.advice.candidates", lambda *_: FEW_CANDIDATES)
        result = invoke("advise", small_file, "--json")
    assert result.exit_code == 0
    return json.loads(result.output)


def test_command_line_json_has_the_keys(advice):
    assert {"ranking", "break_even", "reasons", "answer", "looked_at", "notes", "other_densities", "command"} <= set(
        advice
    )
    assert {"overrides", "iteration_time_s", "iteration_time_interval_s", "rank", "method"} <= set(advice["ranking"][0])
    row = advice["break_even"][0]
    assert row["method"] == "topk 0.01"  # the scenario's own comes first
    assert {"bandwidth_below_which_it_wins", "bandwidth_interval", "workers_above_which_it_wins"} <= set(row)
    assert {"kind", "methods", "text"} <= set(advice["reasons"][0])
    assert math.isfinite(advice["ranking"][-1]["iteration_time_s"])


@pytest.mark.long
def test_the_quickstart_is_advised_on_in_seconds():
    began = time.process_time()
    document = advise(load("quickstart"))
    assert time.process_time() - began < 30
    assert document["answer"].startswith("Stay dense")


def test_the_command_that_is_recommended_gives_what_was_promised(small_file, advice):
    words = shlex.split(advice["command"])
    assert words[:3] == ["sparsim", "run", small_file]
    result = invoke(*words[1:], "--json")
    promised = next(row for row in advice["ranking"] if row["overrides"] == advice["recommended"])
    assert json.loads(result.output)["iteration_time_s"] == pytest.approx(promised["iteration_time_s"], rel=1e-9)


def test_command_line_text_answers_first(small_file, tmp_path, monkeypatch):
    monkeypatch.setattr("simulator.studies.advice.advice.candidates", lambda *_: FEW_CANDIDATES)
    (tmp_path / "mine.yaml").write_text("dense: 1000\ntopk: 1100\n")
    result = invoke("advise", small_file, "--iterations-to-target", str(tmp_path / "mine.yaml"))
    assert result.exit_code == 0
    for part in ("sparsim run", "best of each method", "to target", "wins", "Why", "Left out", "not modelled"):
        assert part in result.output


def told(document):
    """Advice as lines of the terminal, columns one space apart."""
    out = io.StringIO()
    print_advice(document | {"command": "sparsim run mine"}, Console(file=out, width=400))
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def test_one_worker_is_advised_in_words(tmp_path):
    path = tmp_path / "alone.yaml"
    path.write_text(json.dumps(scenario(cluster={"nodes": 1}).resolved()))
    result = invoke("advise", str(path))
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "One worker exchanges nothing, so there is nothing to compress: leave everything as it is." in lines
    assert f"sparsim run {path}" in lines
    (row,) = [line for line in lines if line.startswith("1 topk 0.01 (yours) wfbp ring")]
    assert row.endswith("1.00 x 1.00 x")
    assert "- 1 of 1 combinations were run." in lines
    assert not [line for line in lines if "What moves" in line or "by bandwidth" in line or "other densities" in line]


def test_the_ranking_in_words_has_yours_below_and_what_was_not_run(small):
    lines = told(small)
    assert "best of each method schedule topology iteration 90 % interval against dense against yours" in lines
    best = next(row for row in small["ranking"] if row["method"] == "topk 0.01")
    assert best["overrides"]  # the scenario's own way with its method is not the best
    place = next(i for i, line in enumerate(lines) if line.startswith("topk 0.01 (yours) wfbp ring 75.8 ms"))
    assert lines[place - 1].startswith("7 dense")
    assert lines[place + 1].startswith("fastest sparsifier at other densities: randomk 0.1 (")
    (looked,) = [line for line in lines if "combinations were run" in line]
    assert looked.startswith("- 63 of 63 combinations were run; 9 of them refuse to work together (most often: ")
    assert "behind already" not in looked
    staged = told(advise(scenario(bandwidth=1e7), grid=replace(SMALL, methods=SMALL.methods[:4]), exhaustive=0))
    (looked,) = [line for line in staged if "combinations were run" in line]
    assert looked.endswith(" were not, since their method or schedule was behind already.")


@pytest.mark.long
def test_what_turns_the_answer_is_told_only_where_something_does():
    methods = Grid(SMALL.methods[:2], (None,), (None,))
    slow, near = (told(advise(scenario(bandwidth=rate), grid=methods)) for rate in (1e7, 1e9))
    assert not [line for line in slow if "The answer turns with" in line]
    assert "The answer turns with cluster.network.bandwidth at twice its value" in " ".join(near)
    assert "- 2 of 2 combinations were run." in slow


@pytest.mark.long
def test_a_method_without_its_iterations_has_no_time_to_target():
    grid = replace(SMALL, topologies=(None, {"kind": "tree"}))
    lines = told(advise(scenario(bandwidth=1e7), {"dense": 1000}, grid=grid))
    assert "best of each method schedule topology to target per iteration against dense against yours" in lines
    (row,) = [line for line in lines if line.startswith("topk 0.01 (yours)")]
    assert " ring - 75.8 ms " in row


def test_wrong_input_is_one_line_and_exit_code_2(tmp_path):
    (tmp_path / "mine.yaml").write_text("topkk: 5\n")
    result = invoke("advise", "ring_check", "--iterations-to-target", str(tmp_path / "mine.yaml"))
    assert result.exit_code == 2
    assert "did you mean 'topk'" in result.output
