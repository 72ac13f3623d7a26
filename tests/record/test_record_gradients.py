"""Recorded gradients: those of the training loop itself, in one process and over ranks."""

import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from command_line import invoke, printed, run_python
from places import ROOT

from simulator.errors import InputError, SparsimError
from simulator.models.layers import Layer
from simulator.prediction.run import run
from simulator.scenario.reading import load
from simulator.traces.format.trace import Trace

pytestmark = [pytest.mark.torch, pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")]

EXAMPLE = ROOT / "examples" / "record_gradients.py"
REPLAY = """\
name: replay
workload: {trace: ., compute_time: 10 ms}
cluster:
  nodes: 2
  gpu: gpus/ideal
  network: {kind: single_switch, bandwidth: 10 Gbit/s, latency: 50 us}
topology: ring
sparsifier: {kind: topk, density: 0.05}
scheduler: wfbp
"""


def network(seed=0):
    import torch
    from torch import nn

    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 5))


def flat(model):
    import torch

    return torch.cat([item.grad.flatten() for item in model.parameters()]).numpy().copy()


def train(model, recorder, steps, scale=1.0):
    """Each step's whole gradient, as the loop sees it."""
    import torch

    seen = []
    for number in range(steps):
        model.zero_grad()
        loss = model(torch.randn(8, 20, generator=torch.Generator().manual_seed(number))).square().mean()
        (scale * loss).backward()
        seen.append(flat(model) / scale)
        recorder.step(loss, scale)
        with torch.no_grad():
            for item in model.parameters():
                item.sub_(0.05 * item.grad / scale)
    return seen


def values_of(folder):
    trace = Trace.open(folder)
    return trace, dict(zip(trace.spec.iterations, (block.values for block in trace.blocks()), strict=True))


def test_every_gradient_of_a_loop_is_in_the_trace(tmp_path):
    from simulator.record.gradients import GradientRecorder

    model = network()
    with GradientRecorder(model, tmp_path, about={"data_licence": "none", "model": "small"}) as recorder:
        seen = train(model, recorder, 4, scale=1024.0)
    trace, values = values_of(tmp_path)
    assert trace.spec.iterations == (0, 1, 2, 3)
    assert (trace.spec.model, trace.spec.data_licence, trace.spec.workers) == ("small", "none", 1)
    assert list(trace.spec.loss) == [0, 1, 2, 3] and trace.shapes == ((30, 20), (30,), (5, 30), (5,))
    for number, gradient in enumerate(seen):
        np.testing.assert_allclose(values[number][0], gradient, rtol=1e-6)


def test_blocks_of_a_sample_are_recorded(tmp_path):
    from simulator.record.gradients import GradientRecorder
    from simulator.record.streams import WHOLE

    model = network()
    with GradientRecorder(model, tmp_path, every=5, block=2, sample=0.2, seed=7) as recorder:
        seen = train(model, recorder, 12)
    trace, values = values_of(tmp_path)
    assert trace.spec.runs() == ((0, 1), (5, 6), (10, 11))
    assert np.bincount(trace.keys.layer).tolist() == [120, 30, WHOLE, 5]
    held = trace.keys.coordinate + np.cumsum([0, *trace.numels[:-1]])[trace.keys.layer]
    for number in (0, 1, 5, 6, 10, 11):
        np.testing.assert_array_equal(values[number][0], seen[number][held])


def test_a_sample_by_size_begins_after_its_pilot_and_holds_rounded_gradients(tmp_path):
    from simulator.record.streams import GradientStream
    from simulator.traces.sampling import Sampling

    class Nobody:
        def step(self, loss, scale):
            pass

    model = network()
    parameters = dict(model.named_parameters())
    seen = train(model, Nobody(), 16)
    layers = [Layer(name=name, numel=item.numel()) for name, item in parameters.items()]
    sampling = Sampling(coordinates=200, pieces=32, pilot=3, seed=1)
    stream = GradientStream(tmp_path, parameters, layers, {"workers": 2}, sampling)
    for number in range(8):
        stream.append(np.stack(seen[2 * number : 2 * number + 2]), number)
    stream.close()
    trace, values = values_of(tmp_path)
    assert trace.spec.iterations == (3, 4, 5, 6, 7) and trace.spec.mantissa_bits == 2
    assert "200 coordinates" in trace.spec.sampling and 150 < len(trace.keys.layer) < 260 and trace.pieces() >= 16
    held = trace.keys.coordinate + np.cumsum([0, *trace.numels[:-1]])[trace.keys.layer]
    for number in trace.spec.iterations:
        whole = np.stack(seen[2 * number : 2 * number + 2])[:, held]
        np.testing.assert_allclose(values[number], whole, rtol=1 / 8, atol=1e-6 * np.abs(whole).max())
    size = np.sqrt(np.mean(np.square(seen[:6]), axis=0))[held]
    light, heavy = trace.keys.weight < np.median(trace.keys.weight), trace.keys.weight > np.median(trace.keys.weight)
    assert size[light].mean() > size[heavy].mean()


def test_a_long_recording_needs_no_more_memory_than_a_short_one(tmp_path):
    """What waits for the disk is one group of rows, whatever is recorded."""
    import torch

    from simulator.record.streams import GradientStream
    from simulator.traces.format.writer import GROUP_ROWS

    d, layer = GROUP_ROWS // 4 + 1, Layer(name="a", numel=GROUP_ROWS // 4 + 1)
    stream = GradientStream(tmp_path, {"a": torch.zeros(d)}, [layer], {"workers": 1})
    waiting = []
    for iteration in range(12):
        stream.append(np.ones((1, d), dtype=np.float32), iteration)
        waiting.append(sum(len(table) for tables in stream._writer._waiting.values() for table in tables))
    assert max(waiting) < GROUP_ROWS
    stream.close()
    assert Trace.open(tmp_path).spec.iterations == tuple(range(12))


def test_workers_of_one_process_are_rows_of_one_iteration(tmp_path):
    from simulator.record.gradients import GradientRecorder

    model = network()
    with GradientRecorder(model, tmp_path, every=2, workers=3) as recorder:
        seen = train(model, recorder, 11)
    trace, values = values_of(tmp_path)
    assert trace.spec.workers == 3
    assert trace.spec.iterations == (0, 2)  # the fourth iteration lacks a worker
    np.testing.assert_array_equal(values[2], np.stack(seen[6:9]))


def test_what_is_not_finite_is_left_out_and_an_early_end_keeps_the_rest(tmp_path):
    from simulator.record.gradients import GradientRecorder

    model = network()
    with pytest.raises(KeyboardInterrupt), GradientRecorder(model, tmp_path) as recorder:
        train(model, recorder, 2)
        model.zero_grad()
        (model[0].weight.sum() * float("inf")).backward()
        recorder.step()
        model.zero_grad()
        model[2].bias.sum().backward()
        recorder.step()
        raise KeyboardInterrupt
    assert (recorder.recorded, recorder.left_out) == (3, 1)
    trace, values = values_of(tmp_path)
    assert trace.spec.iterations == (0, 1, 3)
    expected = np.zeros(trace.keys.layer.shape)
    expected[-5:] = 1  # tensors without a gradient have none
    np.testing.assert_array_equal(values[3][0], expected)


def test_wrong_arguments_are_input_errors(tmp_path):
    from torch import nn

    from simulator.record.gradients import GradientRecorder

    for arguments, message in [
        ({"block": 2}, "block: expected a number from 1 to every = 1"),
        ({"sample": 0.0}, "sample: expected above 0, at most 1"),
        ({"about": {"modle": "x"}}, "did you mean 'model'"),
        ({"rank": 3, "world": 2}, "a rank below 2, the number of ranks"),
    ]:
        with pytest.raises(InputError, match=message):
            GradientRecorder(network(), tmp_path, **arguments)
    with pytest.raises(InputError, match="parameters that need a gradient"):
        GradientRecorder(nn.ReLU(), tmp_path)
    with pytest.raises(SparsimError, match="at least one iteration"), GradientRecorder(network(), tmp_path):
        pass
    (tmp_path / "rank-00002").mkdir()
    with pytest.raises(InputError, match="expected room for 2 ranks, got rank-00002, too"):
        GradientRecorder(network(), tmp_path, rank=0, world=2)
    (tmp_path / "layers.csv").write_text("name,numel\n0.weight,600\n0.bias,31\n2.weights,150\n2.bias,5\n")
    with pytest.raises(InputError) as caught:
        GradientRecorder(network(), tmp_path / "out", layers=tmp_path / "layers.csv")
    assert [str(problem).partition(": ")[2] for problem in caught.value.problems] == [
        "0.bias: expected 30 elements, got 31",
        "2.weight: expected 150 elements, got no such row; did you mean '2.weights'?",
        "2.weights: expected a parameter of the model, got none",
    ]


def test_the_command_trains_records_and_the_trace_replays(tmp_path):
    device = ("--device", "cpu", "--threads", 1)
    printed(*("record", "layers", "mlp", "--out", tmp_path, "--repeats", 2, "--batch-size", 8, *device))
    command = ("record", "gradients", "mlp", "--out", tmp_path, "--workers", 2, "--iterations", 6, "--every", 3)
    more = ("--block", 2, "--sample", 0.02, "--batch-size", 8, "--layers", tmp_path / "mlp.layers.csv", *device)
    result = invoke(*command, *more)
    assert (result.exit_code, result.output) == (0, f"{tmp_path}: 2 workers, 4 iterations\n")
    checked = invoke("trace", "check", tmp_path)
    assert checked.output.startswith(f"{tmp_path}: 2 workers, 4 iterations, no problems\na sample of 5")
    trace, values = values_of(tmp_path)
    assert all(layer.backward > 0 for layer in trace.layers)
    assert not np.array_equal(values[0][0], values[0][1])
    assert trace.spec.batch_size == 8
    (tmp_path / "replay.yaml").write_text(REPLAY)
    document = run(load(tmp_path / "replay.yaml")).document
    assert len(document["density_over_iterations"]) == 4
    assert document["density"]["selected"] == pytest.approx(0.05, rel=0.1)
    assert 1 < document["density"]["build_up"] <= 2


def test_the_example_in_one_process(tmp_path):
    result = run_python("-W", "error", EXAMPLE, tmp_path, check=False)
    assert result.returncode == 0, result.stderr
    trace = Trace.open(tmp_path)
    assert trace.spec.workers == 1 and trace.spec.runs()[:2] == ((0, 1), (4, 5))


def test_the_example_under_torchrun_records_each_rank_before_averaging(tmp_path):
    """Two ranks with gloo: merged is the concatenation, and a rank's row is the gradient of its own samples."""
    import torch
    from torch.nn import functional as F

    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    options = {"capture_output": True, "text": True, "timeout": 300, "env": environment}
    result = subprocess.run([*command, str(EXAMPLE), str(tmp_path)], check=False, **options)
    assert result.returncode == 0, result.stderr
    trace, values = values_of(tmp_path)
    assert trace.spec.workers == 2 and trace.spec.model == "Sequential"
    parts = [values_of(tmp_path / f"rank-0000{rank}")[1] for rank in range(2)]
    for number, merged in values.items():
        np.testing.assert_array_equal(merged, np.concatenate([part[number] for part in parts]))

    held = trace.keys.coordinate + np.cumsum([0, *trace.numels[:-1]])[trace.keys.layer]
    for rank in range(2):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
        teacher = torch.randn(64, 10)
        torch.manual_seed(1 + rank)
        inputs = torch.randn(32, 64)
        F.cross_entropy(model(inputs), (inputs @ teacher).argmax(1)).backward()
        np.testing.assert_allclose(values[0][rank], flat(model)[held], rtol=1e-4, atol=1e-7)
