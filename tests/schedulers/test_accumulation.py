"""DDP without `no_sync`, which exchanges gradients after the backward pass of every micro-batch."""

import pytest

from simulator.engine.clock.numbers import ALIKE
from simulator.engine.clock.run_points import run_point
from simulator.engine.clock.simulation import simulate
from simulator.errors import InputError
from simulator.prediction.run import plan_of, run
from simulator.scenario.scenario import Scenario
from simulator.schedulers import step

BLOCKS, NUMEL = 4, 64 * 10**6


def ddp(accumulate="all", *, micro_batches=3, rate="10 GB/s", **parts):
    """Four buckets of 256 MB on four GPUs, 1 s forward and 2 s backward in all."""
    times = {"forward": 1 / BLOCKS, "backward": 2 / BLOCKS}
    layers = [{"name": f"h.{number}", "numel": NUMEL, **times} for number in range(BLOCKS)]
    workload = {"batch_size": micro_batches, "micro_batches": micro_batches, "layers": layers}
    network = {"kind": "single_switch", "bandwidth": rate, "latency": "0 s", **parts.pop("network", {})}
    cluster = {"nodes": 4, "gpus_per_node": 1, "gpu": parts.pop("gpu", "gpus/ideal"), "network": network}
    asked = {"name": "ddp", "workload": workload, "cluster": cluster | parts.pop("cluster", {}), "topology": "ring"}
    scheduler = {"kind": "bucketed", "accumulate": accumulate}
    return Scenario.model_validate(asked | {"scheduler": scheduler, "sparsifier": "dense", "versus": "none", **parts})


@pytest.mark.parametrize(("accumulate", "rounds"), [("all", 3), ("none", 1)])
def test_gradients_are_sent_in_every_micro_batch_or_once(accumulate, rounds):
    made = run(ddp(accumulate), intervals=False).result
    assert made.traffic.sent_per_worker == pytest.approx(rounds * 2 * 3 / 4 * 4 * BLOCKS * NUMEL, rel=1e-9)


def test_a_micro_batch_ends_when_its_gradients_have_arrived():
    """Buckets of 384 ms of exchange each at 1 GB/s, in passes of 1/3 and 2/3 s: a quarter of the latter is first."""
    made = run(ddp(rate="1 GB/s"), intervals=False).result
    assert made.iteration_time == pytest.approx(3 * (1 / 3 + 2 / 3 / BLOCKS + BLOCKS * 0.384), rel=1e-6)


@pytest.mark.parametrize(("accumulate", "passes"), [("all", 5), ("all", 32), ("none", 33), ("none", 64)])
def test_many_micro_batches_take_as_long_together_as_one_by_one(accumulate, passes, monkeypatch):
    asked = ddp(accumulate, micro_batches=passes, gpu="gpus/h100", sparsifier={"kind": "topk", "density": 0.01})
    together = run_point(plan_of(asked))
    monkeypatch.setattr(step, "MOST_MICRO_BATCHES", 100)
    monkeypatch.setattr(step, "MOST_PASSES", 1000)
    monkeypatch.setattr("simulator.engine.clock.graphs._graphs.get", lambda key, make, *also: make())
    each = run_point(plan_of(asked))
    assert together.time == pytest.approx(each.time, rel=1e-12)
    assert together.breakdown == pytest.approx(each.breakdown)


@pytest.mark.parametrize("network", [{}, {"burst": "1 MB"}])
def test_the_clock_agrees_with_and_without_links_that_remember(network):
    runtime = {"name": "slowed", "compute_slowdown": 0.5, "kernel_launch": "5 us"}
    plan = plan_of(ddp(micro_batches=6, gpu="gpus/h100", network=network, cluster={"runtime": runtime}))
    fast, reference = run_point(plan), simulate(plan, ALIKE)
    assert fast.time == pytest.approx(reference.time, rel=1e-9)
    assert fast.breakdown == pytest.approx(reference.breakdown, rel=1e-9)


def test_exchanges_that_meet_others_are_written_down_one_by_one_and_not_without_bound():
    with pytest.raises(InputError, match=r"at most 64 micro-batches that exchange gradients each.*got 65"):
        run(ddp(micro_batches=65, network={"burst": "1 MB"}))


@pytest.mark.parametrize("scheduler", [{"kind": "bucketed", "accumulate": "all"}, {"kind": "zero", "stage": 2}])
def test_gpt2_xl_is_slower_on_two_nodes_than_on_one_where_each_micro_batch_exchanges(scheduler):
    """GPT-2 XL under ZeRO-2 on A100 of Google Cloud, 1,024 tokens, 4,096 sequences a step: 36 samples/s on one node, 24
    on two (microsoft/DeepSpeed, issue 3988, 2023). Micro-batches of 2 are assumed. That it is slower is what is
    predicted; how much is not: the rate of compute there was a third of what is usual."""
    inside = {"bandwidth": "235 GB/s", "latency": "3 us"}
    network = {"kind": "single_switch", "bandwidth": "100 Gbit/s", "latency": "30 us", "intra_node": inside}
    rates = []
    for nodes in (1, 2):
        workload = {
            "model": "gpt2", "layers": 48, "hidden": 1600, "heads": 25, "sequence": 1024, "batch_size": 512 // nodes,
            "micro_batches": 256 // nodes, "precision": "fp16", "optimiser": "adamw",
        }  # fmt: skip
        cluster = {"nodes": nodes, "gpus_per_node": 8, "gpu": "gpus/a100-80gb", "network": network}
        asked = {"name": "GPT-2 XL", "workload": workload, "cluster": cluster, "scheduler": scheduler}
        rest = {"topology": "nccl", "sparsifier": "dense", "versus": "none", "ignore_memory": True}
        rates.append(run(Scenario.model_validate(asked | rest), intervals=False).result.throughput)
    assert 0.4 < rates[1] / rates[0] < 0.8  # 0.67 was measured
