"""What combinations are called, and the meshes and formats that a sharded model is offered."""

import pytest

from simulator.scenario.reading import load
from simulator.studies.variants.names import combination_name, mesh_of, settings_of, show_size, wires_of

INSIDE = "scheduler={kind: diloco, inner_steps: 9, bucket_size: 100 MB, inside: {kind: fsdp, shard: 4}}"


@pytest.mark.parametrize(
    ("name", "changes", "called"),
    [
        ("quickstart", (), "topk 0.001 (wfbp, nccl)"),
        ("quickstart", ("scheduler={kind: bucketed, bucket_size: 25 MiB}",), "topk 0.001 (bucketed 25 MiB, nccl)"),
        ("quickstart", ("scheduler={kind: priority, partition: 4 MB}",), "topk 0.001 (priority 4 MB, nccl)"),
        ("quickstart", ("scheduler={kind: bucketed, rule: horovod, bucket_size: 16 MiB, cycle_time: 25 ms}",),
         "topk 0.001 (bucketed 16 MiB in 25 ms, nccl)"),
        ("quickstart", ("topology={kind: parameter_server}",), "topk 0.001 (wfbp, parameter_server sharded)"),
        ("two_sites_wan", (INSIDE, "cluster.gpus_per_node=4"),
         "dense (diloco 100 MB with fsdp in groups of 4 inside sites, by_site)"),
    ],
)  # fmt: skip
def test_a_combination_is_called_by_its_parts_and_their_sizes(name, changes, called):
    assert combination_name(load(name, changes)) == called


@pytest.mark.parametrize(
    ("name", "changes", "mesh"),
    [
        ("hsdp_llama3", ("scheduler=fsdp",), (64, 8, 1, 1, True, False)),
        ("hsdp_llama3", ("scheduler={kind: fsdp, shard: 16}", "sparsifier=dense"), (16, 8, 4, 1, False, False)),
        ("hsdp_llama3", ("scheduler={kind: fsdp, shard: 4}", "parallelism={tensor: 2}"), (4, 4, 8, 1, True, False)),
        ("hsdp_llama3", ("scheduler=fsdp", "parallelism={tensor: 2, context: 2}"), (32, 4, 1, 1, True, False)),
        ("hsdp_llama3", ("scheduler=fsdp", "parallelism={pipeline: {stages: 2}}"), (32, 8, 1, 1, True, True)),
        (
            "hsdp_llama3",
            ("scheduler=fsdp", "workload.batch_size=6", "workload.micro_batches=3"),
            (64, 8, 1, 3, True, False),
        ),
        ("two_sites_wan", (INSIDE, "cluster.gpus_per_node=4"), (4, 4, 4, 1, False, False)),
    ],
)
def test_the_mesh_of_64_gpus_or_of_those_of_a_site_by_hand(name, changes, mesh):
    """Eight nodes of eight GPUs; tensors divide the weights, context does not; or four nodes of four, of a site."""
    made = load(name, changes)
    assert tuple(mesh_of(made, getattr(made.scheduler, "inside", None) or made.scheduler)) == mesh


def test_a_sharded_model_is_offered_on_all_gpus_and_in_every_node_and_formats_between_nodes_where_there_are_some():
    """Gradients are computed in bf16 and travel in fp32: reduced in bf16 they are in a format of the scenario's own."""
    spec = load("hsdp_llama3", ("scheduler={kind: fsdp, shard: 16, gather_wire: int8}",))
    names = [each.name for each in settings_of(spec.scheduler, spec)]
    assert {each.shard for each in settings_of(spec.scheduler, spec)} == {None, 8}
    assert all(name.endswith(", reduced in bf16") for name in names) and "fsdp in groups of 8, reduced in bf16" in names
    alone = load("hsdp_llama3", ("cluster.nodes=1", "scheduler=fsdp", "ignore_memory=true"))
    assert {each.shard for each in settings_of(alone.scheduler, alone)} == {None}
    for shard, several in ((8, False), (16, True), (1, None)):
        spec = load("hsdp_llama3", (f"scheduler={{kind: fsdp, shard: {shard}}}", "ignore_memory=true"))
        between = [each.reduce_wire is not None and each.reduce_wire.between for each in wires_of(spec.scheduler, spec)]
        assert bool(between) == (several is not None) and any(between) == bool(several)


@pytest.mark.parametrize("arithmetic", ["bf16", "fp8"])
def test_gathers_in_fp8_are_those_of_layers_that_multiply_in_fp8(arithmetic):
    """`enable_fsdp_float8_all_gather` of torchao belongs to Float8Linear, which an A100 has not at all."""
    spec = load("hsdp_llama3", ("scheduler=fsdp", f"workload.arithmetic={arithmetic}", "sparsifier=dense"))
    offered = {each.gather_wire for each in wires_of(spec.scheduler, spec)}
    assert offered == {None, "int8"} | ({"fp8"} if arithmetic == "fp8" else set())


def test_a_size_that_is_a_whole_number_of_mebibytes_is_one():
    assert [show_size(each) for each in (2.0**20, 1.5 * 2**20, 1e6)] == ["1 MiB", "1.573 MB", "1 MB"]
