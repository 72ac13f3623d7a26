"""Workers, links and neighbours that are not all alike: exact times by hand.

Unless a test says otherwise there are two workers on a switch of 4 MB/s without start-up: an all-reduce of a million
elements takes 1 s; kernels are free. Layers are (millions of elements, seconds of forward, seconds of backward) in
forward order, and the usual one, ONE, computes for 2 s and communicates for 1 s.
"""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from drawn import durations
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from worked_scenarios import exact, worked

from examples import switch
from simulator.cli import main
from simulator.engine.clock.evaluate import evaluate
from simulator.engine.clock.graphs import graph_of
from simulator.engine.clock.numbers import Draws, foremost_workers, number_tasks
from simulator.engine.clock.run_points import run_point
from simulator.engine.clock.slowing import end_slowed
from simulator.engine.clock.terms import account
from simulator.engine.plan.network_setup import BackgroundTraffic, Conditions, LinkCondition
from simulator.engine.plan.work.kernels import Kernel, KernelPrices, chain_steps
from simulator.engine.rounds.disturbances import NO_DISTURBANCES
from simulator.engine.rounds.network import follow_flows
from simulator.errors import InputError
from simulator.hardware.gpu import Gpu
from simulator.hardware.runtime import Runtime
from simulator.models.exchange import AllReduce, Compute, Round
from simulator.models.timeline import merge_intervals
from simulator.prediction.job_setup import plans_of
from simulator.prediction.run import run
from simulator.scenario.reading import load
from simulator.scenario.scenario import Scenario

C = 4e6
ONE = [(1, 1, 1)]

OVER = {"link": "node 1 NIC", "factor": 0.5, "start": 1e5, "until": 1e6}
"""A change so late that it changes nothing, except that exchanges must be followed as they go."""


def mapping(layers=ONE, scheduler="wfbp", **parts):
    """One iteration of (millions of elements, forward, backward) of each layer, as a person writes it."""
    return worked(layers, **{"scheduler": scheduler, "iterations": 1, "warmup": 0} | parts)


def simulated(*args, **parts):
    prediction = run(Scenario.model_validate(mapping(*args, **parts)))
    terms = prediction.document["breakdown_s"]
    assert sum(terms.values()) == pytest.approx(prediction.document["iteration_time_s"], rel=1e-9)
    return prediction


def document(*args, **parts):
    return simulated(*args, **parts).document


def took(*args, **parts):
    return document(*args, **parts)["iteration_time_s"]


def exchanges(prediction):
    """Buckets with start and end of their exchange, in the order in which they travel."""
    spans = [item for item in prediction.iteration.spans() if item.stream == "communication"]
    return [(item.bucket, item.start, item.end) for item in sorted(spans, key=lambda item: item.start)]


# Workers that vary

SHAPES = ["normal", "lognormal", "uniform", "exponential"]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_seed_decides_the_draws(shape):
    parts = {"stragglers": {"jitter": 0.1, "distribution": shape}, "nodes": 4, "iterations": 3, "warmup": 1}
    first, again, other = (document(seed=seed, **parts) for seed in (5, 5, 6))
    assert first == again
    assert first["iteration_time_s"] != other["iteration_time_s"]


def test_every_shape_has_its_own_draws():
    parts = {"nodes": 4, "iterations": 3}
    assert len({took(stragglers={"jitter": 0.1, "distribution": shape}, **parts) for shape in SHAPES}) == 4


@pytest.mark.parametrize("scheduler", ["sequential", "wfbp"])
@pytest.mark.parametrize("worker", [0, 3])
def test_a_slow_worker_holds_all_up(scheduler, worker):
    """2 s of compute take 3 s on one of four; an all-reduce of 4 MB over four 2 * 3 / 4 = 1.5 s.

    On average a worker computes 2.25 s and waits 0.75 s.
    """
    made = document(scheduler=scheduler, stragglers={"slow": [{"worker": worker, "factor": 1.5}]}, nodes=4)
    assert made["iteration_time_s"] == exact(1.5 * 2 + 1.5)
    terms = made["breakdown_s"]
    assert terms["idle"] == made["idle_s"]["waiting_for_slowest"] == exact(0.75)
    assert terms["forward"] + terms["backward"] == exact(2.25)
    assert terms["communication_exposed"] == exact(1.5)
    assert made["waiting_s"] == exact(0.75)


@pytest.mark.parametrize("scheduler", ["wfbp", "sequential", "priority", "tictac", "decoupled"])
def test_waiting_for_each_other_is_not_communication(scheduler):
    """On an endless network nothing is exposed: what the other worker waits for the slow one, 2 s of 4 s, is idle."""
    made = document(scheduler=scheduler, bandwidth=1e18, stragglers={"slow": [{"worker": 1, "factor": 2}]})
    assert made["iteration_time_s"] == exact(4)
    assert made["breakdown_s"]["communication_exposed"] == pytest.approx(0, abs=1e-9)
    assert made["breakdown_s"]["idle"] == exact(1)  # mean over the two


def test_slow_workers_multiply_where_named_twice():
    assert took(stragglers={"slow": [{"worker": 1, "factor": 1.5}, {"worker": 1, "factor": 2}]}) == exact(3 * 2 + 1)


@pytest.mark.long
def test_16384_workers_that_vary():
    """The slowest of so many normal draws lies 4 deviations out, give or take one, and all wait for it.

    The mean lies within 5 standard errors, of 1 / 128 of a deviation each.
    """
    cluster = ("cluster.nodes=2048", "cluster.gpus_per_node=8", "cluster.stragglers.jitter=2 %")
    changes = (*cluster, "topology=hierarchical", "sparsifier=dense", "iterations=1", "warmup=0")
    made = run(load("quickstart", changes)).document
    terms = made["breakdown_s"]
    assert made["workers"] == 16_384
    assert sum(terms.values()) == exact(made["iteration_time_s"])
    compute = made["scaling_efficiency"] * made["iteration_time_s"] - terms["update"]
    assert terms["forward"] + terms["backward"] == pytest.approx(compute, rel=5 * 0.02 / 128)
    assert 3.2 * 0.02 < terms["idle"] / compute < 5.2 * 0.02


def test_buckets_wait_for_the_slowest_where_compute_is_slowed_too():
    """4 s of compute on the slow one of two, slowed by next to nothing, then 1 s of communication."""
    slow = {"slow": [{"worker": 1, "factor": 2}]}
    assert took(stragglers=slow, runtime={"name": "slowed", "compute_slowdown": 1e-12}) == exact(4 + 1)


# Other GPUs


def card(name, **seconds):
    """A GPU with kernels of constant time; whatever is not named is free."""
    kernels = {kernel: {"curve": "affine", "intercept": f"{time} s"} for kernel, time in seconds.items()}
    return {"name": name, "kernels": kernels}


PAIRS = {"kind": "topk", "density": 0.5}
"""Of a million elements half travel as values and indices: two gathers of 2 MB, 1 s in all."""


def test_the_slower_gpu_sets_the_pace_of_compute_and_selection():
    """Fast: 1 + 1 + 0.25 s. Slow: 2 + 2 + 1 s. Then 1 s of gathers, two scatter-adds of 0.125 s, an update of 0.5 s.

    The fast one stands for 2.75 s, half of that on average; selection is 0.625 s on average.
    """
    fast = card("fast", topk=0.25)
    other = card("slow", topk=1, scatter_add=0.125, update=0.5)
    made = document(sparsifier=PAIRS, gpu=fast, other_gpus=[{"nodes": [1], "gpu": other, "factor": 2}])
    assert made["iteration_time_s"] == exact(5 + 1 + 0.25 + 0.5)
    assert made["iteration_time_s"] == exact(document([(1, 2, 2)], sparsifier=PAIRS, gpu=other)["iteration_time_s"])
    terms = {"forward": 1.5, "backward": 1.5, "slowdown": 0, "selection": 0.625, "communication_exposed": 1}
    terms |= {"combine": 0.25, "update": 0.5, "idle": 1.375}
    assert made["breakdown_s"] == pytest.approx(terms, rel=1e-9)


@pytest.mark.parametrize("scheduler", ["wfbp", "priority"])
def test_a_kernel_between_two_exchanges_is_not_communication(scheduler):
    """Half of a million int64 indices of the other's take 1 s, 0.75 of a million values at their union 0.75 s.

    Between the two 0.25 s to make the indices unique: 2 s of compute, 1.75 s of communication, and that.
    """
    union = {"kind": "topk", "density": 0.5, "exchange_by": "union_all_reduce"}
    made = document(sparsifier=union, scheduler=scheduler, gpu=card("card", unique=0.25), overlap_concentration=1e12)
    assert made["breakdown_s"]["combine"] == exact(0.25)
    assert made["breakdown_s"]["communication_exposed"] == made["communication_total_s"] == exact(1.75)
    assert made["iteration_time_s"] == exact(4)


def test_kernels_with_nothing_to_send_all_come_after():
    pricing = KernelPrices(Gpu.model_validate(card("card", unique=0.25, gather=0.5)), Runtime())
    kernels = [Compute(kernel, (8.0,), 1, "combine") for kernel in ("unique", "gather")]
    assert chain_steps(kernels, pricing, {}) == ((), 0.75)
    sent = (Kernel("unique", 0.25), Kernel("gather", 0.5), 0)
    assert chain_steps([*kernels, AllReduce(8.0)], pricing, {}) == (sent, 0)


def test_selection_is_that_of_each_gpu():
    """Two buckets: the slow GPU is later at the first (1 + 1), the fast one with a slow selection at neither."""
    fast, other = card("fast", topk=0.25), card("other", topk=1)
    made = simulated(
        [(1, 0, 1), (1, 0, 1)], sparsifier=PAIRS, gpu=fast, other_gpus=[{"nodes": [1], "gpu": other, "factor": 1}]
    )
    # Backward 1 s and selection 1 s, twice over: buckets at 2 and 4, gathers of 0.5 s and 0.5 s each.
    assert exchanges(made) == [(0, 2, 2.5), (0, 2.5, 3), (1, 4, 4.5), (1, 4.5, 5)]


@pytest.mark.parametrize("scheduler", ["wfbp", "sequential", "priority", "decoupled", "mg_wfbp"])
@pytest.mark.parametrize("nodes", [[1], [0, 1, 2]])
def test_equal_gpus_change_nothing(scheduler, nodes):
    same = card("card", topk=0.25, scatter_add=0.125, update=0.5)
    parts = {"scheduler": scheduler, "sparsifier": PAIRS, "gpu": same, "nodes": 3}
    layers = [(1, 0.5, 0.25), (2, 0.5, 1)]
    alike = document(layers, **parts)
    named = document(layers, other_gpus=[{"nodes": nodes, "gpu": same, "factor": 1}], **parts)
    assert {**named, "digest": ""} == {**alike, "digest": ""}


@pytest.mark.parametrize("scheduler", ["mg_wfbp", "omgs", "lags"])
def test_schedulers_that_read_costs_cut_the_same_on_every_gpu(scheduler):
    """Selection that is dear on one GPU only asks for other buckets there, but an exchange needs the same on all."""
    fast, other = card("fast"), card("other", topk=5, unique=5)
    parts = {"scheduler": scheduler, "sparsifier": {"kind": "topk", "density": 0.01, "exchange_by": "union_all_reduce"}}
    layers = [(1, 1, 0.3)] * 3
    mixed = took(layers, gpu=fast, other_gpus=[{"nodes": [1], "gpu": other, "factor": 1}], **parts)
    assert mixed >= took(layers, gpu=fast, **parts) * (1 - 1e-9)


# Links that are slow, change or fail


@pytest.mark.parametrize("nodes", [2, 3, 4, 8])
@pytest.mark.parametrize("sparsifier", ["dense", PAIRS])
def test_a_nic_at_half_its_bandwidth_halves_a_ring(nodes, sparsifier):
    """Every chunk passes through every node, and without latency nothing else takes time."""
    parts = {"nodes": nodes, "sparsifier": sparsifier}
    links = [{"link": "node 1 NIC", "factor": 0.5}]
    healthy, made = document(**parts), document(links=links, **parts)
    assert made["iteration_time_s"] - 2 == exact(2 * (healthy["iteration_time_s"] - 2))
    assert made["fidelity"]["tier"] == "fold"
    flowing = document(links=links, fidelity="flows", **parts)
    assert flowing["fidelity"]["tier"] == "flows"
    assert flowing["iteration_time_s"] == exact(made["iteration_time_s"])


@pytest.mark.parametrize("way", ["in", "out"])
def test_one_direction_is_enough(way):
    assert took(links=[{"link": f"node 1 NIC {way}", "factor": 0.5}]) == exact(2 + 2)


def test_node_1_is_not_node_10():
    """With a sixteenth of the NIC left and eleven nodes, 2 * 10 / 11 of 4 MB take 16 times as long, whoever it is."""
    for node in (1, 10):
        made = simulated(nodes=11, links=[{"link": f"node {node} NIC", "factor": 1 / 16}])
        assert made.document["iteration_time_s"] == exact(2 + 16 * 20 / 11)
        slowed = [name for name, c in zip(made.plan.wiring.names, made.plan.wiring.capacity, strict=True) if c < C]
        assert slowed == [f"node {node} NIC out", f"node {node} NIC in"]


def test_a_measured_curve_is_that_of_healthy_links():
    """4 MB in 3 s as measured; on a NIC at half its bandwidth nothing was measured, and the links' law says 2 s."""
    curve = {"primitive": "all_reduce", "topology": "ring", "workers": 2, "gpus_per_node": 1}
    curve |= {"bandwidth": C, "latency": 0, "points": [[1, 3], [1e9, 3]], "source": "made up"}
    assert took(network={"measured": [curve]}) == exact(2 + 3)
    assert took(network={"measured": [curve]}, links=[{"link": "node 1 NIC", "factor": 0.5}]) == exact(2 + 2)


def test_buckets_are_cut_for_the_links_as_they_are():
    """Tensors of a thousand elements are ready at 0.5, 1 and 1.5; an exchange takes 0.4 s, and 1 ms each.

    Merging gains nothing: 1.901 s. With a thousandth of one NIC left each takes 0.4 + 1 s. One by one: 0.5 + 3 * 1.4 =
    4.7 s; the first alone, then the others: 1.9 + 2.4 = 4.3 s; all: 1.5 + 3.4 = 4.9 s.
    """
    layers, parts = [(0.001, 1, 0.5)] * 3, {"scheduler": "mg_wfbp", "latency": 0.2}
    assert took(layers, **parts) == exact(3 + 1.901)
    assert took(layers, links=[{"link": "node 1 NIC", "factor": 0.001}], **parts) == exact(3 + 4.3)
    assert took(layers, **parts) == exact(3 + 1.901)


def during(start, until, factor=0.0, link="node 0 NIC"):
    window = {} if until is None else {"until": f"{until} s"}
    return {"link": link, "factor": factor, "start": f"{start} s", **window}


@pytest.mark.parametrize(
    ("links", "ends"),
    [
        ([during(2.5, 3.5)], 4),  # down for 1 s of its way
        ([during(1.5, 2.25)], 3.25),  # down when it should begin, at 2
        ([during(0.5, 1.5)], 3),  # back before it begins
        ([during(3, 4)], 3),  # down when all is over
        ([during(2.25, 2.75, 0.5)], 3.25),  # half a second at half speed
        ([during(2.5, None, 0.25)], 4.5),  # half of it at a quarter
        ([during(2.25, 2.5), during(2.75, 3)], 3.5),  # flapping
        ([during(2.25, 3.25, link="node 0 NIC out")], 4),  # nobody can go on without what one sends
        ([during(2.25, 3.25), during(2.5, 3, link="node 1 NIC")], 4),  # at the same time, elsewhere
        ([during(2.5, 3.5), {"link": "node 1 NIC", "factor": 0.5}], 5),  # 2 s at half speed, and 1 s down
    ],
)
def test_a_link_that_comes_back_delays_exactly(links, ends):
    """ONE travels from 2 to 3."""
    made = simulated(links=links)
    assert exchanges(made)[-1][2] == exact(ends)
    assert made.document["iteration_time_s"] == exact(ends)


@pytest.mark.parametrize("turn", [1, -1])
def test_a_link_that_fails_over(turn):
    """Half has passed at 2.5 when it goes down; from 3.5 on the rest at half the bandwidth: 4.5, in whatever order."""
    assert took(links=[during(2.5, 3.5), during(3.5, None, 0.5)][::turn]) == exact(4.5)


@pytest.mark.parametrize("links", [[during(2.5, 3.5)], [during(2.5, None)], [during(0, None)]])
def test_the_fold_does_not_pass_over_changes(links):
    """It can't follow links that change, so it says so, or follows them nevertheless."""
    try:
        time = took(links=links, fidelity="fold")
    except (InputError, ValidationError):
        return
    assert time >= 4 * (1 - 1e-9)


@pytest.mark.parametrize("links", [[during(0, None)], [during(2.5, None, link="node 0 NIC out")]])
@pytest.mark.parametrize("topology", ["ring", "parameter_server"])
def test_a_link_that_is_down_for_good_is_named(tmp_path, links, topology):
    scenario = mapping(links=links, topology=topology)
    with pytest.raises(InputError, match=r"workers that wait for node 0 NIC out.* for ever: a link that is down"):
        run(Scenario.model_validate(scenario))
    (tmp_path / "down.yaml").write_text(json.dumps(scenario))
    result = CliRunner().invoke(main, ["run", str(tmp_path / "down.yaml")], catch_exceptions=False)
    assert result.exit_code == 2
    assert "node 0 NIC out" in result.output
    assert len(result.output.splitlines()) == 1


def test_an_unknown_link_is_an_error():
    with pytest.raises(InputError, match="a link of this fabric, got node 2 NIC: did you mean 'node"):
        took(links=[{"link": "node 2 NIC", "factor": 0.5}])


@pytest.mark.parametrize(
    ("runtime", "seconds"),
    [
        ({}, 3),  # ready at 1 and 2, each on the way for 1 s
        ({"negotiation": "0.25 s"}, 3.5),  # ... for 1.25 s, and the second waits for the first
        ({"collective_launch": "0.5 s"}, 3.5),  # the first launched by 1.5, the second beside it by 2.5
        ({"cycle_time": "1 s"}, 3.5),  # found at 1.5 and 2.5, and the first is through at 2.5
    ],
)
@pytest.mark.parametrize("how", ["known", "followed", "barely slowed"])
def test_software_runs_beside_earlier_exchanges_however_they_are_timed(runtime, seconds, how):
    """Known beforehand, followed since links change, or since kernels are slowed, be it by next to nothing."""
    links = [OVER] if how == "followed" else []
    slowed = {"compute_slowdown": 1e-12} if how == "barely slowed" else {}
    assert took([(1, 0, 1), (1, 0, 1)], links=links, runtime={"name": "slow", **runtime, **slowed}) == exact(seconds)


FOLLOWED = ["wfbp", "sequential", "bucketed", "tictac", "decoupled", "mg_wfbp", "omgs"]
FOLLOWED += [{"kind": "wfbp", "partition": "1 MB"}, {"kind": "decoupled", "bucket_size": "1 MB"}]
FOLLOWED += [{"kind": "priority", "partition": "2 MB", **credit} for credit in ({}, {"credit": "5 MB"})]
profiles = st.lists(st.tuples(st.floats(1e-6, 3), durations(2), st.floats(0.01, 2)), min_size=1, max_size=5)


@given(
    layers=profiles,
    nodes=st.integers(2, 4),
    latency=durations(0.5),
    scheduler=st.sampled_from(FOLLOWED),
    sparsifier=st.sampled_from(["dense", PAIRS, {"kind": "topk", "density": 0.1, "exchange_by": "union_all_reduce"}]),
)
def test_a_change_after_the_end_changes_nothing(*, layers, nodes, latency, scheduler, sparsifier):
    """Exchanges that are followed as they go take as long as those whose durations are known."""
    gpu = card("card", topk=0.1, unique=0.05, copy=0.02, scatter_add=0.01)
    parts = {"nodes": nodes, "latency": latency, "scheduler": scheduler, "sparsifier": sparsifier, "gpu": gpu}
    known, followed = document(layers, **parts), document(layers, links=[OVER], **parts)
    for key in ("iteration_time_s", "communication_total_s", "breakdown_s"):
        assert followed[key] == pytest.approx(known[key], rel=1e-9, abs=1e-9)
    assert followed["traffic"]["total_bytes"] == pytest.approx(known["traffic"]["total_bytes"], rel=1e-9)


def test_too_many_messages_to_follow_are_an_input_error(monkeypatch):
    monkeypatch.setattr("simulator.engine.rounds.network._MOST", 3)
    for parts in ({"fidelity": "flows"}, {"links": [during(0, 1)]}):
        with pytest.raises(InputError, match=r"an exchange that flows can follow, got .* messages"):
            took(nodes=4, **parts)


# Traffic of others


@pytest.mark.parametrize("rate", [0.5e6, 1e6, 2e6, 3e6, 4e6, 1e9])
@pytest.mark.parametrize("topology", ["ring", "hierarchical"])
def test_background_traffic_takes_no_more_than_its_share(rate, topology):
    """What it leaves is C - r, and C / 2 where it would take more; the way that it does not use has to wait, too."""
    made = document(background=[{"source": 0, "destination": 1, "bandwidth": f"{rate} B/s"}], topology=topology)
    assert made["iteration_time_s"] == exact(2 + C / max(C - rate, C / 2))
    assert made["fidelity"]["tier"] == "flows"


def test_two_streams_of_background_leave_a_third():
    """Both full: a third each. One of 0.5 MB/s and a full one: 0.5, and half of 3.5 MB/s."""
    full, little = ({"source": 0, "destination": 1, "bandwidth": f"{rate} B/s"} for rate in (1e9, 0.5e6))
    assert took(background=[full, full]) == exact(2 + 3)
    assert took(background=[little, full]) == exact(2 + C / 1.75e6)


def test_background_and_a_server():
    """Two workers push 4 MB each to one server, whose NIC in gives 2 MB/s to each: 2 s, and 2 s back.

    From node 0 to node 1 a stream of 1 MB/s fits beside the 2 MB/s; a full one gets the 2 MB/s that are left, and takes
    nothing from anyone.
    """
    for rate in (1e6, 1e9):
        background = [{"source": 0, "destination": 1, "bandwidth": f"{rate} B/s"}]
        assert took(topology="parameter_server", background=background) == exact(2 + 4)


def beside(start=0, layers=ONE, nodes=(0, 1), **parts):
    other = {**mapping(layers), **parts}
    keys = ("workload", "topology", "sparsifier", "scheduler")
    return {"nodes": list(nodes), "start": f"{start} s", **{key: other[key] for key in keys}}


@pytest.mark.parametrize("fidelity", ["fold", "flows"])
def test_a_server_s_link_carries_one_push_after_the_other(fidelity):
    """2 s of compute, then two times 4 MB to the server, and as much back, over its 4 MB/s; a second push
    goes beside the first pull."""
    assert document(topology="parameter_server", fidelity=fidelity)["iteration_time_s"] == exact(2 + 2 + 2)
    two = document([(1, 1, 1), (1, 0, 0)], topology="parameter_server", fidelity=fidelity)
    assert two["iteration_time_s"] == exact(1 + 2 + 2 + 2)
    slow = document(topology="parameter_server", fidelity=fidelity, runtime={"name": "slow", "message_overhead": 0.25})
    assert slow["iteration_time_s"] == exact(2 + 2.5 + 2.5)


def test_servers_of_each_job_stand_on_nodes_of_their_own():
    """Three jobs on nodes 0 and 1: behind them the first one's server, then the second's two, then the third's."""
    jobs = [beside(topology={"kind": "parameter_server", "servers": servers}) for servers in (2, 1)]
    plan, _ = plans_of(Scenario.model_validate(mapping(topology="parameter_server", other_jobs=jobs)))
    assert plan.wiring.node.tolist() == [0, 1, 2, 0, 1, 3, 4, 0, 1, 5]


def test_jobs_on_the_same_nodes_have_gpus_and_nics_of_their_own():
    """Three jobs of one GPU on each of two nodes that have three NICs: each job takes the next place and NIC."""
    scenario = mapping(network={"nics_per_node": 3}, other_jobs=[beside(), beside()])
    plan, others = plans_of(Scenario.model_validate(scenario))
    for number, each in enumerate((plan, *others)):
        rounds = [item for chain in each.exchanges[0] for stage in chain for item in stage.rounds or []]
        assert rounds
        for item in rounds:
            assert set(item.src.tolist()) == set(item.dst.tolist()) == {2 * number, 2 * number + 1}
            names = {plan.wiring.names[link] for link in plan.wiring.route(item.src, item.dst).first.tolist()}
            assert names == {f"node {node} NIC {number} out" for node in (0, 1)}


@pytest.mark.parametrize(
    ("start", "seconds"),
    [
        (0, 4),  # both from 2 on: half the bandwidth each
        (0.5, 3.5),  # alone from 2 to 2.5, then the other half beside the other job, 1 s
        (0.75, 3.25),
        (1, 3),  # as this one ends, that one begins
        (2, 3),  # from 4 to 5, while this one computes
    ],
)
def test_two_jobs_share_nics_while_both_communicate(start, seconds):
    """ONE and the same again beside it, on GPUs of their own: 2 s of compute, 1 s of communication alone.

    Each iteration takes as long as the first, since both jobs are delayed alike.
    """
    made = document(other_jobs=[beside(start)], iterations=3)
    assert (made["iteration_time_s"], made["fidelity"]["tier"]) == (exact(seconds), "flows")
    assert made["fidelity"]["reason"].startswith("other jobs share the links")


def test_two_jobs_meet_in_the_second_iteration():
    """The other job's exchange, 4.25 to 5.25 alone, meets this one's second, from 5 on.

    At half speed its last quarter takes until 5.5; this one has sent a quarter by then, and the rest by 6.25. The mean
    of 3 and 3.25 s; without the first 3.25.
    """
    assert took(other_jobs=[beside(2.25)], iterations=2) == exact(3.125)
    assert took(other_jobs=[beside(2.25)], iterations=1, warmup=1) == exact(3.25)


def test_a_job_that_begins_after_the_end_is_not_noticed():
    assert took(other_jobs=[beside(3)]) == exact(3)
    assert took(other_jobs=[]) == exact(3)


def test_the_bytes_of_another_job_are_its_own():
    alone, shared = document(), document(other_jobs=[beside()])
    assert shared["traffic"]["total_bytes"] == alone["traffic"]["total_bytes"]
    assert shared["traffic"]["sent_bytes_per_worker"] == alone["traffic"]["sent_bytes_per_worker"]


def test_another_job_cuts_its_buckets_for_the_ways_that_it_takes():
    """As in a job alone: 0.4 + 1 s a tensor across the nodes, so that two go together; inside a node it is free."""
    layers = [(0.001, 1, 0.5)] * 3
    alone = simulated(layers, **{"latency": 0.2, "bandwidth": 4e3, "scheduler": "mg_wfbp"}).plan.work.buckets
    assert [bucket.layers for bucket in alone] == [(2,), (1, 0)]
    other = beside(layers=layers, scheduler="mg_wfbp")
    inside = {"intra_node": {"bandwidth": "1 TB/s"}}
    scenario = mapping(layers, latency=0.2, bandwidth=4e3, gpus_per_node=2, network=inside, other_jobs=[other])
    (neighbour,) = plans_of(Scenario.model_validate(scenario))[1]
    assert neighbour.work.buckets == alone


@pytest.mark.parametrize(
    "parts",
    [
        # The other job goes on for ever, though this one never will.
        {"nodes": 4, "links": [during(0, None)], "other_jobs": [beside(nodes=(2, 3))]},
        # The other job's iterations take no time.
        {"other_jobs": [beside(layers=[(1e-6, 0, 0)], nodes=(0,))]},
    ],
    ids=["waiting for a dead link", "beside a job of no time"],
)
@pytest.mark.timeout(12)
def test_nothing_hangs(tmp_path, parts):
    (tmp_path / "job.yaml").write_text(json.dumps(mapping(**parts)))
    result = CliRunner().invoke(main, ["run", str(tmp_path / "job.yaml"), "--json"], catch_exceptions=False)
    assert result.exit_code in (0, 2)


# The order of collectives

THREE = [(1, 0, 1)] * 3
"""Three buckets, ready at 1, 2 and 3, each on the way for 1 s."""


def ordered(*orders):
    return [{"worker": worker, "buckets": list(order)} for worker, order in enumerate(orders)]


@pytest.mark.parametrize(
    ("order", "starts", "total"),
    [((0, 1, 2), (1, 2, 3), 4), ((1, 0, 2), (2, 3, 4), 5), ((2, 0, 1), (3, 4, 5), 6), ((0, 2, 1), (1, 3, 4), 5)],
)
@pytest.mark.parametrize("links", [[], [OVER]])
def test_collectives_go_in_the_order_that_all_issue(order, starts, total, links):
    """The first in order holds up the others, ready or not."""
    made = simulated(THREE, collective_order=ordered(order, order), links=links)
    assert exchanges(made) == [(bucket, start, start + 1) for bucket, start in zip(order, starts, strict=True)]
    assert made.document["iteration_time_s"] == exact(total)


def test_a_worker_that_swaps_two_is_a_deadlock():
    with pytest.raises(InputError) as caught:
        took(THREE, collective_order=[{"worker": 1, "buckets": [0, 2, 1]}], nodes=3)
    text = str(caught.value)
    assert "expected an order of collectives that all workers share" in text
    assert "workers 0, 2 at bucket 1 and worker 1 at bucket 2 after bucket 0" in text
    assert "a deadlock" in text


def test_an_order_of_a_worker_that_is_not_there():
    with pytest.raises(ValidationError, match="workers below 2"):
        took(THREE, collective_order=[{"worker": 2, "buckets": [0, 1, 2]}])


def test_push_and_pull_need_nobody_elses_turn():
    swapped = [{"worker": 1, "buckets": [0, 2, 1]}]
    one, other = (document(THREE, topology="parameter_server", collective_order=order) for order in ([], swapped))
    assert {**one, "digest": ""} == {**other, "digest": ""}


@pytest.mark.parametrize("scheduler", ["priority", "tictac"])
def test_an_order_is_followed_or_refused(scheduler):
    """A scheduler that sets the order itself can't follow another one, and should say so."""
    try:
        made = simulated(THREE, scheduler=scheduler, collective_order=ordered((2, 0, 1), (2, 0, 1)))
    except InputError:
        return
    assert [bucket for bucket, _, _ in exchanges(made)] == [2, 0, 1]


@given(st.integers(0, 99), st.sampled_from([0.01, 0.3]), st.sampled_from(["wfbp", "sequential", "bucketed"]))
def test_following_the_foremost_workers_is_following_all(seed, jitter, scheduler):
    plan, _ = plans_of(load("quickstart", (f"scheduler={scheduler}", "sparsifier.density=0.01")))
    rng = np.random.default_rng(seed)
    draws = Draws(1 + jitter * rng.random(32), rng.standard_normal(32))
    few, graph = run_point(plan, draws), graph_of(plan)
    followed = number_tasks(graph, [(plan, draws)], [True]).workers.compute.shape[1]
    assert followed == len(foremost_workers(draws.compute, draws.selection)) + 1 < 32  # and their mean
    (every,) = account(evaluate(graph, number_tasks(graph, [(plan, draws)])))
    assert few.time == pytest.approx(every.time, rel=1e-12)
    assert few.waiting == pytest.approx(every.waiting, rel=1e-9, abs=1e-12)
    assert few.breakdown == pytest.approx(every.breakdown, rel=1e-9, abs=1e-12)
    assert len(few.computed()) == 32  # asked for, all are followed


def test_a_link_that_is_slow_throughout_and_slower_for_a_while_changes_in_time_alone():
    """Half, and half of that from 1 s to 2 s: the wiring itself stays, or the half would count twice."""
    wiring = switch(2)
    half = LinkCondition(link="node 0 NIC out", factor=0.5)
    both = Conditions((half, half.model_copy(update={"start": 1.0, "until": 2.0})))
    assert both.slowed(wiring).capacity.tolist() == wiring.capacity.tolist()
    changes = [(change.time, change.factor) for change in both.disturbances(wiring).changes]
    assert changes == [(0, 0.5), (1, 0.25), (2, 0.5)]
    always = Conditions((half, LinkCondition(link="node 0 NIC", factor=0.5)))
    out = wiring.names.index("node 0 NIC out")
    assert always.slowed(wiring).capacity[out] == wiring.capacity[out] / 4
    assert always.disturbances(wiring) is NO_DISTURBANCES


@pytest.mark.parametrize(("src", "dst", "seconds"), [(0, 1, 0.5), (1, 0, 0.25)])
def test_background_slows_the_way_that_it_goes(src, dst, seconds):
    """1 MB over 4 MB/s, half of which the traffic from node 0 to node 1 gets."""
    wiring = switch(2, 1, C)
    traffic = Conditions((), (BackgroundTraffic(source=0, destination=1, bandwidth=C),)).disturbances(wiring)
    rounds = [Round(np.array([src]), np.array([dst]), np.array([[1e6]]))]
    assert follow_flows(rounds, wiring, np.zeros(2), disturbances=traffic).max() == pytest.approx(seconds, rel=1e-9)


# Compute that is slowed by communication


@pytest.mark.parametrize(
    ("begin", "nominal", "seconds"),
    [
        (0.0, 0.5, 0.5),  # through before the first collective begins
        (0.0, 1.5, 2.5),  # 1 s free, then 0.5 s at a third of the pace: slowdown 2
        (1.0, 0.25, 0.75),  # within a collective
        (1.0, 1.5, 3.5),  # 1 s of work in 3 s, and the rest free
        (3.0, 2.5, 5 + 1 / 6),  # a third of a second's work, 1 s free, 1 s of work in 3 s, and the rest free
        (20.0, 1.0, 1.0),  # all is over
    ],
)
def test_a_layer_runs_slower_while_collectives_do(begin, nominal, seconds):
    """Collectives from 1 to 4 and 5 to 8; a kernel between them slows nothing."""
    busy = [(1, 4, "all-reduce", 0, True), (4, 5, "unpack", 0, False), (5, 8, "all-reduce", 1, True)]
    collectives = merge_intervals((start, end) for start, end, _, _, collective in busy if collective)
    assert end_slowed(begin, nominal, collectives, 2.0) - begin == exact(seconds)
    assert end_slowed(begin, nominal, [], 2.0) == end_slowed(begin, nominal, collectives, 0.0) == begin + nominal


@pytest.mark.parametrize("factor", [1, 2])
def test_what_communication_costs_compute_is_a_term_of_its_own(factor):
    """The second layer's exchange takes 1 s, in which half of a second of the first one's is done: 0.5 s are lost.

    A worker of twice the pace keeps its proportion to the slowest: where that one has lost 0.5 of 4.5 s, it has lost
    0.25 of 2.25 s.
    """
    stragglers = {"slow": [{"worker": 1, "factor": factor}]}
    made = simulated([(1, 0, 1)] * 2, stragglers=stragglers, runtime={"name": "slowed", "compute_slowdown": 1.0})
    terms, lost = made.document["breakdown_s"], 0.5 if factor == 1 else (0.5 + 0.25) / 2
    assert (terms["slowdown"], terms["backward"]) == (exact(lost), exact(1 + factor))
    assert made.document["iteration_time_s"] == exact(2 * factor + 0.5 + 1)
    assert made.simulated.figures.slowed == {"backward": exact(lost)}
    assert [exact(span.slowed) for span in made.iteration.spans_of(1) if span.label == "backward"] == [0, 0.5]


def test_collectives_at_the_same_time_slow_compute_as_one_does():
    """A second of compute; from 0.2 on one exchange, from 0.4 to 0.8 two: at half the pace, 0.3 s are done by then.

    Each takes 0.4 s and 0.2 s alone, and has 0.2 s left at 0.4, from when on both share the links.
    """
    layers, runtime = [(1e-6, 0, 0.7), (0.2, 0, 0.1), (0.4, 0, 0.2)], {"name": "slowed", "compute_slowdown": 1.0}
    made = simulated(layers, {"kind": "wfbp", "streams": 2}, runtime=runtime)
    assert exchanges(made)[:2] == [(0, exact(0.2), exact(0.8)), (1, exact(0.4), exact(0.8))]
    ends = [span.end for span in made.iteration.spans() if span.label == "backward"]
    assert ends == [exact(0.2), exact(0.4), exact(1.3)]
    alone = simulated(layers, runtime=runtime)  # on one stream one after the other, until 0.8 as well
    assert [end for _, _, end in exchanges(alone)][:2] == [exact(0.6), exact(0.8)]
    assert [span.end for span in alone.iteration.spans() if span.label == "backward"] == [exact(end) for end in ends]
