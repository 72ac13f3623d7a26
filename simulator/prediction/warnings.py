"""Warnings: what a reader of a prediction should know of where its times come from."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from simulator.engine.plan.plan import Plan
from simulator.engine.plan.prices import price_steps
from simulator.hardware.gpu import Gpu
from simulator.hardware.kernel_estimates import Level
from simulator.hardware.kernels import HOST_KERNELS
from simulator.hardware.precision import widths_of
from simulator.prediction.uncertainty.software import is_slowdown_estimated
from simulator.scenario.scenario import Scenario
from simulator.topologies.nccl import Nccl
from simulator.units import count_of, show_bytes, show_time


def collect_warnings(scenario: Scenario, plan: Plan, time: float) -> list[str]:
    """What a reader of the prediction should know: which of its times were extrapolated or estimated."""
    network, gpu = scenario.cluster.network, scenario.cluster.gpu
    warnings = list[str]()
    for kernel, use in sorted(plan.work.kernels.items()):
        curve = gpu.curve(kernel)
        if curve is not None and curve.range is not None and use.extrapolated:
            asked, measured = (f"{low:,.0f} to {high:,.0f}" for low, high in ((use.smallest, use.largest), curve.range))
            warnings.append(
                f"{kernel} time extrapolated for {use.extrapolated} of {count_of(use.calls, 'call')} "
                f"({asked} elements; measured from {measured} on {gpu.name})"
            )
    for name, (_, inside) in plan.prices.curves.items():
        if not inside:
            warnings.append(f"{name} on {network.name} was measured at other sizes only; the link law gives the rest")
    warnings += _warnings_of_unused_curves(scenario, plan)
    foreign = [item.id for item in network.foreign_curves() if item.workers == scenario.cluster.workers]
    if foreign:
        warnings.append(
            f"{', '.join(foreign)} on {network.name} was measured at another bandwidth or latency; the link law is used"
        )
    warnings += _warnings_of_transport(scenario)
    warnings += _warnings_of_idle_nics(scenario, plan)
    warnings += _warnings_of_precision(scenario, plan)
    if is_slowdown_estimated(scenario, plan):
        width = 100 * scenario.cluster.runtime.slowdown_width
        warnings.append(
            f"how much collectives slow kernels down was not measured here; {100 * plan.slowdown:.0f} % is the middle "
            f"of what other set-ups show, and may be wrong by {width:.0f} % of it either way"
        )
    return warnings + _warnings_of_kernels(plan, gpu, time)


def _warnings_of_kernels(plan: Plan, gpu: Gpu, time: float) -> list[str]:
    """Which kernels were not timed on this GPU, how their time was estimated, and how far it may be off."""
    if gpu.ideal:
        return []
    if gpu.hardware.bandwidth is None and gpu.hardware.reached is None:
        unknown = [name for name in sorted(plan.work.kernels) if gpu.curve(name) is None and name not in HOST_KERNELS]
        words = f"nothing is known of {', '.join(unknown)} on {gpu.name}, so that they take no time"
        return [f"{words}; give its memory_bandwidth"] if unknown else []
    sources: dict[Level, str] = {
        "transferred": "transferred from other GPUs or whole iterations",
        "estimated": "estimated from kernels like them",
    }
    named: dict[str, list[str]] = {words: [] for words in sources.values()}
    seconds = []
    for kernel in sorted(set(plan.work.kernels) - set(HOST_KERNELS)):
        if (level := gpu.level(kernel)) != "measured":
            named[sources[level]].append(f"{kernel} ({gpu.width(kernel):.2g})")
            seconds.append(plan.work.kernels[kernel].seconds)
    found = "; ".join(f"{words}: {', '.join(kernels)}" for words, kernels in named.items() if kernels)
    share = f"; {100 * math.fsum(seconds) / time:.0f} % of this iteration" if time else ""
    factor = "in brackets the factor by which each may be wrong"
    return [f"not timed on {gpu.name}, {found}{share} ({factor})"] if found else []


def _warnings_of_unused_curves(scenario: Scenario, plan: Plan) -> list[str]:
    """That a measured curve is not used, since exchanges meet others, or their own past, on the links."""
    if not (plan.live and plan.alone):
        return []
    network, named = scenario.cluster.network, {primitive for primitive, _ in plan.prices.algorithms}
    found = (network.measured_curve(name, scenario.topology.kind, plan.wiring.layout) for name in sorted(named))
    unused = [item.id for item in found if item is not None]
    why = "exchanges share links" if plan.streams > 1 else "an exchange depends on those before it"
    return [f"{', '.join(unused)} on {network.name} is not used, since {why}; the link law is used"] if unused else []


def _warnings_of_transport(scenario: Scenario) -> list[str]:
    """That a transport was not measured, or that a runtime was fitted over another one."""
    network, runtime, warnings = scenario.cluster.network, scenario.cluster.runtime, list[str]()
    if scenario.cluster.nodes == 1:
        return warnings
    if network.transport is not None and network.transport.prior_width is not None:
        warnings.append(
            f"the transport {network.transport.kind} was not measured on {network.name}; what it leaves of the NIC's "
            f"rate is an estimate that may be wrong by a factor of {network.transport.prior_width:g} either way"
        )
    if runtime.fitted_for is not None and runtime.is_prior_over(network.transport_kind):
        kind = network.transport_kind
        where = f"{runtime.name} was fitted over {runtime.fitted_for.transport}, and this network is {kind}"
        prior, bare, width = runtime.prior_over(kind), runtime.over(kind), runtime.width_over(kind)
        if runtime.endpoint_bandwidth != bare.endpoint_bandwidth:
            instead = "only the network limits its endpoints"
            if prior is not None and prior.endpoint_bandwidth is not None:
                instead = f"{show_bytes(prior.endpoint_bandwidth)}/s per endpoint is estimated from the hardware"
            warnings.append(f"{where}: {instead}, which may be wrong by a factor of {width:g}")
        else:
            warnings.append(f"{where}: its costs may be wrong by a factor of {width:g} either way")
    return warnings


def _warnings_of_precision(scenario: Scenario, plan: Plan) -> list[str]:
    """That layer times are those of another precision, and which kernels were measured in fp32 only."""
    workload, gpu, warnings = scenario.workload, scenario.cluster.gpu, list[str]()
    made, asked = workload.measured_precision, workload.precision.gradients
    if made != asked:
        warnings.append(
            f"the layer times of {workload.name} are those of {made}, and its gradients are {asked}: the times are not "
            f"changed; give those of {asked}, and say `measured_precision: {asked}` in the workload"
        )
    widths = widths_of(workload.precision, scenario.sparsifier.has_residual)
    used = [] if gpu.ideal else sorted(set(plan.work.kernels) - set(HOST_KERNELS))
    scaled = [kernel for kernel in used if widths.share(kernel) != 1 and gpu.level(kernel) == "measured"]
    if scaled:
        warnings.append(
            f"measured in fp32 on {gpu.name}, and scaled by the bytes that they move in "
            f"{workload.precision.described()}: {', '.join(scaled)}"
        )
    return warnings


def _warnings_of_idle_nics(scenario: Scenario, plan: Plan) -> list[str]:
    """NICs that carry nothing although GPUs of the job sit beside them, and what that costs."""
    cluster, wiring = scenario.cluster, plan.wiring
    beside = min(cluster.network.nics_per_node, cluster.gpus_per_node)
    if beside < 2 or cluster.nodes < 2 or plan.live or scenario.topology.style != "collective":
        return []
    out = [number for number, name in enumerate(wiring.names) if name.startswith("node 0 NIC") and name.endswith("out")]
    used = int((plan.prices.traffic.links[out] > 0).sum())
    if not 0 < used < beside:
        return []
    times = np.bincount([step for _, step in plan.work.uses], minlength=len(plan.work.steps))
    own = float(times @ plan.prices.seconds)
    wide = price_steps(plan.work.steps, (), replace(plan.network, topology=Nccl()))
    return [
        f"{scenario.topology.kind} uses {used} of {count_of(beside, 'NIC')} of a node: its exchanges take "
        f"{show_time(own)} in an iteration, and over all of them, as topology nccl sends, "
        f"{show_time(float(times @ wide.seconds))}"
    ]
