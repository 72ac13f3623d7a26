"""Models that several GPUs compute together: bytes, bubbles and memory by hand arithmetic, and what is refused."""

import math
from random import Random

import numpy as np
import pytest
from long_examples import few_first

from simulator.architectures.bert import Bert
from simulator.architectures.describing import description_of
from simulator.architectures.transformer import Gpt2, Transformer
from simulator.engine.clock.graphs import graph_of
from simulator.engine.clock.numbers import ALIKE
from simulator.engine.clock.run_points import run_point
from simulator.engine.clock.simulation import simulate
from simulator.engine.plan.prices import price_steps
from simulator.engine.plan.setup import JointWork
from simulator.errors import InputError
from simulator.hardware.operator_times import OperatorClock
from simulator.models.exchange import ReduceScatter
from simulator.models.operators import COLLECTIVES, Split
from simulator.models.pipeline import order_stage, run_pipeline
from simulator.models.precision import Precision
from simulator.models.sharding import GATHER_EXPERTS, REDUCE_EXPERTS
from simulator.prediction.measured import measured_values
from simulator.prediction.memory import memory_of
from simulator.prediction.network_use import network_uses
from simulator.prediction.run import plan_of, run
from simulator.reporting.wording.runs import describe_memory
from simulator.scenario.scenario import Scenario
from simulator.schedulers import step
from simulator.sparsifiers.onebit import OneBit
from simulator.studies.explain.critical_path import hiding_compute, longest_waits
from simulator.studies.explain.explanation import counterfactuals
from simulator.studies.explain.terms import terms_of
from simulator.units import show_memory

LAYERS, HIDDEN, MLP, HEADS, SEQUENCE, VOCABULARY = 16, 1024, 4096, 16, 512, 32000
BLOCK = 4 * HIDDEN**2 + 2 * HIDDEN * MLP
"""Parameters of the matrices of a block."""


BF16 = Precision(gradients="bf16")
EXPERTS = {"gated": True, "experts": 16, "experts_per_token": 2, "expert_mlp": 1024}
SITES = {"kind": "wide_area", "bandwidth": "10 GB/s", "sites": [{"name": name, "nodes": 4} for name in "ab"]}
SITES |= {"between": {"rate": "1 GB/s"}}


def divided(parallelism, *, nodes=8, gpus_per_node=8, batch=8, micro_batches=8, **parts):
    """A decoder of 16 blocks on a network of 10 GB/s for each GPU."""
    workload = {
        "model": "transformer", "layers": LAYERS, "hidden": HIDDEN, "mlp": MLP, "heads": HEADS, "sequence": SEQUENCE,
        "vocabulary": VOCABULARY, "batch_size": batch, "micro_batches": micro_batches, "optimiser": "adam",
        "precision": "bf16",
    }  # fmt: skip
    inside = {"bandwidth": "100 GB/s", "latency": "2 us"}
    fabric = {"kind": "single_switch", "bandwidth": "10 GB/s", "nics_per_node": gpus_per_node, "latency": "5 us"}
    cluster = {"nodes": nodes, "gpus_per_node": gpus_per_node, "gpu": "gpus/h100"}
    asked = {
        "name": "divided", "topology": "ring", "sparsifier": "dense", "scheduler": "megatron", "versus": "none",
        "ignore_memory": True, "workload": workload | parts.pop("workload", {}), "parallelism": parallelism,
        "cluster": cluster | {"network": fabric | {"intra_node": inside}} | parts.pop("cluster", {}),
    }  # fmt: skip
    return Scenario.model_validate(asked | parts)


def predicted(parallelism, **parts):
    return run(divided(parallelism, **parts), intervals=False)


def on_axis(scenario):
    """Bytes that a GPU sends among those that divide its layers, in an iteration."""
    return float(network_uses(plan_of(scenario))[-1].traffic.sent.max())


def test_the_first_stage_of_zb_v_has_both_ends_of_the_model():
    asked = divided({"pipeline": {"stages": 4, "chunks": 2, "schedule": "zb_v"}})
    model = plan_of(asked).setup.divided
    assert sorted(set(model.chunk[model.mine])) == [0, 7]
    names = [layer.name for layer in plan_of(asked).setup.workload.layers]
    assert names[0] == "model.embed_tokens.weight" and names[-1] == "lm_head.weight"


@pytest.mark.parametrize(("axes", "full"), [({"context": 2}, 128e6), ({"tensor": 2}, 64e6)])
def test_a_bucket_of_megatron_counts_gpus_that_share_tokens_as_copies(axes, full):
    """A million parameters for each of the GPUs with the same weights: all 128, or every second of them."""
    plan = plan_of(divided(axes, nodes=16, batch=64))
    first, *_ = ([plan.setup.sharding.numels[layer] for layer in bucket.layers] for bucket in plan.work.buckets)
    assert sum(first[:-1]) < full <= sum(first)


@pytest.mark.parametrize("tensor", [2, 4, 8])
def test_divided_layers_send_four_all_reduces_a_block(tensor):
    """Korthikanti et al. 2022: 4 x 2 (t - 1) / t m h bytes x 2 a block, besides embedding, decoder; with the tokens
    between layers divided, gathers and reduce-scatters send as much, and what is gathered again half of it more."""
    whole = SEQUENCE * HIDDEN * 2 * (tensor - 1) / tensor  # of a micro-batch, once around
    plain = on_axis(divided({"tensor": tensor, "sequence_parallel": False}, nodes=1))
    assert plain == pytest.approx(8 * (LAYERS * 4 + 2) * 2 * whole, rel=1e-9)
    by_tokens = on_axis(divided({"tensor": tensor}, nodes=1))
    # A block has two gathers and two scatters on each pass, and two gathers again; embedding and decoder have five.
    assert by_tokens == pytest.approx(8 * (LAYERS * 10 + 5) * whole, rel=1e-9)


def test_embedding_and_decoder_count_as_blocks_where_there_are_more_chunks():
    """Two chunks a stage: the first stage has the embedding and block 9, the last block 8 and the decoder."""
    asked = divided({"pipeline": {"stages": 9, "chunks": 2}}, nodes=9, batch=9, micro_batches=9, scheduler="wfbp")
    plan = plan_of(asked)
    assert plan.setup.workload.numel == VOCABULARY * HIDDEN + BLOCK + 2 * HIDDEN
    assert np.bincount(plan.setup.divided.chunk)[[0, -1]].tolist() == [1, 2]  # a norm before the decoder


def test_collectives_run_beside_three_of_four_parts_of_all_products():
    """The last of four parts of a reduce-scatter has none beside it; what is sent stays."""
    apart, beside = (plan_of(divided({"tensor": 4, "overlap": each}, nodes=1)) for each in (False, True))
    (axis,), scenario = beside.setup.divided.axes, divided({"tensor": 4}, nodes=1)
    made = description_of(scenario.workload.origin.architecture, 1, scenario.workload.precision, Split(4))
    products = [each for each in (*made.forward, *made.backward) if each.kind == "product"]
    assert axis.beside.sum() == pytest.approx(0.75 * OperatorClock(beside.setup.gpu, "bf16").time(products))
    scatters = [isinstance(step, ReduceScatter) for step in axis.steps]
    assert axis.last.tolist() == [0.25 * each for each in scatters]
    used, before = (plan.axes[-1].often(graph_of(plan).calls).tolist() for plan in (beside, apart))
    assert used == before and sum(used) == beside.work.passes.count * axis.calls.sum()
    times = [run_point(plan).time for plan in (beside, apart)]
    assert times[0] < times[1]


def test_compute_hides_all_of_a_collective_but_its_last_part():
    """Of two layers with a gather of 1 s and two reduce-scatters of 2 s, beside 2 s and 10 s of compute."""
    calls, beside = np.array([[[1, 2], [1, 2]]]), np.array([[2.0, 10.0]])
    work = JointWork(None, (), calls, beside, np.array([0.0, 0.25]))
    assert work.exposed(np.array([1.0, 2.0])).tolist() == [[3.0, 1.0]]


def test_blocks_in_fp8_gather_one_byte_of_an_activation():
    """Of the ten collectives of a block six are gathers, in one of two bytes; embedding and decoder keep theirs."""
    whole = SEQUENCE * HIDDEN * 2 * 7 / 8
    made = on_axis(divided({"tensor": 8}, nodes=1, workload={"arithmetic": "fp8"}))
    assert made == pytest.approx(8 * (LAYERS * (4 + 6 / 2) + 5) * whole, rel=1e-9)


def test_divided_tokens_send_keys_and_values():
    """Both of every layer once in the forward pass, and again with their gradients: 3 x 2 m h (c - 1) / c values."""
    whole = 2 * SEQUENCE * HIDDEN * 2 * 3 / 4
    assert on_axis(divided({"context": 4}, nodes=1)) == pytest.approx(8 * LAYERS * 3 * whole, rel=1e-9)


@pytest.mark.parametrize(
    ("scheduler", "sent"),
    [("bucketed", 2 * 4), ("megatron", 4 + 2), ({"kind": "fsdp", "keep": "forward"}, 4 + 2)],
    ids=["bucketed", "megatron", "fsdp"],
)
@pytest.mark.parametrize("context", [1, 2, 8])
def test_gpus_that_share_tokens_exchange_gradients_as_copies_do(scheduler, sent, context):
    """All 16 GPUs have the same weights, whatever part of a sample each has: 15/16 of so many bytes of each."""
    precision = {"gradients": "bf16", "travels": "fp32"}
    workload = {"precision": precision, "batch_size": 8, "micro_batches": 1}
    plan = plan_of(divided({"context": context}, nodes=4, gpus_per_node=4, scheduler=scheduler, workload=workload))
    first = network_uses(plan)[: 1 if plan.setup.sharding is None else 2]
    numel = plan.setup.workload.numel if plan.setup.sharding is None else sum(plan.setup.sharding.numels)
    assert plan.wiring.layout.workers * (plan.setup.sharding.size if plan.setup.sharding else 1) == 16
    total = sum(float(use.traffic.sent[: use.wiring.layout.workers].mean()) for use in first)
    assert total == pytest.approx(15 / 16 * sent * numel, rel=1e-3)


SPLITS = [Split(tensor=4), Split(tensor=4, sequence=True), Split(tensor=2, context=4), Split(context=8)]


@pytest.mark.parametrize("split", SPLITS, ids=repr)
def test_gpt2_is_divided_as_a_decoder_of_the_same_sizes(split):
    """Its projections of queries, keys and values are one product instead of three; bytes and elements are the same."""
    sizes = {"layers": 3, "hidden": 768, "heads": 12, "vocabulary": 50257, "positions": 1024, "dropout": False}
    same = {"sequence": 1024, "tied": True, "norm": "layer", "biases": "all"}
    one, other = (
        description_of(kind.model_validate(sizes | more), 2, BF16, split)
        for kind, more in ((Gpt2, {}), (Transformer, same))
    )
    assert sum(tensor.numel for tensor in one.tensors) == sum(tensor.numel for tensor in other.tensors)
    assert one.kept_bytes == other.kept_bytes
    for way in ("forward", "backward"):
        mine, theirs = (
            sorted((item.name, item.kind, item.nbytes) for item in getattr(each, way) if item.kind in COLLECTIVES)
            for each in (one, other)
        )
        assert mine == theirs
        assert mine


@pytest.mark.parametrize("apart", [False, True], ids=["whole tokens", "tokens apart"])
def test_bert_sends_four_all_reduces_a_block_and_one_at_each_end(apart):
    """Shoeybi et al. 2019 (1909.08053), figure 4 and section 3: two each way in a block; the embedding adds up what
    its parts look up, and the decoder the gradients of its input. With tokens apart each is a reduce-scatter and a
    gather (Korthikanti et al. 2022, 2205.05198), and on the way back input is gathered again for the weights."""
    bert = Bert(layers=2, hidden=64, heads=4, vocabulary=1001, positions=128, head="masked", dropout=False)
    made = description_of(bert, 3, BF16, Split(tensor=4, sequence=apart))
    whole = 3 * 128 * 64 * 2
    for way, again in (("forward", 0), ("backward", 2 * 2 + 1)):
        sent = [item for item in getattr(made, way) if item.kind in COLLECTIVES]
        assert {(item.name, item.nbytes) for item in sent} == {("tensor", whole)}
        assert len(sent) == (2 * (2 * 2 + 1) + again if apart else 2 * 2 + 1)
    # Blocks (3 + 1 + 8 squares of 64) and their biases but those behind sums are divided, norms and positions are not.
    block = 12 * 64**2 // 4 + (3 + 4) * 64 // 4 + 2 * 64 + 4 * 64
    table = -(-1001 // 4)
    ends = table * 64 + 128 * 64 + 2 * 64 + 2 * 64 + table + 64**2 + 64 + 2 * 64
    assert sum(tensor.numel for tensor in made.tensors) == 2 * block + ends


def test_a_gpu_has_its_part_of_the_parameters():
    whole = plan_of(divided({}, nodes=1, gpus_per_node=1)).setup.workload
    norms = whole.numel - (LAYERS * BLOCK + 2 * VOCABULARY * HIDDEN)
    first = plan_of(divided({"tensor": 4, "pipeline": {"stages": 4}}, nodes=2, scheduler="wfbp")).setup.workload
    assert first.numel == (LAYERS / 4 * BLOCK + VOCABULARY * HIDDEN) / 4 + LAYERS / 4 * 2 * HIDDEN
    assert norms == (2 * LAYERS + 1) * HIDDEN


@pytest.mark.parametrize(("tensor", "imbalance"), [(1, 1.0), (2, 1.0), (1, 1.5)])
def test_tokens_go_to_their_experts_and_back_on_both_passes(tensor, imbalance):
    """Four all-to-alls a block of tokens x 2 experts x hidden x 2 bytes, of which 7 / 8 leave the GPU."""
    asked = divided({"expert": 8, "tensor": tensor, "imbalance": imbalance}, workload=EXPERTS, micro_batches=4, batch=8)
    tokens = 2 * SEQUENCE * imbalance
    assert on_axis(asked) == pytest.approx(4 * LAYERS * 4 * tokens * 2 * HIDDEN * 2 * 7 / 8, rel=1e-12)


@pytest.mark.parametrize(("tensor", "expert"), [(1, 8), (2, 4), (8, 2)])
def test_experts_are_reduced_over_the_copies_that_have_the_same_ones(tensor, expert):
    """A reduce-scatter and a gather in 16 bits: of experts over copies / expert GPUs, of all else over all copies."""
    plan = plan_of(divided({"expert": expert, "tensor": tensor}, workload=EXPERTS))
    copies = 64 // tensor
    experts = LAYERS * 16 * 3 * HIDDEN * 1024 / tensor / expert
    whole = LAYERS * (2 + 16) * HIDDEN + HIDDEN  # norms and routers
    dense = whole + (LAYERS * 4 * HIDDEN**2 + 2 * VOCABULARY * HIDDEN) / tensor
    _, shards, of_experts, *_ = network_uses(plan)
    assert shards.traffic.sent.max() == pytest.approx(4 * dense * (copies - 1) / copies, rel=1e-4)
    own = copies / expert
    assert of_experts.traffic.sent.max() == pytest.approx(4 * experts * (own - 1) / own, rel=1e-4)
    assert plan.setup.workload.numel == pytest.approx(dense / copies + experts / own, rel=1e-4)


def test_the_gpus_of_an_expert_axis_are_copies_next_to_each_other():
    """Two GPUs a copy, four copies an axis: it fills a node of 8, and its experts are shared by one GPU of each."""
    plan = plan_of(divided({"expert": 4, "tensor": 2}, workload=EXPERTS))
    axis, shards = plan.setup.divided.axes[1], plan.setup.sharding.experts
    assert (axis.network.wiring.layout.nodes, axis.network.wiring.layout.gpus_per_node) == (1, 4)
    assert (shards.network.wiring.layout.nodes, shards.network.wiring.layout.gpus_per_node) == (8, 1)
    assert shards.size == 8


def test_replicas_have_the_same_experts_and_exchange_their_parts():
    """HSDP: 8 GPUs share a model, of which 4 divide the experts: each has an eighth of all, for 8 replicas."""
    asked = divided({"expert": 4}, workload=EXPERTS, scheduler={"kind": "fsdp", "shard": 8}, micro_batches=1, batch=1)
    plan = plan_of(asked)
    assert plan.setup.sharding.experts.size == 2
    assert plan.setup.workload.numel == pytest.approx(asked.workload.numel / 8, rel=1e-4)
    assert network_uses(plan)[0].traffic.sent.max() == pytest.approx(2 * 2 * asked.workload.numel / 8 * 7 / 8, rel=1e-3)


def test_axes_count_the_gpus_that_exchange():
    """8 x 2 that divide layers; 32 copies share all but experts, and 4 of them the experts of a GPU."""
    axes = predicted({"expert": 8, "tensor": 2}, workload=EXPERTS).result.axes
    assert (axes.layers.gpus, axes.shard.gpus, axes.replica) == (16, 32, None)


def test_the_payload_that_is_waited_for_has_that_of_experts():
    """Of one block in one pass each gather and reduction, of experts as of all else, is one call."""
    small = {"workload": EXPERTS | {"layers": 1}, "batch": 1, "micro_batches": 1}
    rows, exposed = terms_of(run(divided({"expert": 2}, scheduler={"kind": "fsdp", "shard": 8}, **small)))
    assert {GATHER_EXPERTS, REDUCE_EXPERTS} < {name for _, name in exposed.on_axes}
    (transfer,) = (row.numbers for row in rows if row.term == "transfer")
    assert transfer["calls"] == transfer["exchanges_waited_for"] == len(exposed.on_axes) + len(exposed.waited_for)


def test_each_expert_has_more_rows_where_gpus_have_fewer_of_them():
    """Two of 16 experts, which those of 8 GPUs send their tokens to, and the slowest of these has its imbalance."""
    workload = divided({}, workload=EXPERTS).workload
    made = workload.origin.architecture.describe(1, workload.precision, Split(expert=8, imbalance=1.5))
    up = next(each for each in made.forward if each.kind == "grouped")
    assert (up.batch, up.m, up.n, up.k) == (2, 1.5 * SEQUENCE * 2 / 2, 1024, HIDDEN)


def test_activations_of_the_busiest_gpu_are_those_of_its_tokens():
    even, uneven = (
        plan_of(divided({"expert": 8, "imbalance": each}, workload=EXPERTS)).setup.workload.activation_bytes
        for each in (1, 1.5)
    )
    rows = 0.5 * SEQUENCE * 2 * 2 * LAYERS  # more rows, of 2 bytes
    assert uneven - even == pytest.approx(rows * (2 * HIDDEN + 4 * 1024), rel=1e-12)


def test_an_imbalance_that_is_not_stated_is_a_doubt():
    made = run(divided({"expert": 8}, workload=EXPERTS))
    assert any("`imbalance`" in str(each) for each in made.result.warnings)
    stated = run(divided({"expert": 8, "imbalance": 1.2}, workload=EXPERTS))
    assert not any("`imbalance`" in str(each) for each in stated.result.warnings)


def test_copies_exchange_their_parts():
    """Distributed optimiser: a reduce-scatter and an all-gather in 16 bits of a quarter of all parameters, by 8."""
    plan = plan_of(divided({"tensor": 4}, nodes=4))
    part = math.fsum(plan.setup.sharding.numels)
    assert plan.setup.sharding.size == 8 and plan.wiring.layout.workers == 1
    sent = network_uses(plan)[1].traffic.sent.max()
    assert sent == pytest.approx(2 * 2 * part * 7 / 8, rel=1e-4)  # parts of a tensor are whole elements
    assert plan.setup.sharding.network.wiring.layout.gpus_per_node == 2


@pytest.mark.parametrize("sites", [{}, SITES], ids=["machines", "sites"])
@pytest.mark.parametrize("inside", ["megatron", "wfbp", {"kind": "zero", "stage": 1}, {"kind": "fsdp", "shard": 2}])
@pytest.mark.parametrize("mesh", [{}, {"tensor": 4}, {"tensor": 2, "pipeline": {"stages": 2}}, {"context": 2}], ids=str)
def test_local_steps_between_sites_go_over_any_mesh_inside_them(mesh, inside, sites):
    """With ever more steps between exchanges a site goes its own way, with the same waits of its stages and axes."""
    one, all_of_them = ({"network": sites | {"sites": SITES["sites"][:n]}} if sites else {} for n in (1, 2))
    own, before = predicted(mesh, nodes=4, scheduler=inside, cluster=one).result, math.inf
    for steps in (10, 10**6):
        outer = {"kind": "diloco", "inner_steps": steps, "inside": inside, "site": 4}
        made = predicted(mesh, scheduler=outer, cluster=all_of_them).result
        assert own.iteration_time < made.iteration_time < before
        assert sum(made.breakdown.values()) == pytest.approx(made.iteration_time, rel=1e-9)
        before = made.iteration_time
    assert before == pytest.approx(own.iteration_time, rel=1e-4)
    assert made.throughput == pytest.approx(2 * own.throughput, rel=1e-4)
    assert made.scaling_efficiency == pytest.approx(own.scaling_efficiency, rel=1e-4)
    for term in ("forward", "backward", "idle", "communication_exposed"):
        assert made.breakdown[term] == pytest.approx(own.breakdown[term], rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("tensor", [1, 2, 8])
def test_sites_exchange_the_part_of_each_gpu(tensor):
    """A GPU of a site has one of so many copies' shares of its part: in bf16, once to the other of two sites."""
    outer = {"kind": "diloco", "inner_steps": 4, "inside": "megatron", "site": 4}
    made = predicted({"tensor": tensor}, scheduler=outer).result
    norms = (2 * LAYERS + 1) * HIDDEN
    part = (LAYERS * BLOCK + 2 * VOCABULARY * HIDDEN) / tensor + norms
    assert 4 * made.axes.site.sent == pytest.approx(2 * part / (32 / tensor), rel=1e-6)


ADAPTED = {"workload": {"lora": {"rank": 4, "targets": "linear"}}}


@pytest.mark.parametrize("tensor", [1, 2, 8])
def test_adapters_are_divided_with_their_layers_and_alone_exchanged(tensor):
    """A of layers whose outputs are divided is whole on every GPU, and B of those whose inputs are: 4 (in + out)."""
    setup = plan_of(divided({"tensor": tensor}, scheduler="wfbp", **ADAPTED)).setup
    wide, narrow = HIDDEN, HIDDEN / tensor
    block = 4 * (4 * (wide + narrow) + 2 * wide + 2 * MLP / tensor)
    assert setup.workload.numel == LAYERS * block
    norms = (2 * LAYERS + 1) * HIDDEN
    assert setup.workload.frozen_bytes == 2 * ((LAYERS * BLOCK + 2 * VOCABULARY * HIDDEN) / tensor + norms)
    made = predicted({"tensor": tensor}, **ADAPTED).result
    sent = on_axis(divided({"tensor": tensor}, **ADAPTED)) if tensor > 1 else 0
    copies = 64 // tensor
    between = 2 * (copies - 1) / copies * 2 * LAYERS * block  # bf16, a reduce-scatter and a gather
    assert made.traffic.sent_per_worker == pytest.approx(sent + between, rel=1e-3)


@pytest.mark.parametrize(("targets", "gathered_again"), [("linear", 2), ("attention", 1), ("query_value", 1)])
def test_inputs_of_layers_are_gathered_again_only_for_weights_that_are_trained(targets, gathered_again):
    """Two gathers and two scatters of a block on each pass. Before the first adapter nothing needs a gradient: the
    first block has no scatter on the way back, and the embedding no gather; the decoder has a gather and a scatter."""
    made = on_axis(divided({"tensor": 2}, nodes=1, workload={"lora": {"targets": targets}}))
    whole = SEQUENCE * HIDDEN * 2 / 2
    assert made == pytest.approx(8 * (LAYERS * (8 + gathered_again) - 2 + 3) * whole, rel=1e-9)


def test_a_stage_holds_the_frozen_weights_of_its_own_blocks():
    """The first of two stages has the embedding, the last one the decoder and the last norm."""
    made = [
        plan_of(divided({"pipeline": {"stages": stages}}, **ADAPTED)).setup.workload.frozen_bytes for stages in (1, 2)
    ]
    ends = VOCABULARY * HIDDEN
    whole = LAYERS * (BLOCK + 2 * HIDDEN) + 2 * ends + HIDDEN
    assert made == [2 * whole, 2 * (LAYERS // 2 * (BLOCK + 2 * HIDDEN) + ends)]


@pytest.mark.parametrize("scheduler", [{"kind": "fsdp"}, {"kind": "zero", "stage": 1}])
def test_frozen_weights_in_four_bits_are_divided_as_they_are_stated(scheduler):
    parts = {"workload": ADAPTED["workload"] | {"frozen_bytes": 1e8}, "scheduler": scheduler}
    asked = [divided({"tensor": tensor}, **parts) for tensor in (1, 2)]
    held = [memory_of(each, plan_of(each)) for each in asked]
    parameters = [next(part.nbytes for part in each.details if part.name == "parameters") for each in held]
    assert parameters[1] / parameters[0] == pytest.approx(1 if scheduler["kind"] == "fsdp" else 0.5, rel=0.05)


STAGE = VOCABULARY * HIDDEN + LAYERS // 2 * (BLOCK + 2 * HIDDEN)
"""Parameters of the first of two stages."""


def in_stages(runs=1, chunks=1, **parts):
    """Two stages of 8 GPUs, in two groups that share a model each; gradients are reduced in fp32."""
    precision = {"workload": {"precision": {"gradients": "bf16", "travels": "fp32"}}}
    pipeline = {"stages": 2, "runs": runs, "chunks": chunks}
    return divided({"pipeline": pipeline}, nodes=2, **{"scheduler": {"kind": "fsdp", "shard": 4}} | precision | parts)


@pytest.mark.parametrize("keep", ["none", "forward"])
@pytest.mark.parametrize("runs", [1, 2, 8])
def test_fsdp_in_stages_exchanges_once_in_a_run_of_their_schedule(keep, runs):
    """3/4 of 4 bytes reduced, and of 2 gathered; as often again as there are micro-batches where a forward pass frees
    all but the last block. Of a quarter all-reduced between two replicas a GPU sends as many bytes as it has."""
    made = run(in_stages(runs, scheduler={"kind": "fsdp", "shard": 4, "keep": keep}), intervals=False).result.axes
    again = 8 * (STAGE - BLOCK - 2 * HIDDEN) if keep == "none" else 0
    assert made.shard.sent == pytest.approx(3 / 4 * (runs * (4 + 2) * STAGE + 2 * again), rel=1e-9)
    assert made.replica.sent == pytest.approx(runs * 4 / 4 * STAGE, rel=1e-9)


@pytest.mark.parametrize(
    ("schedule", "chunks"), [("gpipe", 1), ("1f1b", 1), ("1f1b", 2), ("zb_h1", 1), ("zb_v", 2)], ids=str
)
def test_every_schedule_finds_parameters_freed_as_often(schedule, chunks):
    """Once for each micro-batch and once more, if forward passes free them and backward passes do not."""
    for stage in range(4):
        turns = order_stage(schedule, stage, 4, chunks, 8)
        for chunk in range(chunks):
            ways = [turn.op for turn in turns if turn.chunk == chunk]
            gathers = sum(before == "forward" for before in ["forward", *ways[:-1]])
            assert gathers == 8 + 1


def test_runs_of_a_schedule_follow_each_other():
    """Four of two micro-batches take four times as long as one, with one update."""
    asked = {"batch": 2, "micro_batches": 2}
    several, one = (run(each, intervals=False).result for each in (in_stages(4), in_stages(1, **asked)))
    time = 4 * one.iteration_time - 3 * one.breakdown["update"]
    assert several.iteration_time == pytest.approx(time, rel=1e-9)
    assert several.idle["waiting_for_stages"] == pytest.approx(4 * one.idle["waiting_for_stages"], rel=1e-9)


def test_stages_that_send_on_after_their_reductions_wait_for_those_of_all_others():
    """In each of two runs, for what a stage reduces of its parameters, in fp32, from three of four GPUs each."""
    asked = {"kind": "fsdp", "shard": 4, "keep": "forward"}
    later, sooner = (plan_of(in_stages(2, scheduler=asked | {"reduces_first": first})) for first in (True, False))
    (reduced,) = [part.seconds for part in later.axis_parts if part.name == "reduce" and part.steps]
    waits = 2 * (later.setup.divided.parallelism.pipeline.stages - 1) * math.fsum(reduced.tolist())
    assert later.bubble.seconds - sooner.bubble.seconds == pytest.approx(waits)
    assert run_point(later).time - run_point(sooner).time == pytest.approx(waits)
    assert later.bubble.silent == sooner.bubble.silent


def test_many_runs_take_as_long_together_as_one_by_one(monkeypatch):
    asked = in_stages(8, chunks=2, batch=64, micro_batches=64, sparsifier={"kind": "topk", "density": 0.01})
    together = run_point(plan_of(asked))
    monkeypatch.setattr(step, "MOST_MICRO_BATCHES", 100)
    monkeypatch.setattr("simulator.engine.clock.graphs._graphs.get", lambda key, make, *also: make())
    each = run_point(plan_of(asked))
    assert together.time == pytest.approx(each.time, rel=1e-12)
    assert together.breakdown == pytest.approx(each.breakdown)


@pytest.mark.parametrize("keep", ["none", "forward"])
def test_fsdp_in_stages_holds_whole_parameters_and_gradients(keep):
    """Of the last stage, which has a norm as well: in bf16, and added up in fp32."""
    asked = in_stages(scheduler={"kind": "fsdp", "shard": 4, "keep": keep})
    held = {part.name: part.least for part in memory_of(asked, plan_of(asked)).details}
    assert (held["gathered"], held["reduced"]) == (2 * (STAGE + HIDDEN), 4 * (STAGE + HIDDEN))


def test_the_bubble_is_a_row_of_idle_time():
    """A stage with the embedding and one with the decoder beside two of blocks alone: 8 micro-batches, 4 stages."""
    made = predicted({"pipeline": {"stages": 4}}, nodes=1, gpus_per_node=4)
    model, idle = made.plan.setup.divided, made.result.idle
    each = [math.fsum((model.forward + model.backward)[model.chunk == chunk]) for chunk in range(4)]
    assert each[1] == pytest.approx(each[2]) and each[3] > each[0] > each[1]
    least = 8 * each[3] + each[0] + each[1] + each[2] - 8 * each[0]
    assert idle["waiting_for_stages"] == pytest.approx(least, rel=0.05)
    both = idle["waiting_for_stages"] + idle["communication_of_stages"]
    assert idle["communication_of_stages"] > 0 and both == made.result.breakdown["idle"]
    assert math.fsum(made.result.breakdown.values()) == pytest.approx(made.result.iteration_time)


def test_communication_of_other_stages_is_no_bubble():
    """Four blocks a stage, dense in the first, whose GPUs wait for tokens of the others' experts: four all-to-alls of
    512 tokens x 2 experts x 1,024 x 2 bytes each, of which 7/8 leave a GPU. Without any, stages differ by compute."""
    axes = {"expert": 8, "pipeline": {"stages": 4}}
    workload = EXPERTS | {"dense_layers": 4, "vocabulary": 1000}
    made = run(divided(axes, nodes=4, batch=32, micro_batches=32, workload=workload))
    model, idle, time = made.plan.setup.divided, made.result.idle, made.result.iteration_time
    forward, backward = (
        tuple(np.bincount(model.chunk, weights=way).tolist()) for way in (model.forward, model.backward)
    )
    silent = run_pipeline("1f1b", 4, 32, forward, backward, send=0.0).bubble
    assert idle["waiting_for_stages"] == silent
    (axis,) = model.axes
    joint = 4 * 4 * float(price_steps(axis.steps, (), axis.network).seconds[0])
    send = float(price_steps([model.sent], (), model.link).seconds[0])
    # Of every micro-batch those of one stage, of one those of the two others, too, and what is sent there and back.
    assert 32 * joint <= idle["communication_of_stages"] <= (32 + 2) * joint + 2 * 32 * send
    layers = made.result.axes.layers
    assert (made.result.axes.stage, layers.exposed) == (2, 0)
    assert layers.sent == pytest.approx(32 * 4 * 4 * 512 * 2 * 1024 * 2 * 7 / 8, rel=1e-12)
    rows = {row.name: row.iteration_time for row in counterfactuals(made)}
    assert rows["perfect_overlap"] <= rows["infinite_network"] * (1 + 1e-9) < time


def test_throughput_counts_each_copy_once():
    one = predicted({"tensor": 8}, nodes=1).result
    two = predicted({"tensor": 8}, nodes=2).result
    assert one.throughput == pytest.approx(8 / one.iteration_time)
    assert two.throughput == pytest.approx(16 / two.iteration_time)


@pytest.mark.parametrize("number", few_first(range(200), 20))
def test_the_clock_and_the_evaluator_agree_on_random_meshes(number):
    """And sums, exposed communication and links hold on each."""
    draw = Random(f"mesh {number}")
    tensor, context, stages = (draw.choice(sizes) for sizes in ((1, 2, 8), (1, 1, 2), (1, 2, 4)))
    chunks = draw.choice((1, 2)) if stages > 1 else 1
    scheduler = draw.choice(
        ["wfbp", "sequential", {"kind": "megatron", "overlap_grad_reduce": draw.random() < 0.5}, "fsdp", "zero"]
    )
    pipeline = {"stages": stages, "chunks": chunks}
    if chunks == 2:
        pipeline["schedule"] = draw.choice(("1f1b", "zb_v"))
    else:
        pipeline["schedule"] = draw.choice(("gpipe", "1f1b", "zb_h1"))
    axes = {"tensor": tensor, "context": context, "sequence_parallel": draw.random() < 0.5, "pipeline": pipeline}
    axes["overlap"] = axes["sequence_parallel"] and number % 2 == 0
    sharded, workload = scheduler not in ("wfbp", "sequential"), draw.choice(({}, EXPERTS | {"dense_layers": 1}))
    if workload and sharded:
        expert = draw.choice((1, 2, 4))
        axes |= {"expert": expert, "imbalance": draw.choice((1.0, min(expert, 1.5)))}
    asked = divided(
        axes, nodes=draw.choice((8, 16)), batch=16, micro_batches=draw.choice((4, 8, 16)), scheduler=scheduler,
        workload=workload,
        sparsifier={"kind": "topk", "density": 0.01} if scheduler in ("wfbp", "sequential") else "dense",
        cluster={"runtime": {"name": "slowed", "compute_slowdown": draw.choice((0.0, 0.4)), "kernel_launch": "5 us"}},
    )  # fmt: skip
    plan = plan_of(asked)
    fast, reference = run_point(plan), simulate(plan, ALIKE)
    assert (fast.time, fast.breakdown) == (reference.time, reference.breakdown)
    assert fast.communication_total == reference.communication_total
    assert math.fsum(fast.breakdown.values()) == pytest.approx(fast.time)
    assert fast.breakdown["communication_exposed"] <= fast.communication_total * (1 + 1e-9)
    assert all(value >= 0 for value in fast.breakdown.values())


def test_activations_are_divided_with_the_layers():
    """All of a block's is divided by tensors and tokens; the first of 4 stages keeps those of 4 micro-batches."""

    def kept(parallelism, gpus):
        asked = divided(parallelism, nodes=1, gpus_per_node=gpus)
        return {part.name: part.nbytes for part in memory_of(asked, plan_of(asked)).details}["activations"]

    whole = kept({}, 1)
    assert kept({"tensor": 4}, 4) == pytest.approx(whole / 4, rel=0.01)
    assert kept({"context": 4}, 4) == pytest.approx(whole / 4, rel=0.01)
    first = kept({"pipeline": {"stages": 4}}, 4)
    decoder = 512 * (2 * 1024 + 2 * 1024 + 4 * VOCABULARY)  # input of norm and decoder, and the log-softmax
    assert first == pytest.approx(whole - decoder, rel=0.01)


def test_memory_is_that_of_the_stage_that_needs_most():
    """Four blocks a stage: those of the first are dense, those of the second have 16 experts and keep three passes."""
    workload = EXPERTS | {"dense_layers": 4, "vocabulary": 1000}
    asked = divided({"pipeline": {"stages": 4}}, nodes=1, gpus_per_node=4, workload=workload)
    found = memory_of(asked, plan_of(asked))
    block = 4 * HIDDEN**2 + 16 * 3 * HIDDEN * 1024 + (2 + 16) * HIDDEN  # attention, experts, norms and router
    assert found.stage == 2 and found.parts["parameters"] == 2 * 4 * block
    tensors = description_of(asked.workload.origin.architecture, 1, asked.workload.precision).tensors
    kept = sum(tensor.kept for tensor in tensors for number in range(4, 8) if f"layers.{number}." in tensor.name)
    assert found.parts["activations"] == pytest.approx(3 * kept)
    assert describe_memory(found).startswith(f"{show_memory(found.total)} of 80 GiB in stage 2: ")


def test_the_first_stage_needs_most_where_it_has_as_much_as_others():
    """It keeps the activations of four micro-batches, the last one of one, but under GPipe both keep all."""
    stages = []
    for schedule in ("1f1b", "gpipe"):
        asked = divided({"pipeline": {"stages": 4, "schedule": schedule}}, nodes=1, gpus_per_node=4)
        stages.append(memory_of(asked, plan_of(asked)).stage)
    assert stages == [None, 4]


def test_many_gpus_take_no_longer_to_predict_than_few():
    few, many = (
        plan_of(divided({"tensor": 8, "pipeline": {"stages": 8}}, nodes=nodes, micro_batches=64, batch=64))
        for nodes in (16, 256)
    )
    assert few.bubble == many.bubble and few.bubble.seconds > 0
    assert len(few.work.buckets) == len(many.work.buckets)


@pytest.mark.parametrize(
    ("parallelism", "parts", "words"),
    [
        ({"tensor": 3}, {}, "divides 64 GPUs"),
        ({"tensor": 32}, {}, "16 heads"),
        ({"pipeline": {"stages": 32}}, {}, "at most 18 chunks for a model of 16 blocks"),
        ({"pipeline": {"stages": 4, "chunks": 2}}, {"micro_batches": 2}, "a multiple of 4 `micro_batches`, got 2"),
        ({"pipeline": {"stages": 4, "chunks": 2, "schedule": "gpipe"}}, {}, "one chunk a stage"),
        ({"pipeline": {"stages": 4, "schedule": "zb_v"}}, {}, "`chunks: 2` on each of several stages"),
        ({"tensor": 2}, {"scheduler": "bytescheduler"}, "got bytescheduler"),
        ({"tensor": 2}, {"topology": "parameter_server"}, "for `parallelism`"),
        ({"tensor": 4}, {"gpus_per_node": 6, "nodes": 4}, "fit nodes of 6 GPUs"),
        ({"tensor": 8}, {"workload": {"kv_heads": 1, "heads": 12, "hidden": 1536}}, "divides 12 heads"),
        ({"tensor": 2}, {"workload": {"kv_heads": 5, "heads": 20, "hidden": 1280}}, "divides 5 heads of keys"),
        ({"context": 8}, {"workload": {"sequence": 500}}, "divides 500 tokens"),
        (
            {"pipeline": {"stages": 2}},
            {"workload": {"model": "encoder_decoder"}},
            "bert, gpt2, transformer",
        ),
        ({"tensor": 2}, {"cluster": {"network": SITES}}, "a network within one site"),
        ({"pipeline": {"stages": 2}}, {"scheduler": {"kind": "fsdp", "accumulate": "all"}}, "no `accumulate`.*got all"),
        ({"pipeline": {"stages": 2, "runs": 3}}, {"scheduler": "fsdp"}, "a multiple of 3 `micro_batches`.*got 8"),
        ({"pipeline": {"stages": 4, "chunks": 2, "runs": 4}}, {"scheduler": "fsdp"}, "`micro_batches` in a run, got 2"),
        ({"pipeline": {"stages": 2, "runs": 2}}, {}, "`runs: 1` of a pipeline"),
        ({"pipeline": {"runs": 2}}, {}, "`runs` of several `stages`"),
        ({"expert": 8}, {}, "a model with `experts`"),
        ({"expert": 32}, {"workload": EXPERTS}, "an `expert` that divides 16 experts, got 32"),
        ({"expert": 3}, {"workload": EXPERTS}, "an `expert` that divides 64 GPUs, got 3"),
        ({"expert": 8}, {"workload": EXPERTS, "scheduler": "wfbp"}, "for an `expert` axis, got wfbp"),
        ({"expert": 8}, {"workload": EXPERTS, "scheduler": {"kind": "fsdp", "shard": 4}}, "divides 4 GPUs, got 8"),
        ({"expert": 8}, {"workload": EXPERTS, "scheduler": {"kind": "fsdp", "gather_wire": "fp8"}}, "`gather_wire`"),
        ({"expert": 4}, {"workload": EXPERTS, "gpus_per_node": 6, "nodes": 4}, "fits nodes of 6 GPUs"),
        ({"expert": 2, "imbalance": 3}, {"workload": EXPERTS}, "an `imbalance` up to `expert`, which is 2"),
    ],
)
def test_what_cannot_be_divided_is_refused(parallelism, parts, words):
    with pytest.raises((InputError, ValueError), match=words):
        predicted(parallelism, **parts)


def test_stated_layers_cannot_be_divided():
    asked = divided({"tensor": 2}).model_copy(update={"workload": divided({}).workload.made_from(None)})
    with pytest.raises(InputError, match="a described model whose layers can be divided"):
        run(asked, intervals=False)


def test_a_stated_step_of_the_whole_model_sets_the_pace_of_its_parts():
    """Twice the time of one GPU by itself is twice the time of every part; what GPUs do together stays."""
    free = {"optimiser": {"kind": "sgd", "implementation": "fused"}}
    whole = plan_of(divided({}, nodes=1, gpus_per_node=1, micro_batches=1, workload=free))
    asked, alone = {"tensor": 4, "pipeline": {"stages": 2}}, whole.single_gpu_time
    one, two = (
        predicted(asked, nodes=1, micro_batches=1, workload=free | {"compute_time": factor * alone}).result.breakdown
        for factor in (1, 2)
    )
    more = (2 * alone - whole.work.update_alone) / (alone - whole.work.update_alone)
    for term in ("forward", "backward"):
        assert two[term] == pytest.approx(more * one[term], rel=1e-3)
    estimated = predicted(asked, nodes=1, micro_batches=1, workload=free).result.breakdown
    assert one["forward"] == pytest.approx(estimated["forward"], rel=1e-3)
    assert two["communication_exposed"] == pytest.approx(one["communication_exposed"], rel=1e-6)


@pytest.mark.parametrize("pipeline", [{"stages": 3}, {"stages": 4, "chunks": 2, "schedule": "zb_v"}], ids=str)
def test_terms_of_a_pipeline_add_up_and_its_efficiency_is_against_the_mean_of_its_stages(pipeline):
    """The first stage, which has the embedding and perhaps fewer blocks than others, does not stand for all."""
    stages = pipeline["stages"]
    made = run(divided({"pipeline": pipeline}, nodes=stages, batch=1, micro_batches=1))
    terms, result = {term.term: term for term in terms_of(made)[0]}, made.result
    assert sum(term.seconds for term in terms.values()) == pytest.approx(result.iteration_time, rel=1e-9)
    assert terms["waiting_for_stages"].seconds == made.plan.bubble.silent > 0
    assert terms["waiting_for_stages"].numbers["stages"] == stages
    model = made.plan.setup.divided
    computed = float((model.forward + model.backward).sum()) / stages
    alone = made.plan.single_gpu_time - made.plan.work.update_alone - made.plan.work.emptying
    assert alone == pytest.approx(computed, rel=1e-9)
    assert result.scaling_efficiency == made.plan.single_gpu_time / result.iteration_time


@pytest.mark.parametrize("copies", [2, 8])
def test_states_of_megatron_are_divided_and_its_gradients_lie_in_one_buffer(copies):
    """2 + 4 bytes of each parameter and 12 over the number of copies: bf16, gradients in fp32, Adam (Megatron-Core,
    docs/source/api-guide/dist_optimizer.md)."""
    asked = divided({}, nodes=1, gpus_per_node=copies, workload={"precision": {"gradients": "bf16", "travels": "fp32"}})
    plan = plan_of(asked)
    parts = ("parameters", "gradients", "master_weights", "optimiser", "gathered", "reduced")
    made = math.fsum(part.least for part in memory_of(asked, plan).details if part.name in parts)
    assert made / asked.workload.numel == pytest.approx(6 + 12 / copies, rel=1e-3)


def test_stated_activations_are_divided_as_those_that_were_counted():
    asked = {"tensor": 4, "pipeline": {"stages": 2}}
    counted = plan_of(divided(asked, nodes=1)).setup.workload.activation_bytes
    stated = 2 * divided({}).workload.activation_bytes
    made = plan_of(divided(asked, nodes=1, workload={"activation_bytes": stated})).setup.workload.activation_bytes
    assert made == pytest.approx(2 * counted)


def test_what_holds_compute_is_named_as_in_the_part_of_the_model():
    """The first stage of two chunks has blocks 0 to 3 and 8 to 11 of 16, and the embedding."""
    made = predicted({"pipeline": {"stages": 2, "chunks": 2}}, scheduler="fsdp", micro_batches=8)
    waits = longest_waits(made.plan, made.iteration)
    units = {wait.unit for wait in waits}
    numbers = {int(unit.rpartition(".")[2]) for unit in units if unit.startswith("model.layers.")}
    assert waits and numbers <= {0, 1, 2, 3, 8, 9, 10, 11}
    assert units - {"model.embed_tokens.weight"} == {f"model.layers.{number}" for number in numbers}


def test_a_measured_throughput_counts_each_copy_once():
    asked = divided({"tensor": 8}, nodes=2, measured={"throughput": "16 samples/s", "source": "made up"})
    assert measured_values(asked)["throughput"] == pytest.approx(1.0)


def test_rounding_gradients_gains_nothing_under_a_pipeline_whose_data_axis_is_hidden():
    """GPT-NeoX 20B on 12 nodes of 8 A100, two GPUs for tensors and four stages, 400 Gbit/s a GPU: users of 1-bit Adam
    saw no gain (EleutherAI/gpt-neox, issue 206). The exchange of copies runs beside the last backward pass."""
    workload = {
        "layers": 44, "hidden": 6144, "heads": 64, "mlp": 24576, "vocabulary": 50432, "sequence": 2048, "norm": "layer",
        "biases": "all", "recompute": "full", "precision": "fp16",
    }  # fmt: skip
    parts = {
        "nodes": 12, "batch": 32, "micro_batches": 32, "workload": workload, "scheduler": "bucketed",
        "cluster": {"gpu": "gpus/a100", "runtime": "runtimes/pytorch-fsdp"}, "topology": "nccl",
    }  # fmt: skip
    asked = divided({"tensor": 2, "pipeline": {"stages": 4}}, **parts)
    fabric = asked.cluster.network.model_copy(update={"bandwidth": 50e9})
    asked = asked.model_copy(update={"cluster": asked.cluster.model_copy(update={"network": fabric})})
    dense = run(asked, intervals=False)
    rounded = run(asked.model_copy(update={"sparsifier": OneBit()}), intervals=False)
    assert dense.spread.time / rounded.spread.time < 1.02
    assert dense.result.axes.replica.exposed < 0.002 * dense.spread.time
    hidden = [row for row in hiding_compute(dense.plan, dense.iteration) if row.axis == "replica"]
    assert hidden[0].beside == "backward pass"
    assert hidden[0].seconds > 0.9 * sum(row.seconds for row in hidden)
