"""What users set of a schedule: lines in each framework, choices on a mesh, and numbers with their ends."""

import pytest
from number_fields import numbers
from pydantic_core import PydanticUndefined

from simulator.models.sharding import Mesh
from simulator.schedulers.asc_wfbp import SimultaneousMerged
from simulator.schedulers.fsdp import Fsdp
from simulator.schedulers.megatron import Megatron
from simulator.schedulers.mg_wfbp import MergedGradient
from simulator.schedulers.overlapped_diloco import OverlappedDiLoCo
from simulator.schedulers.streaming_diloco import StreamingDiLoCo
from simulator.schedulers.wfbp import WaitFree
from simulator.schedulers.zero import Zero

ALONE, GROUPED = Mesh(size=16, each=8, replicas=1), Mesh(size=8, each=4, replicas=2, passes=3)
HOOKED, COPIES = GROUPED._replace(compressed=True), Mesh(size=1, each=1, replicas=16)
STAGES = ALONE._replace(passes=3, staged=True)
FSDP, ZERO, CODE, MEGATRON = "pytorch-fsdp", "deepspeed", "code", "megatron"
AGAIN, STAGE_3, MESH = "after_forward=True", '"stage": 3', 'init_device_mesh("cuda", (2, 8)'
SCATTER, GATHER, ROUNDED = "set_custom_reduce_scatter", "set_custom_all_gather", "dist_reduce_scatter_func = rounded"
WHOLE, BESIDE, GATHERS = "--use-distributed-optimizer", "--overlap-grad-reduce", "--overlap-param-gather"
PLACES = [
    (Fsdp(), ALONE, {FSDP: {AGAIN}, ZERO: {STAGE_3}}),
    (Fsdp(), GROUPED, {FSDP: {AGAIN, MESH, ", mesh=mesh,"}, ZERO: {STAGE_3, '"mics_shard_size": 8'}}),
    (Fsdp(), HOOKED, {FSDP: {AGAIN, MESH, ', mesh=mesh["shard"],', "set_all_reduce_hook"}}),
    (Fsdp(keep="node", reduce_in="bf16"), ALONE, {
        FSDP: {"after_forward=8", "(reduce_dtype=torch.bfloat16)"},
        ZERO: {STAGE_3, '"zero_hpz_partition_size": 8', '"communication_data_type": "bf16"'}}),
    (Fsdp(keep="forward"), ALONE, {FSDP: {"after_forward=False"}}),
    (Fsdp(flat=True), ALONE, {FSDP: {"ShardingStrategy.FULL_SHARD"}}),
    (Fsdp(flat=True, keep="forward"), GROUPED, {FSDP: {"ShardingStrategy._HYBRID_SHARD_ZERO2"}}),
    (Fsdp(accumulate="none"), ALONE, {FSDP: {AGAIN, "set_requires_gradient_sync(is_last_micro_batch)"}}),
    (Fsdp(accumulate="none"), STAGES, {FSDP: {AGAIN}}), (Zero(), STAGES, {}), (Zero(stage=1), STAGES, {ZERO: set()}),
    (Fsdp(gather_wire="fp8"), ALONE, {FSDP: {AGAIN, "enable_fsdp_float8_all_gather=True"}}),
    (Fsdp(gather_wire="int8"), ALONE, {CODE: {AGAIN, GATHER}, ZERO: {STAGE_3, '"zero_quantized_weights": true'}}),
    (Fsdp(reduce_wire="loco"), ALONE, {
        CODE: {AGAIN, SCATTER},
        ZERO: {STAGE_3, '"zero_quantized_gradients": true', '{{"err_beta": 0.8, "reset_T": 1024}}'}}),
    (Fsdp(reduce_wire="qgz"), GROUPED, {CODE: {AGAIN, MESH, ", mesh=mesh,", SCATTER}}),  # MiCS has no ZeRO++
    (Fsdp(reduce_wire="int8"), ALONE, {CODE: {AGAIN, SCATTER}}),  # ZeRO++ has 4 bits
    (Zero(), ALONE, {ZERO: {'"stage": 2'}}),
    (Zero(bucket=7, overlap_comm=True), ALONE, {
        ZERO: {'"stage": 2', '"overlap_comm": true', '"reduce_bucket_size": 7'}}),
    (Zero(), GROUPED, {}),
    (Zero(gather_wire="int8"), ALONE, {}),
    (Megatron(), ALONE, {MEGATRON: {WHOLE, BESIDE, GATHERS}}),
    (Megatron(), COPIES, {MEGATRON: {BESIDE}}),
    (Megatron(overlap_grad_reduce=False, reduce_in="bf16", gather_wire="fp8", fused_accumulation=False), HOOKED, {
        MEGATRON: {WHOLE, "-optimizer-instances 2", GATHERS, "--grad-reduce-in-bf16", "--fp8-param-gather",
                   "--no-gradient-accumulation-fusion", "torch.distributed.all_reduce = compressed"}}),
    (Megatron(overlap_grad_reduce=False, gather_wire="int8"), ALONE, {CODE: {WHOLE, GATHERS, ROUNDED}}),
    (Megatron(overlap_grad_reduce=False, reduce_wire="sdp4bit"), ALONE, {CODE: {WHOLE, GATHERS, ROUNDED}}),
]  # fmt: skip
EVERY = set().union(*(words for _, _, places in PLACES for words in places.values()))


@pytest.mark.parametrize(("scheduler", "mesh", "places"), PLACES)
def test_a_schedule_is_set_by_these_words_in_these_frameworks_and_by_no_others(scheduler, mesh, places):
    made = {place["in"]: " ".join(place["lines"]) for place in scheduler.places(mesh)}
    assert {name: {word for word in EVERY if word in text} for name, text in made.items()} == places


@pytest.mark.parametrize(
    ("scheduler", "mesh", "first", "second"),
    [
        (Fsdp(), ALONE, "none forward node", "None"), (Fsdp(flat=True), ALONE, "none forward", "None"),
        (Fsdp(), ALONE._replace(each=16), "none forward", "None"),
        (Fsdp(flat=True), ALONE._replace(passes=2), "none forward", "None none"),
        (Fsdp(), GROUPED, "none forward node", "None reduce_scatter none"),
        (Fsdp(), STAGES, "none forward node", "None"), (Fsdp(flat=True), STAGES, "none forward", "None none"),
        (Zero(), STAGES, "1", "True"), (Zero(), ALONE, "1 2", "True"), (Zero(), GROUPED, "", ""),
        (Megatron(overlap_grad_reduce=False, overlap_param_gather=False), ALONE, "True", "True"),
    ],
)  # fmt: skip
def test_users_can_choose_these_settings_on_a_mesh(scheduler, mesh, first, second):
    names = {"fsdp": ("keep", "accumulate"), "zero": ("stage", "overlap_comm")}
    read = names.get(scheduler.kind, ("overlap_grad_reduce", "overlap_param_gather"))
    offered = [tuple(str(getattr(each, name)) for name in read) for each in scheduler.settings(mesh)]
    assert offered == [(one, other) for one in first.split() for other in second.split()]


@pytest.mark.parametrize(
    ("scheduler", "gathered", "reduced", "in_passes"),
    [
        (Fsdp(), 9, 9, 9), (Fsdp(prefetch=2), 13, 9, 9), (Fsdp(keep="forward", accumulate="none"), 19, 9, 19),
        (Fsdp().in_stages(1), 19, 19, 19), (Fsdp(flat=True).in_stages(1), 9, 9, 9),
        (Zero(stage=1), 19, 19, 19), (Zero(stage=2), 19, 9, 9), (Megatron(), 19, 19, 19),
    ],
)  # fmt: skip
def test_as_many_parameters_and_gradients_are_whole_at_a_time(scheduler, gathered, reduced, in_passes):
    units = [5, 1, 4, 2, 7]
    made = scheduler.gathered_at_once(units), *(scheduler.reduced_at_once(units, passes) for passes in (1, 2))
    assert made == (gathered, reduced, in_passes)


@pytest.mark.parametrize(
    ("schedule", "name", "default", "least", "most"),
    [
        (WaitFree, "streams", 1, 1, 64), (SimultaneousMerged, "streams", 2, 1, 64), (Fsdp, "prefetch", 1, 1, 64),
        (Fsdp, "shard", None, 1, 2**20), (MergedGradient, "smallest", 8192, 0, 10**12),
        (StreamingDiLoCo, "fragments", 1, 1, 10**5), (StreamingDiLoCo, "delay", 0, 0, 10**6),
        (StreamingDiLoCo, "mixing", 0.5, 0, 1), (OverlappedDiLoCo, "site", None, 1, 2**20),
        (OverlappedDiLoCo, "delay", None, 0, 10**6), (StreamingDiLoCo, "inner_steps", PydanticUndefined, 1, 10**6),
    ],
)  # fmt: skip
def test_a_number_of_a_schedule_has_a_default_and_two_ends(schedule, name, default, least, most):
    (number,) = (each for of, each, _ in numbers(schedule) if of == name)
    assert (schedule.model_fields[name].default, number.smallest, number.largest) == (default, least, most)
