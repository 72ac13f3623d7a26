"""Sharded models: bytes, memory and times by hand arithmetic, and what is refused."""

import pytest
from sharded_scenarios import BLOCKS, NUMEL, PARAMETERS, predicted, sent, sharded

from simulator.engine.clock.numbers import ALIKE
from simulator.engine.clock.run_points import run_point
from simulator.engine.clock.simulation import simulate
from simulator.errors import InputError
from simulator.models.layers import Layer
from simulator.prediction.run import plan_of, run
from simulator.schedulers import step
from simulator.schedulers.fsdp import Fsdp, with_ahead
from simulator.schedulers.sharded import units_of
from simulator.studies.compare.opponent import best_dense
from simulator.studies.explain.critical_path import longest_waits
from simulator.studies.variants.names import settings_of

STATES = ("parameters", "master_weights", "optimiser", "gradients", "gathered", "reduced")


@pytest.mark.parametrize("passes", [1, 2, 6])
def test_fsdp_sends_eight_bytes_of_every_parameter_in_each_micro_batch(passes):
    """bf16 gathers in both passes, but for the last unit, and fp32 reductions: 8 P (n - 1) / n, less one gather."""
    once = 15 / 16 * (8 * PARAMETERS - 2 * NUMEL)
    assert sent("fsdp", micro_batches=passes) == pytest.approx(passes * once, rel=1e-9)


def test_fsdp_with_bf16_reductions_sends_six_bytes_and_gathered_once_four():
    bf16 = {"workload": {"precision": "bf16"}}
    assert sent("fsdp", **bf16) == pytest.approx(15 / 16 * (6 * PARAMETERS - 2 * NUMEL), rel=1e-9)
    assert sent({"kind": "fsdp", "keep": "forward"}, **bf16) == pytest.approx(15 / 16 * 4 * PARAMETERS, rel=1e-9)


def test_the_format_of_reductions_is_a_setting_of_the_schedule():
    stated, as_set = {"workload": {"precision": "bf16"}}, {"kind": "fsdp", "shard": 4, "reduce_in": "bf16"}
    one, other = (predicted({"kind": "fsdp", "shard": 4}, **stated), predicted(as_set))
    assert (one.result.traffic, one.spread.time) == (other.result.traffic, other.spread.time)
    assert one.result.memory.parts == other.result.memory.parts


def test_the_opponent_of_a_sharded_model_is_dense_on_the_best_mesh_with_16_bit_reductions():
    runtime = {"name": "fsdp", "framework": "pytorch-fsdp"}
    own = sharded({"kind": "fsdp", "shard": 4}, sparsifier={"kind": "topk", "density": 0.01}, runtime=runtime)
    found = best_dense(own)
    times = {
        scheduler.name: run(found.scenario.model_copy(update={"scheduler": scheduler}), intervals=False).spread.time
        for scheduler in settings_of(Fsdp(), own)
    }
    assert len(times) == 5 and found.scenario.scheduler.reduce_in == "bf16"
    assert found.scenario.scheduler.name in found.words and "the fastest of 7" in found.words
    assert times[found.scenario.scheduler.name] == min(times.values())


@pytest.mark.parametrize("stage", [1, 2])
def test_zero_sends_an_all_reduce_and_a_gather(stage):
    zero = {"kind": "zero", "stage": stage, "bucket": NUMEL}
    assert sent(zero, workload={"precision": "fp16"}) == pytest.approx(15 / 16 * 6 * PARAMETERS, rel=1e-9)
    reductions = 1 if stage == 1 else 3
    several = sent(zero, workload={"precision": "fp16"}, micro_batches=3)
    assert several == pytest.approx(15 / 16 * (4 * reductions + 2) * PARAMETERS, rel=1e-9)


@pytest.mark.parametrize(("accumulate", "rounds"), [("all", 3), ("reduce_scatter", 1)])
def test_replicas_exchange_a_part_of_the_gradients_in_each_micro_batch_or_once(accumulate, rounds):
    """HSDP: 2 (r - 1) / r of 4 P / s bytes, beside gathers and reductions in groups of 4."""
    inside = 3 / 4 * (8 * PARAMETERS - 2 * NUMEL) * 3
    between = rounds * 2 * 3 / 4 * 4 * PARAMETERS / 4
    made = sent({"kind": "fsdp", "shard": 4, "accumulate": accumulate}, micro_batches=3)
    assert made == pytest.approx(inside + between, rel=1e-9)


@pytest.mark.parametrize(
    ("step", "accumulate", "four"), [(22.2, "all", 88.8), (22.2, "reduce_scatter", 54.3), (110.2, "all", 430.6)]
)
def test_four_micro_batches_under_hsdp_take_as_long_as_was_measured(step, accumulate, four):
    """Two nodes of 8 A100, a copy of the model in each, over Ethernet (NVIDIA/cosmos-framework, issue 161 and pull
    request 162, 2026): 10.8 s of compute in a step of 22.2 s; on other machines of this kind 110.2 s. The rate between
    nodes follows from the step of one micro-batch; that of four is left out."""

    def seconds(wait, passes):
        """An iteration whose exchanges take `wait` in each micro-batch, as far as they are not hidden."""
        times = {"forward": passes * 3.6 / BLOCKS, "backward": passes * 7.2 / BLOCKS}
        layers = [{"name": f"h.{number}.w", "numel": NUMEL, **times} for number in range(BLOCKS)]
        asked = sharded(
            {"kind": "fsdp", "shard": 8, "accumulate": accumulate},
            nodes=2, gpus_per_node=8, micro_batches=passes, workload={"layers": layers},
            network={"bandwidth": 4 * PARAMETERS / wait},
        )  # fmt: skip
        return run(asked, intervals=False).result.iteration_time

    wait = step - (seconds(step, 1) - step)
    assert seconds(wait, 1) == pytest.approx(step, rel=1e-3)
    assert seconds(wait, 4) == pytest.approx(four, rel=0.05)


@pytest.mark.parametrize(("cards", "least", "most"), [(1, 1.27, 1.41), (8, 0.98, 1.02)])
def test_a_copy_in_every_node_gains_as_much_as_the_network_is_slow(cards, least, most):
    """Qwen3-30B-A3B in four stages on 64 H100, where HSDP is 1.34 times as fast as FSDP at 10.7 s a step
    (mlc-ai/pith-train, pull request 40, 2026): what 16 GPUs of the outer stage share, 64 micro-batches that are reduced
    each. Experts and the order of stages are left out. The network is not stated: 1.34 is what one card of 400 Gbit/s a
    node gives, and with eight there is no gain."""
    edge, block = 151936 * 2048, 2 * 2048 * 4096 + 2 * 2048 * 512 + 2048 * 128
    sizes = {"embed": edge, **{f"h.{number}": block for number in range(12)}, "head": edge}
    times = {"forward": 10.7 / 3 / len(sizes), "backward": 2 * 10.7 / 3 / len(sizes)}
    layers = [{"name": f"{name}.w", "numel": numel, **times} for name, numel in sizes.items()]
    inside = {"bandwidth": "365 GB/s", "latency": "3.4 us"}
    network = {"bandwidth": "400 Gbit/s", "latency": "4 us", "nics_per_node": cards, "intra_node": inside}
    steps = [
        predicted(
                {"kind": "fsdp", "keep": "forward", "accumulate": "reduce_scatter", **groups},
                nodes=2, gpus_per_node=8, micro_batches=64, gpu="gpus/h100", network=network, topology="nccl",
                runtime="runtimes/pytorch-fsdp", workload={"layers": layers, "batch_size": 64}).result.iteration_time
        for groups in ({}, {"shard": 8})
    ]  # fmt: skip
    assert least < steps[0] / steps[1] < most


def test_without_synchronisation_only_the_last_micro_batch_reduces():
    kept = sent({"kind": "fsdp", "accumulate": "none"}, micro_batches=3)
    assert kept == pytest.approx(15 / 16 * ((4 * PARAMETERS - 2 * NUMEL) * 3 + 4 * PARAMETERS), rel=1e-9)


@pytest.mark.parametrize(
    "scheduler", [{"kind": "zero", "stage": 1}, {"kind": "zero", "overlap_comm": True}, "megatron"]
)
def test_replicas_of_a_model_in_buckets_exchange_every_part_of_it_once(scheduler):
    """In groups of 4 an all-reduce of 4 P bytes (a reduce-scatter under Megatron) and a gather of 2 P."""
    asked = {"kind": scheduler} if isinstance(scheduler, str) else scheduler
    inside = 3 / 4 * (6 if scheduler == "megatron" else 10) * PARAMETERS
    made = sent(asked | {"shard": 4, "bucket": NUMEL})
    assert made == pytest.approx(inside + 2 * 3 / 4 * 4 * PARAMETERS / 4, rel=1e-9)


@pytest.mark.parametrize(
    ("gpus", "asked", "buckets"),
    [(16, {}, [1] * 4), (128, {}, [2, 2]), (128, {"shard": 8}, [2, 2]), (128, {"bucket": NUMEL}, [1] * 4),
     (16, {"overlap_grad_reduce": False}, [4])],
)  # fmt: skip
def test_a_bucket_of_megatron_has_a_million_parameters_per_copy_and_40_at_least(gpus, asked, buckets):
    """Of four tensors of 64 million; one bucket where reductions are not beside compute."""
    plan = plan_of(sharded({"kind": "megatron", **asked}, nodes=gpus // 8, gpus_per_node=8))
    assert [len(bucket.layers) for bucket in plan.work.buckets] == buckets


@pytest.mark.parametrize("stated", [{"uplink": "5 GB/s"}, {"oversubscription": 4}])
def test_groups_share_the_links_between_switches(stated):
    """Two nodes of 10 GB/s under a leaf with a quarter of it upwards: four groups send 1.5 P bytes each over it."""
    leaves = {"kind": "leaf_spine", "nodes_per_leaf": 2, **stated}
    made = predicted({"kind": "fsdp", "shard": 4}, network=leaves)
    assert made.plan.prices.seconds == pytest.approx([2 * 3 / 4 * NUMEL / (5e9 / 4)])
    busiest = made.result.traffic.busiest_link
    assert (busiest.name, busiest.nbytes) == ("leaf 0 to spine 0", pytest.approx(4 * 1.5 * PARAMETERS))
    # A model shared by both nodes of a leaf: all that its eight GPUs send to their peers, 0.5 P each, leaves the leaf.
    wider = predicted({"kind": "fsdp", "shard": 8}, network=leaves)
    assert wider.plan.prices.seconds == pytest.approx([0.5 * NUMEL / (5e9 / 8)])
    assert next(link for link in wider.result.links if link.name == "leaf 0 to spine 0").nbytes >= 8 * 0.5 * PARAMETERS


@pytest.mark.parametrize(
    ("transport", "rate"),
    [({}, 2.5e9), ({"staging": "4 GB/s"}, 1e9), ({"cpu_bandwidth": "2 GB/s"}, 5e8), ({"stream_bandwidth": 1e9}, 1e9)],
)
def test_groups_in_a_node_share_its_nic_and_its_way_through_the_host(transport, rate):
    """All-reduces of four parts of 1 GB of gradients, each with a quarter of 10 GB/s, or of what its host moves less:
    2 x 3/4 x 256 MB / 2.5 GB/s. Connections are a group's own."""
    made = predicted({"kind": "fsdp", "shard": 4}, network={"transport": {"kind": "rdma", **transport}})
    each = 2 * 3 / 4 * NUMEL  # bytes of a unit's part: 4 B x elements / 4
    inside = 3 / 4 * (8 * PARAMETERS - 2 * NUMEL) / 100e9
    assert made.plan.prices.seconds == pytest.approx([each / rate])
    hidden = made.result.communication_total
    assert hidden == pytest.approx(BLOCKS * each / rate + inside, rel=0.2)  # as far as they do not overlap
    several = predicted({"kind": "fsdp", "shard": 4}, network={"nics_per_node": 4})
    assert several.plan.prices.seconds == pytest.approx([each / 10e9])


@pytest.mark.parametrize(("nics", "groups"), [(1, 4), (2, 2), (4, 1)])
def test_the_bytes_of_a_nic_are_those_of_all_groups_that_share_it(nics, groups):
    """Each of the 4 GPUs of a node sends 2 (r - 1) / r of its quarter of the gradients in fp32 to r = 4 nodes."""
    result = predicted({"kind": "fsdp", "shard": 4}, network={"nics_per_node": nics}).result
    nic = next(link for link in result.links if link.name.startswith("node 0 NIC"))
    assert nic.nbytes == pytest.approx(groups * 2 * 3 / 4 * 4 * PARAMETERS / 4)
    assert nic.utilisation == pytest.approx(nic.nbytes / 10e9 / result.iteration_time)


def test_a_fold_is_refused_where_links_among_shards_would_carry_more_than_they_can():
    """GPUs that share a model exchange through a store: their uploads meet on the line of their site."""
    sites = [{"name": "here", "nodes": 2, "up": "100 Mbit/s"}, {"name": "there", "nodes": 2}]
    line = {"latency": "0 s", "rate": "1 Gbit/s"}
    store = {"latency": "0 s", "bandwidth": "1 Gbit/s"}
    network = {"kind": "wide_area", "sites": sites, "between": line, "store": store}
    with pytest.raises(InputError, match=r"by which .* would be \d+ % busy"):
        run(sharded({"kind": "fsdp", "shard": 8}, network=network, topology="object_store", fidelity="fold"))


def test_compute_waits_for_the_first_gather_and_the_last_reduction():
    """Gathers of 128 MB and reductions of 256 MB a unit at 1 GB/s over 16 places, against 0.25 and 0.5 s of compute."""
    network = {"bandwidth": "1 GB/s", "intra_node": {"bandwidth": "1 GB/s", "latency": "0 s"}}
    made = predicted("fsdp", nodes=16, gpus_per_node=1, network=network).result
    gather, reduce = 15 / 16 * 0.128, 15 / 16 * 0.256
    assert made.breakdown["communication_exposed"] == pytest.approx(gather + reduce, rel=1e-6)
    assert made.iteration_time == pytest.approx(3 + gather + reduce, rel=1e-6)


@pytest.mark.parametrize("passes", [1, 2])
def test_exposed_time_and_bytes_are_told_by_axis_and_what_waits_for_what(passes):
    """Parts of units of 256 MB of gradients are exchanged at 2.5 GB/s, units gathered and reduced at 100 GB/s.

    Compute of a pass, 0.25 and 0.5 s a unit over the number of passes, hides all but the first gather and the last
    reduction of each pass, and its all-reduces of the last two units: the one before the last starts when compute waits
    for the last reduction, beside which it runs.
    """
    prediction = predicted({"kind": "fsdp", "shard": 4}, micro_batches=passes)
    made, reduced = prediction.result, 2 * 3 / 4 * NUMEL / 2.5e9
    gather, reduce = 3 / 4 * 0.128 / 100, 3 / 4 * 0.256 / 100
    shard, replica = made.axes.shard, made.axes.replica
    assert (shard.gpus, replica.gpus) == (4, 4)
    assert replica.exposed == pytest.approx(passes * (2 * reduced - reduce), rel=1e-6)
    assert shard.exposed == pytest.approx(passes * (gather + reduce), rel=1e-6)
    assert shard.exposed + replica.exposed == pytest.approx(made.breakdown["communication_exposed"], rel=1e-9)
    assert shard.sent_in_micro_batch == pytest.approx(3 / 4 * (8 * PARAMETERS - 2 * NUMEL), rel=1e-9)
    assert replica.sent_in_micro_batch == pytest.approx(2 * 3 / 4 * 4 * PARAMETERS / 4, rel=1e-9)
    assert shard.sent == passes * shard.sent_in_micro_batch
    assert shard.sent + replica.sent == pytest.approx(made.traffic.sent_per_worker, rel=1e-9)
    rows = longest_waits(prediction.plan, prediction.iteration)
    found = [(row.axis, row.unit, row.holds, row.seconds) for row in rows]
    holds = ["the next iteration", *["forward pass"] * (passes - 1)]
    last_two = [("replica", "h.0.w", reduced), ("replica", "h.1.w", reduced - reduce), ("shard", "h.0.w", reduce)]
    of_another = {("h.1.w", "forward pass"): " of h.0.w"}
    waits = [
        *((axis, unit, by + of_another.get((unit, by), ""), each) for by in holds for axis, unit, each in last_two),
        ("shard", "h.0.w", "forward pass", passes * gather),
    ]
    assert sorted(found) == sorted((*words, pytest.approx(seconds, rel=1e-6)) for *words, seconds in waits)


def test_a_job_that_is_not_sharded_has_no_axes_and_one_of_replicas_alone_only_that():
    assert predicted("wfbp").result.axes is None
    alone = predicted("fsdp").result.axes
    assert alone.replica is None and alone.shard.gpus == 16
    assert predicted("fsdp", nodes=1, gpus_per_node=1).result.axes is None


def test_zero_without_overlap_exposes_all_of_its_communication():
    network = {"bandwidth": "1 GB/s", "intra_node": {"bandwidth": "1 GB/s", "latency": "0 s"}}
    zero = {"kind": "zero", "stage": 2, "bucket": NUMEL}
    made = predicted(zero, nodes=16, gpus_per_node=1, network=network).result
    assert made.breakdown["communication_exposed"] == pytest.approx(15 / 16 * BLOCKS * (0.512 + 0.128), rel=1e-6)
    zero["overlap_comm"] = True
    hidden = predicted(zero, nodes=16, gpus_per_node=1, network=network)
    assert hidden.result.breakdown["communication_exposed"] == pytest.approx(
        15 / 16 * (0.512 + BLOCKS * 0.128), rel=1e-6
    )


@pytest.mark.parametrize("accumulate", ["all", "reduce_scatter", "none"])
@pytest.mark.parametrize("shard", [None, 4])
def test_many_micro_batches_take_as_long_together_as_one_by_one(accumulate, shard, monkeypatch):
    asked = sharded({"kind": "fsdp", "accumulate": accumulate, "shard": shard}, micro_batches=12, gpu="gpus/h100")
    together = run_point(plan_of(asked))
    monkeypatch.setattr(step, "MOST_MICRO_BATCHES", 100)
    monkeypatch.setattr("simulator.engine.clock.graphs._graphs.get", lambda key, make, *also: make())
    assert together.time == pytest.approx(run_point(plan_of(asked)).time, rel=1e-12)
    assert sum(together.breakdown.values()) == pytest.approx(together.time)


@pytest.mark.parametrize("method", ["dense", {"kind": "topk", "density": 0.01}, {"kind": "powersgd", "rank": 4}])
@pytest.mark.parametrize(
    "scheduler",
    [
        {"kind": "fsdp", "shard": 4},
        {"kind": "fsdp", "shard": 8, "prefetch": 3},
        {"kind": "zero", "shard": 2, "stage": 1},
    ],
)
def test_the_clock_and_the_evaluator_agree_where_two_communicators_overlap(scheduler, method):
    runtime = {"name": "slowed", "compute_slowdown": 0.5, "kernel_launch": "5 us"}
    plan = plan_of(sharded(scheduler, sparsifier=method, micro_batches=2, gpu="gpus/h100", runtime=runtime))
    fast, reference = run_point(plan), simulate(plan, ALIKE)
    assert (fast.time, fast.breakdown) == (reference.time, reference.breakdown)
    assert fast.communication_total == reference.communication_total
    assert fast.exposed == reference.exposed and min(fast.exposed.values()) >= 0
    assert sum(fast.exposed.values()) == pytest.approx(fast.breakdown["communication_exposed"], rel=1e-9)
    assert fast.breakdown["communication_exposed"] <= fast.communication_total * (1 + 1e-9)


@pytest.mark.parametrize("scheduler", ["fsdp", "zero"])
def test_one_gpu_launches_no_collective(scheduler):
    runtime = {"name": "launching", "collective_launch": "1 ms", "cycle_time": "1 ms", "negotiation": "1 ms"}
    plan = plan_of(sharded(scheduler, nodes=1, gpus_per_node=1, micro_batches=2, runtime=runtime))
    for made in (run_point(plan), simulate(plan, ALIKE)):
        assert made.time == pytest.approx(3, rel=1e-12)  # the passes, as the ideal GPU updates in no time
        assert made.breakdown["idle"] == made.communication_total == 0


def test_compressing_what_replicas_exchange_leaves_gathers_alone():
    dense, topk = (
        predicted({"kind": "fsdp", "shard": 4}, sparsifier=method)
        for method in ("dense", {"kind": "topk", "density": 0.01})
    )
    assert [item.primitive for item in dense.result.collectives] == ["all_gather", "all_reduce", "reduce_scatter"]
    assert [item.primitive for item in topk.result.collectives] == ["all_gather", "reduce_scatter"]
    for one, other in zip(topk.plan.axes, dense.plan.axes, strict=True):
        assert one.prices.seconds.tolist() == other.prices.seconds.tolist()
    # Pairs of 8 B of a hundredth of the part, from three others.
    less = 2 * 3 / 4 * 4 * PARAMETERS / 4 - 3 * 8 * PARAMETERS / 4 / 100
    assert dense.result.traffic.sent_per_worker - topk.result.traffic.sent_per_worker == pytest.approx(less, rel=1e-6)


@pytest.mark.parametrize(
    ("scheduler", "gigabytes", "left_out"),
    [
        ("wfbp", 120, ()),
        ({"kind": "zero", "stage": 1}, 31.4, ()),
        ({"kind": "zero", "stage": 2}, 16.6, ("reduced",)),
        ("fsdp", 1.9, ("gathered", "reduced")),
    ],
)
def test_memory_is_that_of_the_table_of_zero(scheduler, gigabytes, left_out):
    """7.5 billion parameters with Adam in fp16 on 64 GPUs (Rajbhandari et al., SC 2020, figure 1), without buffers."""
    layers = [{"name": f"h.{number}.w", "numel": 7_500_000_000 // 48} for number in range(48)]
    workload = {"layers": layers, "precision": "fp16"}
    made = predicted(scheduler, nodes=8, gpus_per_node=8, workload=workload).simulated.memory
    parts = [part.least for part in made.details if part.name in STATES and part.name not in left_out]
    assert round(sum(parts) / 1e9, 1) == gigabytes


@pytest.mark.parametrize(
    ("scheduler", "parts", "words"),
    [
        ({"kind": "fsdp", "shard": 3}, {}, "share a model or a site to divide the cluster evenly, got 3"),
        ({"kind": "fsdp", "shard": 6}, {"nodes": 3}, "divide the cluster evenly, got 6"),
        ({"kind": "fsdp", "reduce_in": "fp16"}, {}, "one 16-bit format, bf16 or fp16"),
        ({"kind": "zero", "streams": 2}, {}, "a sharded model, or sites, with `streams: 1`"),
        ("fsdp", {"topology": "parameter_server"}, "collectives that have the links to themselves"),
        ("zero", {"topology": "parameter_server"}, "got topology parameter_server"),
    ],
)
def test_what_does_not_fit_is_refused(scheduler, parts, words):
    with pytest.raises(InputError, match=words):
        run(sharded(scheduler, **parts))


def test_units_are_the_numbered_blocks_of_a_model():
    names = ("embed.weight", "model.layers.0.q", "model.layers.0.k", "model.layers.1.q", "norm.weight", "head.weight")
    assert units_of([Layer(name=name, numel=1) for name in names]) == [[5, 4], [3], [2, 1], [0]]
    assert units_of([Layer(name="only", numel=1)]) == [[0]]


@pytest.mark.parametrize("ahead", [1, 2, 9])
def test_every_unit_is_gathered_once_and_before_it_is_computed(ahead):
    gathered = set()
    for units, unit in with_ahead(range(5), ahead):
        assert not gathered & set(units)
        gathered |= set(units)
        assert unit in gathered and len(gathered) <= unit + ahead + 1
    assert gathered == set(range(5))


@pytest.mark.parametrize(
    ("scheduler", "owned"),
    [
        ({"kind": "zero", "stage": 1}, 1), ({"kind": "zero", "stage": 2}, 16), ("fsdp", 16), ("megatron", 1),
        ({"kind": "fsdp", "accumulate": "none"}, 1), ({"kind": "fsdp", "accumulate": "reduce_scatter"}, 16),
    ],
)  # fmt: skip
def test_later_micro_batches_add_to_whole_gradients_or_to_the_part_that_was_reduced(scheduler, owned):
    """In the format of the reductions, fp32, at 1 ns an element."""
    slow = {"name": "slow", "kernels": {"elementwise": {"curve": "affine", "slope": 1e-9}}}
    made, added = predicted(scheduler, micro_batches=3, gpu=slow), 2 * PARAMETERS / owned * 1e-9
    passes = made.plan.work.passes
    assert passes.later[1] - passes.first[1] == pytest.approx(added / 2)
    assert made.result.breakdown["backward"] == pytest.approx(2 + added)
