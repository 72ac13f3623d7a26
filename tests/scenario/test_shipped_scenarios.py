"""Every shipped scenario runs and answers its question; and the answers have the sign that physics gives them."""

from functools import cache

import pytest
from click.testing import CliRunner
from places import ROOT
from validation_rows import row_of

from simulator.cli import main
from simulator.prediction.run import run
from simulator.scenario.reading import load
from simulator.studies.compare.opponent import add_comparison

FOLDER = ROOT / "scenarios"
LARGE = ("failover", "priority_p3", "ps_colocated", "two_jobs")
EACH = [
    pytest.param(name, marks=pytest.mark.long if name in LARGE else ())
    for name in sorted(path.stem for path in FOLDER.glob("*.yaml"))
]


@cache
def result(name, *overrides):
    """The document of one scenario, its comparison included where it has one."""
    path = FOLDER / f"{name}.yaml"
    prediction = run(load(path, overrides))
    add_comparison(prediction, path, overrides)
    return prediction.document


FEW = {"two_jobs": ("iterations=8",)}
"""What makes a scenario of many iterations a short one that still answers the same."""


def speed_up(name, *overrides):
    """How many times faster than what it is compared with."""
    return result(name, *overrides)["comparison"]["speed_up"]


def difference(name, term, *overrides):
    """Seconds by which a term of the breakdown is longer than in what it is compared with."""
    return result(name, *overrides)["comparison"]["difference_s"][term]


def seconds(name, *overrides):
    """Iteration time."""
    return result(name, *overrides)["iteration_time_s"]


@pytest.mark.parametrize("name", EACH)
def test_the_breakdown_sums_to_the_iteration_and_nothing_is_negative(name):
    document = result(name, *FEW.get(name, ()))
    terms = document["breakdown_s"].values()
    assert sum(terms) == pytest.approx(document["iteration_time_s"], rel=1e-9)
    assert min(terms) >= 0
    if "comparison" in document:
        other = document["comparison"]
        time = other["baseline_iteration_time_s"]
        assert sum(other["baseline_breakdown_s"].values()) == pytest.approx(time, rel=1e-9)


@pytest.mark.parametrize("name", EACH)
def test_no_link_carries_more_than_it_can(name):
    assert all(link["utilisation"] <= 1 + 1e-9 for link in result(name, *FEW.get(name, ()))["links"])


@pytest.mark.parametrize("name", EACH)
def test_a_question_is_answered_in_words(name):
    scenario = load(FOLDER / f"{name}.yaml")
    assert bool(scenario.question) == (scenario.versus is not None)
    if not scenario.question:
        return
    assert scenario.question.endswith("?")
    comparison = result(name, *FEW.get(name, ()))["comparison"]
    ratio = comparison["speed_up"]
    pays = scenario.sparsifier.kind != "dense" and name != "partitioned_topk"
    assert comparison["kind"] == ("pays" if pays else "costs")
    less, more = ("Yes: ", "No: ") if pays else ("It saves ", "It costs " if ratio > 0.5 else "It takes ")
    words = {"yes": less, "no": more, "alike": "It makes no difference", "undecided": "Not decided"}
    assert comparison["answer"].startswith(words[comparison["verdict"]])
    assert comparison["verdict"] != ("no" if ratio > 1 else "yes")


def test_run_prints_the_question_before_the_answer():
    output = " ".join(CliRunner().invoke(main, ["run", "straggler"], catch_exceptions=False).output.split())
    assert "What does it cost 16 GPUs when one of them computes 1.5 times as long? It costs 46 % (" in output


def test_one_server_is_slower_than_a_ring_and_the_more_the_more_workers():
    # The server's NIC carries a gradient per worker and direction, a ring's never more than two.
    assert speed_up("ps_incast") < 0.5
    assert speed_up("ps_incast", "cluster.nodes=16") < speed_up("ps_incast")
    least = 8 * 4 * 25_557_032 / load(FOLDER / "ps_incast.yaml").cluster.runtime.endpoint_bandwidth
    assert seconds("ps_incast") > least
    assert speed_up("ps_incast", "topology.servers=8") > 1
    assert seconds("ps_incast", "cluster.network.incast=[[1, 1], [8, 0.9]]") > seconds("ps_incast")


@pytest.mark.long
def test_servers_on_the_workers_nodes_share_their_nics():
    # On n nodes a NIC carries 2 (n - 1) / n gradients per direction, against one where servers have their own.
    assert speed_up("ps_colocated") < 1
    assert result("ps_colocated")["traffic"]["busiest_link"]["bytes"] == pytest.approx(2 * 3 / 4 * 4 * 110_106_428)
    # A fast network hides most of either.
    assert speed_up("ps_colocated", "cluster.network.bandwidth=40 Gbit/s") > speed_up("ps_colocated")


def test_thin_uplinks_cost_what_crosses_them():
    times = [seconds("oversubscription", f"cluster.network.oversubscription={ratio}") for ratio in (1, 2, 4, 8)]
    assert times == sorted(times)
    assert speed_up("oversubscription") < 0.9
    # In node order one flow of a ring leaves each leaf of four nodes: an uplink of a quarter carries just that.
    assert speed_up("oversubscription", "topology=ring") == pytest.approx(1, rel=1e-6)
    assert speed_up("oversubscription", "topology=ring", "cluster.network.oversubscription=8") < 0.9
    assert speed_up("oversubscription", "topology=all_to_all") < speed_up("oversubscription")


def test_all_wait_for_a_straggler():
    # Nearly all of this iteration is compute, so that it grows by almost as much as the slow worker's compute.
    assert 1.3 <= 1 / speed_up("straggler") <= 1.5
    terms = result("straggler")["breakdown_s"]
    # Forward and backward are means over 16 workers of which one takes 1.5 times as long; 15 wait half of their own.
    alike = (terms["forward"] + terms["backward"]) / (1 + 0.5 / 16)
    assert terms["idle"] == pytest.approx(15 / 16 * 0.5 * alike, rel=1e-6)
    assert speed_up("straggler", "cluster.stragglers={jitter: 5 %}") < 1


def test_local_steps_share_one_exchange_over_the_line():
    period = result("slow_links")["period"]
    once = 4 * 1_100_048_384 / load(FOLDER / "slow_links.yaml").cluster.network.bandwidth
    assert 1 < period["synchronisation_s"] / once < 1.1, "each site sends the sum of its GPUs once, with some delays"
    computed = period["compute_utilisation"] * period["time_s"]
    assert period["time_s"] == pytest.approx(computed + period["synchronisation_s"], rel=1e-3)
    assert speed_up("slow_links") > 45
    longer = result("slow_links", "scheduler.inner_steps=300")["period"]
    assert longer["time_s"] - period["time_s"] == pytest.approx(2 * computed, rel=1e-3)
    # What can be added up crosses the line once; what is gathered in a ring crosses it seven times.
    sent = {"dense": once, "eight_bit": 7 * once / 4, "{kind: topk, density: 1 %}": 7 * 0.02 * once}
    for method, seconds_of_bytes in sent.items():
        assert 1 <= result("slow_links", f"sparsifier={method}")["period"]["synchronisation_s"] / seconds_of_bytes < 1.1


@pytest.mark.long
def test_p3_pays_where_half_is_hidden_and_is_never_slower():
    # Up to 25 % in throughput as published (Jayarajan et al., MLSys 2019); here by order, not by slices.
    assert 1.1 < speed_up("priority_p3") < 1.5
    assert speed_up("priority_p3", "scheduler={kind: wfbp, partition: 160 kB}") == pytest.approx(1, abs=0.02)
    for bandwidth in (1, 10):
        assert speed_up("priority_p3", f"cluster.network.bandwidth={bandwidth} Gbit/s") > 0.99


def test_bytescheduler_loses_on_its_software_and_not_on_its_order():
    # Measured: 379 against 325 ms (`measured` of the two rows in validation).
    measured = [
        row_of("rtx2080ti-10gbe-allreduce", f"ResNet-50, {name}, all-reduce, 16 GPUs on 10 GbE").measured
        for name in ("WFBP", "ByteScheduler")
    ]
    assert measured[0].iteration_time < measured[1].iteration_time
    assert speed_up("priority_bytescheduler") < 1
    assert speed_up("priority_bytescheduler", "cluster.runtime=runtimes/horovod-0.19") > 1


def test_slices_pay_where_selection_is_slow_and_exchange_is_too():
    # n log n costs less in slices, and a slice's exchange hides behind the next selection.
    assert speed_up("partitioned_topk") > 1.2
    assert difference("partitioned_topk", "selection") < 0
    assert difference("partitioned_topk", "communication_exposed") < 0
    # Too small, and start-ups outweigh it; at a low density everything is hidden, and selection alone gains.
    assert speed_up("partitioned_topk", "scheduler.partition=1 MB") < 1
    assert 1 < speed_up("partitioned_topk", "sparsifier.density=0.001") < speed_up("partitioned_topk")


@pytest.mark.parametrize("size", [1, 8, 64])
def test_slices_never_pay_where_selection_is_next_to_free(size):
    assert speed_up("partitioned_topk", *("cluster.gpu=gpus/v100-pytorch2", f"scheduler.partition={size} MB")) < 1


def test_half_of_the_gpus_new_is_as_slow_as_all_of_them_old():
    assert speed_up("mixed_gpus") == pytest.approx(1, abs=0.01)
    assert difference("mixed_gpus", "idle") > 0
    assert speed_up("mixed_gpus", "cluster.other_gpus.0.nodes=[0, 1, 2, 3]") > 1.1
    # The V100's single-block torch.topk takes twice as long.
    assert speed_up("mixed_gpus", "sparsifier={kind: topk, density: 0.01}") < 1


@pytest.mark.long
def test_a_failover_costs_its_outage_and_the_slower_link():
    # Communication takes longer than what is left of backward, so that the outage shows in full.
    assert difference("failover", "communication_exposed") > 0.05
    short = "cluster.links=[{link: node 3 NIC, factor: 0, start: 150 ms, until: 200 ms}]"
    assert seconds("failover", short) < seconds("failover")
    # A link that is at half throughout is slower than one that was whole until then.
    assert seconds("failover", "cluster.links=[{link: node 3 NIC, factor: 0.5}]") > seconds("failover", short)


@pytest.mark.long
def test_a_neighbour_costs_and_a_neighbour_that_compresses_costs_less():
    (few,) = FEW["two_jobs"]
    quiet = "other_jobs.0.sparsifier={kind: topk, density: 0.01}"
    assert speed_up("two_jobs", few) < 0.9
    assert speed_up("two_jobs", few) < speed_up("two_jobs", few, quiet) <= 1 + 1e-9
