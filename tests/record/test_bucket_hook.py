"""A recorded job trains as it would without the recorder, and what is written is what it did."""

import csv
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from itertools import pairwise

import numpy as np
import pytest
from command_line import invoke
from places import ROOT

import simulator
from simulator.errors import InputError, SparsimError
from simulator.loading.documents import read_document
from simulator.traces.format.trace import Trace

pytestmark = [pytest.mark.torch, pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")]

NAMES = [f"{number}.{kind}" for number in (0, 2, 4, 6) for kind in ("weight", "bias")]
CLUSTER = {
    "nodes": 2, "gpu": "gpus/ideal", "network": {"kind": "single_switch", "bandwidth": "10 Gbit/s", "latency": "50 us"},
}  # fmt: skip


def run_jobs(world, folder):
    """What every rank of `job_under_ddp` left."""
    import job_under_ddp
    import torch

    torch.multiprocessing.spawn(job_under_ddp.run_rank, (world, str(folder)), world)
    return [dict(np.load(folder / f"{rank}.npz")) for rank in range(world)]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    sys.path.insert(0, str(ROOT / "tests" / "record"))
    try:
        folder = tmp_path_factory.mktemp("jobs")
        yield folder, run_jobs(2, folder)
    finally:
        sys.path.remove(str(ROOT / "tests" / "record"))


def test_training_is_the_same_bit_for_bit(jobs):
    _, ranks = jobs
    for made in ranks:
        np.testing.assert_array_equal(made["recorded"], made["plain"])
        np.testing.assert_array_equal(made["inner_recorded"], made["inner_plain"])
    np.testing.assert_array_equal(ranks[0]["plain"], ranks[1]["plain"])


@pytest.mark.long
def test_three_ranks_train_the_same_bit_for_bit(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "record"))
    for made in run_jobs(3, tmp_path):
        np.testing.assert_array_equal(made["recorded"], made["plain"])


def test_recorded_gradients_are_those_of_each_rank_before_the_average(jobs):
    folder, ranks = jobs
    trace = Trace.open(folder / "all")
    assert (trace.spec.workers, trace.spec.batch_size, trace.spec.model) == (2, 8, "Sequential")
    assert trace.spec.iterations == (3, 4, 7, 8, 11) and [layer.name for layer in trace.layers] == NAMES
    for number, block in zip(trace.spec.iterations, trace.blocks(), strict=True):
        assert not np.array_equal(block.values[0], block.values[1])
        np.testing.assert_allclose(block.values.mean(axis=0), ranks[0]["averaged"][number], rtol=1e-5, atol=1e-9)


def test_layers_have_times_in_the_order_of_the_forward_pass(jobs):
    folder, _ = jobs
    with (folder / "all" / "layers.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert all(float(row["forward_s"]) > 0 and float(row["backward_s"]) > 0 for row in rows)
    assert rows[0]["shape"] == "40x20"


def test_buckets_are_written_with_their_tensors_and_times(jobs):
    folder, _ = jobs
    with (folder / "all" / "buckets.csv").open() as file:
        buckets = list(csv.DictReader(file))
    assert len(buckets) == 3 and sorted(" ".join(row["tensors"] for row in buckets).split()) == sorted(NAMES)
    assert sum(int(row["nbytes"]) for row in buckets) == 4 * sum(Trace.open(folder / "all").numels)
    with (folder / "all" / "bucket_times.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 5 * len(buckets) and {row["rank"] for row in rows} == {"0", "1"}
    assert all(0 <= float(row["ready_s"]) < float(row["finished_s"]) for row in rows)
    for one, after in pairwise(rows):
        if (one["rank"], one["iteration"]) == (after["rank"], after["iteration"]):
            assert float(one["ready_s"]) <= float(after["ready_s"])


def test_one_command_calibrates_a_network_and_another_uses_the_trace(jobs, tmp_path):
    folder, _ = jobs
    with (folder / "all" / "collectives.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert all(0 < float(row["p5_s"]) <= float(row["median_s"]) <= float(row["p95_s"]) for row in rows)
    # Two ranks on a busy processor may take 20 times as long for 8 kB as for 4 kB, which no law describes: the
    # recorded calls stay, and their times become those of 100 us and 1 GB/s.
    for row in rows:
        row.update(dict.fromkeys(("p5_s", "median_s", "p95_s"), 100e-6 + int(row["nbytes"]) / 1e9))
    table, out = tmp_path / "collectives.csv", tmp_path / "mine.yaml"
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    made = invoke(*map(str, ["calibrate", "network", table, "--out", out, "--no-figure"]))
    assert made.exit_code == 0, made.output
    assert read_document(out).data["bandwidth"]
    parts = {"topology": "ring", "scheduler": "wfbp", "sparsifier": {"kind": "topk", "density": 0.1}}
    result = simulator.run({"workload": {"trace": str(folder / "all")}, "cluster": CLUSTER, **parts})
    assert [row["iteration"] for row in result.document["density_over_iterations"]] == [3, 4, 7, 8, 11]
    assert result.breakdown["backward"] > 0
    job = read_document(folder / "all" / "job.yaml").data
    assert (job["workers"], job["averaged_by"], job["batch_size"]) == (2, "all_reduce", 8)


def test_the_time_of_an_iteration_is_a_measurement_to_compare_with(jobs):
    folder, _ = jobs
    job = read_document(folder / "all" / "job.yaml").data
    asked = {"workload": {"trace": str(folder / "all")}, "cluster": CLUSTER, "topology": "ring", "sparsifier": "dense"}
    measured = {"iteration_time": job["iteration_time"], "source": "job.yaml"}
    (row,) = simulator.validate({**asked, "scheduler": "bucketed", "measured": measured}).rows
    assert row["measured"] == pytest.approx(float(job["iteration_time"].removesuffix(" s")))
    assert row["predicted"] > 0


def test_another_hook_inside_is_recorded_without_collectives(jobs):
    folder, _ = jobs
    assert read_document(folder / "inner" / "job.yaml").data["averaged_by"] == "powerSGD_hook"
    assert not (folder / "inner" / "collectives.csv").exists()
    assert len(Trace.open(folder / "inner").spec.iterations) == 4


def test_a_job_that_is_too_short_says_so_on_every_rank(jobs):
    _, ranks = jobs
    for made in ranks:
        assert "expected more than 3 iterations, got 3 iterations" in str(made["error"])


def test_ranks_on_several_machines_are_merged_by_a_command(jobs, tmp_path):
    folder, _ = jobs
    out = tmp_path / "merged"
    made = invoke("record", "merge", folder / "all", "--out", out)
    assert made.exit_code == 0, made.output
    for name in ("layers.csv", "bucket_times.csv", "collectives.csv", "job.yaml", "gradients.parquet"):
        assert (out / name).read_bytes() == (folder / "all" / name).read_bytes()


@pytest.fixture
def alone(tmp_path):
    """A process group of this process only."""
    from torch import distributed

    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    yield tmp_path / "out"
    distributed.destroy_process_group()


def network():
    import torch
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    return DistributedDataParallel(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)))


def step(model, number, scale=1.0):
    import torch

    model.zero_grad()
    (scale * model(torch.randn(5, 6, generator=torch.Generator().manual_seed(number))).square().mean()).backward()
    return torch.cat([item.grad.flatten() for item in model.parameters()]).numpy().copy()


def recorded(model, out, **options):
    recorder = simulator.record.hook(out, model, sample=1.0, every=1, block=1, **options)
    model.register_comm_hook(recorder.state, recorder.hook)
    return recorder


def values_of(folder):
    trace = Trace.open(folder)
    return dict(zip(trace.spec.iterations, (block.values[0] for block in trace.blocks()), strict=True))


def test_only_the_last_of_several_backward_passes_is_averaged_and_recorded(alone):
    import torch

    model = network()
    with recorded(model, alone) as recorder:
        for number in range(6):
            with model.no_sync():
                step(model, number)
            with torch.no_grad():
                model(torch.ones(1, 6))
            model(torch.ones(5, 6)).mean().backward()
    assert (recorder.recorded, recorder.iteration) == (3, 6)
    whole = torch.cat([item.grad.flatten() for item in model.parameters()]).numpy()
    np.testing.assert_array_equal(values_of(alone)[5], whole)  # what was added up, as it is averaged


def test_gradients_that_are_not_finite_are_left_out_and_scaled_ones_divided(alone):
    class Scaler:
        def get_scale(self):
            return 64.0

    model, seen = network(), {}
    with recorded(model, alone, scaler=Scaler()) as recorder:
        for number in range(7):
            seen[number] = step(model, number, scale=float("inf") if number == 4 else 64.0)
    assert recorder.left_out == 1
    values = values_of(alone)
    assert sorted(values) == [3, 5, 6]
    np.testing.assert_allclose(values[6], seen[6] / 64, rtol=1e-6)


def test_a_job_that_breaks_keeps_what_was_recorded(alone):
    model = network()
    with pytest.raises(KeyboardInterrupt), recorded(model, alone):
        for number in range(6):
            step(model, number)
        raise KeyboardInterrupt
    assert sorted(values_of(alone)) == [3, 4, 5]


def test_after_the_last_recorded_iteration_and_after_the_end_nothing_is_kept(alone):
    model = network()
    recorder = recorded(model, alone, most=2)
    for number in range(8):
        step(model, number)
    assert (recorder.recorded, recorder._step, len(recorder._ends)) == (2, None, 1)
    recorder.close()
    recorder.close()
    step(model, 8)
    assert sorted(values_of(alone)) == [3, 4]


def test_frozen_and_unused_tensors_do_no_harm(alone):
    import torch
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused, self.frozen = nn.Linear(3, 4), nn.Linear(2, 2), nn.Linear(4, 4)
            self.frozen.requires_grad_(False)

        def forward(self, batch):
            return {"out": (self.frozen(self.used(batch["x"])),), "loss": None}

    model = DistributedDataParallel(Net(), find_unused_parameters=True)
    with recorded(model, alone):
        for _ in range(6):
            model.zero_grad()
            model({"x": torch.randn(7, 3)})["out"][0].mean().backward()
    trace = Trace.open(alone)
    assert trace.spec.batch_size == 7
    assert {layer.name for layer in trace.layers} == {"used.weight", "used.bias", "unused.weight", "unused.bias"}


def test_the_hook_costs_little_where_nothing_is_recorded(alone):
    model = network()
    recorder = simulator.record.hook(alone, model, every=10_000, block=1)
    model.register_comm_hook(recorder.state, recorder.hook)
    for number in range(8):
        step(model, number)
    assert not [module for module in model.modules() if module._forward_pre_hooks and module is not model]
    begin = time.perf_counter()
    for _ in range(1000):
        recorder._begin_forward(model, (), {})
    assert (time.perf_counter() - begin) / 1000 < 1e-3
    recorder.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample": 0}, "sample: expected above 0, at most 1, got 0"),
        ({"block": 50}, "block: expected a number from 1 to every = 20, got 50"),
        ({"most": 0}, "most: expected at least 1"),
        ({"batch_size": 0}, "batch_size: expected at least 1"),
        ({"smaple": 1}, "expected a known option, got 'smaple': did you mean 'sample'"),
    ],
)
def test_wrong_options_are_input_errors(alone, options, message):
    with pytest.raises(InputError, match=message):
        simulator.record.hook(alone, **options)


def test_without_a_process_group_or_a_model_the_message_says_what_to_do(tmp_path, alone):
    import torch

    model = network()
    recorder = simulator.record.hook(alone)
    model.register_comm_hook(recorder.state, recorder.hook)
    torch.nn.Linear(2, 2)(torch.ones(1, 2))
    recorder._seen.clear()
    with pytest.raises((InputError, RuntimeError), match="give the model"):
        model.forward(torch.ones(5, 6)).mean().backward()
    with pytest.raises(SparsimError, match="more than 3 iterations"):
        recorder.close()


def test_no_process_group_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="init_process_group first"):
        simulator.record.hook(tmp_path)


def test_the_example_records_under_torchrun(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29611"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT)}
    command += [str(ROOT / "examples" / "record_job.py"), str(tmp_path / "out")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert Trace.open(tmp_path / "out").spec.workers == 2
