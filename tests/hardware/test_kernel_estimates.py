"""Kernels on GPUs where nobody timed them."""

import math
from functools import partial

import numpy as np
import pytest

from simulator.hardware.gpu import Gpu
from simulator.hardware.kernels import HOST_KERNELS, KERNELS, Hardware, Rate, Rates, estimate, implementation
from simulator.models.curves import Affine, NLogN, Piecewise
from simulator.scenario.named_parts import shipped_gpus

GPUS = shipped_gpus()
MEASURED = {"elementwise": Rate(1.25, 3, 1.1), "norm": Rate(2.0, 2, 1.5), "nonzero": Rate(3.0, 2, 4.0)}
MEASURED |= {"topk (one block)": Rate(0.5, 2, 2.0), "topk (one block), HBM": Rate(0.75, 1, 2.5)}
MEASURED |= {"scatter_add": Rate(1.0, 1, 5.0, least_bytes=80.0), "shuffle": Rate(300.0, 1, 3.0)}
MEASURED |= {"topk (gather in one block)": Rate(2.5, 1, 7.0)}
CLASSES = {"streaming": Rate(1.0, 2, 3.0), "random access": Rate(2.0, 1, 6.0), "all": Rate(4.0, 5, 9.0)}
RATES = Rates(launch=5e-6, share=0.8, cycles_per_byte=0.1, clock=1e9, kernels=MEASURED, classes=CLASSES)
BARE, OLD = Hardware(bandwidth=1e12), {"framework": "pytorch-before-1.11"}
BLOCK = partial(NLogN, intercept=1e-5)


@pytest.mark.parametrize(
    ("kernel", "hardware", "curve", "level", "width"),
    [
        # 4 bytes at 80 % of 1 TB/s, twice as long as that; two launches.
        ("norm", BARE, Affine(intercept=1e-5, slope=2 * 4 / 8e11), "transferred", 1.5),
        # The GPU's own element-wise kernel says what it reaches, and what a first launch takes.
        ("norm", Hardware(1e12, 5e11, 7e-6), Affine(intercept=1.2e-5, slope=2 * 4 / 5e11), "transferred", 1.5),
        ("copy", BARE, Affine(intercept=5e-6, slope=8 / 8e11), "estimated", 3.0),
        # 100 multiprocessors at 2 GHz, three cycles per element; or as many cycles as the bandwidth lets one expect.
        ("nonzero", Hardware(1e12, cycles=2e11), Affine(intercept=1.5e-5, slope=3 / 2e11), "transferred", 4.0),
        ("nonzero", BARE, Affine(intercept=1.5e-5, slope=3 / 8e10), "transferred", 4.0),
        # Its own 13 bytes and two launches, and the compaction that it contains.
        ("threshold_scan", BARE, Affine(intercept=2.5e-5, slope=13 / 8e11 + 3 / 8e10), "estimated", 4.0),
        ("gather", BARE, Affine(intercept=5e-6, slope=2 * 16 / 8e11), "estimated", 6.0),
        ("unique", BARE, Affine(intercept=4e-5, slope=4 * 64 / 8e11), "estimated", 9.0),
        # 24 bytes would take 30 ps; the fastest that was measured moved 80 bytes at the full bandwidth.
        ("scatter_add", BARE, Affine(intercept=5e-6, slope=80 / 1e12), "transferred", 5.0),
        ("topk", Hardware(1e12, clock=2e9, memory="HBM", **OLD), BLOCK(coefficient=0.75 / 2e9), "transferred", 2.5),
        ("topk", Hardware(1e12, **OLD), BLOCK(coefficient=0.5 / 1e9), "transferred", 2.0),
        # Eleven launches; linear, at the clock of one block.
        ("topk", Hardware(1e12, framework="pytorch-1.11"), Affine(intercept=5.5e-5, slope=2.5e-9), "transferred", 7.0),
        # What the host does takes nanoseconds an element, and starts nothing where it only merges.
        ("shuffle", BARE, Affine(intercept=5e-6, slope=300e-9), "transferred", 3.0),
        ("host_merge", BARE, Affine(), "estimated", 9.0),
        ("nonzero", Hardware(None), Affine(), "transferred", 4.0),
    ],
)
def test_estimates_by_hand(kernel, hardware, curve, level, width):
    made = estimate(kernel, hardware, RATES)
    np.testing.assert_allclose(made.curve.time([1.0, 1e6]), curve.time([1.0, 1e6]), rtol=1e-12)
    assert type(made.curve) is type(curve)
    assert (made.level, made.width) == (level, width)


def test_what_was_timed_here_is_exact_and_what_was_carried_over_is_not():
    derived = Affine(slope=1e-9, derived=True)
    gpu = Gpu(name="g", memory_bandwidth=1e12, kernels={"topk": derived, "elementwise": Affine(slope=1e-11)})
    levels = {kernel: gpu.level(kernel) for kernel in ("elementwise", "residual_add", "topk", "gather")}
    assert list(levels.values()) == ["measured", "measured", "transferred", "estimated"]
    assert gpu.kernel_time("topk", 1e6) == 1e-3
    assert [gpu.width(kernel) for kernel in ("elementwise", "residual_add")] == [1, 1]
    assert min(gpu.width("topk"), gpu.width("gather")) > 1.5


def test_passes_in_a_queue_take_their_bytes_and_each_a_start():
    """An element-wise kernel moves 12 bytes an element: in 24 ps, measured as a line or as points on it."""
    line = Affine(intercept=1e-6, slope=24e-12)
    points = Piecewise(points=tuple((size, float(line.time(size))) for size in (1.0, 1e7, 1e8)))
    for curve in (line, points):
        gpu = Gpu(name="g", memory_bandwidth=1e12, multiprocessors=50, clock=2e9, kernels={"elementwise": curve})
        assert gpu.hardware.reached == pytest.approx(0.5e12) and gpu.hardware.start == pytest.approx(1e-6)
        assert gpu.hardware.cycles == 1e11
        assert gpu.passes_time(1e9, 3) == pytest.approx(2e-3 + 3e-6)
    slow = Gpu(name="s", kernels={"elementwise": Affine(intercept=9e-6, slope=24e-12, spread=0.2)})
    assert slow.passes_time(1e9, 3) == pytest.approx(2e-3 + 3 * 1.8e-6)  # a start of 9 us is mostly the host's
    assert Gpu(name="i", ideal=True).passes_time(1e9, 3) == Gpu(name="n").passes_time(1e9, 0) == 0
    assert (slow.spread("residual_add"), slow.spread("gather"), Gpu(name="n").hardware.cycles) == (0.2, 0.0, None)
    assert slow.kernel_time("elementwise", [0.0, 1.0]).tolist() == pytest.approx([0.0, 9e-6 + 24e-12])
    assert not Gpu(name="i", ideal=True).kernel_time("elementwise", [5.0]).any()


def fastest_rates():
    """By kernel without its variant, seconds per element of the largest timing times the GPU's memory bandwidth."""
    found: dict[str, float] = {}
    for gpu in GPUS.values():
        for kernel, curve in gpu.kernels.items():
            if not curve.derived:
                size = curve.range[1]
                found[kernel] = min(float(curve.time(size)) / size * gpu.memory_bandwidth, found.get(kernel, math.inf))
    # The fastest implementation of what a kernel does, whatever its name; a scan at least compacts a mask.
    found["topk"] = min(found["topk"], found["radix_select"])
    found["sort"] = min(found["sort"], found["radix_sort"])
    found["threshold_scan"] = found["masked_select"] = found["nonzero"]
    return found


CUSTOM = {f"bandwidth {rate:g}": Gpu(name="c", memory_bandwidth=rate) for rate in (1e10, 3e11, 9e11, 2e12, 8e12)}


@pytest.mark.parametrize("name", [*(name for name in GPUS if not GPUS[name].ideal), *CUSTOM])
def test_no_estimate_is_faster_than_the_fastest_measured_kernel_by_memory_bandwidth(name):
    gpu = {**GPUS, **CUSTOM}[name]
    for kernel, rate in fastest_rates().items():
        if gpu.level(kernel) != "measured" and not (gpu.kernels.get(kernel) and gpu.kernels[kernel].derived):
            for size in (1e2, 1e4, 1e6, 1e7, 1e8, 1e9):
                assert gpu.kernel_time(kernel, size) >= rate * size / gpu.memory_bandwidth * (1 - 2e-3), (kernel, size)


@pytest.mark.parametrize("kernel", sorted(set(KERNELS) - set(HOST_KERNELS)))
def test_no_estimate_moves_its_bytes_faster_than_the_data_sheet(kernel):
    """A part of what a kernel of known rate moves may come from a cache; what nobody timed may not."""
    for name in ("a100-80gb", "h100-pcie", "h200", "b200", "l40s"):
        gpu = GPUS[name].model_copy(update={"kernels": {}})
        if gpu.level(kernel) == "estimated":
            least = KERNELS[kernel].nbytes * 1e8 / gpu.memory_bandwidth
            assert gpu.kernel_time(kernel, 1e8) >= least, (name, kernel)


def test_old_topk_follows_the_clock_and_new_topk_the_memory():
    old, new = (GPUS["h100-pcie"].model_copy(update={"framework": f}) for f in ("pytorch-before-1.11", "pytorch"))
    assert implementation("topk", old.framework) != implementation("topk", new.framework)
    for gpu, key, same in ((old, "clock", "memory_bandwidth"), (new, "memory_bandwidth", "clock")):
        base = float(gpu.kernel_time("topk", 1e9))
        faster = gpu.model_copy(update={key: 2 * getattr(gpu, key)})
        other = gpu.model_copy(update={same: 2 * getattr(gpu, same)})
        assert float(faster.kernel_time("topk", 1e9)) == pytest.approx(base / 2, rel=0.01)
        assert float(other.kernel_time("topk", 1e9)) == pytest.approx(base, rel=1e-12)
    assert float(old.kernel_time("topk", 1e7)) > 50 * float(new.kernel_time("topk", 1e7))
