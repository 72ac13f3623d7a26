"""What the framework offers as a setting, each by itself, with its line and the gain that `run` confirms."""

import shlex

import pytest
from small_advice import LAYERS, scenario

from simulator.prediction.run import run
from simulator.scenario.changes import with_value
from simulator.scenario.named_parts import read_runtime
from simulator.scenario.reading import load
from simulator.studies.advice.advice import advise
from simulator.studies.advice.availability import lines_of_setting
from simulator.studies.advice.candidates import Candidate, Grid, as_options, candidates

LINES = {
    "pytorch-ddp": "model.register_comm_hook(None, default_hooks.fp16_compress_hook)",
    "horovod-0.19": "hvd.DistributedOptimizer(optimizer, compression=hvd.Compression.fp16)",
}


def switches(runtime="pytorch-ddp", bandwidth=1.25e7, **parts):
    """The settings of a framework on a small cluster, and the scenario."""
    spec = scenario(**{"bandwidth": bandwidth, "sparsifier": "dense", "scheduler": "bucketed", **parts})
    spec = with_value(spec, "cluster.runtime", read_runtime(f"runtimes/{runtime}"))
    rounded = [item for item in candidates(spec, 0.01).methods if item.precision]
    small = {"bucket_size": "1 MiB"}, {"rule": "horovod", "cycle_time": "1 ms"}
    schedules = (None, *({"kind": "bucketed", **each} for each in small))
    made = advise(spec, grid=Grid((Candidate(), *rounded), schedules, (None,)), processes=1)
    return {item.name: item for item in made.switches}, spec


@pytest.mark.parametrize("runtime", LINES)
def test_16_bit_travel_is_listed_with_its_line_and_its_gain(runtime):
    made, spec = switches(runtime)
    item = made["16-bit travel (fp16)"]
    assert item.lines[-1].startswith(LINES[runtime])
    before = run(spec).result.iteration_time
    options = tuple(shlex.split(as_options(item.overrides))[1::2])
    assert run(load(spec.resolved(), options)).result.iteration_time == item.iteration_time
    assert item.speed_up == before / item.iteration_time > 1.5


def test_what_is_16_bit_already_or_gains_nothing_is_no_setting():
    assert "16-bit travel (fp16)" not in switches(bandwidth=1e12)[0]
    half, _ = switches(workload={"batch_size": 1, "layers": LAYERS, "precision": "bf16"})
    assert not any(name.startswith("16-bit") for name in half)


def test_micro_batches_that_are_all_exchanged_are_told_of_no_sync():
    workload = {"batch_size": 4, "micro_batches": 4, "layers": LAYERS}
    made, spec = switches(workload=workload, scheduler={"kind": "bucketed", "accumulate": "all"})
    item = made["no_sync"]
    assert "no_sync" in item.lines[0]
    options = tuple(shlex.split(as_options(item.overrides))[1::2])
    assert run(load(spec.resolved(), options)).result.iteration_time == item.iteration_time
    assert "no_sync" not in switches(workload=workload)[0]


def test_embeddings_whose_rows_are_more_than_the_whole_are_sent_dense():
    rows = [*LAYERS, {**LAYERS[0], "name": "words", "numel": 400_000, "rows": {"count": 20_000, "width": 400}}]
    sent = {"sparsifier": {"kind": "dense", "indexed_slices": True}, "scheduler": "wfbp"}
    made, _ = switches("horovod-0.19", workload={"batch_size": 1, "layers": rows}, **sent)
    assert made["dense embedding gradients"].lines == ("hvd.DistributedOptimizer(optimizer, sparse_as_dense=True)",)
    few = [*LAYERS, {**rows[-1], "rows": {"count": 100, "width": 400}}]
    made, _ = switches("horovod-0.19", workload={"batch_size": 1, "layers": few}, **sent)
    assert "dense embedding gradients" not in made


def test_the_size_of_buckets_is_the_one_that_gains_most():
    made, _ = switches(bandwidth=1.25e9, latency=1e-3, scheduler="wfbp")
    (item,) = (item for name, item in made.items() if name.startswith("bucketed"))
    assert item.lines == ("model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1)",)
    assert item.speed_up > 1.05


def test_collectives_of_the_tensor_axis_are_told_to_run_beside_products():
    spec = load("megatron_llama3_70b", ("sparsifier=dense", "scheduler=megatron"))
    grid = Grid((Candidate(),), (None,), (None,))
    (item,) = advise(spec, grid=grid, processes=1).switches
    assert "--tp-comm-overlap" in item.lines[0]
    options = tuple(shlex.split(as_options(item.overrides))[1::2])
    assert run(load(spec.resolved(), options)).result.iteration_time == item.iteration_time
    assert item.speed_up == run(spec).result.iteration_time / item.iteration_time > 1.1
    assert not advise(load(spec.resolved(), options), grid=grid, processes=1).switches
    fsdp = load("megatron_llama3_70b", ("sparsifier=dense", "scheduler=fsdp"))
    assert "enable_async_tensor_parallel" in lines_of_setting("tensor_overlap", fsdp)[0]
    # A schedule of Megatron-Core stays one, whatever the costs of the software were measured in.
    costs = load(
        "megatron_llama3_70b", ("sparsifier=dense", "scheduler=megatron", "cluster.runtime=runtimes/pytorch-fsdp")
    )
    assert lines_of_setting("tensor_overlap", costs) == lines_of_setting("tensor_overlap", spec) != ()
    assert lines_of_setting("no_sync", costs) == ()
