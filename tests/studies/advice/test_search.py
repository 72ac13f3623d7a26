"""The search for the fastest combination, and the combinations that it chooses from."""

import pytest
from small_advice import DENSE, IDEAL, SMALL, scenario

from simulator.component import discover
from simulator.records import replace
from simulator.scenario.scenario import Scenario
from simulator.schedulers.base import Scheduler
from simulator.sparsifiers.base import Sparsifier
from simulator.studies.advice.candidates import Candidate, Grid, candidates
from simulator.studies.advice.search import search
from simulator.topologies.base import Topology

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
    assert every.unseen == 0 and len(every.outcomes) + sum(every.refused.values()) == SMALL.points
    assert staged.outcomes[0].time == pytest.approx(every.outcomes[0].time, rel=1e-9) and staged.unseen > 0


def test_what_refuses_to_work_together_is_counted_with_its_reason():
    found = search(scenario(), replace(SMALL, schedulers=(None,)), exhaustive=SMALL.points)
    assert found.refused
    assert any("double_binary_tree" in reason and "all-gather" in reason for reason in found.refused)


def test_candidates_keep_to_the_software_that_is_there():
    grid = candidates(scenario(), 0.01)
    assert all(item is None or item["kind"] != "parameter_server" for item in grid.topologies)
    assert any("parameter_server" in line for line in grid.left_out)
    servers = candidates(scenario(topology={"kind": "parameter_server", "servers": 0}), 0.01)
    assert {item["kind"] for item in servers.topologies if item} == {"parameter_server"}
    kinds = {item.sparsifier["kind"] for item in grid.methods if item.sparsifier}
    assert {"dense", "randomk", "qsgd", "powersgd", "oktopk"} <= kinds
    assert "topk" not in kinds  # the scenario's own, as it stands
    assert grid.methods[0] == Candidate()


def test_sharded_models_stay_sharded_and_whole_ones_whole():
    whole = [item["kind"] for item in candidates(scenario(), 0.01).schedulers if item]
    assert "bucketed" in whole and not {"fsdp", "megatron", "zero"} & set(whole)
    grid = candidates(scenario(scheduler={"kind": "fsdp"}, cluster={"nodes": 2, "gpus_per_node": 2}), 0.01)
    alone = [item.scheduler for item in grid.dense_only]
    assert {item["kind"] for item in alone} == {"fsdp", "zero"}  # what DeepSpeed has, too
    assert any("megatron" in line for line in grid.left_out)
    assert {item.get("keep") for item in alone if item["kind"] == "fsdp"} == {None, "forward", "node"}
    assert {item["shard"] for item in grid.schedulers if item} == {2}


def test_overrides_make_the_candidate_again():
    spec = scenario()
    for candidate in (
        Candidate(),
        Candidate(topology={"kind": "tree"}),
        Candidate({"kind": "dgc", "density": 0.05}, {"kind": "bucketed", "bucket_size": "4 MiB"}),
    ):
        data = spec.resolved()
        for key, value in candidate.overrides.items():
            place = data
            for part in key.split(".")[:-1]:
                place = place[part]
            place[key.split(".")[-1]] = value
        assert Scenario.model_validate(data, context={"units_required": True}).digest == candidate.of(spec).digest


@pytest.mark.parametrize("exhaustive", [300, 0])
def test_a_method_that_refuses_everywhere_is_counted_and_left_out(exhaustive):
    gtopk = Candidate({"kind": "gtopk", "density": 0.01})
    grid = Grid((Candidate(), DENSE, gtopk), (None, {"kind": "sequential"}), (None, {"kind": "tree"}))
    found = search(scenario(cluster={"nodes": 3}), grid, exhaustive)
    assert dict(found.refused) == {"3, where a number of workers that is a power of two is needed": 4}
    assert found.unseen + len(found.outcomes) == 8
    assert {item.candidate.sparsifier["kind"] for item in found.outcomes if item.candidate.sparsifier} == {"dense"}


@pytest.mark.parametrize(
    "beside", [{"cluster": {"background": [{"source": 0, "destination": 1, "bandwidth": 1e7}]}}, {"fidelity": "flows"}]
)
def test_where_the_bound_without_meeting_is_none_combinations_are_run_themselves(beside):
    spec = scenario(**beside)
    grid = Grid((Candidate(), DENSE), (None, {"kind": "sequential"}), (None, {"kind": "tree"}))
    staged, whole = (search(spec, grid, exhaustive) for exhaustive in (0, 300))
    assert staged.outcomes[0].time == pytest.approx(whole.outcomes[0].time)
    assert staged.outcomes[0].candidate == whole.outcomes[0].candidate


def test_the_scenario_s_own_method_comes_first_as_it_is():
    first, *others = candidates(scenario(), 0.1).methods
    assert first.overrides == {} and first.of(scenario()).sparsifier == scenario().sparsifier
    assert {item.sparsifier.get("density") for item in others} == {0.1, None}


def test_plug_ins_with_parameters_of_their_own_are_left_out_and_said_so(monkeypatch):
    known = {base: discover(base) for base in (Sparsifier, Scheduler, Topology)}
    needy = {  # without a kind, so that they are in no registry
        base: type("Needy", (known[base][kind],), {"__annotations__": {"rank": int}, "__module__": __name__})
        for base, kind in ((Sparsifier, "topk"), (Scheduler, "wfbp"), (Topology, "tree"))
    }
    plain = candidates(scenario(), 0.01)
    more = {base: {**known[base], "needy": needy[base]} for base in known}
    monkeypatch.setattr("simulator.studies.advice.candidates.discover", more.get)
    made = candidates(scenario(), 0.01)
    assert made.left_out[0] == "needy: they have parameters without a default"
    assert (made.methods, made.schedulers, made.topologies) == (plain.methods, plain.schedulers, plain.topologies)
    assert made.left_out[1:] == plain.left_out
