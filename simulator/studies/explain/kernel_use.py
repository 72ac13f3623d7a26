"""What the kernels of one iteration cost: calls, elements, seconds, and the curve or law of each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from simulator.engine.clock.graphs import graph_of
from simulator.engine.plan.plan import Plan
from simulator.engine.plan.work.exchanges import mixed_precision_kernels, steps_with_casts
from simulator.engine.plan.work.kernels import add_host_work, filling_kernels
from simulator.engine.plan.work.passes import addition_kernel, update_of
from simulator.hardware.gpu import Gpu
from simulator.hardware.kernels import HOST_KERNELS, ValueWidths, widths_of
from simulator.hardware.runtime import Runtime
from simulator.models.curves import Affine, Floats, NLogN
from simulator.models.exchange import Compute
from simulator.models.layers import Workload
from simulator.records import replace
from simulator.reporting.answers.explained import KernelCost
from simulator.scenario.scenario import Scenario
from simulator.units import show_time

STAGES = ("backward", "selection", "exchange", "combine", "update")


def kernel_use(scenario: Scenario, plan: Plan) -> dict[str, list[KernelCost]]:
    """One row per kernel in each stage: in the backward pass; before, inside and after an exchange; in the update.

    Of a sharded or divided model they are those of one GPU's part, which has as many peers as there are copies.
    """
    gpu, runtime, work, workload = scenario.cluster.gpu, plan.setup.runtime, plan.work, plan.setup.workload
    precision, workers = workload.precision, plan.setup.workers
    widths = widths_of(precision, scenario.sparsifier.has_residual)
    used: dict[str, list[Compute]] = {stage: [] for stage in STAGES}
    for bucket, selection in zip(work.buckets, work.selections, strict=True):
        if workload.micro_batches > 1:
            used["backward"].append(addition_kernel(plan.setup, bucket, widths))
        if bucket.filled:
            there, back = filling_kernels(bucket)
            used["backward"].append(there)
            used["combine"].append(back)
        if workers == 1:
            continue
        method = scenario.sparsifier.at_density(bucket.density)
        chosen, steps = steps_with_casts(
            method, selection, bucket, workers, scenario.topology.style, precision=precision
        )
        used["selection"] += [item for item in chosen if not item.ahead]
        steps = add_host_work(steps, bucket, runtime)
        last = max((i for i, step in enumerate(steps) if not isinstance(step, Compute)), default=-1)
        used["exchange"] += [step for step in steps[: last + 1] if isinstance(step, Compute)]
        used["combine"] += [step for step in steps[last + 1 :] if isinstance(step, Compute)]
    rows = {stage: _rows(items, gpu, runtime, widths) for stage, items in used.items()}
    rows["combine"] += _copies_of_shards(plan)
    step = plan.of_step.setup
    mixed = _rows(mixed_precision_kernels(step.workload), gpu, runtime, widths)
    exchanged = step.workers > 1 or step.sharding is not None
    return rows | {"update": [_update_row(scenario, step.workload, exchanged=exchanged), *mixed]}


def _copies_of_shards(plan: Plan) -> Iterator[KernelCost]:
    """What is copied out of gathers and into reductions, which counts as combine."""
    if (shared := plan.work.shared) is None:
        return
    of_unit = {"copy_out": shared.copy_out, "copy_into": shared.copy_into}
    numels = [float(bucket.numel) for bucket in plan.work.buckets]
    for name, seconds in of_unit.items():
        costs = [task.cost for task in graph_of(plan).tasks if task.cost.name == name]
        runs, spent = sum(cost.times for cost in costs), math.fsum(cost.times * seconds[cost.index] for cost in costs)
        if spent:
            law = "its bytes at the rate of element-wise kernels"
            elements = math.fsum(cost.times * numels[cost.index] for cost in costs)
            kernel = "copies out of gathers" if name == "copy_out" else "copies into reductions"
            yield KernelCost(
                kernel=kernel, runs=runs, calls=runs, elements=elements, seconds=spent, per_call=spent / runs,
                bound_by="GPU", law=law,
            )  # fmt: skip


def _update_row(scenario: Scenario, workload: Workload, *, exchanged: bool) -> KernelCost:
    """The optimiser's step as one row; a run is one of its kernels."""
    gpu = scenario.cluster.gpu
    made = update_of(workload, gpu, scenario.cluster.runtime, exchanged=exchanged)
    kernel = "update" if made.by_curve else "elementwise"
    row = KernelCost(
        kernel="update",
        runs=made.calls,
        calls=made.calls,
        elements=float(workload.numel),
        seconds=made.optimiser_seconds,
        per_call=made.optimiser_seconds / made.calls,
        bound_by="host" if made.reads + made.launches > made.on_gpu else "GPU",
        law=_law_of_update(scenario, made.nbytes / workload.numel, made.by_curve),
    )
    if workload.update_time is not None:  # it was measured with the workload's profile
        return replace(row, level="measured")
    return _with_basis(row, kernel, gpu, workload.numels)


def _law_of_update(scenario: Scenario, per_element: float, by_curve: bool) -> str:
    """How the seconds of the optimiser follow from its elements, in words."""
    optimiser, gpu = scenario.workload.optimiser, scenario.cluster.gpu
    if gpu.ideal:
        return "free: the GPU is ideal"
    if scenario.workload.update_time is not None:
        return "measured with the workload's profile"
    way = f"{optimiser.kind}, {optimiser.implementation.replace('_', ' ')}: {per_element:.3g} bytes per element"
    return f"{way}, by the measured update" if by_curve else f"{way}, at the rate of element-wise kernels"


def _rows(items: Iterable[Compute], gpu: Gpu, runtime: Runtime, widths: ValueWidths) -> list[KernelCost]:
    grouped: dict[str, list[Compute]] = {}
    for item in items:
        if item.elements:
            grouped.setdefault(item.kernel, []).append(item)
    rows = [_row(kernel, group, gpu, runtime, widths) for kernel, group in grouped.items()]
    return sorted(rows, key=lambda row: -row.seconds)


def _row(kernel: str, group: list[Compute], gpu: Gpu, runtime: Runtime, widths: ValueWidths) -> KernelCost:
    on_gpu, on_host, share = [], [], widths.share(kernel)
    elements = share * np.concatenate([item.elements for item in group])
    for item in group:
        sizes = np.array(item.elements)
        timed = gpu.kernel_time(kernel, share * sizes)
        on_gpu.append(0.0 if kernel in HOST_KERNELS else item.times * float(timed.sum()))
        per_element = float(getattr(runtime, HOST_KERNELS[kernel])) if kernel in HOST_KERNELS else 0.0
        worked = item.times * float(sizes.sum()) * per_element
        on_host.append(worked if kernel in HOST_KERNELS else runtime.kernel_launch * item.calls)
    waited = runtime.host_read * sum(item.reads for item in group)
    seconds = math.fsum(max(pair) for pair in zip(on_gpu, on_host, strict=True)) + waited
    runs = sum(item.times * len(item.elements) for item in group)
    row = KernelCost(
        kernel=kernel,
        runs=runs,
        calls=sum(item.calls for item in group),
        elements=math.fsum(item.times * math.fsum(item.elements) for item in group),
        seconds=seconds,
        per_call=seconds / runs,
        bound_by="host" if waited + math.fsum(on_host) > math.fsum(on_gpu) else "GPU",
        law=_law(kernel, gpu) + (f", with {share:.3g} n for n elements" if share != 1 else ""),
    )
    return _with_basis(row, kernel, gpu, elements)


def _with_basis(row: KernelCost, kernel: str, gpu: Gpu, elements: Floats) -> KernelCost:
    """A row with how the time of its kernel is known: its level and width, and its curve with its error and range."""
    curve = gpu.curve(kernel)
    level = None if gpu.ideal or kernel in HOST_KERNELS else gpu.level(kernel)
    row = replace(row, level=level, width=gpu.width(kernel) if level not in (None, "measured") else None)
    if curve is None:
        return row
    in_range = curve.in_range(elements)
    return replace(row, curve=f"{gpu.name}/{kernel}", held_out_mape=curve.held_out_mape, in_range=in_range)


def _law(kernel: str, gpu: Gpu) -> str:
    """How the seconds of a kernel follow from its elements, in words."""
    if gpu.ideal:
        return "free: the GPU is ideal"
    if kernel in HOST_KERNELS:
        return f"host seconds per {'merged element' if kernel == 'host_merge' else 'element of the gradient'}"
    law = gpu.curve(kernel) or gpu.estimate(kernel).curve
    if isinstance(law, Affine):
        return f"{show_time(law.intercept)} + {show_time(law.slope)} n"
    if isinstance(law, NLogN):
        return f"{show_time(law.intercept)} + {show_time(law.coefficient)} n log2 n"
    return f"{'carried over' if law.derived else 'measured'}, {len(law.points)} points"
