"""Local steps between sites over a job inside each: bytes, memory and times by hand arithmetic, and what is refused."""

import math
from math import ceil

import pytest
from sharded_scenarios import BLOCKS, NUMEL, PARAMETERS, sharded

from simulator.engine.clock.numbers import ALIKE
from simulator.engine.clock.run_points import run_in_a_row
from simulator.engine.clock.simulation import simulate_all
from simulator.errors import InputError
from simulator.prediction.run import plan_of, run
from simulator.scenario.scenario import Scenario
from simulator.studies.explain.terms import terms_of

LINE = 10e9 / 8
"""Bytes per second of the line between two sites of two nodes with four GPUs each."""
WIDE = {"kind": "wide_area", "sites": [{"name": "north", "nodes": 2}, {"name": "south", "nodes": 2}]}
WIDE |= {"between": {"rate": "10 Gbit/s", "latency": "0 s"}}
SCHEDULES = ["fsdp", {"kind": "fsdp", "shard": 4}, {"kind": "zero", "bucket": NUMEL}, "bucketed"]
OUTER = [
    {"kind": "local_sgd", "inner_steps": 10},
    {"kind": "diloco", "inner_steps": 10},
    {"kind": "overlapped_diloco", "inner_steps": 10, "delay": 3},
    {"kind": "streaming_diloco", "inner_steps": 10, "fragments": 3, "delay": 2},
    {"kind": "decoupled_diloco", "inner_steps": 10, "fragments": 2},
]


def two_levels(outer="diloco", inside="fsdp", steps=10, **parts):
    """Sixteen GPUs in two sites."""
    given = outer if isinstance(outer, dict) else {"kind": outer, "inner_steps": steps}
    site = {} if "network" in parts and "site" not in parts else {"site": parts.pop("site", 2)}
    return sharded(given | {"inside": inside} | site, **parts)


def answer(scenario):
    return run(scenario, intervals=False).result


def one_site(inside, **parts):
    """The job inside a site by itself."""
    return answer(sharded(inside, nodes=2, **parts))


@pytest.mark.parametrize("inside", SCHEDULES, ids=str)
def test_with_one_site_it_is_the_job_inside(inside):
    made, own = answer(two_levels("diloco", inside, nodes=2)), one_site(inside)
    for name in ("iteration_time", "breakdown", "traffic", "memory", "period"):
        assert getattr(made, name) == getattr(own, name)


@pytest.mark.parametrize("outer", OUTER, ids=lambda outer: outer["kind"])
@pytest.mark.parametrize("inside", SCHEDULES, ids=str)
def test_terms_add_up_and_more_steps_tend_to_the_job_inside(inside, outer):
    own, before = one_site(inside), float("inf")
    for steps in (10, 100, 10_000, 1_000_000):
        made = answer(two_levels(outer | {"inner_steps": steps}, inside))
        assert sum(made.breakdown.values()) == pytest.approx(made.iteration_time, rel=1e-9)
        assert made.period.exposed_inside == own.breakdown["communication_exposed"]
        assert made.period.exposed_inside <= made.breakdown["communication_exposed"] * (1 + 1e-12)
        assert made.breakdown["communication_exposed"] <= made.communication_total * (1 + 1e-12)
        exposed = [use.exposed for use in (made.axes.site, made.axes.shard, made.axes.replica) if use is not None]
        assert math.fsum(exposed) == pytest.approx(made.breakdown["communication_exposed"], abs=1e-12)
        assert made.axes.site.gpus == 2 and (made.axes.site.exposed > 0 or outer["kind"] != "diloco")
        assert own.iteration_time * (1 - 1e-12) <= made.iteration_time <= before * (1 + 1e-12)
        before = made.iteration_time
    assert before == pytest.approx(own.iteration_time, rel=1e-5)
    assert made.compute_utilisation == pytest.approx(own.compute_utilisation, rel=1e-5)


@pytest.mark.parametrize("sites", [2, 4])
def test_a_period_takes_its_steps_the_exchange_and_the_gather(sites):
    """Each GPU has 1 of 8 or 4 parts in fp32, and a quarter of 10 GB/s; the ideal GPU's kernels take no time."""
    nodes, gpus, inside = 4 // sites, 16 // sites, {"kind": "fsdp", "shard": 4}
    own, made = answer(sharded(inside, nodes=nodes)), answer(two_levels("diloco", inside, site=nodes))
    exchange = 2 * (sites - 1) / sites * 4 * PARAMETERS / gpus / 2.5e9
    copies = nodes  # of the model in a site; masters in fp32 go to the GPU with the same part in each other node
    gather = (copies - 1) * 4 * PARAMETERS / gpus / 2.5e9
    assert made.period.time == pytest.approx(10 * own.iteration_time + exchange + gather, rel=1e-9)
    assert made.period.synchronisation == pytest.approx(exchange + gather, rel=1e-9)
    assert made.period.exposed_inside == own.breakdown["communication_exposed"] > 0


@pytest.mark.parametrize("inside", SCHEDULES, ids=str)
@pytest.mark.parametrize("sites", [2, 4])
def test_bytes_between_sites_and_inside_them(inside, sites):
    """Between sites 2 (s - 1) / s x 4 P from each site in a period, whatever its GPUs; inside, what copies get.

    The gather of all parameters with which ZeRO ends a step comes after the outer step, too.
    """
    nodes, gpus = 4 // sites, 16 // sites
    own, made = answer(sharded(inside, nodes=nodes)), answer(two_levels("diloco", inside, site=nodes))
    share = PARAMETERS / gpus
    assert made.period.sent_per_worker == pytest.approx(2 * (sites - 1) / sites * 4 * share, rel=1e-12)
    kind = inside if isinstance(inside, str) else inside["kind"]
    gathered = ({"fsdp": nodes if isinstance(inside, dict) else 1, "zero": 1, "bucketed": gpus}[kind] - 1) * 4 * share
    sent = own.traffic.sent_per_worker + (made.period.sent_per_worker + gathered) / 10
    assert made.traffic.sent_per_worker == pytest.approx(sent, rel=1e-9)
    assert made.traffic.total == pytest.approx(16 * sent, rel=1e-9)


def test_tensors_that_do_not_divide_are_rounded_up():
    layers = [{"name": name, "numel": numel, "forward": 1, "backward": 1} for name, numel in (("a", 13), ("b", 8))]
    made = answer(two_levels(workload={"layers": layers}))
    assert made.period.sent_per_worker == pytest.approx(4 * (ceil(13 / 8) + 1))


@pytest.mark.parametrize("inside", SCHEDULES, ids=str)
def test_all_gpus_of_a_site_share_the_line(inside):
    """Two sites send 4 P each over the line, which is slower than their NICs; the local network is as without sites."""
    made, own = answer(two_levels("local_sgd", inside, site=2, network=WIDE)), one_site(inside)
    gather = answer(two_levels("local_sgd", inside)).period.synchronisation - 4 * PARAMETERS / 8 / 2.5e9
    assert made.period.synchronisation == pytest.approx(4 * PARAMETERS / LINE + gather, rel=1e-9)
    assert made.period.exposed_inside == pytest.approx(own.breakdown["communication_exposed"])
    line = next(link for link in made.links if link.name == "north to south")
    assert line.nbytes == pytest.approx(4 * PARAMETERS / 10), "of all GPUs together, in one of ten steps"


@pytest.mark.parametrize("shard", [4, 8])
def test_replicas_of_a_sharded_model_share_the_line(shard):
    """HSDP over both sites: a ring over 4 or 2 nodes crosses the line each way with 2 (r - 1) / r of 4 P."""
    plan = plan_of(sharded({"kind": "fsdp", "shard": shard}, network=WIDE))
    replicas = 16 // shard
    assert plan.prices.seconds == pytest.approx([2 * (replicas - 1) / replicas * 4 * NUMEL / LINE])
    made = answer(sharded({"kind": "fsdp", "shard": shard}, network=WIDE))
    line = next(link for link in made.links if link.name == "north to south")
    assert line.nbytes == pytest.approx(2 * (replicas - 1) / replicas * 4 * PARAMETERS)


@pytest.mark.parametrize("outer", OUTER, ids=lambda outer: outer["kind"])
def test_a_slower_line_is_never_faster(outer):
    times = [
        answer(
            two_levels(outer, network=WIDE | {"between": {"rate": f"{rate} Mbit/s", "latency": "1 ms"}})
        ).iteration_time
        for rate in (20_000, 5_000, 1_000, 100, 10)
    ]
    assert times == sorted(times) and times[-1] > times[0]


@pytest.mark.parametrize("slowdown", [0, 0.4])
@pytest.mark.parametrize("outer", OUTER, ids=lambda outer: outer["kind"])
@pytest.mark.parametrize("inside", SCHEDULES, ids=str)
def test_the_clock_and_the_evaluator_agree(inside, outer, slowdown):
    plan = plan_of(two_levels(outer, inside, runtime={"name": "slowed", "compute_slowdown": slowdown}, network=WIDE))
    fast, clock = ([*how(plan, [ALIKE])] for how in (run_in_a_row, simulate_all))
    for name in ("time", "breakdown", "communication_total", "communication_added_up", "waiting", "held_back"):
        assert [getattr(each, name) for each in fast] == [getattr(each, name) for each in clock]
    spans = [span for span in fast[0].spans_of(0) if span.stream == "compute"]
    assert sum(span.duration for span in spans) == pytest.approx(fast[0].time, rel=1e-9)
    assert any("inside a site" in span.label for span in spans)


def test_an_exchange_slows_down_what_is_not_slow_already():
    """All of the 3 s are beside the exchange: as slow as beside one collective, also with collectives inside."""
    outer = {"kind": "overlapped_diloco", "inner_steps": 2}
    slow = {"network": WIDE | {"between": {"rate": "10 Mbit/s"}}, "runtime": {"name": "slow", "compute_slowdown": 0.5}}
    made = run(two_levels(outer, **slow), intervals=False)
    assert 0 < made.plan.inside.step.breakdown["slowdown"] < 1.5
    assert made.result.breakdown["forward"] + made.result.breakdown["backward"] == pytest.approx(3)
    assert made.result.breakdown["slowdown"] == pytest.approx(1.5)


@pytest.mark.parametrize("inside", SCHEDULES, ids=str)
def test_memory_is_that_inside_and_a_share_of_the_outer_states(inside):
    """Outer parameters and their momentum in fp32, 8 B of 1 in 8; a cast of the largest tensor's part to travel."""
    made, own = answer(two_levels("diloco", inside)).memory.parts, one_site(inside).memory.parts
    assert made.pop("outer") == pytest.approx(8 * PARAMETERS / 8) and own.pop("outer") == 0
    assert made.pop("exchange") - own.pop("exchange") == pytest.approx(4 * NUMEL / 8)
    assert made == own


def test_a_sparsifier_selects_from_the_pseudo_gradients_of_a_part():
    made = run(two_levels(sparsifier={"kind": "topk", "density": 0.01}), intervals=False)
    dense, own = run(two_levels(), intervals=False), run(sharded("fsdp", nodes=2), intervals=False)
    assert [bucket.numel for bucket in made.plan.work.buckets] == [NUMEL // 8] * BLOCKS
    assert made.plan.inside.step.breakdown == own.iteration.breakdown
    assert made.result.period.sent_per_worker < dense.result.period.sent_per_worker / 20


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scheduler": {"inside": None}}, "exchanges in every step"),
        ({"scheduler": {"inside": {"kind": "local_sgd", "inner_steps": 3}}}, "exchanges in every step"),
        ({"scheduler": {"site": 3}}, "a site to divide the cluster evenly"),
        ({"cluster": {"stragglers": {"jitter": 0.1}}}, "sites that are alike"),
        ({"cluster": {"links": [{"link": "node 0 NIC out", "factor": 0.5}]}}, "sites that are alike"),
        ({"topology": "parameter_server"}, "links to themselves"),
        ({"cluster": {"network": {"kind": "fat_tree", "bandwidth": "1 GB/s"}}}, "single_switch or wide_area"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_in_words(change, words):
    asked = dict(two_levels().resolved())
    asked["cluster"] = asked["cluster"] | change.pop("cluster", {})
    asked["scheduler"] = asked["scheduler"] | change.pop("scheduler", {})
    scenario = Scenario.model_validate(asked | change)
    with pytest.raises(InputError, match=words):
        run(scenario)


def test_sites_of_unlike_sizes_are_refused():
    sites = [{"name": "north", "nodes": 3}, {"name": "south", "nodes": 1}]
    with pytest.raises(InputError, match="sites of a multiple of 2 nodes, got 3, 1"):
        run(two_levels(site=2, network=WIDE | {"sites": sites}))


@pytest.mark.parametrize("outer", OUTER, ids=lambda outer: outer["kind"])
@pytest.mark.parametrize("inside", SCHEDULES, ids=str)
def test_explain_has_a_term_for_what_is_exposed_inside_a_site(inside, outer):
    made = run(two_levels(outer, inside, network=WIDE), intervals=False)
    seconds = {term.term: term.seconds for term in terms_of(made)[0]}
    gathers = float(made.plan.inside.gathers.seconds.sum()) / made.plan.steps
    assert 0 < seconds["inside"] == pytest.approx(made.result.period.exposed_inside + gathers)
    assert sum(seconds.values()) == pytest.approx(made.result.iteration_time)
