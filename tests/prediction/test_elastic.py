"""Machines that come and go: what is followed equals the renewal formulas, and what never ends is said to."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from long_examples import few_first

from simulator.errors import InputError
from simulator.prediction.elastic import (
    best_interval,
    checkpoint_goodput,
    completion_time,
    continued_goodput,
    follow,
    present_nodes,
    random_events,
)
from simulator.prediction.run import run
from simulator.scenario.reading import load


def elastic(text, *changes):
    return run(load("quickstart", ("sparsifier=dense", f"cluster.membership={{{text}}}", *changes))).document


def followed(nodes, step, *, mtbf, healing, detection, least=1):
    down = healing + detection
    seconds = 20_000 / nodes * (mtbf + down)
    events = random_events(nodes, mtbf, down, np.random.default_rng(0))
    seen = follow(nodes, step, events, detection=detection, least=least, seconds=seconds)
    return seen.progress * step / (seconds * nodes), seen


@pytest.mark.parametrize("nodes", few_first([4, 1, 32]))
@pytest.mark.parametrize(("step", "healing", "detection"), [(1, 0, 0), (1, 50, 0), (10, 100, 5), (60, 300, 20)])
def test_goodput_of_those_who_go_on_is_that_of_the_renewal_formula(nodes, step, healing, detection):
    times = {"mtbf": 600.0 * nodes, "healing": healing, "detection": detection}
    assert followed(nodes, step, **times)[0] == pytest.approx(continued_goodput(nodes, step, **times), rel=0.01)


@pytest.mark.parametrize("least", [3, 5, 7])
def test_with_a_quorum_all_wait_for_it(least):
    """Eight nodes that are there half of the time."""
    there = {"mtbf": 1000.0, "healing": 1000.0, "detection": 0.0, "least": least}
    seen, trace = followed(8, 1.0, **there)
    assert seen == pytest.approx(continued_goodput(8, 1.0, **there), rel=0.01 if least < 7 else 0.03)
    below = math.fsum(math.comb(8, n) for n in range(least)) / 2**8
    assert trace.waited / trace.seconds == pytest.approx(below, rel=0.03)
    assert trace.present == pytest.approx(0.5, rel=0.01)


def follow_checkpoints(interval, cost, *, recovery, rate, random, segments):
    """The share of the time that is work which lasts, over so many segments of work with a checkpoint each."""
    clock = 0.0
    for _ in range(segments):
        left = interval + cost
        while (failure := float(random.exponential(1 / rate))) < left:
            clock += failure
            while (again := float(random.exponential(1 / rate))) < recovery:
                clock += again
            clock += recovery
        clock += left
    return segments * interval / clock


@pytest.mark.parametrize("interval", [100, 600, 3000])
@pytest.mark.parametrize(("cost", "recovery"), [(0, 0), (20, 120), (100, 600)])
def test_goodput_with_checkpoints_is_dalys(interval, cost, recovery):
    rate = 1 / 2000
    random = np.random.default_rng(1)
    seen = follow_checkpoints(interval, cost, recovery=recovery, rate=rate, random=random, segments=20_000)
    assert seen == pytest.approx(checkpoint_goodput(interval, cost, recovery, rate), rel=0.01)


@given(st.floats(0.01, 100), st.floats(1e-6, 1e-2))
def test_dalys_interval_is_about_the_best(cost, rate):
    """No other interval has a goodput that is 1 % better."""
    best = best_interval(cost, rate)
    top = max(checkpoint_goodput(best * 2 ** (k / 8), cost, 0.0, rate) for k in range(-24, 25))
    assert checkpoint_goodput(best, cost, 0.0, rate) >= 0.99 * top


def test_work_that_begins_anew_takes_the_mean_of_a_geometric_number_of_attempts():
    random = np.random.default_rng(2)
    times = []
    for _ in range(10_000):
        clock = 0.0
        while (failure := random.exponential(100.0)) < 50.0:
            clock += failure + 7.0
        times.append(clock + 50.0)
    assert np.mean(times) == pytest.approx(completion_time(50.0, 0.01, 7.0), rel=0.02)
    assert completion_time(50.0, 0.0, 7.0) == 50.0 and completion_time(1e6, 1.0, 0.0) == math.inf


@given(st.integers(1, 300), st.floats(1, 1e6), st.floats(0, 1e6))
def test_probabilities_of_nodes_sum_to_one_with_the_mean_of_their_availability(nodes, up, down):
    made = present_nodes(nodes, up, down)
    assert made.sum() == pytest.approx(1.0)
    assert (made * np.arange(nodes + 1)).sum() == pytest.approx(nodes * up / (up + down))


def test_recorded_changes_are_followed():
    """Ten steps of 1 s with two nodes, one that fails in the middle of a step, and is back later."""
    seen = follow(2, 1.0, iter([(3.5, 1, False), (6.0, 1, True)]), detection=0.5, least=1, seconds=10.0, parts=10)
    assert (seen.failures, seen.lost) == (1, pytest.approx(1.0))
    # 3 steps of two; from 4.0 on 2 of one; from 6.0 on 4 of two.
    assert seen.progress == pytest.approx(3 * 2 + 2 + 4 * 2) and seen.present == pytest.approx((10 + 3.5 + 4) / 20)


def test_a_result_says_what_is_left_of_the_progress():
    made = elastic("mean_time_between_failures: 10 min, healing_time: 1 min, detection_time: 2 s")
    keys = made["elastic"]
    assert keys["goodput"] == pytest.approx(keys["goodput_in_closed_form"], abs=4 * keys["goodput_error"])
    assert keys["iteration_time_s"] == pytest.approx(made["iteration_time_s"] / keys["goodput"])
    assert keys["failures_per_hour"] == pytest.approx(8 * 6) and keys["finishes"]
    assert "elastic" not in run(load("quickstart")).document


@pytest.mark.parametrize("duration", [4.0, 20.0])
def test_what_is_lost_is_no_more_than_what_is_followed(duration):
    seen = follow(2, 1.0, iter([(3.5, 1, False)]), detection=10.0, least=1, seconds=duration)
    assert seen.lost == min(duration, 13.5) - 3.0


def test_one_recorded_failure_does_not_end_a_training():
    """Seven of eight nodes go on behind the detection, which is followed, too; where it is not, that is the cause."""
    failure = "events: [{time: 1 s, node: 0, what: leaves}], detection_time: 10 s, quorum: 0.5"
    slow = "scheduler={kind: diloco, inner_steps: 50}"
    made = elastic(failure, slow)
    whole = made["period"]["time_s"]
    assert made["elastic"]["goodput"] == pytest.approx(7 / 8 * whole / (11 + whole))
    cut = elastic(f"{failure}, duration: 11 s", slow)["elastic"]
    assert (cut["finishes"], cut["lost_share"]) == (False, pytest.approx(1.0))
    assert "is hardly ever completed" in cut["cause"]


def test_undisturbed_nodes_lose_nothing():
    keys = elastic("events: [], duration: 1000 s")["elastic"]
    assert keys["goodput"] == pytest.approx(1.0, rel=1e-3) and keys["participation"] == 1.0


def test_a_period_of_local_steps_is_what_a_failure_loses():
    failing = "mean_time_between_failures: 10 min, detection_time: 0 s"
    short = elastic(failing)["elastic"]["goodput"]
    long = elastic(failing, "scheduler={kind: diloco, inner_steps: 200}")
    rate, period = 8 / 600, long["period"]["time_s"]
    assert long["elastic"]["goodput"] == pytest.approx(period / completion_time(period, rate, 0.0), rel=0.05)
    assert long["elastic"]["goodput"] < short


def test_a_lost_quorum_is_the_cause_of_what_never_ends():
    keys = elastic("mean_time_between_failures: 1 min, healing_time: 1 h, quorum: 0.5")["elastic"]
    assert (keys["finishes"], keys["iteration_time_s"]) == (False, None)
    assert "the quorum is lost: 0.1 of 8 nodes" in keys["cause"]

    gone = ", ".join(f"{{time: 1 s, node: {node}, what: leaves}}" for node in range(5))
    assert "fewer than 4 of 8 nodes" in elastic(f"events: [{gone}], duration: 1 h, quorum: 0.5")["elastic"]["cause"]


def test_starved_control_traffic_is_the_cause_of_what_never_ends():
    changes = ("cluster.network.bandwidth=50 Mbit/s",)
    starved = elastic("heartbeat: {timeout: 5 s, queue: 40 MB}", *changes)["elastic"]
    assert not starved["finishes"] and "waits 6.4 s behind the data" in starved["cause"]
    assert elastic("heartbeat: {timeout: 7 s, queue: 40 MB}", *changes)["elastic"]["finishes"]


@pytest.mark.parametrize(("steps", "finishes"), [(120, True), (1, False)])
def test_between_the_exchanges_of_fragments_heartbeats_pass(steps, finishes):
    """Five fragments of 8 MB take 9.6 s each, with 18 s of local steps between them, or with none that last."""
    layers = [{"name": f"a.{number}", "numel": 2e6, "forward": 0.01, "backward": 0.02} for number in range(5)]
    network = TRAINING["cluster"]["network"] | {"bandwidth": 1.25e6}
    cluster = TRAINING["cluster"] | {"network": network, "membership": {"heartbeat": {"timeout": 15, "queue": 1e8}}}
    schedule = {"kind": "streaming_diloco", "inner_steps": 5 * steps, "fragments": 5, "delay": 5 * steps * (steps == 1)}
    workload = TRAINING["workload"] | {"layers": layers}
    made = run(load(TRAINING | {"scheduler": schedule, "cluster": cluster, "workload": workload})).document["elastic"]
    assert made["finishes"] == finishes and ("without a pause" in made["cause"]) != finishes


def test_checkpoints_that_take_longer_than_the_cluster_lives_never_end():
    text = "policy: checkpoint, checkpoint_interval: 1 h, checkpoint_time: 5 min, mean_time_between_failures: 1 h"
    keys = elastic(text)["elastic"]
    assert not keys["finishes"] and "the cluster fails every 450 s" in keys["cause"]
    assert keys["best_goodput"] > keys["goodput"]


TRAINING = {
    "name": "one layer",
    "workload": {
        "name": "a",
        "batch_size": 1,
        "layers": [{"name": "a", "numel": 1e7, "forward": 0.01, "backward": 0.02}],
    },
    "cluster": {
        "nodes": 4,
        "gpu": "gpus/ideal",
        "runtime": "runtimes/ideal",
        "network": {"kind": "single_switch", "name": "slow", "bandwidth": 1.25e8, "latency": 1e-3},
    },
    "topology": "ring",
    "sparsifier": "dense",
}
EXCHANGE = 6 * (1e-3 + 1e7 / 1.25e8)
"""Seconds of the exchange of its 40 MB, by 4 workers in a ring: six rounds of a quarter each, 0.486 s."""


def trained(scheduler, membership, **cluster):
    """The training with a schedule of ten local steps of 0.03 s."""
    schedule = {"kind": scheduler, "inner_steps": 10, "bucket_size": 1e9}
    cluster = TRAINING["cluster"] | {"membership": membership} | cluster
    return run(load(TRAINING | {"scheduler": schedule, "cluster": cluster})).document


@pytest.mark.parametrize(
    ("scheduler", "undisturbed", "seconds"),
    [
        ("diloco", 0.6 + EXCHANGE, (0.3 + EXCHANGE) / 0.75),
        ("overlapped_diloco", 0.6, max(0.3, EXCHANGE) / 0.75),
        # Nobody waits: three workers wait for their exchanges, and the fourth computes behind its own.
        ("decoupled_diloco", 4 / (3 / EXCHANGE + 1 / 0.6), 4 / (3 / EXCHANGE + 1 / 0.6)),
    ],
)
@pytest.mark.parametrize(
    "slow",
    [
        {"stragglers": {"slow": [{"worker": 3, "factor": 2}]}},
        {"other_gpus": [{"nodes": [3], "gpu": "gpus/ideal", "factor": 2}]},
    ],
)
def test_a_deadline_leaves_out_who_is_late_and_hides_what_the_schedule_hides(scheduler, undisturbed, seconds, slow):
    made = trained(scheduler, {"deadline": 0}, **slow)
    assert made["iteration_time_s"] == pytest.approx(undisturbed / 10)
    assert made["elastic"]["iteration_time_s"] == pytest.approx(seconds / 10)


def test_without_a_barrier_a_failure_loses_the_period_of_its_own_node():
    """As long as a machine is there, periods are completed as if it were alone; two of three minutes it is there."""
    failing = {"mean_time_between_failures": 120, "healing_time": 50, "detection_time": 10}
    made = trained("decoupled_diloco", failing)
    keys, period = made["elastic"], made["period"]["time_s"]
    by_hand = 2 / 3 * period / completion_time(period, 1 / 120, 0.0)
    assert keys["goodput_in_closed_form"] == pytest.approx(by_hand)
    assert keys["goodput"] == pytest.approx(by_hand, rel=0.02)
    # Of two nodes and ten steps of 1 s, one fails in the middle of its fourth step, and is back after six.
    changes = [(3.5, 1, False), (9.5, 1, True)]
    seen = follow(2, 1.0, changes, detection=9.0, least=1, seconds=10.0, apart=True)
    assert (seen.progress, seen.lost) == (pytest.approx(10 + 3 + 0.5), pytest.approx(0.5 / 2))
    waited = follow(2, 1.0, changes, detection=9.0, least=2, seconds=10.0, apart=True)
    assert (waited.progress, waited.waited) == (pytest.approx(4 + 3 + 0.5), pytest.approx(6.0))


def test_what_the_end_cuts_off_is_not_lost():
    made = elastic("duration: 20 s", "scheduler={kind: diloco, inner_steps: 1000}")
    assert made["elastic"]["goodput"] == pytest.approx(1.0)


def test_nodes_of_one_copy_are_lost_together():
    """Eight nodes of four GPUs in groups of eight: of four copies, each is there while both of its nodes are."""
    failing = "mean_time_between_failures: 1 h, healing_time: 1 h"
    made = elastic(failing, "scheduler={kind: fsdp, shard: 8}")["elastic"]
    assert made["participation"] == pytest.approx(1 / 4, rel=0.03)
    assert made["goodput"] == pytest.approx(made["goodput_in_closed_form"], abs=4 * made["goodput_error"])
    leaving = ", ".join(f"{{time: {node} s, node: {node}, what: leaves}}" for node in (2, 3, 4))
    made = elastic(f"events: [{leaving}], duration: 1000 h", "scheduler={kind: fsdp, shard: 8}")["elastic"]
    assert made["participation"] == pytest.approx(1 / 2, rel=1e-4)


@pytest.mark.parametrize("change", ["scheduler=fsdp", "scheduler={kind: zero, stage: 1}"])
def test_nobody_goes_on_without_a_part_of_the_only_copy(change):
    with pytest.raises(InputError, match=r"policy: checkpoint.*HSDP.*policy continue with one copy: nobody else has"):
        elastic("mean_time_between_failures: 1 h", change)
    saved = "policy: checkpoint, checkpoint_interval: 10 min, mean_time_between_failures: 10 h"
    assert elastic(saved, change)["elastic"]["finishes"]
    assert elastic("deadline: 1 s", change)["elastic"]["finishes"]


def test_machines_may_fail_as_rarely_as_those_of_llama_3():
    """419 interruptions of 2,048 machines in 54 days: one of a machine in 6,334 hours."""
    keys = elastic(f"mean_time_between_failures: {2048 * 54 * 24 / 419} h")["elastic"]
    assert keys["failures_per_hour"] == pytest.approx(8 / 6334, rel=1e-4)


def test_a_deadline_goes_on_without_the_slow():
    """One worker of 32 takes twice as long: without it a step lasts as long as that of the others and the deadline."""
    slow = "cluster.stragglers.slow=[{worker: 0, factor: 2}]"
    made = elastic("deadline: 10 ms", slow, "scheduler=sequential")
    keys, compute = made["elastic"], made["breakdown_s"]["forward"] + made["breakdown_s"]["backward"]
    assert keys["participation"] == pytest.approx(31 / 32)
    left = made["iteration_time_s"] - ((compute / (33 / 32)) - 10e-3)
    assert keys["iteration_time_s"] == pytest.approx(left / keys["participation"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("policy: checkpoint", "checkpoint_interval"),
        ("events: [{time: 1 s, node: 99, what: leaves}]", "nodes below 8"),
        ("events: [{time: 2 s, node: 1, what: leaves}, {time: 1 s, node: 1, what: joins}]", "order of their times"),
        ("events: [{time: 2 s, node: 1, what: leaves}], mean_time_between_failures: 1 h", "`events` or"),
        ("mean_time_between_failures: 0 s", "mean_time_between_failures"),
        (
            "checkpoint_interval: 1 h, mean_time_between_failures: 1 h",
            "no `checkpoint_interval` with policy continue and",
        ),
        ("checkpoint_time: 1 min", "no `checkpoint_time` with policy continue, got 60"),
        ("duration: 1 h, mean_time_between_failures: 1 h", "no `duration` with policy continue and random failures"),
        ("policy: checkpoint, checkpoint_interval: 1 h, quorum: 0.5", "no `quorum` with policy checkpoint, got 0.5"),
    ],
)
def test_what_does_not_fit_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        load("quickstart", (f"cluster.membership={{{text}}}",))
