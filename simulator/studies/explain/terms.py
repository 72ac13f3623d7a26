"""The terms of one iteration: seconds, formula, numbers and evidence of each, and what their kernels cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Set

import numpy as np

from simulator.engine.clock.graphs import graph_of
from simulator.engine.plan.plan import Plan
from simulator.engine.plan.work.exchanges import mixed_precision_kernels, steps_of
from simulator.engine.plan.work.kernels import KernelPrices, add_host_work, filling_kernels
from simulator.engine.plan.work.passes import addition_kernel, update_of
from simulator.fabrics.wide_area import WideArea
from simulator.hardware.gpu import Gpu
from simulator.hardware.kernels import HOST_KERNELS, widths_of
from simulator.hardware.runtime import RUNTIME_COSTS
from simulator.models.curves import Affine, Floats, NLogN
from simulator.models.exchange import Compute
from simulator.models.layers import Workload
from simulator.models.timeline import BREAKDOWN, TERMS, Term
from simulator.prediction.memory import payload_bytes
from simulator.prediction.run import Prediction
from simulator.records import replace
from simulator.reporting.answers.explained import KernelCost, Numbers, TermBasis, TermShare
from simulator.scenario.scenario import Scenario
from simulator.studies.explain.critical_path import PARTS, Exposure, exposure
from simulator.units import show_time

STAGES = ("backward", "selection", "exchange", "combine", "update")


def kernel_use(scenario: Scenario, plan: Plan) -> dict[str, list[KernelCost]]:
    """One row per kernel in each stage: in the backward pass; before, inside and after an exchange; in the update.

    Of a sharded or divided model they are those of one GPU's part, which has as many peers as there are copies.
    """
    setup, work = plan.setup, plan.work
    widths = widths_of(setup.workload.precision, scenario.sparsifier.has_residual)
    prices = KernelPrices(scenario.cluster.gpu, setup.runtime, widths)
    used: dict[str, list[Compute]] = {stage: [] for stage in STAGES}
    for bucket, selection in zip(work.buckets, work.selections, strict=True):
        if setup.workload.micro_batches > 1:
            used["backward"].append(addition_kernel(setup, bucket, widths))
        if bucket.filled:
            there, back = filling_kernels(bucket)
            used["backward"].append(there)
            used["combine"].append(back)
        if setup.workers == 1:
            continue
        chosen, steps = steps_of(setup, setup.sparsifier.at_density(bucket.density), bucket, selection)
        used["selection"] += [item for item in chosen if not item.ahead]
        steps = add_host_work(steps, bucket, setup.runtime)
        last = max((i for i, step in enumerate(steps) if not isinstance(step, Compute)), default=-1)
        used["exchange"] += [step for step in steps[: last + 1] if isinstance(step, Compute)]
        used["combine"] += [step for step in steps[last + 1 :] if isinstance(step, Compute)]
    rows = {stage: _rows(items, prices) for stage, items in used.items()}
    rows["combine"] += _copies_of_shards(plan)
    step = plan.of_step.setup
    mixed = _rows(mixed_precision_kernels(step.workload), prices)
    exchanged = step.workers > 1 or step.sharding is not None
    return rows | {"update": [_update_row(scenario, step.workload, exchanged=exchanged), *mixed]}


def _copies_of_shards(plan: Plan) -> Iterator[KernelCost]:
    """What is copied out of gathers and into reductions, which counts as combine."""
    if (shared := plan.work.shared) is None:
        return
    copied = (("copy_out", shared.copy_out, "out of gathers"), ("copy_into", shared.copy_into, "into reductions"))
    for name, seconds, where in copied:
        costs = [task.cost for task in graph_of(plan).tasks if task.cost.name == name]
        runs, spent = sum(cost.times for cost in costs), math.fsum(cost.times * seconds[cost.index] for cost in costs)
        if spent:
            law = "its bytes at the rate of element-wise kernels"
            elements = math.fsum(cost.times * plan.work.buckets[cost.index].numel for cost in costs)
            yield KernelCost(
                kernel=f"copies {where}", runs=runs, calls=runs, elements=elements, seconds=spent,
                per_call=spent / runs, bound_by="GPU", law=law,
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
    optimiser, gpu = scenario.workload.optimiser, scenario.cluster.gpu
    if gpu.ideal:
        return "free: the GPU is ideal"
    if scenario.workload.update_time is not None:
        return "measured with the workload's profile"
    way = f"{optimiser.kind}, {optimiser.implementation.replace('_', ' ')}: {per_element:.3g} bytes per element"
    return f"{way}, by the measured update" if by_curve else f"{way}, at the rate of element-wise kernels"


def _rows(items: Iterable[Compute], prices: KernelPrices) -> list[KernelCost]:
    grouped: dict[str, list[Compute]] = {}
    for item in items:
        if item.elements:
            grouped.setdefault(item.kernel, []).append(item)
    rows = [_row(kernel, group, prices) for kernel, group in grouped.items()]
    return sorted(rows, key=lambda row: -row.seconds)


def _row(kernel: str, group: list[Compute], prices: KernelPrices) -> KernelCost:
    gpu, runtime, share = prices.gpu, prices.runtime, prices.widths.share(kernel)
    sizes = [share * np.array(item.elements) for item in group]
    seconds = math.fsum(map(prices.cost, group))
    if kernel in HOST_KERNELS:
        on_gpu, on_host = 0.0, seconds
    else:
        on_gpu = math.fsum(
            item.times * float(gpu.kernel_time(kernel, each).sum()) for item, each in zip(group, sizes, strict=True)
        )
        on_host = math.fsum(runtime.kernel_launch * item.calls + runtime.host_read * item.reads for item in group)
    runs = sum(item.times * len(item.elements) for item in group)
    row = KernelCost(
        kernel=kernel,
        runs=runs,
        calls=sum(item.calls for item in group),
        elements=math.fsum(item.times * math.fsum(item.elements) for item in group),
        seconds=seconds,
        per_call=seconds / runs,
        bound_by="host" if on_host > on_gpu else "GPU",
        law=_law(kernel, gpu) + (f", with {share:.3g} n for n elements" if share != 1 else ""),
    )
    return _with_basis(row, kernel, gpu, np.concatenate(sizes))


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


_EXPOSED = {
    "queueing": Term(
        "queueing", "", "time in which the awaited exchange waits for earlier ones or shares links with others"
    ),
    "start_up": Term(
        "start-up", "", "latency of its messages that no other message hides: price - price at zero latency"
    ),
    "transfer": Term("transfer", "", "its bytes over the links: price at zero latency"),
    "inside": Term("inside a site", "", "communication of local steps that nothing hides, and gathers after them"),
    "software": Term(
        "software",
        "",
        "per call: negotiation, list of tensors of a gather, cycle and launch, message overhead; per module: its hook",
    ),
}
"""What exposed communication is split into."""
_OF_STAGES = "waiting_for_stages", "communication_of_stages"


def terms_of(prediction: Prediction) -> tuple[list[TermShare], Exposure]:
    """Terms with their seconds, share, formula, numbers and calibration; and what compute waited for."""
    result, plan = prediction.result, prediction.plan
    parts, idle = result.breakdown, result.idle
    found = exposure(plan, prediction.iteration)
    inside = 0.0 if (site := plan.inside) is None else float(site.gathers.seconds.sum()) / plan.steps
    inside += 0.0 if site is None else site.step.breakdown["communication_exposed"]
    exposed = found.scaled(max(0.0, parts["communication_exposed"] - inside))
    own, queued = dict(zip(PARTS, exposed.own, strict=True)), dict(zip(PARTS, exposed.queued, strict=True))
    place = BREAKDOWN.index("communication_exposed")
    seconds = {
        "data_loading": idle["data_loading"],
        **{key: parts[key] for key in BREAKDOWN[:place]},
        "waiting_for_slowest": idle["waiting_for_slowest"],
        "waiting_for_stages": idle["waiting_for_stages"],
        "communication_of_stages": idle["communication_of_stages"],
        "queueing": float(exposed.queued.sum()) + own["sharing"],
        "start_up": own["start_up"],
        "transfer": own["transfer"],
        "inside": inside,
        "software": own["software"] + idle["waiting_for_host"],
        **{key: parts[key] for key in BREAKDOWN[place + 1 :] if key != "idle"},
    }
    time = result.iteration_time or 1.0
    use = kernel_use(prediction.scenario, plan)
    numbers = _numbers(prediction, exposed, queued, use)
    made = []
    for key, value in seconds.items():
        if (key == "inside" and site is None) or (key in _OF_STAGES and not value):
            continue
        term, spent = _EXPOSED.get(key) or TERMS[key], max(0.0, float(value))  # rounding may go below 0
        made.append(
            TermShare(
                term=key,
                label=term.label,
                seconds=spent,
                share=spent / time,
                formula=term.formula,
                numbers=numbers.get(key, {}),
                calibration=_evidence(key, prediction, use),
            )
        )
    return made, exposed


def _numbers(
    prediction: Prediction, exposed: Exposure, queued: dict[str, float], use: Mapping[str, list[KernelCost]]
) -> dict[str, Numbers]:
    scenario, plan = prediction.scenario, prediction.plan
    workload, runtime, network = scenario.workload, scenario.cluster.runtime, scenario.cluster.network
    passes = {"tensors": len(workload.layers), "passes": workload.micro_batches}
    work, size = plan.work, plan.wiring.layout.workers
    own = (item for bucket in exposed.waited_for for item in (*work.chains[bucket], *work.halves[bucket]))
    waited = [(1.0, payload_bytes(work.steps[item], size)) for item in own if isinstance(item, int)]
    waited += _on_axes(plan, exposed.on_axes)
    inside = {} if network.intra_node is None else {"latency_inside_nodes_s": network.intra_node.latency}
    if isinstance(network, WideArea):
        inside["latency_between_sites_s"] = network.between.latency
    exchanges, calls = len(exposed.waited_for) + len(exposed.on_axes), round(sum(times for times, _ in waited))
    communication: Numbers = {"exchanges_waited_for": exchanges, "calls": calls}
    nbytes = sum(times * each for times, each in waited)
    software = {f"{name}_s": getattr(runtime, name) for name, cost in RUNTIME_COSTS.items() if cost.per_call}
    return {
        "forward": {**passes, "batch_size": workload.batch_size, "compute_time_s": workload.compute_time},
        "backward": {**passes, "kernels": use["backward"]},
        "slowdown": {"compute_slowdown": plan.of_step.slowdown, "slowed_s": prediction.simulated.figures.slowed},
        "selection": {"kernels": use["selection"]},
        "waiting_for_slowest": {"jitter": scenario.cluster.stragglers.jitter, "kernel_spread": _spread(scenario, use)},
        "waiting_for_stages": {
            **scenario.parallelism.pipeline.model_dump(),
            "micro_batches": workload.micro_batches,
        },
        "queueing": {
            "exchanges_in_front": len(exposed.before),
            "meanwhile_s": {part: float(queued[part]) for part in PARTS if part != "kernel"},
        },
        "start_up": {**communication, "latency_s": network.latency, **inside},
        "transfer": {**communication, "payload_bytes": nbytes, "bandwidth_bytes_per_s": network.bandwidth},
        "software": {**communication, **software},
        "combine": {"kernels": use["combine"], "kernels_inside": use["exchange"]},
        "update": {"kernels": use["update"]},
        "data_loading": {"input_time_s": plan.work.input_time},
    }


def _spread(scenario: Scenario, use: Mapping[str, list[KernelCost]]) -> dict[str, float]:
    """Relative standard deviation of the selection's kernels from worker to worker, where it is known."""
    spread = {row.kernel: scenario.cluster.gpu.spread(row.kernel) for row in use["selection"]}
    return {kernel: value for kernel, value in spread.items() if value}


def _on_axes(plan: Plan, exchanges: Set[tuple[int, str]]) -> list[tuple[float, float]]:
    """How often each collective of these units takes place in one of them, and the bytes of its payload."""
    made = []
    for axis in plan.axes:
        nbytes = np.array([payload_bytes(step, axis.network.wiring.layout.workers) for step in axis.steps])
        for name, (_, units, steps, times) in axis.calls.items():
            for unit in (unit for unit, label in exchanges if label == name):
                here = units == unit
                made += [*zip(times[here].tolist(), nbytes[steps[here]].tolist(), strict=True)]
    return made


def _evidence(term: str, prediction: Prediction, use: Mapping[str, list[KernelCost]]) -> list[TermBasis]:
    """The curves or laws that a term rests on, each with its held-out error (None: not known)."""
    result, scenario = prediction.result, prediction.scenario
    workload, runtime = scenario.workload, scenario.cluster.runtime
    stated = term == "slowdown" and workload.compute_slowdown is not None
    rows: list[tuple[str, str, float | None, str]]
    if stated or term in ("forward", "backward", "waiting_for_stages", "data_loading"):
        rows = [("profile", workload.name, None, workload.source)]
    elif term in ("selection", "combine", "update"):
        kernels = [*use[term], *(use["exchange"] if term == "combine" else ())]
        rows = [("kernel", _kernel_name(row), row.held_out_mape, row.law) for row in kernels]
    elif term in ("slowdown", "software"):
        rows = [("runtime", runtime.name, runtime.held_out_mape, runtime.source)]
    elif term == "waiting_for_slowest":
        spread = _spread(scenario, use).items()
        rows = [("spread", name, None, f"{100 * value:.1f} % from run to run") for name, value in spread]
    else:
        laws = [item for item in result.calibration if item.what in ("collective", "link law")]
        rows = [(item.what, item.id, item.held_out_mape, scenario.cluster.network.source) for item in laws]
    return [TermBasis(what, name, mape, " ".join(source.split())) for what, name, mape, source in rows]


def _kernel_name(row: KernelCost) -> str:
    """The curve or law of a kernel; if it was not measured on this GPU, how it was found and how far it may be off."""
    name = row.curve or f"{row.kernel}: {row.law}"
    return f"{name} ({row.level}, within a factor of {row.width:.2g})" if row.width else name
