"""Which kernels an iteration's work notes."""

import numpy as np

from simulator.engine.plan.work import kernels
from simulator.hardware.gpu import Gpu
from simulator.hardware.runtime import Runtime
from simulator.models.curves import Affine
from simulator.models.exchange import Compute
from simulator.prediction.run import plan_of
from simulator.scenario.changes import scale_curve
from simulator.scenario.reading import load


def test_what_the_host_does_ahead_is_noted_once_for_buckets_of_the_same_sizes():
    """Threads do it side by side, so that more of the same makes it no longer."""
    method = "sparsifier={kind: randomk, density: 0.01, implementation: grace}"
    work = plan_of(load("quickstart", (method, "scheduler=wfbp"))).work
    assert work.kernels["shuffle"].calls == len({bucket.pieces for bucket in work.buckets}) < len(work.buckets)


def noted(gpu, runtime):
    """What each kernel costs in two sizes on a GPU, and what is noted of them."""
    prices = kernels.KernelPrices(gpu, runtime)
    for kernel in gpu.kernels:
        for sizes in ((1e3,), (1e4, 1e8)):
            prices.cost(Compute(kernel, sizes, 1, "selection"))
    return prices.used_in(1)


def test_kernels_are_priced_the_same_whatever_other_gpus_were_asked_for():
    """GPUs that differ in one kernel share what is known of the others."""
    cluster = load("quickstart").cluster
    gpu, first = cluster.gpu, next(iter(cluster.gpu.kernels))
    slower = gpu.model_copy(update={"kernels": {**gpu.kernels, first: scale_curve(gpu.kernels[first], 2.0)}})
    before, after = noted(gpu, cluster.runtime), noted(slower, cluster.runtime)
    assert [kernel for kernel in before if before[kernel] != after[kernel]] == [first]
    kernels._known.clear()
    assert noted(slower, cluster.runtime) == after


def test_a_use_in_each_of_several_steps_has_a_share_of_the_seconds():
    """Sizes and counts stay those of all calls."""
    whole = kernels.KernelUse(10.0, 20.0, 8.0, 6, 2, 4.0, 2.0, 1, 0.4)
    assert whole.shared_by(4) == kernels.KernelUse(10.0, 20.0, 2.0, 6, 2, 1.0, 0.5, 1, 0.1)


def test_calls_within_the_measured_sizes_have_no_time_beyond_them():
    gpu = Gpu(name="card", kernels={"topk": Affine(slope=1e-9, range=(1e3, 1e6))})
    for sizes, outside, small in (((1e3,), 0, 0), ((1e3, 1e6), 0, 0), ((1e2, 1e4), 1, 1), ((1e4, 1e7), 1, 0)):
        prices = kernels.KernelPrices(gpu, Runtime())
        for _ in range(2):
            prices.cost(Compute("topk", sizes, 1, "selection"))
        made = prices.used_in(1)["topk"]
        assert (made.calls, made.extrapolated, made.small) == (2 * len(sizes), 2 * outside, 2 * small)
        assert (made.outside > 0, made.small_seconds > 0) == (outside > 0, small > 0)


def test_what_all_go_on_together_after_takes_as_long_as_on_the_slowest_gpu():
    """Kernels within an exchange one by one, and the update; what each selects by itself takes its own time."""

    def work_of(gpu, *others):
        method = "sparsifier={kind: oktopk, density: 0.01}"
        fused = "workload.optimiser={kind: adam, implementation: fused}"
        gpus = (f"cluster.gpu=gpus/{gpu}", *(f"cluster.other_gpus{it}" for it in others))
        return plan_of(load("mixed_gpus", (method, fused, "scheduler=wfbp", *gpus))).work

    def seconds(work):
        return [item.seconds for chain in work.chains for item in chain if isinstance(item, kernels.Kernel)]

    fast, slow = work_of("v100", "=[]"), work_of("rtx2080ti", "=[]")
    pairs = (fast, "v100", "rtx2080ti"), (slow, "rtx2080ti", "v100")
    for one, mixed in ((one, work_of(gpu, f".0.gpu=gpus/{other}")) for one, gpu, other in pairs):
        assert seconds(mixed) == [max(pair) for pair in zip(seconds(fast), seconds(slow), strict=True)]
        assert mixed.combine.tolist() == np.maximum(fast.combine, slow.combine).tolist()
        assert (mixed.update, mixed.update_alone) == (slow.update, slow.update_alone) > (fast.update, fast.update_alone)
        assert mixed.selection[0].tolist() == one.selection[0].tolist()
        assert {tuple(row) for row in mixed.selection.tolist()} == {tuple(each.selection[0]) for each in (fast, slow)}
