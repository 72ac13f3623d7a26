"""The optimiser's step on GPU and host, against closed forms and against measured steps."""

import pytest

from simulator.engine.plan.work.passes import update_of
from simulator.hardware.gpu import Gpu
from simulator.hardware.runtime import Runtime
from simulator.models.curves import Affine
from simulator.models.layers import Layer, Workload
from simulator.scenario.scenario import Scenario

CARD = Gpu(name="card", kernels={"elementwise": Affine(intercept=1e-6, slope=12e-9)})
"""1 ns per byte, 1 us per kernel."""


AVERAGE = {"tensors": 2, "numel": 3000}


def step(optimiser, gpu=CARD, exchanged=True, numels=(1000, 2000), **runtime):
    layers = tuple(Layer(name=f"t{i}", numel=n) for i, n in enumerate(numels))
    workload = Workload(batch_size=1, layers=layers, optimiser=optimiser)
    return update_of(workload, gpu, Runtime(**runtime), exchanged=exchanged)


def test_bytes_at_the_rate_of_element_wise_kernels_and_a_start_for_each():
    assert step("adam").seconds == pytest.approx(3000 * 80e-9 + 2 * 8 * 1e-6)
    assert step({"kind": "adam", "implementation": "fused"}).seconds == pytest.approx(3000 * 28e-9 + 1e-6)
    assert not step("adam", gpu=Gpu(name="ideal", ideal=True)).seconds


def test_the_slower_of_gpu_and_host_and_reads_on_top():
    made = {"kernel_launch": 1e-3, "host_read": 2e-3}
    assert step("adam", **made).seconds == pytest.approx(16e-3)
    assert step("lamb", **made).seconds == pytest.approx(2 * 15e-3 + 2 * 3 * 2e-3)
    assert step("adam", update_launch=5e-4, **made).seconds == pytest.approx(8e-3)
    # A host that launches in step with the GPU does so on one GPU, too; one that runs ahead is done by then.
    assert step("adam", exchanged=False, update_launch=5e-4, **made).seconds == pytest.approx(8e-3)
    assert step("adam", exchanged=False, update_launch=5e-4).seconds == step("adam").seconds


def test_a_measured_update_counts_in_proportion_to_the_bytes_of_what_was_timed():
    """The timed optimiser is momentum in three passes, 32 bytes per element."""
    card = Gpu(name="card", kernels={"update": Affine(slope=32e-9)})
    assert step("momentum", gpu=card).seconds == pytest.approx(3000 * 32e-9)
    assert step({"kind": "adamw", "implementation": "fused"}, gpu=card).seconds == pytest.approx(3000 * 28e-9)


@pytest.mark.parametrize(
    ("model", "gpu", "optimiser", "measured"),
    [
        # PyTorch profiler traces: from the first kernel of a step to the end of the last.
        ("resnet50-v100", "v100-pytorch2", {"kind": "momentum", "implementation": "foreach"}, 1.113e-3),
        ("resnet50-v100", "v100", "momentum", 1.853e-3),  # the start per kernel is fitted to it
        (
            "resnet18-v100",
            "rtx2080ti-pytorch2",
            {"kind": "momentum", "weight_decay": True, "implementation": "foreach"},
            0.985e-3,
        ),
        # Timers of kljp/sage, synchronised: optimiser and running average.
        ("lstm-wikitext2-v100", "v100", None, 3.05e-3),
    ],
)
def test_measured_steps_within_ten_per_cent(model, gpu, optimiser, measured):
    """Traces: facebookresearch/HolisticTraceAnalysis, pytorch/kineto and facebookresearch/param (MIT, BSD-3, MIT)."""
    source = {"trace": f"workloads/{model}"} | ({"optimiser": optimiser} if optimiser else {})
    scenario = Scenario.model_validate(
        {
            "workload": source,
            "cluster": {"nodes": 1, "gpu": f"gpus/{gpu}", "network": {"kind": "single_switch", "bandwidth": 1e9}},
            **{"topology": "ring", "sparsifier": "dense", "scheduler": "sequential"},
        }
    )
    made = update_of(scenario.workload, scenario.cluster.gpu, Runtime(), exchanged=False)
    assert made.seconds == pytest.approx(measured, rel=0.105)


def test_bytes_and_calls_are_those_of_the_optimiser():
    """Adam moves 80 bytes per element, in 8 calls per tensor; the step that a workload states has them, too."""
    for stated in ({}, {"update_time": 1e-3}):
        layers = (Layer(name="a", numel=1000), Layer(name="b", numel=2000))
        workload = Workload(batch_size=1, layers=layers, optimiser="adam", **stated)
        made = update_of(workload, CARD, Runtime(), exchanged=True)
        assert (made.nbytes, made.calls) == (pytest.approx(3000 * 80), 2 * 8)


def test_a_running_average_is_passed_over_once_more_without_a_start():
    """With a measured curve: the bytes of the average at the rate of element-wise kernels, in the same calls."""
    curves = {"update": Affine(intercept=1e-3, slope=32e-9), "elementwise": Affine(intercept=1e-6, slope=12e-9)}
    plain, averaged = (
        step({"kind": "sgd"} | more, gpu=Gpu(name="card", kernels=curves)) for more in ({}, {"average": AVERAGE})
    )
    moved = averaged.nbytes - plain.nbytes
    assert moved > 0
    assert plain.on_gpu == pytest.approx(plain.nbytes / (3000 * 32) * (2 * 1e-3 + 3000 * 32e-9), rel=1e-9)
    assert averaged.on_gpu - plain.on_gpu == pytest.approx(moved * 1e-9, rel=1e-9)
