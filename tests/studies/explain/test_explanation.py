"""Explanations: terms that sum, splits that follow closed forms, other worlds, and slopes against derivatives."""

import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import answered, printed, refused
from in_json import in_json
from printed import lines_of
from validation_rows import row_of

from simulator.answers import to_document
from simulator.errors import InputError, Problem
from simulator.models.graph import COMPUTE
from simulator.models.sharding import AXIS_OF, REPLICA
from simulator.models.timeline import Span
from simulator.prediction.run import run
from simulator.reporting.answers.explained import Counterfactual
from simulator.reporting.wording.explanation import SECTIONS, explanation_blocks
from simulator.scenario.reading import load
from simulator.scenario.scenario import CollectiveOrder, Scenario
from simulator.studies.explain import explanation
from simulator.studies.explain.critical_path import KERNEL, exposure, hiding_compute, longest_waits
from simulator.studies.explain.explanation import counterfactuals, explain
from simulator.studies.explain.sensitivity import sensitivity
from simulator.studies.explain.terms import kernel_use, terms_of
from simulator.studies.variants.crossing import with_infinite_network, without_replay

asked = explain
explain, counterfactuals = in_json(explain), in_json(counterfactuals)
kernel_use, sensitivity = in_json(kernel_use), in_json(sensitivity)

CARD = {
    "name": "card",
    "memory_bandwidth": 5e11,
    "kernels": {
        "elementwise": {"curve": "affine", "intercept": 1e-5, "slope": 2e-11},
        "topk": {"curve": "affine", "intercept": 2e-5, "slope": 1e-9, "held_out_mape": 0.1},
    },
}
IDEAL = {"name": "ideal", "ideal": True}
LAYERS = [
    {"name": f"tensor {i}", "numel": numel, "forward": 1e-3, "backward": 2e-3}
    for i, numel in enumerate((1000, 400_000, 20, 1_500_000, 3000, 800_000))
]


def scenario(gpu=CARD, network=None, runtime=None, layers=LAYERS, **parts):
    """A small cluster on 1 Gbit/s, so that the network is felt; `cluster` and `workload` add to what is there."""
    cluster, workload = parts.pop("cluster", {}), parts.pop("workload", {})
    switch = {"kind": "single_switch", "bandwidth": 1.25e8, "latency": 5e-5, **(network or {})}
    made = {
        "workload": {"batch_size": 1, "layers": layers, **workload},
        "cluster": {"nodes": 4, "gpu": gpu, "network": switch, "runtime": runtime or {}, **cluster},
        **{"topology": "ring", "sparsifier": "dense", "scheduler": "wfbp", **parts},
    }
    return Scenario.model_validate(made)


def terms(spec):
    """Seconds by term."""
    return {row["term"]: row["seconds"] for row in rows_of(run(spec))}


def rows_of(prediction):
    """Terms as JSON has them."""
    return to_document(terms_of(prediction)[0])


TOPK = {"kind": "topk", "density": 0.01}
SERVERS = {"kind": "parameter_server", "servers": 0}
SLICES = {"kind": "priority", "partition": 5e5, "credit": 1e6}
SOFTWARE = {"negotiation": 1e-3, "gather_overhead": 5e-4, "kernel_launch": 2e-5}
MANY = {
    "wfbp": {},
    "top-k": {"sparsifier": TOPK},
    "sequential": {"scheduler": "sequential", "sparsifier": TOPK},
    "software": {"sparsifier": TOPK, "runtime": SOFTWARE},
    "cycle": {"runtime": {"cycle_time": 3e-3, "collective_launch": 4e-4}},
    "slowdown": {"runtime": {"compute_slowdown": 0.5}},
    "priority": {"scheduler": {"kind": "priority", "partition": 1e6, "credit": 2e6}},
    "priority, sparse": {"scheduler": "priority", "sparsifier": TOPK, "runtime": SOFTWARE},
    "tictac": {"scheduler": "tictac"},
    "decoupled": {"scheduler": {"kind": "decoupled", "bucket_size": 1e6}},
    "decoupled, slowed": {"scheduler": "decoupled", "runtime": {"compute_slowdown": 0.3}},
    "data": {"workload": {"input_time": 5e-3}},
    "data, gated": {"workload": {"input_time": 5e-3}, "scheduler": "priority"},
    "data that GPUs share": {"cluster": {"loading": {"rate": 200, "prefetched": False}}},
    "data that is prefetched": {"cluster": {"loading": {"rate": 10}}},
    "streams": {"scheduler": {"kind": "wfbp", "streams": 3}, "network": {"collective_start_up": 1e-3}},
    "streams, sparse": {"scheduler": {"kind": "wfbp", "streams": 2}, "sparsifier": TOPK, "runtime": SOFTWARE},
    "streams, decoupled": {"scheduler": {"kind": "decoupled", "bucket_size": 1e6, "streams": 2}},
    "streams, merged": {"scheduler": "asc_wfbp"},
    "token buckets": {"network": {"burst": 1e5}, "sparsifier": TOPK, "runtime": SOFTWARE},
    "token buckets, gated": {"network": {"burst": 1e5}, "scheduler": "priority", "sparsifier": TOPK},
    "sharded": {"scheduler": {"kind": "fsdp", "shard": 2}, "workload": {"batch_size": 2, "micro_batches": 2}},
    "servers": {"topology": SERVERS},
    "servers, sparse": {"topology": SERVERS, "sparsifier": TOPK, "runtime": {"message_overhead": 1e-5}},
    "servers, priority": {"topology": SERVERS, "scheduler": {"kind": "priority", "partition": 5e5, "credit": 1e6}},
    "servers in turn": {"topology": {**SERVERS, "placement": "round_robin", "colocated": True}},
    "servers by hash": {"topology": {**SERVERS, "placement": "hashed", "in_order": True}, "scheduler": SLICES},
    "merged slices": {"topology": SERVERS, "scheduler": {"kind": "sequential", "partition": 1e6, "merged": True}},
    "filled buckets": {"scheduler": "bucketed", "runtime": {"fills_buckets": True, "compute_slowdown": "auto"}},
    "filled buckets, gated": {"scheduler": "priority", "sparsifier": TOPK, "runtime": {"fills_buckets": True}},
    "host work": {"sparsifier": TOPK, "runtime": {"exchange_element": 1e-9}},
    "optimiser's calls": {
        "workload": {"optimiser": {"kind": "adamw", "folds_bias": True}},
        "runtime": {"update_launch": 2e-5},
    },
    "hooks": {"scheduler": "priority", "runtime": {"forward_hook": 2e-3}},
    "slowed model": {"workload": {"compute_slowdown": 0.5}},
    "nodes of two": {"cluster": {"nodes": 2, "gpus_per_node": 2}, "topology": "hierarchical"},
    "merged by cost": {"scheduler": "mg_wfbp", "runtime": SOFTWARE},
    "kernels between": {"sparsifier": {**TOPK, "exchange_by": "union_all_reduce"}},
    "gtopk": {"sparsifier": {"kind": "gtopk", "density": 0.01}},
    "nothing to send of one tensor": {
        "sparsifier": {"kind": "deft", "density": 0.01}, "scheduler": "priority", "network": {"latency": 0.0},
        "layers": [{"name": "tiny", "numel": 1, "backward": 1e-3}, *LAYERS],
    },
    "one worker": {"cluster": {"nodes": 1}, "sparsifier": TOPK},
    "no work": {"gpu": IDEAL, "layers": [{"name": "only", "numel": 1000}], "scheduler": "priority"},
}  # fmt: skip
RANDOM = {
    "jitter": {"cluster": {"stragglers": {"jitter": 0.2}}, "iterations": 5},
    "jitter, gated": {"cluster": {"stragglers": {"jitter": 0.2}}, "scheduler": "priority", "iterations": 5},
    "slow worker": {"cluster": {"stragglers": {"slow": [{"worker": 2, "factor": 1.5}]}}, "sparsifier": TOPK},
    "slow worker, gated": {"cluster": {"stragglers": {"slow": [{"worker": 2, "factor": 1.5}]}}, "scheduler": "tictac"},
    "slow link": {"cluster": {"links": [{"link": "node 1 NIC", "factor": 0.3, "start": 1e-3, "until": 1.0}]}},
    "jitter, servers": {"cluster": {"stragglers": {"jitter": 0.1}}, "topology": SERVERS, "iterations": 3},
}


def spec_of(name):
    """A scenario of the tables, or a shipped one."""
    if name == "measured":
        return row_of("rtx2080ti-10gbe-ps", "ResNet-50, WFBP, parameter server, 8 GPUs on 10 GbE")
    return scenario(**{**MANY, **RANDOM}[name]) if name in MANY or name in RANDOM else load(name)


@pytest.mark.parametrize("name", [*MANY, *RANDOM, "quickstart", "measured"])
def test_terms_sum_to_the_iteration(name):
    prediction = run(spec_of(name))
    rows = rows_of(prediction)
    time = prediction.document["iteration_time_s"]
    parts = ["data_loading", "forward", "backward", "slowdown", "selection", "waiting_for_slowest"]
    parts += ["queueing", "start_up", "transfer", "software", "combine", "update"]
    assert [row["term"] for row in rows] == parts
    assert math.fsum(row["seconds"] for row in rows) == pytest.approx(time, rel=1e-9)
    assert min(row["seconds"] for row in rows) >= 0
    assert math.fsum(row["share"] for row in rows) == pytest.approx(1, rel=1e-9)
    for key in ("forward", "backward", "slowdown", "selection", "combine", "update"):
        seconds = next(row["seconds"] for row in rows if row["term"] == key)
        assert seconds == pytest.approx(prediction.document["breakdown_s"][key], abs=1e-12)


@pytest.mark.parametrize("name", MANY)
def test_the_waits_on_the_path_are_the_communication_that_is_not_hidden(name):
    spec = scenario(**MANY[name])
    prediction = run(spec)
    found = exposure(prediction.plan, prediction.iteration)
    waited = float(found.own.sum() + found.queued.sum()) + found.held_back - found.own[KERNEL] - found.queued[KERNEL]
    exposed = prediction.document["breakdown_s"]["communication_exposed"]
    # Of exchanges side by side kernels of any of them count as inside.
    beside = prediction.plan.setup.topology.concurrent or prediction.plan.streams > 1
    assert waited == pytest.approx(exposed, **({"rel": 0.05, "abs": 1e-6} if beside else {"rel": 1e-6, "abs": 1e-9}))


@pytest.mark.parametrize("nodes", [1, 4])
def test_the_kernels_that_fill_buckets_are_named_where_they_are_counted(nodes):
    spec = scenario(cluster={"nodes": nodes}, runtime={"fills_buckets": True}, scheduler="bucketed")
    rows = {row["term"]: row for row in rows_of(run(spec))}
    copies = {
        term: math.fsum(item["seconds"] for item in rows[term]["numbers"]["kernels"])
        for term in rows
        if "kernels" in rows[term]["numbers"]
    }
    assert copies["combine"] == pytest.approx(rows["combine"]["seconds"])
    profile = math.fsum(layer["backward"] for layer in LAYERS)
    assert copies["backward"] == pytest.approx(rows["backward"]["seconds"] - profile)
    assert copies["backward"] > copies["combine"] > 0


def test_the_last_exchange_queues_behind_the_one_before():
    two = [{"name": "first", "numel": 250_000}, {"name": "second", "numel": 500_000, "backward": 0.01}]
    found = terms(scenario(layers=two, network={"latency": 0.0}, gpu=IDEAL))
    each = [2 * 3 / 4 * 4 * numel / 1.25e8 for numel in (500_000, 250_000)]
    assert found["queueing"] == pytest.approx(each[0]) and found["transfer"] == pytest.approx(each[1])
    queueing = next(row for row in explain(scenario(layers=two, gpu=IDEAL))["terms"] if row["term"] == "queueing")
    assert queueing["numbers"]["exchanges_in_front"] == 1


ONE = [{"name": "only", "numel": 1_000_000}]
TWO = [{"name": "first", "numel": 1_000_000}, {"name": "second", "numel": 1_000_000}]
CLOSED_FORMS = {
    "a ring": ({}, {"start_up": 2 * 7 * 50e-6, "transfer": 2 * 7 * 1e8 / (8 * 1.25e9), "queueing": 0, "software": 0}),
    "negotiation of the call that is waited for": (
        {"layers": LAYERS, "runtime": {"negotiation": 0.25}, "scheduler": "sequential"},
        {"software": 0.25},
    ),
    "waiting for the runtime's next cycle": (
        {"layers": [{"name": "only", "numel": 1000, "backward": 0.0301}], "runtime": {"cycle_time": 0.02}},
        {"software": 0.01},
    ),
    "a push and its pull": (
        {"layers": ONE, "topology": SERVERS},
        {"start_up": 2 * 5e-5, "transfer": 2 * 4e6 / 1.25e8},
    ),
    "a push that waits for the first on their link": (
        {"layers": TWO, "topology": SERVERS, "network": {"latency": 0.0}},
        {"queueing": 4e6 / 1.25e8, "transfer": 2 * 4e6 / 1.25e8},
    ),
}


@pytest.mark.parametrize("case", CLOSED_FORMS)
def test_terms_in_closed_form(case):
    parts, expected = CLOSED_FORMS[case]
    found = terms(scenario(gpu=IDEAL, **parts) if parts else load("ring_check"))
    assert {term: found[term] for term in expected} == pytest.approx(expected, rel=1e-9)


def test_each_term_says_what_it_rests_on():
    rows = {row["term"]: row for row in explain(scenario(sparsifier=TOPK, runtime=SOFTWARE))["terms"]}
    topk = next(item for item in rows["selection"]["calibration"] if item["id"] == "card/topk")
    assert topk["held_out_mape"] == 0.1 and "20 us + 1 ns n" in topk["source"]
    assert rows["transfer"]["calibration"][0]["what"] == "link law" and all(row["formula"] for row in rows.values())
    runtime, model = ({"compute_slowdown": share, "name": name} for share, name in ((0.2, "one"), (0.3, "two")))
    for workload, basis in (({}, ("runtime", "one", "")), (model, ("profile", "two", ""))):
        rows = {row["term"]: row for row in explain(scenario(runtime=runtime, workload=workload))["terms"]}
        (found,) = rows["slowdown"]["calibration"]
        assert (found["what"], found["id"], found["source"]) == basis
        assert [item["what"] for item in rows["forward"]["calibration"]] == ["profile"]


PLAIN = [name for name in MANY if "priority" not in name and "decoupled" not in name]


@pytest.mark.parametrize("name", [*PLAIN, "slow worker"])
def test_no_other_world_is_slower(name):
    prediction = run(scenario(**{**MANY, **RANDOM}[name]))
    time = prediction.document["iteration_time_s"]
    worlds = {row["name"]: row for row in counterfactuals(prediction)}
    every = {"infinite_network", "free_selection", "good_implementation", "no_software", "no_stragglers"}
    assert set(worlds) == {*every, "perfect_overlap"}
    for row in worlds.values():
        assert row["iteration_time_s"] <= time * (1 + 1e-9), row
        assert row["saving_s"] == pytest.approx(time - row["iteration_time_s"])
        assert row["saving_share"] * time == pytest.approx(row["saving_s"])


TREES = {"kind": "leaf_spine", "nodes_per_leaf": 2, "oversubscription": 4.0, "hop_latency": 1e-3}


@pytest.mark.parametrize(
    ("parts", "least"),
    [
        ({"sparsifier": TOPK, "cluster": {"nodes": 2, "gpus_per_node": 2}}, 0),
        ({"sparsifier": "dense", "network": TREES}, 2e-3),
    ],
    ids=["inside of nodes", "hops and uplinks"],
)
def test_an_infinite_network_leaves_only_work(parts, least):
    prediction = run(scenario(**parts))
    world, work = counterfactuals(prediction)[0], prediction.plan.work
    alone = prediction.plan.single_gpu_time + float(work.selection.sum() + work.combine.sum())
    assert world["iteration_time_s"] == pytest.approx(alone, rel=1e-6) and world["saving_s"] > least


def test_free_selection_saves_the_selection_where_nothing_hides_it():
    spec = scenario(sparsifier=TOPK, scheduler="sequential")
    prediction = run(spec)
    world = next(row for row in counterfactuals(prediction) if row["name"] == "free_selection")
    assert world["saving_s"] == pytest.approx(prediction.document["breakdown_s"]["selection"])
    assert run(spec).document["breakdown_s"]["selection"] > 0  # the scenario itself is as before


def test_several_streams_hide_start_ups_and_cost_sharing():
    """What one after the other is start-up is hidden; what is beside the links counts as transfer, as in a price."""
    tiny = [{"name": f"tensor {i}", "numel": 4, "backward": 1e-6} for i in range(2)]
    parts = {"layers": tiny, "gpu": IDEAL, "network": {"latency": 1e-2, "collective_start_up": 1e-3}}
    for streams, start_up in ((1, 12), (2, 6)):
        made = terms(scenario(scheduler={"kind": "sequential", "bucket_size": 1, "streams": streams}, **parts))
        whole = math.fsum(made[name] for name in ("queueing", "start_up", "transfer", "software"))
        assert whole == pytest.approx(start_up * 1e-2 + start_up / 6 * 1e-3, rel=1e-3)
        assert made["software"] == pytest.approx(0, abs=1e-9)


def test_a_world_that_does_not_fit_the_scenario_is_left_out():
    """Where merging is free of start-ups nothing is merged, so that the order names buckets that are not there."""
    spec = scenario(scheduler="mg_wfbp", runtime=SOFTWARE)
    buckets = len(run(spec).plan.work.buckets)
    ordered = spec.model_copy(update={"collective_order": (CollectiveOrder(worker=1, buckets=tuple(range(buckets))),)})
    made = {row["name"] for row in counterfactuals(run(ordered))}
    assert {"perfect_overlap", "no_stragglers"} <= made and "infinite_network" not in made


def test_no_stragglers_takes_the_waiting_away():
    spec = scenario(**RANDOM["slow worker"])
    world = next(row for row in counterfactuals(run(spec)) if row["name"] == "no_stragglers")
    assert world["iteration_time_s"] == pytest.approx(run(scenario(sparsifier=TOPK)).document["iteration_time_s"])


def slopes(spec):
    """Rows by input."""
    return {row["input"]: row for row in sensitivity(spec)["inputs"]}


def test_slopes_are_the_ring_s_derivatives():
    p, nbytes, bandwidth, latency = 8, 1e8, 1.25e9, 50e-6
    time, fewer, more = (2 * (n - 1) * (latency + nbytes / (n * bandwidth)) for n in (p, p - 1, p + 1))
    found = slopes(load("ring_check"))
    nodes = math.log(more / fewer) / math.log((p + 1) / (p - 1))
    assert found["cluster.nodes"]["elasticity"] == pytest.approx(nodes, rel=1e-6)
    by_bandwidth = -2 * (p - 1) * nbytes / (p * bandwidth**2)
    assert found["cluster.network.bandwidth"]["derivative"] == pytest.approx(by_bandwidth, rel=1e-3)
    assert found["cluster.network.latency"]["derivative"] == pytest.approx(2 * (p - 1), rel=1e-4)
    double = 2 * (2 * p - 1) * (latency + nbytes / (2 * p * bandwidth))
    assert found["cluster.nodes"]["at_double"] == pytest.approx(double)
    share = 2 * (p - 1) * nbytes / (p * bandwidth) / time
    assert found["cluster.network.bandwidth"]["elasticity"] == pytest.approx(-share, rel=1e-3)


def by_power(bandwidth, nodes, refused=()):
    """Answers that are the product of powers of the bandwidth and of the nodes, where those are not refused."""

    def answers(specs):
        clusters = [spec.cluster for spec in specs]
        made = [(it.network.bandwidth / 1.25e8) ** bandwidth * (it.nodes / 4) ** nodes * 8 for it in clusters]
        error = InputError(Problem("nodes", "others", "these"))
        return [error if it.nodes in refused else each for it, each in zip(clusters, made, strict=True)]

    return answers


@pytest.mark.parametrize("refused", [(), (8, 5), (3, 5)])
def test_an_answer_that_is_a_power_of_an_input_has_it_as_its_slope(refused):
    """Twice in two ways: of one side and of both; where neither can be run, there is none."""
    found = sensitivity(scenario(), by_power(0.5, -2, refused), words=("the speed-up", "larger", "smaller"))
    nodes, bandwidth = found["inputs"][:2]
    assert (nodes["input"], bandwidth["input"], found["base"]) == ("cluster.nodes", "cluster.network.bandwidth", 8)
    assert (nodes["at_half"], nodes["at_double"]) == (32, None if 8 in refused else 2)
    assert nodes["swing"] == (24 if 8 in refused else 30)
    assert bandwidth["swing"] == pytest.approx(8 * (2**0.5 - 0.5**0.5))
    assert bandwidth["elasticity"] == pytest.approx(0.5) and bandwidth["derivative"] == pytest.approx(4 / 1.25e8)
    known = (-2, -4) if 3 not in refused else (None, None)
    assert (nodes["elasticity"], nodes["derivative"]) == (pytest.approx(known) if known[0] else known)
    assert found["top"] == ["cluster.nodes", "cluster.network.bandwidth"]
    assert "cluster.network.latency" in found["without_effect"] and "cluster.nodes" not in found["without_effect"]
    effect = "" if 3 in refused else ": 1 % more makes the speed-up 2 % smaller"
    assert found["answer"] == (
        f"Most sensitive to the number of nodes{effect}; then to the network bandwidth (0.5 % larger)."
    )


def test_where_nothing_changes_the_answer_that_is_said():
    found = sensitivity(scenario(), by_power(0, 0))
    assert found["answer"] == "No input changes the iteration." and found["top"] == []
    assert {row["elasticity"] for row in found["inputs"]} == {0.0} and len(found["without_effect"]) == 5


def test_a_summary_names_four_terms_and_what_saves_most():
    seconds = {"a": 1.0, "b": 4.0, "c": 2.0, "d": 0.0, "e": 2.5, "f": 0.5}
    rows = [SimpleNamespace(label=name, seconds=each, share=each / 10) for name, each in seconds.items()]
    of = "Of 10 s: b 4 s (40 %), e 2.5 s (25 %), c 2 s (20 %), a 1 s (10 %)."
    saving = [Counterfactual(name, "", 10 - each, each, each / 10) for name, each in (("no_x", 0.04), ("free_y", 3.0))]
    assert explanation._summarise(rows, saving, 10.0) == f"{of} The largest saving would come from free y: 3 s, 30 %."
    assert explanation._summarise(rows, saving[:1], 10.0) == f"{of} Removing any single cost saves less than 0.5 %."
    assert explanation._summarise(rows, [], 10.0) == of
    assert explanation._summarise(rows[3:4], [], 0.0) == "An iteration takes no time."


class Timeline:
    """Two workers, of which the second one computes longer, and takes the spans that are given."""

    def __init__(self, *spans):
        self.spans, self.time = spans, 10.0

    def computed(self):
        return np.array([1.0, 2.0])

    def spans_of(self, worker):
        assert worker == 1
        return self.spans


def test_waits_of_a_sharded_job_are_named_by_what_is_waited_for_and_what_waits():
    """A gather is waited for from 1 to 3 and from 4 to 6 s, and an all-reduce at the end, which nothing follows."""
    layers = [SimpleNamespace(name=name) for name in ("layers.0.a", "layers.0.b", "layers.1.a", "head", "tail")]
    buckets = [SimpleNamespace(layers=each) for each in ((0, 1), (2,), (3, 4))]
    (gather, axis), workers = next(iter(AXIS_OF.items())), REPLICA
    plan = SimpleNamespace(inside=None, work=SimpleNamespace(buckets=buckets))
    plan.setup = SimpleNamespace(workload=SimpleNamespace(layers=layers))
    waiting = partial(Span, COMPUTE, "wait", term="communication_exposed")
    timeline = Timeline(
        Span(COMPUTE, "forward", 0.0, 1.0, 0, "forward"),
        waiting(1.0, 3.0),
        Span(COMPUTE, "copy", 3.0, 3.5, 0, "combine"),
        Span(COMPUTE, "forward", 3.5, 4.0, 0, "forward"),
        waiting(4.0, 6.0),
        Span(COMPUTE, "backward", 6.0, 9.0, 2, "backward"),
        waiting(9.0, 10.0),
        Span("network", gather, 0.5, 3.0, 0),
        Span("network", "short", 2.5, 3.0, 1),
        Span("network", gather, 5.0, 6.0, 0),
        Span("network", "all_reduce", 8.0, 10.0, 2),
    )
    assert [(it.axis, it.collective, it.unit, it.holds, it.seconds) for it in longest_waits(plan, timeline)] == [
        (axis, gather, "layers.0", "forward pass", 2.0),
        (axis, gather, "layers.0", "backward pass of head to tail", 2.0),
        (workers, "all_reduce", "head to tail", "the next iteration", 1.0),
    ]
    assert [(it.axis, it.beside, it.seconds) for it in hiding_compute(plan, timeline)] == [
        (workers, "backward pass", 1.0), (axis, "forward pass", 0.5)
    ]  # fmt: skip


def test_slopes_of_compute_and_kernels_are_their_shares():
    spec = scenario(sparsifier=TOPK, scheduler="sequential", workload={"compute_time": 0.05})
    prediction = run(spec)
    time, found = prediction.document["iteration_time_s"], slopes(spec)
    assert found["workload.compute_time"]["elasticity"] == pytest.approx(0.05 / time, rel=1e-3)
    topk = next(row for row in kernel_use(spec, prediction.plan)["selection"] if row["kernel"] == "topk")
    assert found["cluster.gpu.kernels.topk"]["elasticity"] == pytest.approx(topk["seconds"] / time, rel=1e-3)


def test_slopes_of_loading_jitter_and_overlap():
    """Where data takes longest, it is the iteration; a wider jitter makes all wait longer."""
    loading = slopes(scenario(workload={"input_time": 1.0}))["workload.input_time"]
    assert (loading["value"], loading["unit"]) == (1.0, "s") and loading["elasticity"] == pytest.approx(1, abs=0.2)
    assert loading["at_double"] - loading["base"] == pytest.approx(1.0)
    jitter = slopes(scenario(**RANDOM["jitter"]))["cluster.stragglers.jitter"]
    assert (jitter["value"], jitter["unit"]) == (0.2, "")
    assert jitter["at_half"] < jitter["base"] < jitter["at_double"]
    by_union = {**TOPK, "exchange_by": "union_all_reduce"}
    overlap = slopes(scenario(sparsifier=by_union, overlap_concentration=5))["overlap_concentration"]
    assert overlap["value"] == 5
    assert overlap["at_half"] < overlap["base"] < overlap["at_double"]  # more alike: a smaller union


def test_kernels_without_a_curve_hang_on_the_memory_bandwidth():
    bare = {"name": "bare", "memory_bandwidth": 5e11, "kernels": {"topk": CARD["kernels"]["topk"]}}
    spec = scenario(gpu=bare, sparsifier={"kind": "signsgd"}, scheduler="sequential")
    row = slopes(spec)["cluster.gpu.memory_bandwidth"]
    assert (row["value"], row["unit"]) == (5e11, "B/s") and row["at_double"] < row["base"] < row["at_half"]
    assert "cluster.gpu.memory_bandwidth" not in slopes(scenario())  # the curve of elementwise kernels is the floor


def test_inputs_that_change_nothing_are_named():
    document = explain(scenario(cluster={"nodes": 1}, sparsifier=TOPK))
    silent = document["sensitivity"]["without_effect"]
    assert {"cluster.network.bandwidth", "cluster.network.latency", "sparsifier.density"} <= set(silent)
    assert not set(silent) & set(document["sensitivity"]["top"])
    (note,) = [note for note in document["notes"] if "without effect" in note]
    assert "cluster.network.latency" in note


@pytest.mark.long
def test_a_trace_is_replayed_for_the_terms_and_not_for_the_slopes(short_trace):
    answer = asked(load("replay_topk", ("cluster.nodes=2", f"workload.trace={short_trace.folder}")))
    document = to_document(answer)
    total = math.fsum(row["seconds"] for row in document["terms"])
    assert total == pytest.approx(document["iteration_time_s"], rel=1e-9)
    assert "instead of a replay" in document["sensitivity"]["notes"][0]
    assert document["sensitivity"]["notes"][0] in told(answer)


def told(answer):
    """An explanation as lines of the terminal."""
    return lines_of(explanation_blocks(answer, list(SECTIONS)), 300)


def said(spec):
    return told(asked(spec))


@pytest.mark.long
@pytest.mark.parametrize(
    ("law", "value"), [("overlap_concentration", "30"), ("overlap_mixture", "{spread: 1, core: 0.1}")]
)
def test_a_stated_overlap_takes_the_replay_s_place(law, value):
    spec = load("replay_topk", (f"{law}={value}",))
    bare, note = without_replay(spec)
    assert (bare.workload.gradients, note) == ("", "selections from a formula instead of a replay of the trace")
    assert getattr(bare, law) == getattr(spec, law) is not None
    fitted, note = without_replay(load("replay_topk"))
    assert note.endswith(", with the overlap law fitted to that trace")
    laws = [(item.overlap_concentration, item.overlap_mixture) for item in (fitted, bare)]
    assert laws[0] != laws[1] and laws[0] != (None, None)


def test_a_method_without_a_law_of_overlap_states_none():
    bare, note = without_replay(load("replay_topk", ("sparsifier=dense",)))
    assert note == "selections from a formula instead of a replay of the trace"
    assert (bare.overlap_concentration, bare.overlap_mixture) == (None, None)


def test_exchanges_that_share_links_have_no_split_of_their_own():
    document = explain(scenario(topology=SERVERS, gpu=IDEAL))
    assert document["exchanges"]["spent_s"] is None and document["exchanges"]["calls"] == len(LAYERS)
    assert set(explain(scenario(gpu=IDEAL))["exchanges"]["spent_s"]) == {"start_up", "transfer", "software", "kernel"}


def test_command_line_text_reads_as_a_table():
    text = printed("explain", "quickstart", "--full")
    for part in ("selection", "topk 161 x", "sum", "with", "an infinite network", "Most sensitive to", "█"):
        assert part in text


def line(lines, start):
    """The first line that starts so, its columns one space apart; None where there is none."""
    return next((" ".join(text.split()) for text in lines if text.startswith(start)), None)


def test_text_of_communication_that_nothing_hides():
    lines = said(load("ring_check"))
    assert lines[1] == ("iteration time 140.7 ms (no 90 % interval: no errors are known) on 8 workers")
    assert line(lines, "transfer").endswith("1 exchange that compute waits for, with 1 call and a payload of 100 MB")
    assert line(lines, "start-up").endswith("1 exchange that compute waits for, with 1 call; latency 50 us per message")
    assert not [text for text in lines if "hidden communication" in text] and line(lines, "forward") is None


def test_text_of_an_exchange_behind_another():
    two = [{"name": "first", "numel": 250_000}, {"name": "second", "numel": 500_000, "backward": 0.01}]
    lines = said(scenario(layers=two, network={"latency": 0.0}, gpu=IDEAL))
    assert line(lines, "queueing") == "queueing 24 ms 52.2 % █████████████ waits for 1 earlier exchange: transfer 24 ms"
    three = [*two, {"name": "third", "numel": 100_000, "backward": 0.01}]
    lines = said(scenario(layers=three, network={"latency": 0.0}, gpu=IDEAL))
    hidden = "in addition, 4.8 ms of hidden communication; all 3 calls together take transfer 40.8 ms"
    assert line(lines, "in addition") == hidden


def test_text_of_links_that_are_shared():
    """No exchange is in front on links that several share, and no price is known of one alone."""
    lines = said(scenario(topology=SERVERS))
    assert line(lines, "queueing").endswith("links shared with other exchanges")
    assert line(lines, "in addition") == "in addition, 10 ms of hidden communication"


def test_text_of_software_and_of_kernels():
    lines = said(scenario(sparsifier=TOPK, runtime=SOFTWARE))
    assert line(lines, "software").endswith("8 calls, each with negotiation time 1 ms, overhead of a gather 500 us")
    assert "topk 6 x 470.7 us = 2.824 ms; residual_add 6 x 24.33 us = 146 us (host)" in line(lines, "selection")
    free = [{"name": "only", "numel": 1000, "backward": 0.0301}]
    held = said(scenario(layers=free, runtime={"cycle_time": 0.02}, gpu=IDEAL))
    assert line(held, "software").endswith("1 call, each with cycle time 20 ms")


@pytest.mark.long
def test_text_of_waiting_says_which_kernel_differs_and_the_jitter():
    card = {**CARD, "kernels": {**CARD["kernels"], "topk": {**CARD["kernels"]["topk"], "spread": 0.05}}}
    spec = scenario(gpu=card, sparsifier=TOPK, iterations=4, cluster={"stragglers": {"jitter": 0.2}})
    assert line(said(spec), "waiting").endswith("topk differs by 5.0 %, jitter 20.0 %")


def test_terms_that_rounding_alone_leaves_are_not_told():
    """Differences of equal times: a billionth of a nanosecond is no waiting."""
    barely = {"slow": [{"worker": 1, "factor": 1 + 2**-52}]}
    spec = scenario(workload={"input_time": 5e-3}, cluster={"stragglers": barely})
    assert 0 < terms(spec)["waiting_for_slowest"] < 1e-15
    lines = said(spec)
    assert line(lines, "waiting for the slowest") is None
    assert line(lines, "waiting for data").startswith("waiting for data 5 ms")
    assert "waits for 5 earlier exchanges: start-up" in line(lines, "queueing")


def test_an_iteration_of_nothing_is_told_as_that():
    lines = said(scenario(gpu=IDEAL, layers=[{"name": "only", "numel": 1000}], cluster={"nodes": 1}))
    assert lines[1] == "iteration time 0 s (no 90 % interval: no errors are known) on 1 worker"
    assert (lines[2], line(lines, "sum")) == ("An iteration takes no time.", "sum 0 s")


def test_parts_that_refuse_each_other_are_said_so():
    message = refused("explain", "quickstart", "--set", "sparsifier={kind: topk, density: 0.01, granularity: model}")
    assert "whole model" in message and "Traceback" not in message
    with pytest.raises(InputError):
        explain(load("quickstart", ("topology=double_binary_tree",)))


@pytest.mark.parametrize("more", [{"kind": "topk"}, {"exchange_by": "union_all_reduce"}, {"kind": "dgc"}], ids=str)
def test_kernel_rows_add_up_to_what_the_plan_and_the_breakdown_say(more):
    """Also those that run once for every worker, as the additions after a gather."""
    prediction = run(scenario(sparsifier={**TOPK, **more}, runtime=SOFTWARE))
    work, use = prediction.plan.work, kernel_use(prediction.scenario, prediction.plan)
    planned = {"selection": work.selection.sum(), "combine": work.combine.sum(), "update": work.update}
    assert {stage: math.fsum(row["seconds"] for row in use[stage]) for stage in planned} == pytest.approx(planned)
    for row in (row for stage in use.values() for row in stage):
        assert row["per_call_s"] * row["runs"] == pytest.approx(row["seconds"])
    if more == {"kind": "topk"}:
        breakdown = prediction.document["breakdown_s"]
        assert planned == pytest.approx({stage: breakdown[stage] for stage in planned}, rel=1e-9)
        (added,) = [row for row in use["combine"] if row["kernel"] == "scatter_add"]
        assert added["runs"] == prediction.scenario.cluster.workers * len(LAYERS)


def test_copies_out_of_gathers_and_into_reductions_are_rows_of_combine():
    """In each of two passes all elements once, read and written, of which a GPU has half: two thirds of 12 bytes."""
    prediction = run(scenario(**MANY["sharded"]))
    rows = {row["kernel"]: row for row in kernel_use(prediction.scenario, prediction.plan)["combine"]}
    numel = sum(layer["numel"] for layer in LAYERS)
    for name in ("copies out of gathers", "copies into reductions"):
        row = rows[name]
        assert (row["runs"], row["calls"], row["elements"]) == (2, 2, numel)
        assert row["seconds"] == pytest.approx(2 * (1e-5 + numel * 2e-11 * 8 / 12)) == 2 * row["per_call_s"]


def test_an_infinite_network_has_no_transport_and_no_slow_server():
    """What lies between memory and NIC is part of the network: only the sum in the software is left, which is free."""
    runtime = {"endpoint_bandwidth": 1e8, "server_bandwidth": 1e8, "fitted_for": {"transport": "tcp"}}
    slow = scenario(network={"transport": {"kind": "rdma", "staging": 1e7}}, runtime=runtime, topology=SERVERS)
    assert terms(slow)["transfer"] > 0.5e-3 and terms(with_infinite_network(slow))["transfer"] < 1e-9


def test_additions_of_several_passes_are_explained():
    """Two additions of all 161 tensors of ResNet-50 in three passes more than one, at their price."""
    document = explain(load("quickstart", ("workload.micro_batches=4", "sparsifier=dense")))
    (backward,) = (row for row in document["terms"] if row["term"] == "backward")
    (added,) = (row for row in backward["numbers"]["kernels"] if row["kernel"] == "elementwise")
    assert added["runs"] == added["calls"] == 3 * 161 and added["elements"] == 3 * 25_557_032
    one = run(load("quickstart", ("sparsifier=dense",))).document["breakdown_s"]["backward"]
    assert backward["seconds"] == pytest.approx(one + added["seconds"])


def test_after_local_steps_compute_waits_for_exchanges_that_are_named():
    """All of the wait is that for the last of 161 tensors, behind the others; a period has as many calls."""
    made = explain(load("quickstart", ("sparsifier=dense", "scheduler={kind: diloco, inner_steps: 20}")))
    terms = {row["term"]: row for row in made["terms"]}
    assert terms["queueing"]["numbers"]["exchanges_in_front"] == 160 and terms["transfer"]["numbers"]["calls"] == 1
    assert "those of a period of 20 of them" in made["basis"]


OTHER_JOB = {"nodes": [0, 3], "workload": {"batch_size": 1, "layers": [{"name": "a", "numel": 10}]}, "topology": "ring",
             "sparsifier": "dense", "scheduler": "wfbp"}  # fmt: skip


def test_a_fabric_that_refuses_more_nodes_has_no_value_there():
    spec = scenario().model_dump(exclude={"cluster": {"network": True}})
    spec["cluster"]["network"] = {"kind": "torus", "bandwidth": 1.25e8, "dimensions": (2, 2)}
    spec |= {"topology": "ring", "sparsifier": "dense", "scheduler": "wfbp"}
    answer = asked(Scenario.model_validate(spec))
    row = next(row for row in to_document(answer)["sensitivity"]["inputs"] if row["input"] == "cluster.nodes")
    assert row["at_double"] is None
    assert line(told(answer), "cluster.nodes").endswith(" -")


@pytest.mark.long
@pytest.mark.parametrize(
    "parts",
    [
        {"cluster": {"stragglers": {"slow": [{"worker": 3, "factor": 2}]}}},
        {"cluster": {"other_gpus": [{"nodes": [3], "gpu": CARD, "factor": 1.5}]}},
        {"cluster": {"links": [{"link": "node 3 NIC", "factor": 0.5}]}},
        {"cluster": {"background": [{"source": 3, "destination": 1, "bandwidth": 1e7}]}},
        {"other_jobs": [OTHER_JOB], "iterations": 1, "warmup": 0, "gpu": IDEAL, "layers": [{"name": "a", "numel": 10}]},
        {"collective_order": [{"worker": 3, "buckets": [0, 1, 2, 3, 4, 5]}]},
    ],
    ids=lambda parts: next(iter(parts.get("cluster", parts))),
)
def test_half_the_nodes_have_no_value_where_the_last_one_is_named(parts):
    row = slopes(scenario(**parts))["cluster.nodes"]
    assert row["at_half"] is None and row["at_double"] > 0


def test_nodes_that_can_be_neither_one_more_nor_one_less_have_no_slope():
    row = slopes(scenario(sparsifier={"kind": "gtopk", "density": 0.01}))["cluster.nodes"]
    assert (row["elasticity"], row["derivative"]) == (None, None) and row["at_half"] > 0 < row["at_double"]


@pytest.mark.long
def test_measured_collectives_do_not_make_a_step_in_the_slope():
    row = slopes(load("quickstart", ("sparsifier=dense",)))["cluster.network.bandwidth"]
    assert -1.5 < row["elasticity"] < 0 and row["at_double"] <= row["base"] <= row["at_half"]


def test_command_line_json_has_the_keys():
    document = answered("explain", "ring_check", "--set", "cluster.nodes=4")
    assert {
        "scenario", "digest", "versions", "workers", "iteration_time_s", "iteration_time_interval_s", "summary",
        "basis", "terms", "hidden_communication_s", "exchanges", "counterfactuals", "sensitivity", "warnings",
        "notes",
    } <= set(document)  # fmt: skip
    assert document["workers"] == 4
    assert {"term", "label", "seconds", "share", "formula", "numbers", "calibration"} <= set(document["terms"][0])
