"""A plan inverts a run: at what it answers the target is met, and not with less."""

import math
import sys
from itertools import islice
from random import Random
from time import sleep
from types import SimpleNamespace

import pytest
from in_json import in_json
from invariants_of_plans import random_question
from long_examples import few_first
from places import ROOT

from simulator.errors import InputError
from simulator.fabrics.transport import PRIORS
from simulator.prediction.doubts.doubt import Doubt, Measurement
from simulator.prediction.doubts.spread import Response, Spread
from simulator.prediction.run import run, with_responses
from simulator.scenario.changes import with_value
from simulator.scenario.reading import load
from simulator.studies.compare.opponent import best_dense
from simulator.studies.planning import planning
from simulator.studies.planning.planning import Solution, find_border, plan_backwards
from simulator.studies.planning.targets import FASTER, NODE, PlanTarget, Training, Unknown, parse_target, unknowns_of
from simulator.studies.variants.crossing import evaluate, search_together

sys.path.insert(0, str(ROOT / "tests" / "invariants"))

import random_scenarios

plan_backwards = in_json(plan_backwards)

LOCAL = ("scheduler={kind: diloco, inner_steps: 10}", "sparsifier=dense", "cluster.network.bandwidth=200 Mbit/s")


def reached(scenario, target, key, value):
    return target.reached(run(with_value(scenario, key, value), intervals=False).result_without_lists)


@pytest.mark.parametrize("most", few_first([4, 200]))
def test_at_the_planned_bandwidth_the_target_is_met(most):
    assert len([*islice(filter(_inverts, range(100, 500)), most)]) == most


def _inverts(number):
    """Whether the plan found a bandwidth; where it did, it meets the target within 0.5 %, and 1 % less does not."""
    scenario, text = random_question(Random(number))
    target = parse_target(text, Training())
    (answer,) = plan_backwards(scenario, text, ["bandwidth"])["answers"]
    if answer["status"] != "found":
        return False
    key, needed = answer["key"], answer["needed"]
    document = run(with_value(scenario, key, needed), intervals=False).result_without_lists
    assert target.margin(document) >= 0
    less = run(with_value(scenario, key, needed * 0.99), intervals=False).result_without_lists
    assert target.margin(less) < 0 or answer["again"]
    just_less = run(with_value(scenario, key, needed * (1 - 1e-5)), intervals=False).result_without_lists
    # Where a library takes another algorithm from this bandwidth on, the target is met with room to spare.
    assert target.margin(document) <= 0.005 or target.margin(just_less) < 0
    return True


@pytest.mark.parametrize("number", few_first([0, 2, 14, 165, 176, 355], 2, range(3, 430)))
def test_a_random_scenario_of_all_kinds_has_a_plan_or_words(number):
    """2: one worker that has nothing to exchange; 14, 165, 176, 355: many nodes would fill the memory."""
    for answer in plan_backwards(random_scenarios.that_runs(number), "scaling efficiency 60 %")["answers"]:
        assert answer["status"] in ("found", "always", "never") or answer["reason"]


@pytest.mark.long
def test_where_messages_are_followed_few_nodes_are_tried():
    (answer,) = plan_backwards(load("failover"), "scaling efficiency 80 %", ["nodes"])["answers"]
    assert tuple(answer["tried"]) == (2, 16)  # of four GPUs each
    (answer,) = plan_backwards(load("quickstart"), "scaling efficiency 80 %", ["nodes"])["answers"]
    assert tuple(answer["tried"]) == (2, 256)


def diloco(*more):
    """Two workers that compute 3 s and exchange 4 MB after every 8 steps, on a ring of 1 MB/s."""
    layers = "[{name: a, numel: 1000000, forward: 1 s, backward: 2 s}]"
    changes = (
        f"workload={{batch_size: 1, layers: {layers}}}",
        "scheduler={kind: diloco, inner_steps: 8}",
        "sparsifier=dense",
        "topology=ring",
        "cluster={nodes: 2, gpu: {name: ideal, ideal: true}, network: {kind: single_switch, bandwidth: 1 MB/s}}",
    )
    return load("quickstart", (*changes, *more))


def test_the_bandwidth_of_diloco_in_closed_form():
    """Compute utilisation u needs an exchange of at most H c (1 - u) / u: two workers, a ring of S bytes at S/B."""
    made = plan_backwards(diloco(), "compute utilisation 90 %", ["bandwidth"])
    (answer,) = made["answers"]
    assert answer["needed"] == pytest.approx(4e6 / (8 * 3 * 0.1 / 0.9), rel=1e-5)
    assert tuple(answer["tried"]) == (1e3, 1e14) and answer["upwards"] and not answer["again"]
    assert (answer["now"], answer["now_shown"], answer["needed_shown"]) == (1e6, "8 Mbit/s", "12 Mbit/s")
    (bandwidth,) = unknowns_of(diloco(), ["bandwidth"])
    assert answer["interval_shown"] == [bandwidth.show(end) for end in answer["interval"]]
    assert (made["now"]["met"], made["now"]["shown"]) == (False, "85.7 %")  # 24 / (24 + 4)
    assert made["target"] == made["target"] | {"value": 0.9, "shown": "90.0 %"}


@pytest.mark.parametrize(("text", "met"), [("iteration time 2.9 s", False), ("iteration time 600 s", True)])
def test_no_line_makes_an_iteration_shorter_than_it_computes_or_longer_than_the_slowest(text, met):
    """Of 3 s at the largest bandwidth, and of 3 s + 4 MB / 8 / (1 kB/s) = 503 s at the least."""
    made = plan_backwards(diloco(), text, ["bandwidth"])
    (answer,) = made["answers"]
    found = answer["status"], answer["best"], answer["best_reached_shown"]
    assert found == ("always" if met else "never", 1e14, "3 s")
    assert "needed" not in {key for key in answer if answer[key] is not None} and made["now"]["met"] == met


@pytest.mark.parametrize(("transport", "reason"), [
    ("tcp", "tcp carries at most 25.44 Gbit/s over a NIC, however fast it is"), ("rdma", None),
])  # fmt: skip
def test_where_software_stands_in_the_way_of_a_faster_line_the_plan_says_so(transport, reason):
    """`PRIORS`: 3.18 GB/s of a TCP stream."""
    scenario = with_value(diloco(), "cluster.network.transport", PRIORS[transport])
    made = plan_backwards(scenario, "iteration time 2.9 s", ["bandwidth"])
    assert (made["answers"][0]["status"], made["answers"][0].get("reason")) == ("never", reason)


def test_the_steps_that_are_needed_are_a_whole_number():
    """3 H of 3 H + 4 seconds are 91 % from H = 13.5 on."""
    (answer,) = plan_backwards(diloco(), "compute utilisation 91 %", ["inner_steps"])["answers"]
    assert (answer["needed"], answer["needed_shown"], answer["tried"][0]) == (14, "14", 1)
    assert answer["reached"] == pytest.approx(42 / 46)


def test_where_nothing_that_is_tried_can_be_run_the_reason_is_told(monkeypatch):
    alone = Unknown("cluster.nodes", (-2.0, 0.0), whole=True, name="nodes", least=True)
    monkeypatch.setattr(planning, "unknowns_of", lambda *_: [alone])
    (answer,) = plan_backwards(diloco(), "compute utilisation 90 %")["answers"]
    assert answer["status"] == "refused" and "cluster.nodes: expected at least 1, got 0" in answer["reason"]


RESULT = SimpleNamespace(
    compute_utilisation=0.5, scaling_efficiency=0.25, throughput=100.0, workers=4, iteration_time=0.5, elastic=None
)
FAILING = SimpleNamespace(**vars(RESULT) | {"elastic": SimpleNamespace(goodput=0.5)})


@pytest.mark.parametrize(
    ("text", "training", "result", "numbers", "shown"),
    [
        ("Compute  utilization 80 %", {}, RESULT, (0.5, -0.375, 1 / 3 / 0.8 - 1), "50.0 %"),
        ("scaling efficiency 25 %", {}, RESULT, (0.25, 0.0, 1 / 7 / 0.25 - 1), "25.0 %"),
        (f"{NODE} 50 %", {"node_rate": 50.0}, RESULT, (0.5, 0.0, -1 / 3), "50.0 %"),
        ("speed up 2", {}, RESULT, (1.0, -0.5, 4 / 7 / 2 - 1), "1"),
        (FASTER, {"dense_time": 1.0}, RESULT, (2.0, 1.0, 0.0), "2 times as fast"),
        ("throughput 80 samples/s", {}, RESULT, (100.0, 0.25, -0.375), "100 samples/s"),
        ("iteration time 750 ms", {}, RESULT, (0.5, 0.5, -0.25), "500 ms"),
        ("iteration time 2 s", {}, FAILING, (1.0, 1.0, 0.0), "1 s"),
        ("throughput 40 samples/s", {}, FAILING, (50.0, 0.25, -0.375), "50 samples/s"),
        (FASTER, {"dense_time": 2.0}, FAILING, (2.0, 1.0, 0.0), "2 times as fast"),
        ("time 3 hours", {"samples": 36e4}, RESULT, (3600.0, 2.0, 0.5), "1 h"),
        ("time 90 minutes", {"samples": 359e3}, RESULT, (3590.0, 5400 / 3590 - 1, 2700 / 3590 - 1), "3590 s"),
        ("time 2 days", {"samples": 72e4}, FAILING, (14400.0, 11.0, 5.0), "4 h"),
        ("cost 16", {"samples": 36e4, "price": 2.0}, RESULT, (8.0, 1.0, 0.0), "8"),
    ],
)  # fmt: skip
def test_targets_by_hand(text, training, result, numbers, shown):
    """What is reached, the margin, and the margin if all takes twice as long, of a share of compute all but compute.

    Half of the time is 1 of 3 parts then, a quarter 1 of 7; a speed-up of 1 of 4 is 4 of 7.
    """
    target = parse_target(text, Training(**training))
    found = target.reached(result), target.margin(result), target.margin(result, longer=2.0)
    assert found == pytest.approx(numbers) and target.show(found[0]) == shown and target.quantity.against


def test_what_is_compute_throughout_or_not_at_all_stays_so_however_long_the_rest_takes():
    for share, margin in ((1.0, 0.25), (0.0, -1.0)):
        result = SimpleNamespace(**vars(RESULT) | {"compute_utilisation": share})
        assert PlanTarget("compute utilisation", 0.8, Training()).margin(result, 5.0) == pytest.approx(margin)
    assert PlanTarget("time", 1.0, Training()).show(1e12) == "never"


def response(key, low, high, measurement=None, width=1.5):
    return Response(key, (Doubt(*key, "assumed", width, measurement=measurement),), low, high)


@pytest.mark.parametrize("key", [("compute time", "gpu"), ("model", "compute of x"), ("model", "network of x")])
def test_of_a_share_of_compute_a_doubt_changes_compute_or_all_else(key):
    """60 % of 10 s are compute. Of 10 % less and 20 % more all else over compute is 6/5 and 6/8 of it, by compute, or
    3/4 and 6/4, by all else."""
    spread = Spread(10.0, (response(key, math.log(0.9), math.log(1.2)),))
    point = SimpleNamespace(spread=spread, result=SimpleNamespace(compute_utilisation=0.6))
    utilisation, time = (parse_target(text, Training()) for text in ("compute utilisation 9 %", "iteration time 1 s"))
    assert planning._longer(utilisation, point) == pytest.approx((0.75, 1.5 if "network" in key[1] else 1.2))
    assert planning._longer(time, point) == pytest.approx((0.9, 1.2))


def test_the_measurement_that_is_named_is_that_of_the_largest_doubt_that_has_one():
    """Of squares 16 + 9 + 144, by the larger end of each."""
    topk = Measurement("topk", "sparsim record kernels --kernels", 1.0, "topk")
    slow = Measurement("links", "sparsim record collectives", 5.0)
    responses = response(("a", "a"), 3, 1, slow), response(("b", "b"), -4, 2, topk), response(("c", "c"), 1, 12)
    made = planning._measurement(SimpleNamespace(spread=Spread(1.0, responses)))
    assert (made.what, made.command, made.minutes) == ("topk", "sparsim record kernels --kernels topk", 1.0)
    assert (made.width, made.share) == (1.5, pytest.approx(16 / 169))
    assert planning._measurement(SimpleNamespace(spread=Spread(1.0, responses[2:]))) is None


def test_kernels_that_narrow_the_answers_together_are_measured_by_one_command():
    few = ("cluster.gpu=gpus/b200", "cluster.network=networks/400gb-b200-nodes")
    few = (*few, "sparsifier=powersgd", "workload.compute_width=1.01")
    measurement = plan_backwards(load("hsdp_llama3", few), "scaling efficiency 80 %", ["nodes"])["measurement"]
    command, _, kernels = measurement["command"].rpartition(" ")
    assert command == "sparsim record kernels --kernels" and len(kernels.split(",")) == measurement["minutes"] > 1
    assert kernels.split(",") == measurement["what"].replace(" and ", ", ").split(", ")
    assert 0 < measurement["share"] <= 1 < measurement["width"]


def test_at_the_ends_of_an_interval_the_time_is_met_if_it_is_that_of_its_own_ends():
    scenario = load("quickstart", LOCAL)
    (answer,) = plan_backwards(scenario, "iteration time 1 s", ["bandwidth"])["answers"]
    (made,) = evaluate([with_value(scenario, answer["key"], answer["needed"])], "full")
    for bandwidth, end in zip(answer["interval"], made.spread.interval(), strict=True):
        longer = end / made.spread.time
        assert longer * times(with_value(scenario, answer["key"], bandwidth)) == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("compute utilsation 90 %", "did you mean 'compute utilisation'"),
        ("compute utilisation", "a quantity and its value"),
        ("throughput nan", "got 'throughput nan': the value is a finite number"),
        ("compute utilisation 190 %", "at most 100 %"),
        ("iteration time 3", "with its unit"),
        ("iteration time -3 s", "above 0"),
        ("speed-up nan", "quantity and its value"),
        ("speed-up 1e999", "finite number"),
        ("", "a quantity and its value"),
        ("cost 1000", "--samples and --price of the training"),
    ],
)
def test_a_wrong_target_is_refused_with_what_would_be_right(text, message):
    with pytest.raises(InputError, match=message):
        parse_target(text, Training())


def test_a_wrong_unknown_is_refused():
    scenario = load("quickstart")
    with pytest.raises(InputError, match="did you mean 'bandwidth'"):
        plan_backwards(scenario, "speed-up 3", ["bandwith"])
    with pytest.raises(InputError, match="exchanges gradients in every step"):
        plan_backwards(scenario, "speed-up 3", ["inner_steps"])


def border_of(margin, tried, least, whole=False):
    """The border of a target that is met where a margin is not below 0."""

    def missed(value):
        yield ()
        known = margin(value)
        return None if known is None else -known or -1e-300

    (found,) = search_together([find_border(missed, tried, least, whole, close=1e-6)])
    return found


def test_borders_of_margins():
    rising = [1.0, 2.0, 4.0, 8.0]
    assert border_of(lambda x: x - 3, rising, least=True).value == pytest.approx(3, rel=1e-5)
    down = border_of(lambda x: 3 - x, rising, least=True)
    assert (down.upwards, down.again, down.value) == (False, False, pytest.approx(3, rel=1e-5))
    assert border_of(lambda x: 3 - x, rising, least=False).value == pytest.approx(3, rel=1e-5)
    assert border_of(lambda x: x - 5, rising, least=True, whole=True).value == 5
    assert border_of(lambda x: -x, rising, least=True) == Solution("never", 1.0)
    assert border_of(lambda x: x, rising, least=True) == Solution("always", 8.0)
    assert border_of(lambda x: None, rising, least=True) is None
    island = border_of(lambda x: 1 - abs(x - 4), rising, least=True)
    assert (island.value, island.again) == (pytest.approx(3, rel=1e-5), True)


def test_of_sites_the_line_between_them_is_asked_for():
    scenario = load("two_sites_wan", ("scheduler={kind: diloco, inner_steps: 20}",))
    (answer,) = plan_backwards(scenario, "compute utilisation 4 %", ["bandwidth"])["answers"]
    assert answer["key"] == "cluster.network.between.rate"
    target = parse_target("compute utilisation 4 %", Training())
    assert reached(scenario, target, answer["key"], answer["needed"]) == pytest.approx(0.04, rel=0.005)


def test_the_narrowest_rate_is_varied_and_what_stays_is_said():
    """4 MB after every 8 steps of 3 s: 0.25 s of a step are 2 MB/s, behind NICs of 10 MB/s no less than 0.05 s."""
    leaves = {"kind": "leaf_spine", "nodes_per_leaf": 1, "bandwidth": "10 MB/s", "uplink": "1 MB/s"}
    scenario = diloco(f"cluster.network={leaves}")
    (answer,) = plan_backwards(scenario, "iteration time 3.25 s", ["bandwidth"])["answers"]
    assert (answer["key"], answer["needed"]) == ("cluster.network.uplink", pytest.approx(2e6, rel=1e-3))
    (answer,) = plan_backwards(scenario, "iteration time 3.04 s", ["bandwidth"])["answers"]
    assert answer["reason"].startswith("the bandwidth of the NICs stays 80 Mbit/s, since only the bandwidth of the upl")
    sites = [{"name": name, "nodes": 1, "up": "1 MB/s"} for name in ("a", "b")]
    wide = {"kind": "wide_area", "bandwidth": "10 MB/s", "sites": sites, "between": {}}
    behind = diloco(f"cluster.network={wide}")
    (answer,) = plan_backwards(behind, "iteration time 3.1 s", ["bandwidth"])["answers"]
    assert answer["reason"].startswith("the uplink of site a stays 8 Mbit/s, since only the bandwidth of the NICs")


def test_node_efficiency_is_the_rate_over_that_of_one_node():
    small = ("workload.layers=4", "cluster.nodes=2", "sparsifier=dense", "scheduler={kind: fsdp, shard: 16}")
    made = plan_backwards(load("hsdp_llama3", small), "node efficiency 90 %", ("bandwidth",))
    alone = load("hsdp_llama3", (*small, "cluster.nodes=1", "scheduler={kind: fsdp}", "ignore_memory=true"))
    rates = [run(each).result.throughput / each.cluster.workers for each in (load("hsdp_llama3", small), alone)]
    assert made["now"]["value"] == pytest.approx(rates[0] / rates[1])
    assert made["answers"][0]["reached"] == pytest.approx(0.9, rel=1e-4)


def test_a_scenario_that_one_node_cannot_run_has_no_node_efficiency():
    with pytest.raises(InputError) as caught:
        plan_backwards(load("two_level_diloco"), "node efficiency 90 %")
    (problem,) = caught.value.problems
    assert problem.where == "target 'node efficiency'" and "can be run on one node by itself" in problem.expected
    assert "on one node: expected a number of GPUs that share" in problem.got and "8 GPUs in all" in problem.got


def test_nodes_are_tried_up_to_eight_times_as_many():
    """1,024 GPUs are there already, and 152 nodes instead of 128 reach the target."""
    (unknown,) = unknowns_of(load("megatron_llama3_70b"), ("nodes",))
    assert unknown.tried[-1] == 8 * 128
    (answer,) = plan_backwards(load("megatron_llama3_70b"), "throughput 100 samples/s", ["nodes"])["answers"]
    assert 128 < answer["needed"] <= 192 and answer["reached"] >= 100


@pytest.mark.parametrize("name", ["mixed_gpus", "two_jobs"])
def test_numbers_of_nodes_that_leave_named_ones_out_are_refused(name):
    (unknown,) = unknowns_of(load(name), ("nodes",))
    with pytest.raises(InputError, match="below 2"):
        unknown.at(load(name), 2.0)


@pytest.mark.long
def test_a_method_is_to_be_faster_than_dense_by_default_and_it_says_than_which():
    scenario = load("quickstart")
    made = plan_backwards(scenario, vary=["bandwidth"])
    (answer,) = made["answers"]
    dense = best_dense(scenario)
    assert made["target"]["against"] == dense.words
    assert made["now"]["value"] == pytest.approx(times(dense.scenario) / times(scenario))
    assert not answer["upwards"]  # on a slower network
    needed = answer["needed"]
    for factor, faster in ((0.99, True), (1.01, False)):
        there = with_value(scenario, answer["key"], factor * needed)
        assert (times(best_dense(there).scenario) > times(there)) == faster  # as `run` says, where another one is best
    low, high = answer["interval"]
    assert low < needed < (high or float("inf"))


def test_dense_is_no_method_that_is_faster_than_dense():
    with pytest.raises(InputError, match="it sends dense gradients: give a target"):
        plan_backwards(load("quickstart", ("sparsifier=dense",)))


def test_a_long_search_is_announced(monkeypatch):
    """On any machine: a search that takes longer than `_LONG`, which is held to be an hour and then nothing."""
    told = []
    monkeypatch.setattr(planning, "_LONG", 3600.0)
    plan_backwards(load("quickstart"), "scaling efficiency 50 %", ["density"], tell=told.append)
    assert told == []
    monkeypatch.setattr(planning, "_LONG", 0.0)
    plan_backwards(load("quickstart"), "scaling efficiency 50 %", ["density"], tell=told.append)
    assert len(told) == 1 and told[0] > 0


def test_the_announced_seconds_are_those_of_a_clock(monkeypatch):
    """On a machine that does other things, too, a second of waiting is one, whatever the processor did for us."""
    told = []
    monkeypatch.setattr(planning, "_LONG", 0.0)
    monkeypatch.setattr(planning, "with_responses", lambda now: (sleep(2.0), with_responses(now))[1])
    plan_backwards(diloco(), "compute utilisation 90 %", ["bandwidth"], tell=told.append)
    assert told[0] > 2.0


def times(scenario):
    return run(scenario, intervals=False).result.iteration_time


def test_of_local_steps_the_least_number_that_meets_the_target():
    scenario = load("quickstart", LOCAL)
    text = "compute utilisation 80 %"
    (answer,) = plan_backwards(scenario, text, ["inner_steps"])["answers"]
    target, steps = parse_target(text, Training()), answer["needed"]
    assert reached(scenario, target, "scheduler.inner_steps", steps) >= 0.8
    assert reached(scenario, target, "scheduler.inner_steps", steps - 1) < 0.8


def test_the_interval_holds_the_answer():
    made = plan_backwards(load("quickstart", LOCAL), "compute utilisation 80 %", ["bandwidth", "inner_steps"])
    for answer in made["answers"]:
        low, high = answer["interval"]
        assert (low or 0) <= answer["needed"] <= (high or float("inf"))
    assert made["measurement"]["command"].startswith("sparsim ")


@pytest.mark.long
def test_a_target_of_a_whole_training_needs_its_samples():
    scenario = load("quickstart", LOCAL)
    hours = plan_backwards(scenario, "time 2 days", ["bandwidth"], Training(samples=1e9))["now"]["value"]
    assert hours == pytest.approx(1e9 / run(scenario).document["throughput_samples_per_s"])
    cost = plan_backwards(scenario, "cost 1000", ["bandwidth"], Training(samples=1e9, price=2.0))["now"]["value"]
    assert cost == pytest.approx(hours / 3600 * 32 * 2)
    failing = load(scenario, {"cluster.membership": {"mean_time_between_failures": "20 min"}})
    longer = plan_backwards(failing, "time 2 days", ["inner_steps"], Training(samples=1e9))["now"]["value"]
    assert longer == pytest.approx(hours / run(failing).document["elastic"]["goodput"])
    assert "is in none of these times" in plan_backwards(failing, "compute utilisation 80 %", ["inner_steps"])["note"]
    lost = load(scenario, {"cluster.membership": {"mean_time_between_failures": "1 us", "healing_time": "1 h"}})
    assert plan_backwards(lost, "time 2 days", ["inner_steps"], Training(samples=1e9))["now"]["shown"] == "never"
    with pytest.raises(InputError, match="--samples and --price of the training"):
        plan_backwards(scenario, "cost 1000")


@pytest.mark.long
def test_what_is_so_many_times_faster_needs_a_slower_network():
    plans = [plan_backwards(load("quickstart"), text, ["bandwidth"]) for text in ("faster than dense", FASTER + " 1.5")]
    one, more = (made["answers"][0]["needed"] for made in plans)
    assert more < one


def test_a_doubt_of_the_network_is_one_of_what_is_not_compute():
    """Close to the target compute is nearly all: a tenth of the time off is no more than a tenth left of all else."""
    (answer,) = plan_backwards(load("oversubscription"), "compute utilisation 88 %", ["bandwidth"])["answers"]
    low, high = answer["interval"]
    assert answer["needed"] / 3 < low < answer["needed"] < high < answer["needed"] * 10
